#include "core/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/args.h"
#include "core/entry.h"
#include "core/half.h"
#include "core/hf_config.h"
#include "core/log.h"
#include "core/pos_embed.h"
#include "core/status.h"

/* CHUNK: elements converted at a time. */
enum { CHUNK = 8192, SHOWN_NAME = 96, MAX_IMAGE = 1 << 14 };

/* Where a checkpoint's tensors are: a path, or a list in memory. */
typedef struct origin {
    const char *path; /* NULL: in memory */
    const rvit_tensor_desc *tensors;
    int32_t n_tensors;
} origin;

static rvit_status apply(const rvit_checkpoint_desc *desc, const char *path, rvit_checkpoint *checkpoint)
{
    rvit_model_info *info = &checkpoint->config.info;
    checkpoint->resample = desc->resample;
    if (checkpoint->config.family->hugging_face && path != NULL)
        RVIT_TRY(rvit_hf_config_apply(path, &checkpoint->alloc, info));
    if (desc->eps != 0)
        info->eps = desc->eps;
    if (desc->image_size == 0)
        return RVIT_OK;
    if (desc->image_size % info->patch_size != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: image_size is %d, expected a multiple of the patch size %d",
                         (int)desc->image_size, (int)info->patch_size);
    const int32_t grid = desc->image_size / info->patch_size;
    info->image_size = desc->image_size;
    info->tokens = info->n_prefix + grid * grid;
    rvit_vit_name(&checkpoint->config);
    return RVIT_OK;
}

static rvit_status load(rvit_checkpoint *checkpoint, const origin *from, const rvit_checkpoint_desc *desc)
{
    if (from->path != NULL)
        RVIT_TRY(rvit_tensor_set_open(from->path, &checkpoint->alloc, &checkpoint->tensors));
    else
        RVIT_TRY(rvit_tensor_set_wrap(from->tensors, from->n_tensors, &checkpoint->alloc, &checkpoint->tensors));
    checkpoint->used = rvit_alloc_new(&checkpoint->alloc, (size_t)rvit_tensor_set_count(checkpoint->tensors));
    if (checkpoint->used == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    RVIT_TRY(rvit_vit_config_infer(checkpoint->tensors, desc->lenient, checkpoint->used, &checkpoint->config));
    return apply(desc, from->path, checkpoint);
}

static rvit_status check_desc(const rvit_checkpoint_desc *desc)
{
    if (desc->lenient != 0 && desc->lenient != 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: lenient is %d, expected 0 or 1", (int)desc->lenient);
    if (desc->allocator != NULL && (desc->allocator->allocate == NULL || desc->allocator->release == NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: allocator lacks allocate or release");
    if (desc->image_size < 0 || desc->image_size > MAX_IMAGE)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: image_size is %d, expected 0 to %d", (int)desc->image_size, MAX_IMAGE);
    if ((int)desc->resample < RVIT_RESAMPLE_TIMM || (int)desc->resample > RVIT_RESAMPLE_BILINEAR)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: resample is %d, expected %d to %d", (int)desc->resample,
                         (int)RVIT_RESAMPLE_TIMM, (int)RVIT_RESAMPLE_BILINEAR);
    if (!(desc->eps >= 0 && isfinite(desc->eps)))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: eps is %g, expected 0 or a number above it", (double)desc->eps);
    return RVIT_OK;
}

static rvit_status create(const origin *from, const rvit_checkpoint_desc *desc, rvit_checkpoint **out)
{
    rvit_checkpoint_desc own = RVIT_CHECKPOINT_DESC_INIT;
    if (desc != NULL)
        RVIT_TRY(rvit_args_copy(&own, sizeof own, desc, "checkpoint desc"));
    RVIT_TRY(check_desc(&own));

    rvit_alloc alloc;
    rvit_alloc_init(&alloc, own.allocator);
    rvit_checkpoint *checkpoint = rvit_alloc_new(&alloc, sizeof *checkpoint);
    if (checkpoint == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    rvit_alloc_copy(&checkpoint->alloc, &alloc);
    const rvit_status status = load(checkpoint, from, &own);
    if (status != RVIT_OK) {
        rvit_checkpoint_destroy(checkpoint);
        return status;
    }
    const rvit_model_info *info = &checkpoint->config.info;
    rvit_log(RVIT_LOG_INFO, "%s: %s, %" PRId64 " parameters, %d tensors, %d of them unused", rvit_tensor_set_path(checkpoint->tensors),
             info->architecture, info->n_parameters, (int)info->n_tensors, (int)info->n_unknown);
    *out = checkpoint;
    return RVIT_OK;
}

rvit_status rvit_checkpoint_open(const char *path, const rvit_checkpoint_desc *desc, rvit_checkpoint **out)
{
    RVIT_ENTRY;
    if (path == NULL || out == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint: %s is NULL", path == NULL ? "path" : "out");
    const origin from = {.path = path};
    return create(&from, desc, out);
}

rvit_status rvit_checkpoint_from_tensors(const rvit_tensor_desc *tensors, int32_t n_tensors, const rvit_checkpoint_desc *desc,
                                         rvit_checkpoint **out)
{
    RVIT_ENTRY;
    if (tensors == NULL || out == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_checkpoint_from_tensors: %s is NULL", tensors == NULL ? "tensors" : "out");
    if (n_tensors < 1 || n_tensors > RVIT_SAFETENSORS_MAX_TENSORS)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_checkpoint_from_tensors: n_tensors is %d, expected 1..%d", (int)n_tensors,
                         RVIT_SAFETENSORS_MAX_TENSORS);
    /* Values are read as a file stores them. */
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_checkpoint_from_tensors: only on little-endian hosts");
    const origin from = {.tensors = tensors, .n_tensors = n_tensors};
    return create(&from, desc, out);
}

void rvit_checkpoint_destroy(rvit_checkpoint *checkpoint)
{
    RVIT_ENTRY;
    if (checkpoint == NULL)
        return;
    rvit_tensor_set_close(checkpoint->tensors);
    rvit_alloc_free(&checkpoint->alloc, checkpoint->used);
    rvit_alloc alloc;
    rvit_alloc_copy(&alloc, &checkpoint->alloc);
    rvit_alloc_free(&alloc, checkpoint);
}

rvit_status rvit_checkpoint_get_info(const rvit_checkpoint *checkpoint, rvit_model_info *out_info)
{
    RVIT_ENTRY;
    if (checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint is NULL");
    return rvit_args_return(out_info, &checkpoint->config.info, sizeof checkpoint->config.info, "model info");
}

rvit_status rvit_checkpoint_tensor(const rvit_checkpoint *checkpoint, int32_t index, const char **out_name, const char **out_dtype,
                                   int32_t *out_rank, const int64_t **out_shape, int32_t *out_used)
{
    RVIT_ENTRY;
    if (checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint is NULL");
    const int32_t count = rvit_tensor_set_count(checkpoint->tensors);
    if (index < 0 || index >= count)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint: there is no tensor %d, the file has %d", (int)index, (int)count);
    const rvit_file_tensor *tensor = rvit_tensor_set_tensor(checkpoint->tensors, index);
    if (out_name != NULL)
        *out_name = tensor->name;
    if (out_dtype != NULL)
        *out_dtype = tensor->dtype_name;
    if (out_rank != NULL)
        *out_rank = tensor->rank;
    if (out_shape != NULL)
        *out_shape = tensor->shape;
    if (out_used != NULL)
        *out_used = checkpoint->used[index];
    return RVIT_OK;
}

const char *rvit_checkpoint_metadata(const rvit_checkpoint *checkpoint, const char *key)
{
    return checkpoint == NULL || key == NULL ? NULL : rvit_tensor_set_metadata(checkpoint->tensors, key);
}

/* Little-endian bytes to float32, on a host of any order. */
static void convert(const uint8_t *bytes, int32_t dtype, int64_t n, float *out_values)
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

/* Whether the file's bytes can be copied without conversion. */
static int is_plain(int32_t stored, rvit_dtype wanted)
{
    return stored == (int32_t)wanted && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

/* Converts in chunks, in allocated memory: threads may have small stacks. */
typedef struct chunk {
    uint8_t bytes[4 * CHUNK];
    float values[CHUNK];
} chunk;

static rvit_status convert_some(const rvit_checkpoint *checkpoint, int32_t index, int64_t first, int64_t n, rvit_dtype dtype, chunk *c,
                                void *out)
{
    const int32_t stored = rvit_tensor_set_tensor(checkpoint->tensors, index)->dtype;
    const int64_t size = rvit_dtype_size((rvit_dtype)stored);
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t some = n - done < CHUNK ? n - done : CHUNK;
        RVIT_TRY(rvit_tensor_set_read(checkpoint->tensors, index, (first + done) * size, some * size, c->bytes));
        convert(c->bytes, stored, some, dtype == RVIT_F32 ? (float *)out + done : c->values);
        if (dtype == RVIT_F16)
            rvit_narrow(c->values, some, (uint16_t *)out + done);
    }
    return RVIT_OK;
}

static rvit_status read_some(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, int32_t index, int64_t first, int64_t n,
                             rvit_dtype dtype, void *out)
{
    const int32_t stored = rvit_tensor_set_tensor(checkpoint->tensors, index)->dtype;
    const int64_t size = rvit_dtype_size((rvit_dtype)stored);
    if (is_plain(stored, dtype))
        return rvit_tensor_set_read(checkpoint->tensors, index, first * size, n * size, out);
    chunk *c = rvit_alloc_new(alloc, sizeof *c);
    if (c == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    const rvit_status status = convert_some(checkpoint, index, first, n, dtype, c, out);
    rvit_alloc_free(alloc, c);
    return status;
}

rvit_status rvit_checkpoint_read_part(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, const char *name, int64_t n, int64_t first,
                                      int64_t count, rvit_dtype dtype, void *out_values)
{
    const rvit_tensor_set *set = checkpoint->tensors;
    const char *path = rvit_tensor_set_path(set);
    const int32_t index = rvit_tensor_set_find(set, name);
    char shown[SHOWN_NAME];
    rvit_printable(shown, sizeof shown, name);
    if (index < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing", path, shown);
    const rvit_file_tensor *tensor = rvit_tensor_set_tensor(set, index);
    if (tensor->dtype < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': dtype %s; weights are F32, F16 or BF16", path, shown, tensor->dtype_name);
    if (tensor->n_elements != n)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected %" PRId64 " values, found %" PRId64, path, shown, n, tensor->n_elements);
    return read_some(checkpoint, alloc, index, first, count, dtype, out_values);
}

rvit_status rvit_checkpoint_read(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, const char *name, int64_t n, float *out_values)
{
    return rvit_checkpoint_read_part(checkpoint, alloc, name, n, 0, n, RVIT_F32, out_values);
}

static rvit_status read_positions(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, float *table, float *out)
{
    const rvit_model_info *info = &checkpoint->config.info;
    const int64_t dim = info->dim, prefix = checkpoint->config.position_prefix;
    const int32_t trained = info->trained_size / info->patch_size, grid = info->image_size / info->patch_size;
    char name[RVIT_NAME_SIZE];
    rvit_family_name(checkpoint->config.family, RVIT_ROLE_POSITION, 0, name);
    RVIT_TRY(rvit_checkpoint_read(checkpoint, alloc, name, (prefix + (int64_t)trained * trained) * dim, table));
    memset(out, 0, (size_t)info->n_prefix * (size_t)dim * sizeof *out);
    memcpy(out, table, (size_t)prefix * (size_t)dim * sizeof *out);
    return rvit_resample_grid(alloc, checkpoint->resample, table + prefix * dim, trained, grid, info->dim, out + info->n_prefix * dim);
}

rvit_status rvit_checkpoint_read_positions(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, float *out)
{
    const rvit_model_info *info = &checkpoint->config.info;
    const size_t grid = (size_t)(info->trained_size / info->patch_size);
    float *table = rvit_alloc_array(alloc, ((size_t)info->n_prefix + grid * grid) * (size_t)info->dim, sizeof *table);
    if (table == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    const rvit_status status = read_positions(checkpoint, alloc, table, out);
    rvit_alloc_free(alloc, table);
    return status;
}
