#include "core/file/tensor_set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/half.h"
#include "core/base/printable.h"
#include "core/base/sort.h"
#include "core/base/status.h"
#include "core/file/file.h"
#include "core/file/json_file.h"

enum { MAX_PATH = 4096 };

struct rvit_tensor_set {
    rvit_alloc *alloc;
    rvit_safetensors **files;
    int32_t *first; /* [n_files + 1]: index in the set of the first tensor of each file */
    int32_t n_files;
    int32_t in_memory; /* 1: the only "file" is the caller's list of tensors */
    char path[RVIT_SHOWN_PATH];
};

static rvit_status allocate(rvit_tensor_set *set, size_t n_files)
{
    set->files = rvit_alloc_array(set->alloc, n_files, sizeof *set->files);
    RVIT_TRY_MEMORY(set->files);
    set->first = rvit_alloc_array(set->alloc, n_files + 1, sizeof *set->first);
    return set->first == NULL ? RVIT_OUT_OF_HOST_MEMORY : RVIT_OK;
}

static rvit_status add_file(rvit_tensor_set *set, const char *path)
{
    RVIT_TRY(rvit_safetensors_open(path, set->alloc, &set->files[set->n_files]));
    const int32_t n = set->first[set->n_files], more = rvit_safetensors_count(set->files[set->n_files]);
    set->first[++set->n_files] = n + more;
    if (n + more > RVIT_SAFETENSORS_MAX_TENSORS)
        return rvit_fail(RVIT_BAD_FILE, "%s: too many tensors, the limit is %d", set->path, RVIT_SAFETENSORS_MAX_TENSORS);
    return RVIT_OK;
}

static int ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

/* A shard must be in the folder of the index, whichever characters the system treats as separators. */
static rvit_status check_shard_name(const rvit_tensor_set *set, const char *name)
{
    if (strpbrk(name, "/\\:") != NULL || strcmp(name, "..") == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: the index names a file outside its folder: '%s'", set->path, rvit_shown(name).text);
    if (!ends_with(name, ".safetensors"))
        return rvit_fail(RVIT_BAD_FILE, "%s: the index names '%s', which is not a .safetensors file", set->path, rvit_shown(name).text);
    return RVIT_OK;
}

static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Fills names with the distinct values of the map, ascending. */
static rvit_status list_shards(const rvit_tensor_set *set, const rvit_json *map, const char **names, size_t *out_n)
{
    size_t n = 0;
    for (const rvit_json *v = rvit_json_first(map); v != NULL; v = rvit_json_next(map, v)) {
        if (v->type != RVIT_JSON_STRING)
            return rvit_fail(RVIT_BAD_FILE, "%s: weight_map: the file of tensor '%s' is not a string", set->path, rvit_shown(v->key).text);
        RVIT_TRY(check_shard_name(set, v->string));
        names[n++] = v->string;
    }
    rvit_sort(names, n, sizeof *names, compare_texts);
    *out_n = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            names[(*out_n)++] = names[i];
    if (*out_n > RVIT_MAX_SHARDS)
        return rvit_fail(RVIT_BAD_FILE, "%s: the index names %zu files, the limit is %d", set->path, *out_n, RVIT_MAX_SHARDS);
    return RVIT_OK;
}

static rvit_status open_shards(rvit_tensor_set *set, const char *path, const char *const *names, size_t n)
{
    RVIT_TRY(allocate(set, n));
    for (size_t i = 0; i < n; i++) {
        char shard[MAX_PATH];
        RVIT_TRY(rvit_path_beside(shard, sizeof shard, path, names[i]));
        const rvit_status status = add_file(set, shard);
        if (status == RVIT_BAD_FILE)
            return rvit_fail(RVIT_BAD_FILE, "%s: the index names a bad file: %s", set->path, rvit_status_detail());
        RVIT_TRY(status);
    }
    return RVIT_OK;
}

static rvit_status check_map(const rvit_tensor_set *set, const rvit_json *map, const char *const *names)
{
    for (const rvit_json *v = rvit_json_first(map); v != NULL; v = rvit_json_next(map, v)) {
        const char *name = v->key, *shard = v->string;
        int32_t file = 0;
        while (strcmp(names[file], shard) != 0)
            file++;
        if (rvit_safetensors_find(set->files[file], name) < 0)
            return rvit_fail(RVIT_BAD_FILE, "%s: the index says that tensor '%s' is in '%s', but it is not", set->path,
                             rvit_shown(name).text, rvit_shown(shard).text);
    }
    return RVIT_OK;
}

static rvit_status check_unique(const rvit_tensor_set *set, const char *const *names)
{
    for (int32_t a = 0; a < set->n_files; a++)
        for (int32_t i = 0; i < rvit_safetensors_count(set->files[a]); i++) {
            const char *name = rvit_safetensors_tensor(set->files[a], i)->name;
            for (int32_t b = a + 1; b < set->n_files; b++)
                if (rvit_safetensors_find(set->files[b], name) >= 0)
                    return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is in two files, '%s' and '%s'", set->path, rvit_shown(name).text,
                                     rvit_shown(names[a]).text, rvit_shown(names[b]).text);
        }
    return RVIT_OK;
}

static rvit_status open_map(rvit_tensor_set *set, const char *path, const rvit_json *map)
{
    if (map == NULL || map->type != RVIT_JSON_OBJECT)
        return rvit_fail(RVIT_BAD_FILE, "%s: not an index of .safetensors files: weight_map is %s", set->path,
                         map == NULL ? "missing" : "not an object");
    if (map->n == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: weight_map names no tensors", set->path);
    const char **names = rvit_alloc_array(set->alloc, (size_t)map->n, sizeof *names);
    RVIT_TRY_MEMORY(names);
    size_t n = 0;
    rvit_status status = list_shards(set, map, names, &n);
    if (status == RVIT_OK)
        status = open_shards(set, path, names, n);
    if (status == RVIT_OK)
        status = check_map(set, map, names);
    if (status == RVIT_OK)
        status = check_unique(set, names);
    rvit_alloc_free(set->alloc, names);
    return status;
}

static rvit_status load(rvit_tensor_set *set, const char *path)
{
    if (!ends_with(path, ".json")) {
        RVIT_TRY(allocate(set, 1));
        RVIT_TRY(add_file(set, path));
        snprintf(set->path, sizeof set->path, "%s", rvit_safetensors_path(set->files[0]));
        return RVIT_OK;
    }
    rvit_printable(set->path, sizeof set->path, path);
    rvit_json_file index;
    RVIT_TRY(rvit_json_file_read(path, set->alloc, &index));
    const rvit_status status = open_map(set, path, rvit_json_get(index.root, "weight_map"));
    rvit_json_file_free(set->alloc, &index);
    return status;
}

static rvit_status wrap(rvit_tensor_set *set, const rvit_tensor_desc *tensors, int32_t n_tensors)
{
    RVIT_TRY(allocate(set, 1));
    RVIT_TRY(rvit_safetensors_wrap(tensors, n_tensors, set->alloc, &set->files[0]));
    set->first[1] = n_tensors;
    set->n_files = set->in_memory = 1;
    snprintf(set->path, sizeof set->path, "%s", rvit_safetensors_path(set->files[0]));
    return RVIT_OK;
}

/* Opens files or, with path NULL, wraps tensors in memory. */
static rvit_status create(const char *path, const rvit_tensor_desc *tensors, int32_t n_tensors, rvit_alloc *alloc,
                          rvit_tensor_set **out_set)
{
    rvit_tensor_set *set = rvit_alloc_new(alloc, sizeof *set);
    RVIT_TRY_MEMORY(set);
    set->alloc = alloc;
    const rvit_status status = path != NULL ? load(set, path) : wrap(set, tensors, n_tensors);
    if (status != RVIT_OK) {
        rvit_tensor_set_close(set);
        return status;
    }
    *out_set = set;
    return RVIT_OK;
}

rvit_status rvit_tensor_set_open(const char *path, rvit_alloc *alloc, rvit_tensor_set **out_set)
{
    return create(path, NULL, 0, alloc, out_set);
}

rvit_status rvit_tensor_set_wrap(const rvit_tensor_desc *tensors, int32_t n_tensors, rvit_alloc *alloc, rvit_tensor_set **out_set)
{
    return create(NULL, tensors, n_tensors, alloc, out_set);
}

void rvit_tensor_set_close(rvit_tensor_set *set)
{
    if (set == NULL)
        return;
    for (int32_t i = 0; i < set->n_files; i++)
        rvit_safetensors_close(set->files[i]);
    rvit_alloc_free(set->alloc, set->first);
    rvit_alloc_free(set->alloc, set->files);
    rvit_alloc_free(set->alloc, set);
}

const char *rvit_tensor_set_path(const rvit_tensor_set *set)
{
    return set->path;
}

int32_t rvit_tensor_set_n_files(const rvit_tensor_set *set)
{
    return set->in_memory ? 0 : set->n_files;
}

int32_t rvit_tensor_set_count(const rvit_tensor_set *set)
{
    return set->first[set->n_files];
}

void rvit_tensor_set_skip_prefix(rvit_tensor_set *set, const char *prefix)
{
    for (int32_t i = 0; i < set->n_files; i++)
        rvit_safetensors_skip_prefix(set->files[i], strlen(prefix));
}

/* The file that holds tensor `index` of the set. */
static int32_t file_of(const rvit_tensor_set *set, int32_t index)
{
    int32_t file = 0;
    while (index >= set->first[file + 1])
        file++;
    return file;
}

const rvit_file_tensor *rvit_tensor_set_tensor(const rvit_tensor_set *set, int32_t index)
{
    const int32_t file = file_of(set, index);
    return rvit_safetensors_tensor(set->files[file], index - set->first[file]);
}

int32_t rvit_tensor_set_find(const rvit_tensor_set *set, const char *name)
{
    for (int32_t i = 0; i < set->n_files; i++) {
        const int32_t found = rvit_safetensors_find(set->files[i], name);
        if (found >= 0)
            return set->first[i] + found;
    }
    return -1;
}

int32_t rvit_tensor_set_find_prefix(const rvit_tensor_set *set, const char *prefix)
{
    for (int32_t i = 0; i < set->n_files; i++) {
        const int32_t found = rvit_safetensors_find_prefix(set->files[i], prefix);
        if (found >= 0)
            return set->first[i] + found;
    }
    return -1;
}

const char *rvit_tensor_set_metadata(const rvit_tensor_set *set, const char *key)
{
    const char *text = NULL;
    for (int32_t i = 0; i < set->n_files && text == NULL; i++)
        text = rvit_safetensors_metadata(set->files[i], key);
    return text;
}

rvit_status rvit_tensor_set_read(const rvit_tensor_set *set, int32_t index, int64_t offset, int64_t size, void *out_bytes)
{
    const int32_t file = file_of(set, index);
    return rvit_safetensors_read(set->files[file], index - set->first[file], offset, size, out_bytes);
}

void rvit_values_of(const uint8_t *bytes, int32_t dtype, int64_t n, float *out_values)
{
    switch (dtype) {
    case RVIT_F32:
        for (int64_t i = 0; i < n; i++) {
            const uint8_t *b = bytes + 4 * i;
            out_values[i] = rvit_bits_float((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
        }
        break;
    case RVIT_F16:
        for (int64_t i = 0; i < n; i++)
            out_values[i] = rvit_f16_to_f32((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            out_values[i] = rvit_bf16_to_f32((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
        break;
    }
}

void rvit_format_shape(char out[RVIT_SHOWN_SHAPE], int32_t rank, const int64_t *shape)
{
    int at = snprintf(out, RVIT_SHOWN_SHAPE, "[");
    for (int32_t i = 0; i < rank; i++)
        at += snprintf(out + at, (size_t)(RVIT_SHOWN_SHAPE - at), i == 0 ? "%" PRId64 : ", %" PRId64, shape[i]);
    snprintf(out + at, (size_t)(RVIT_SHOWN_SHAPE - at), "]");
}
