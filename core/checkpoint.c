#include "core/checkpoint.h"

#include <inttypes.h>
#include <stddef.h>

#include "core/args.h"
#include "core/half.h"
#include "core/log.h"
#include "core/status.h"
#include "core/vit_config.h"

/* Elements converted at a time. */
enum { CHUNK = 8192, SHOWN_NAME = 96 };

static rvit_status load(rvit_checkpoint *checkpoint, const char *path, int32_t lenient)
{
    RVIT_TRY(rvit_safetensors_open(path, &checkpoint->alloc, &checkpoint->file));
    checkpoint->used = rvit_alloc_new(&checkpoint->alloc, (size_t)rvit_safetensors_count(checkpoint->file));
    if (checkpoint->used == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    return rvit_vit_config(checkpoint->file, lenient, checkpoint->used, &checkpoint->info);
}

rvit_status rvit_checkpoint_open(const char *path, const rvit_checkpoint_desc *desc, rvit_checkpoint **out)
{
    rvit_checkpoint_desc own = RVIT_CHECKPOINT_DESC_INIT;
    if (path == NULL || out == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint: %s is NULL", path == NULL ? "path" : "out");
    if (desc != NULL)
        RVIT_TRY(rvit_args_copy(&own, sizeof own, desc, "checkpoint desc"));
    if (own.lenient != 0 && own.lenient != 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: lenient is %d, expected 0 or 1", (int)own.lenient);
    if (own.allocator != NULL && (own.allocator->allocate == NULL || own.allocator->release == NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: allocator lacks allocate or release");

    rvit_alloc alloc;
    rvit_alloc_init(&alloc, own.allocator);
    rvit_checkpoint *checkpoint = rvit_alloc_new(&alloc, sizeof *checkpoint);
    if (checkpoint == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    rvit_alloc_copy(&checkpoint->alloc, &alloc);
    const rvit_status status = load(checkpoint, path, own.lenient);
    if (status != RVIT_OK) {
        rvit_checkpoint_destroy(checkpoint);
        return status;
    }
    const rvit_model_info *info = &checkpoint->info;
    rvit_log(RVIT_LOG_INFO, "%s: %s, %" PRId64 " parameters, %d tensors, %d of them unused", rvit_safetensors_path(checkpoint->file),
             info->architecture, info->n_parameters, (int)info->n_tensors, (int)info->n_unknown);
    *out = checkpoint;
    return RVIT_OK;
}

void rvit_checkpoint_destroy(rvit_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    rvit_safetensors_close(checkpoint->file);
    rvit_alloc_free(&checkpoint->alloc, checkpoint->used);
    rvit_alloc alloc;
    rvit_alloc_copy(&alloc, &checkpoint->alloc);
    rvit_alloc_free(&alloc, checkpoint);
}

rvit_status rvit_checkpoint_get_info(const rvit_checkpoint *checkpoint, rvit_model_info *out_info)
{
    if (checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint is NULL");
    return rvit_args_return(out_info, &checkpoint->info, sizeof checkpoint->info, "model info");
}

rvit_status rvit_checkpoint_tensor(const rvit_checkpoint *checkpoint, int32_t index, const char **out_name, const char **out_dtype,
                                   int32_t *out_rank, const int64_t **out_shape, int32_t *out_used)
{
    if (checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint is NULL");
    const int32_t count = rvit_safetensors_count(checkpoint->file);
    if (index < 0 || index >= count)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint: there is no tensor %d, the file has %d", (int)index, (int)count);
    const rvit_file_tensor *tensor = rvit_safetensors_tensor(checkpoint->file, index);
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
    return checkpoint == NULL || key == NULL ? NULL : rvit_safetensors_metadata(checkpoint->file, key);
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

rvit_status rvit_checkpoint_read(const rvit_checkpoint *checkpoint, const char *name, int64_t n, float *out_values)
{
    const rvit_safetensors *file = checkpoint->file;
    const char *path = rvit_safetensors_path(file);
    const int32_t index = rvit_safetensors_find(file, name);
    char shown[SHOWN_NAME];
    rvit_printable(shown, sizeof shown, name);
    if (index < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s' is missing", path, shown);
    const rvit_file_tensor *tensor = rvit_safetensors_tensor(file, index);
    if (tensor->dtype < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': dtype %s; weights are F32, F16 or BF16", path, shown, tensor->dtype_name);
    if (tensor->n_elements != n)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': expected %" PRId64 " values, found %" PRId64, path, shown, n, tensor->n_elements);

    uint8_t bytes[4 * CHUNK];
    const int64_t size = rvit_dtype_size((rvit_dtype)tensor->dtype);
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t some = n - done < CHUNK ? n - done : CHUNK;
        RVIT_TRY(rvit_safetensors_read(file, index, done * size, some * size, bytes));
        convert(bytes, tensor->dtype, some, out_values + done);
    }
    return RVIT_OK;
}
