/* Reads the values of a checkpoint as the requested type. */
#include <inttypes.h>
#include <string.h>

#include "core/base/half.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/file/quantized_tensors.h"
#include "core/model/checkpoint.h"
#include "core/model/pos_embed.h"

enum { CHUNK = 8192, /* elements converted at a time */ };

/* Whether the bytes need no conversion. */
static int is_plain(int32_t stored, rvit_dtype wanted)
{
    return stored == (int32_t)wanted && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

/* Memory to convert in chunks; allocated because threads may have small stacks. */
typedef struct chunk {
    uint8_t bytes[4 * CHUNK];
    float values[CHUNK];
    float *scales; /* of a quantized tensor, one per row */
} chunk;

static rvit_status read_scales(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, const rvit_file_tensor *tensor, chunk *c)
{
    if (tensor->quantized_dtype == 0)
        return RVIT_OK;
    c->scales = rvit_alloc_array(alloc, (size_t)tensor->shape[0], sizeof *c->scales);
    return c->scales == NULL ? RVIT_OUT_OF_HOST_MEMORY
                             : rvit_quantized_scales(checkpoint->tensors, tensor->name, tensor->shape[0], c->scales);
}

static rvit_status convert_some(const rvit_checkpoint *checkpoint, int32_t index, int64_t first, int64_t n, rvit_dtype dtype, chunk *c,
                                void *out)
{
    const rvit_file_tensor *tensor = rvit_tensor_set_tensor(checkpoint->tensors, index);
    const int64_t size = tensor->quantized_dtype != 0 ? 1 : rvit_dtype_size((rvit_dtype)tensor->dtype);
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t some = n - done < CHUNK ? n - done : CHUNK;
        float *values = dtype == RVIT_F32 ? (float *)out + done : c->values;
        RVIT_TRY(rvit_tensor_set_read(checkpoint->tensors, index, (first + done) * size, some * size, c->bytes));
        if (tensor->quantized_dtype != 0)
            rvit_quantized_values(tensor, c->bytes, c->scales, first + done, some, values);
        else
            rvit_values_of(c->bytes, tensor->dtype, some, values);
        if (dtype != RVIT_F32)
            rvit_narrow(c->values, some, dtype, (uint16_t *)out + done);
    }
    return RVIT_OK;
}

static rvit_status read_some(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, int32_t index, int64_t first, int64_t n,
                             rvit_dtype dtype, void *out)
{
    const rvit_file_tensor *tensor = rvit_tensor_set_tensor(checkpoint->tensors, index);
    const int64_t size = rvit_dtype_size(dtype);
    if (is_plain(tensor->dtype, dtype))
        return rvit_tensor_set_read(checkpoint->tensors, index, first * size, n * size, out);
    chunk *c = rvit_alloc_new(alloc, sizeof *c);
    RVIT_TRY_MEMORY(c);
    rvit_status status = read_scales(checkpoint, alloc, tensor, c);
    if (status == RVIT_OK)
        status = convert_some(checkpoint, index, first, n, dtype, c, out);
    rvit_alloc_free(alloc, c->scales);
    rvit_alloc_free(alloc, c);
    return status;
}

rvit_status rvit_checkpoint_read_part(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, const char *name, int64_t n, int64_t first,
                                      int64_t count, rvit_dtype dtype, void *out_values)
{
    const rvit_tensor_set *set = checkpoint->tensors;
    const char *path = rvit_tensor_set_path(set);
    const int32_t index = rvit_tensor_set_find(set, name);
    if (index < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing", path, rvit_shown(name).text);
    const rvit_file_tensor *tensor = rvit_tensor_set_tensor(set, index);
    if (tensor->dtype < 0 && tensor->quantized_dtype == 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': dtype is %s, expected F32, F16 or BF16", path, rvit_shown(name).text,
                         tensor->dtype_name);
    if (tensor->n_elements != n)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected %" PRId64 " values, found %" PRId64, path, rvit_shown(name).text, n,
                         tensor->n_elements);
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
    const int32_t *trained = checkpoint->config.trained, grid = info->image_size / info->patch_size;
    const int64_t patches = (int64_t)trained[0] * trained[1];
    char name[RVIT_NAME_SIZE];
    rvit_family_name(checkpoint->config.family, RVIT_ROLE_POSITION, 0, name);
    RVIT_TRY(rvit_checkpoint_read(checkpoint, alloc, name, (prefix + patches) * dim, table));
    memset(out, 0, (size_t)info->n_prefix * (size_t)dim * sizeof *out);
    memcpy(out, table, (size_t)prefix * (size_t)dim * sizeof *out);
    if (trained[0] != trained[1]) { /* set_size allows no other size */
        memcpy(out + info->n_prefix * dim, table + prefix * dim, (size_t)(patches * dim) * sizeof *out);
        return RVIT_OK;
    }
    return rvit_resample_grid(alloc, info->resample, table + prefix * dim, trained[0], grid, info->dim, out + info->n_prefix * dim);
}

rvit_status rvit_checkpoint_read_positions(const rvit_checkpoint *checkpoint, rvit_alloc *alloc, float *out)
{
    const rvit_model_info *info = &checkpoint->config.info;
    const size_t patches = (size_t)checkpoint->config.trained[0] * (size_t)checkpoint->config.trained[1];
    if (checkpoint->config.no_table) {
        memset(out, 0, (size_t)info->tokens * (size_t)info->dim * sizeof *out);
        return RVIT_OK;
    }
    float *table = rvit_alloc_array(alloc, ((size_t)info->n_prefix + patches) * (size_t)info->dim, sizeof *table);
    RVIT_TRY_MEMORY(table);
    const rvit_status status = read_positions(checkpoint, alloc, table, out);
    rvit_alloc_free(alloc, table);
    return status;
}
