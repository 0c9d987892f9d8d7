#include "core/base/os.h"
#include "core/file/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/args.h"
#include "core/base/printable.h"
#include "core/base/sort.h"
#include "core/base/status.h"
#include "core/file/file.h"
#include "core/file/json.h"

/* A tensor has at most 14 values (itself, 3 fields, 8 extents, 2 offsets), and the metadata at most one entry per tensor: no legal header
   has more values. */
#define MAX_VALUES (15 * RVIT_SAFETENSORS_MAX_TENSORS + 2)
#define MAX_DEPTH 3
#define METADATA_KEY "__metadata__"

typedef struct metadata_entry {
    const char *key, *value;
} metadata_entry;

struct rvit_safetensors {
    rvit_alloc *alloc;
    rvit_file disk;
    const char *path; /* owned by disk, or a literal */
    int64_t data_start, data_size;
    int32_t n_tensors, n_metadata;
    rvit_file_tensor *tensors; /* in the order of the data */
    const rvit_file_tensor **by_name;
    metadata_entry *metadata;
    const void **memory; /* [n_tensors]: the values of in-memory tensors; NULL: they are in the file */
    char *strings;
    size_t strings_size;
};

/* Tensors of a dtype that the library lacks (-1) can only be ignored. */
static const struct {
    const char *name;
    int32_t bits, dtype, quantized_dtype;
} dtypes[] = {
    {"BOOL", 8, -1, 0},    {"F4", 4, -1, 0},      {"F6_E2M3", 6, -1, 0},     {"F6_E3M2", 6, -1, 0},     {"U8", 8, -1, 0},
    {"F8_E5M2", 8, -1, 0}, {"F8_E8M0", 8, -1, 0}, {"F8_E4M3FNUZ", 8, -1, 0}, {"F8_E5M2FNUZ", 8, -1, 0}, {"I16", 16, -1, 0},
    {"U16", 16, -1, 0},    {"I32", 32, -1, 0},    {"U32", 32, -1, 0},        {"C64", 64, -1, 0},        {"F64", 64, -1, 0},
    {"I64", 64, -1, 0},    {"U64", 64, -1, 0},
#define RVIT_ELEMENT(TYPE, name, file_name, PRECISION, precision, size, scaled) \
    {file_name, 8 * (size), (scaled) ? -1 : RVIT_##TYPE, (scaled) ? RVIT_##TYPE : 0},
#include "core/base/dtype.def"
};

static int compare_offsets(const void *left, const void *right)
{
    const rvit_file_tensor *a = left, *b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right)
{
    const rvit_file_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Files that are often mistaken for a checkpoint, by their first bytes. */
static const struct {
    const char *bytes;
    int32_t at, n;
    const char *says;
} other_formats[] = {
    {"PK\3\4", 0, 4, "a zip archive, such as a PyTorch checkpoint: convert it with tools/convert_checkpoint.py"},
    {"\x80\2", 0, 2, "a PyTorch checkpoint: convert it with tools/convert_checkpoint.py"},
    {"\x80", 0, 1, "a Python pickle, such as a PyTorch checkpoint: convert it with tools/convert_checkpoint.py"},
    {"version ", 0, 8, "a Git LFS pointer: run git lfs pull"},
    {"GGUF", 0, 4, "a GGUF file: use the .safetensors file that it was made from"},
    {"\x89HDF", 0, 4, "a Keras HDF5 file: save the weights as .safetensors"},
    {"\x93NUMPY", 0, 6, "a NumPy array: save all weights by their names as .safetensors"},
    {"TFL3", 4, 4, "a TensorFlow Lite model: use the .safetensors file that it was made from"},
    {"ftrt", 0, 4, "a TensorRT engine: use the .safetensors file that it was made from"},
    {"\x1f\x8b", 0, 2, "a gzip archive: unpack it"},
    {"<", 0, 1, "a web page, perhaps a login page: download the file again"},
    {"{", 0, 1, "a JSON file: the name of an index of shards must end with .json"},
    {"\x08", 0, 1, "an ONNX model: use the .safetensors file that it was made from"},
};

/* Writes "" or "; it looks like ...". */
static void other_format(const unsigned char bytes[8], char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < sizeof other_formats / sizeof *other_formats; i++)
        if (memcmp(bytes + other_formats[i].at, other_formats[i].bytes, (size_t)other_formats[i].n) == 0) {
            snprintf(out, size, "; it looks like %s", other_formats[i].says);
            return;
        }
}

/* Sets data_start and data_size. */
static rvit_status read_header_length(rvit_safetensors *file)
{
    if (file->disk.size < 8)
        return rvit_fail(RVIT_BAD_FILE, "%s: not a .safetensors file: it has %" PRId64 " bytes, expected at least 8", file->path,
                         file->disk.size);
    unsigned char bytes[8];
    RVIT_TRY(rvit_file_read(&file->disk, 0, 8, bytes));
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: the header length is zero", file->path);
    if (length > RVIT_SAFETENSORS_MAX_HEADER) {
        char looks[128];
        other_format(bytes, looks, sizeof looks);
        return rvit_fail(RVIT_BAD_FILE, "%s: not a .safetensors file: the header length %" PRIu64 " is above %d%s", file->path, length,
                         RVIT_SAFETENSORS_MAX_HEADER, looks);
    }
    if ((int64_t)length > file->disk.size - 8)
        return rvit_fail(RVIT_BAD_FILE, "%s: truncated: the header length is %" PRIu64 ", but only %" PRId64 " bytes follow it", file->path,
                         length, file->disk.size - 8);
    file->data_start = 8 + (int64_t)length;
    file->data_size = file->disk.size - file->data_start;
    return RVIT_OK;
}

/* The header is an object that starts at the first byte; only spaces may follow it. */
static rvit_status parse_header(const rvit_safetensors *file, char *header, size_t size, rvit_json **out_root)
{
    if (header[0] != '{')
        return rvit_fail(RVIT_BAD_FILE, "%s: the header does not begin with '{'", file->path);
    const rvit_json_input input = {file->path, " the header", header, size, MAX_DEPTH, MAX_VALUES};
    size_t end = 0;
    RVIT_TRY(rvit_json_parse(&input, file->alloc, out_root, &end));
    end += strspn(header + end, " ");
    if (end != size)
        return rvit_fail(RVIT_BAD_FILE, "%s: only spaces may follow the closing brace of the header (byte %zu)", file->path, end);
    return RVIT_OK;
}

#define TENSOR_FAIL(file, name, format, ...) \
    rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': " format, (file)->path, rvit_shown(name).text, __VA_ARGS__)

static rvit_status read_dtype(const rvit_safetensors *file, const char *name, const rvit_json *value, rvit_file_tensor *tensor,
                              int32_t *bits)
{
    if (value->type != RVIT_JSON_STRING)
        return TENSOR_FAIL(file, name, "%s", "dtype is not a string");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(value->string, dtypes[i].name) == 0) {
            tensor->dtype_name = dtypes[i].name;
            tensor->dtype = dtypes[i].dtype;
            tensor->quantized_dtype = dtypes[i].quantized_dtype;
            *bits = dtypes[i].bits;
            return RVIT_OK;
        }
    char shown[32];
    rvit_printable(shown, sizeof shown, value->string);
    return TENSOR_FAIL(file, name, "unknown dtype '%s'", shown);
}

static rvit_status read_shape(const rvit_safetensors *file, const char *name, const rvit_json *value, rvit_file_tensor *tensor)
{
    if (value->type != RVIT_JSON_ARRAY)
        return TENSOR_FAIL(file, name, "%s", "shape is not an array");
    if (value->n > RVIT_SAFETENSORS_MAX_RANK)
        return TENSOR_FAIL(file, name, "rank %d is above %d", (int)value->n, RVIT_SAFETENSORS_MAX_RANK);
    tensor->rank = value->n;
    int64_t product = 1; /* of the nonzero extents, so that overflow does not depend on their order */
    int empty = 0;
    const rvit_json *extent = rvit_json_first(value);
    for (int i = 0; i < value->n; i++, extent = rvit_json_next(value, extent)) {
        if (extent->type != RVIT_JSON_INTEGER)
            return TENSOR_FAIL(file, name, "shape[%d] is not an integer", i);
        const int64_t n = extent->integer;
        if (n < 0)
            return TENSOR_FAIL(file, name, "shape[%d] is negative (%" PRId64 ")", i, n);
        tensor->shape[i] = n;
        if (n == 0)
            empty = 1;
        else if (product > INT64_MAX / n)
            return TENSOR_FAIL(file, name, "the product of its shape overflows at shape[%d]", i);
        else
            product *= n;
    }
    tensor->n_elements = empty ? 0 : product;
    return RVIT_OK;
}

static rvit_status read_offsets(const rvit_safetensors *file, const char *name, const rvit_json *value, rvit_file_tensor *tensor,
                                int32_t bits)
{
    if (value->type != RVIT_JSON_ARRAY || value->n != 2)
        return TENSOR_FAIL(file, name, "%s", "data_offsets is not an array of two integers");
    const rvit_json *begin_value = rvit_json_first(value), *end_value = rvit_json_next(value, begin_value);
    if (begin_value->type != RVIT_JSON_INTEGER || end_value->type != RVIT_JSON_INTEGER)
        return TENSOR_FAIL(file, name, "%s", "data_offsets is not an array of two integers");
    const int64_t begin = begin_value->integer, end = end_value->integer;
    if (begin < 0 || end < 0)
        return TENSOR_FAIL(file, name, "data_offsets [%" PRId64 ", %" PRId64 "] are negative", begin, end);
    if (end < begin)
        return TENSOR_FAIL(file, name, "data_offsets [%" PRId64 ", %" PRId64 "] end before they begin", begin, end);
    if (tensor->n_elements > INT64_MAX / bits) /* NOLINT(clang-analyzer-core.DivideZero): read_dtype gives 4 or more */
        return TENSOR_FAIL(file, name, "its size in bits overflows (%" PRId64 " elements)", tensor->n_elements);
    if (tensor->n_elements * bits % 8 != 0)
        return TENSOR_FAIL(file, name, "%" PRId64 " elements of %d bits are not a whole number of bytes", tensor->n_elements, (int)bits);
    const int64_t size = tensor->n_elements * bits / 8;
    if (end - begin != size)
        return TENSOR_FAIL(file, name, "its shape needs %" PRId64 " bytes, but data_offsets [%" PRId64 ", %" PRId64 "] give %" PRId64, size,
                           begin, end, end - begin);
    if (end > file->data_size)
        return TENSOR_FAIL(file, name, "truncated: it ends at byte %" PRId64 " of the data, which has only %" PRId64 " bytes", end,
                           file->data_size);
    tensor->offset = begin;
    tensor->size = size;
    return RVIT_OK;
}

static const char *keep_string(rvit_safetensors *file, const char *text)
{
    char *copy = file->strings + file->strings_size;
    const size_t size = strlen(text) + 1;
    memcpy(copy, text, size);
    file->strings_size += size;
    return copy;
}

static rvit_status read_tensor(rvit_safetensors *file, const rvit_json *entry)
{
    const char *name = entry->key;
    if (entry->type != RVIT_JSON_OBJECT)
        return TENSOR_FAIL(file, name, "%s", "its entry is not an object");
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    const rvit_json *values[3];
    for (int i = 0; i < 3; i++)
        if ((values[i] = rvit_json_get(entry, fields[i])) == NULL)
            return TENSOR_FAIL(file, name, "%s is missing", fields[i]);
    for (const rvit_json *v = rvit_json_first(entry); v != NULL; v = rvit_json_next(entry, v))
        if (v != values[0] && v != values[1] && v != values[2])
            return TENSOR_FAIL(file, name, "unknown field '%s'", rvit_shown(v->key).text);
    rvit_file_tensor *tensor = &file->tensors[file->n_tensors];
    int32_t bits = 0;
    RVIT_TRY(read_dtype(file, name, values[0], tensor, &bits));
    RVIT_TRY(read_shape(file, name, values[1], tensor));
    RVIT_TRY(read_offsets(file, name, values[2], tensor, bits));
    tensor->name = keep_string(file, name);
    file->n_tensors++;
    return RVIT_OK;
}

/* Counts the bytes to store and checks names and metadata. */
static rvit_status measure(const rvit_safetensors *file, const rvit_json *root, size_t *out_tensors, size_t *out_metadata,
                           size_t *out_strings)
{
    size_t n_tensors = 0, n_metadata = 0, strings = 0;
    for (const rvit_json *v = rvit_json_first(root); v != NULL; v = rvit_json_next(root, v)) {
        const size_t length = strlen(v->key);
        if (strcmp(v->key, METADATA_KEY) != 0) {
            if (length == 0)
                return rvit_fail(RVIT_BAD_FILE, "%s: a tensor has an empty name", file->path);
            if (length > RVIT_SAFETENSORS_MAX_NAME)
                return TENSOR_FAIL(file, v->key, "its name is longer than %d bytes", RVIT_SAFETENSORS_MAX_NAME);
            n_tensors++;
            strings += length + 1;
            continue;
        }
        if (v->type != RVIT_JSON_OBJECT)
            return rvit_fail(RVIT_BAD_FILE, "%s: " METADATA_KEY " is not an object", file->path);
        for (const rvit_json *text = rvit_json_first(v); text != NULL; text = rvit_json_next(v, text)) {
            if (text->type != RVIT_JSON_STRING)
                return rvit_fail(RVIT_BAD_FILE, "%s: " METADATA_KEY ": the value of '%s' is not a string", file->path,
                                 rvit_shown(text->key).text);
            n_metadata++;
            strings += strlen(text->key) + strlen(text->string) + 2;
        }
    }
    if (n_tensors > RVIT_SAFETENSORS_MAX_TENSORS)
        return rvit_fail(RVIT_BAD_FILE, "%s: too many tensors: %zu, the limit is %d", file->path, n_tensors, RVIT_SAFETENSORS_MAX_TENSORS);
    *out_tensors = n_tensors;
    *out_metadata = n_metadata;
    *out_strings = strings;
    return RVIT_OK;
}

static rvit_status allocate_tensors(rvit_safetensors *file, size_t n)
{
    file->tensors = rvit_alloc_array(file->alloc, n, sizeof *file->tensors);
    RVIT_TRY_MEMORY(file->tensors);
    file->by_name = rvit_alloc_array(file->alloc, n, sizeof *file->by_name);
    return file->by_name == NULL ? RVIT_OUT_OF_HOST_MEMORY : RVIT_OK;
}

static rvit_status store(rvit_safetensors *file, const rvit_json *root)
{
    size_t n_tensors = 0, n_metadata = 0, strings = 0;
    RVIT_TRY(measure(file, root, &n_tensors, &n_metadata, &strings));
    RVIT_TRY(allocate_tensors(file, n_tensors));
    file->metadata = rvit_alloc_array(file->alloc, n_metadata, sizeof *file->metadata);
    RVIT_TRY_MEMORY(file->metadata);
    file->strings = rvit_alloc_new(file->alloc, strings);
    RVIT_TRY_MEMORY(file->strings);
    for (const rvit_json *v = rvit_json_first(root); v != NULL; v = rvit_json_next(root, v)) {
        if (strcmp(v->key, METADATA_KEY) != 0) {
            RVIT_TRY(read_tensor(file, v));
            continue;
        }
        for (const rvit_json *text = rvit_json_first(v); text != NULL; text = rvit_json_next(v, text)) {
            metadata_entry *entry = &file->metadata[file->n_metadata++];
            entry->key = keep_string(file, text->key);
            entry->value = keep_string(file, text->string);
        }
    }
    return RVIT_OK;
}

/* The tensors, sorted by offset, must cover the data without holes and overlaps. */
static rvit_status check_layout(const rvit_safetensors *file)
{
    int64_t end = 0;
    for (int32_t i = 0; i < file->n_tensors; i++) {
        const rvit_file_tensor *tensor = &file->tensors[i];
        const rvit_file_tensor *before = &file->tensors[i > 0 ? i - 1 : 0];
        if (tensor->offset < end)
            return TENSOR_FAIL(file, tensor->name, "%s tensor '%s' in the data",
                               before->offset == tensor->offset && before->size == tensor->size ? "shares the bytes of" : "overlaps",
                               rvit_shown(before->name).text);
        if (tensor->offset > end)
            return TENSOR_FAIL(file, tensor->name, "a hole in the data before it: bytes %" PRId64 " to %" PRId64 " belong to no tensor",
                               end, tensor->offset - 1);
        end = tensor->offset + tensor->size;
    }
    if (end != file->data_size)
        return rvit_fail(RVIT_BAD_FILE, "%s: %" PRId64 " trailing bytes of the data belong to no tensor", file->path,
                         file->data_size - end);
    return RVIT_OK;
}

static rvit_status read_header(rvit_safetensors *file)
{
    const size_t size = (size_t)(file->data_start - 8);
    char *header = rvit_alloc_new(file->alloc, size + 1);
    RVIT_TRY_MEMORY(header);
    rvit_json *root = NULL;
    rvit_status status = rvit_file_read(&file->disk, 8, (int64_t)size, header);
    if (status == RVIT_OK)
        status = parse_header(file, header, size, &root);
    if (status == RVIT_OK)
        status = store(file, root);
    rvit_alloc_free(file->alloc, root);
    rvit_alloc_free(file->alloc, header);
    return status;
}

static rvit_status load(rvit_safetensors *file, const char *path)
{
    RVIT_TRY(rvit_file_open(path, &file->disk));
    RVIT_TRY(read_header_length(file));
    RVIT_TRY(read_header(file));
    rvit_sort(file->tensors, (size_t)file->n_tensors, sizeof *file->tensors, compare_offsets);
    RVIT_TRY(check_layout(file));
    for (int32_t i = 0; i < file->n_tensors; i++)
        file->by_name[i] = &file->tensors[i];
    rvit_sort(file->by_name, (size_t)file->n_tensors, sizeof *file->by_name, compare_names);
    return RVIT_OK;
}

static rvit_status wrap_shape(const rvit_tensor_desc *desc, rvit_file_tensor *tensor)
{
    if (desc->rank < 0 || desc->rank > RVIT_SAFETENSORS_MAX_RANK || (desc->rank > 0 && desc->shape == NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "tensor desc: '%s': rank is %d, expected 0..%d and a shape", rvit_shown(desc->name).text,
                         (int)desc->rank, RVIT_SAFETENSORS_MAX_RANK);
    tensor->rank = desc->rank;
    tensor->n_elements = 1;
    for (int32_t i = 0; i < desc->rank; i++) {
        const int64_t extent = tensor->shape[i] = desc->shape[i];
        if (extent < 0 || (extent > 0 && tensor->n_elements > INT64_MAX / 8 / extent))
            return rvit_fail(RVIT_INVALID_ARGUMENT, "tensor desc: '%s': shape[%d] is %" PRId64 ", which is negative or too large",
                             rvit_shown(desc->name).text, (int)i, extent);
        tensor->n_elements *= extent;
    }
    return RVIT_OK;
}

static rvit_status wrap_tensor(const rvit_tensor_desc *given, int32_t index, rvit_file_tensor *tensor, const void **out_data)
{
    rvit_tensor_desc desc;
    RVIT_TRY(rvit_args_copy(&desc, sizeof desc, given, "tensor desc"));
    if (desc.name == NULL || desc.name[0] == '\0' || strlen(desc.name) > RVIT_SAFETENSORS_MAX_NAME)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "tensor desc: name of tensor %d: expected 1 to %d bytes", (int)index,
                         RVIT_SAFETENSORS_MAX_NAME);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype >= 0 && dtypes[i].dtype == (int32_t)desc.dtype)
            tensor->dtype_name = dtypes[i].name;
    if (tensor->dtype_name == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "tensor desc: '%s': dtype: %d is not a valid dtype", rvit_shown(desc.name).text,
                         (int)desc.dtype);
    RVIT_TRY(wrap_shape(&desc, tensor));
    if (desc.data == NULL && tensor->n_elements > 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "tensor desc: '%s': data is NULL", rvit_shown(desc.name).text);
    tensor->name = desc.name;
    tensor->dtype = (int32_t)desc.dtype;
    tensor->size = tensor->n_elements * rvit_dtype_size(desc.dtype);
    *out_data = desc.data;
    return RVIT_OK;
}

static rvit_status wrap(rvit_safetensors *file, const rvit_tensor_desc *tensors, int32_t n)
{
    RVIT_TRY(allocate_tensors(file, (size_t)n));
    file->memory = rvit_alloc_array(file->alloc, (size_t)n, sizeof *file->memory);
    RVIT_TRY_MEMORY(file->memory);
    for (file->n_tensors = 0; file->n_tensors < n; file->n_tensors++) {
        const int32_t i = file->n_tensors;
        /* The caller's struct may have another size, from another version. */
        const rvit_tensor_desc *desc = (const void *)((const uint8_t *)tensors + (size_t)i * tensors->struct_size);
        RVIT_TRY(wrap_tensor(desc, i, &file->tensors[i], &file->memory[i]));
        file->by_name[i] = &file->tensors[i];
    }
    rvit_sort(file->by_name, (size_t)n, sizeof *file->by_name, compare_names);
    for (int32_t i = 1; i < n; i++)
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "tensor desc: two tensors have the name '%s'", rvit_shown(file->by_name[i]->name).text);
    return RVIT_OK;
}

/* Opens a file or, with path NULL, wraps tensors in memory. */
static rvit_status create(const char *path, const rvit_tensor_desc *tensors, int32_t n_tensors, rvit_alloc *alloc,
                          rvit_safetensors **out_file)
{
    rvit_safetensors *file = rvit_alloc_new(alloc, sizeof *file);
    RVIT_TRY_MEMORY(file);
    file->alloc = alloc;
    file->disk.handle = RVIT_OS_CLOSED;
    file->path = path != NULL ? file->disk.path : "tensors in memory";
    const rvit_status status = path != NULL ? load(file, path) : wrap(file, tensors, n_tensors);
    if (status != RVIT_OK) {
        rvit_safetensors_close(file);
        return status;
    }
    *out_file = file;
    return RVIT_OK;
}

rvit_status rvit_safetensors_open(const char *path, rvit_alloc *alloc, rvit_safetensors **out_file)
{
    return create(path, NULL, 0, alloc, out_file);
}

rvit_status rvit_safetensors_wrap(const rvit_tensor_desc *tensors, int32_t n_tensors, rvit_alloc *alloc, rvit_safetensors **out_file)
{
    return create(NULL, tensors, n_tensors, alloc, out_file);
}

void rvit_safetensors_close(rvit_safetensors *file)
{
    if (file == NULL)
        return;
    rvit_file_close(&file->disk);
    rvit_alloc_free(file->alloc, file->strings);
    rvit_alloc_free(file->alloc, file->memory);
    rvit_alloc_free(file->alloc, file->metadata);
    rvit_alloc_free(file->alloc, file->by_name);
    rvit_alloc_free(file->alloc, file->tensors);
    rvit_alloc_free(file->alloc, file);
}

const char *rvit_safetensors_path(const rvit_safetensors *file)
{
    return file->path;
}

int32_t rvit_safetensors_count(const rvit_safetensors *file)
{
    return file->n_tensors;
}

void rvit_safetensors_skip_prefix(rvit_safetensors *file, size_t n)
{
    for (int32_t i = 0; i < file->n_tensors; i++)
        file->tensors[i].name += n;
}

const rvit_file_tensor *rvit_safetensors_tensor(const rvit_safetensors *file, int32_t index)
{
    return &file->tensors[index];
}

/* The first position in by_name whose name is not less than `name`. */
static int32_t lower_bound(const rvit_safetensors *file, const char *name)
{
    int32_t low = 0, high = file->n_tensors;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (strcmp(file->by_name[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first tensor, by name, that shares its first n bytes with name. */
static int32_t find(const rvit_safetensors *file, const char *name, size_t n)
{
    const int32_t position = lower_bound(file, name);
    if (position == file->n_tensors || strncmp(file->by_name[position]->name, name, n) != 0)
        return -1;
    return (int32_t)(file->by_name[position] - file->tensors);
}

int32_t rvit_safetensors_find(const rvit_safetensors *file, const char *name)
{
    return find(file, name, strlen(name) + 1);
}

int32_t rvit_safetensors_find_prefix(const rvit_safetensors *file, const char *prefix)
{
    return find(file, prefix, strlen(prefix));
}

const char *rvit_safetensors_metadata(const rvit_safetensors *file, const char *key)
{
    for (int32_t i = 0; i < file->n_metadata; i++)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    return NULL;
}

rvit_status rvit_safetensors_read(const rvit_safetensors *file, int32_t index, int64_t offset, int64_t size, void *out_bytes)
{
    const rvit_file_tensor *tensor = &file->tensors[index];
    if (offset < 0 || size < 0 || offset > tensor->size || size > tensor->size - offset)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: tensor '%s': cannot read %" PRId64 " bytes from byte %" PRId64 ": it has %" PRId64,
                         file->path, rvit_shown(tensor->name).text, size, offset, tensor->size);
    if (file->memory != NULL) {
        memcpy(out_bytes, (const uint8_t *)file->memory[index] + offset, (size_t)size);
        return RVIT_OK;
    }
    RVIT_TRY(rvit_file_check_unchanged(&file->disk));
    return rvit_file_read(&file->disk, file->data_start + tensor->offset + offset, size, out_bytes);
}
