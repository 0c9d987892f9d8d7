/* The public functions that read tensors of files. */
#include "core/file/public_tensors.h"

#include <inttypes.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/printable.h"
#include "core/base/status.h"

enum { CHUNK = 1024 };

rvit_status rvit_tensors_open(const char *path, const rvit_allocator *allocator, rvit_tensors **out_tensors)
{
    RVIT_ENTRY;
    if (path == NULL || out_tensors == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_tensors_open: %s is NULL", path == NULL ? "path" : "out_tensors");
    if (allocator != NULL && (allocator->allocate == NULL || allocator->release == NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_tensors_open: allocator lacks allocate or release");
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, allocator);
    rvit_tensors *tensors = rvit_alloc_new(&alloc, sizeof *tensors);
    RVIT_TRY_MEMORY(tensors);
    rvit_alloc_copy(&tensors->alloc, &alloc);
    const rvit_status status = rvit_tensor_set_open(path, &tensors->alloc, &tensors->set);
    if (status != RVIT_OK) {
        rvit_tensors_destroy(tensors);
        return status;
    }
    *out_tensors = tensors;
    return RVIT_OK;
}

void rvit_tensors_destroy(rvit_tensors *tensors)
{
    RVIT_ENTRY;
    if (tensors == NULL)
        return;
    rvit_tensor_set_close(tensors->set);
    rvit_alloc alloc;
    rvit_alloc_copy(&alloc, &tensors->alloc);
    rvit_alloc_free(&alloc, tensors);
}

int32_t rvit_tensors_count(const rvit_tensors *tensors)
{
    return tensors == NULL ? 0 : rvit_tensor_set_count(tensors->set);
}

int32_t rvit_tensors_find(const rvit_tensors *tensors, const char *name)
{
    return tensors == NULL || name == NULL ? -1 : rvit_tensor_set_find(tensors->set, name);
}

static rvit_status find(const char *call, const rvit_tensors *tensors, int32_t index, const rvit_file_tensor **out)
{
    if (tensors == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: tensors is NULL", call);
    const int32_t count = rvit_tensor_set_count(tensors->set);
    if (index < 0 || index >= count)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: tensor index is %d, but the file has %d tensors", call, (int)index, (int)count);
    *out = rvit_tensor_set_tensor(tensors->set, index);
    return RVIT_OK;
}

rvit_status rvit_tensors_get(const rvit_tensors *tensors, int32_t index, rvit_tensor_info *out_info)
{
    RVIT_ENTRY;
    const rvit_file_tensor *tensor = NULL;
    RVIT_TRY(find("rvit_tensors_get", tensors, index, &tensor));
    rvit_tensor_info info = RVIT_TENSOR_INFO_INIT;
    info.name = tensor->name;
    info.dtype = tensor->dtype_name;
    info.rank = tensor->rank;
    info.shape = tensor->shape;
    info.size = tensor->size;
    info.used = tensors->used != NULL && tensors->used[index];
    info.block = -1;
    if (tensors->layers != NULL && tensors->layers[index] >= 0) {
        info.block = tensors->layers[index] / 4;
        info.layer = (rvit_block_layer)(tensors->layers[index] % 4);
    }
    return rvit_args_return(out_info, &info, sizeof info, "tensor info");
}

rvit_status rvit_tensors_read(const rvit_tensors *tensors, int32_t index, int64_t first, int64_t n, float *out_values)
{
    RVIT_ENTRY;
    const rvit_file_tensor *tensor = NULL;
    RVIT_TRY(find("rvit_tensors_read", tensors, index, &tensor));
    if (out_values == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_tensors_read: out_values is NULL");
    if (first < 0 || n < 0 || n > tensor->n_elements || first > tensor->n_elements - n)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "rvit_tensors_read: cannot read %" PRId64 " values from value %" PRId64 ": tensor '%s' has %" PRId64, n, first,
                         rvit_shown(tensor->name).text, tensor->n_elements);
    if (tensor->dtype < 0)
        return rvit_fail(RVIT_BAD_FILE, "%s: tensor '%s': dtype is %s, expected F32, F16 or BF16", rvit_tensor_set_path(tensors->set),
                         rvit_shown(tensor->name).text, tensor->dtype_name);
    const int64_t size = rvit_dtype_size((rvit_dtype)tensor->dtype);
    uint8_t bytes[4 * CHUNK];
    for (int64_t done = 0; done < n; done += CHUNK) {
        const int64_t some = n - done < CHUNK ? n - done : CHUNK;
        RVIT_TRY(rvit_tensor_set_read(tensors->set, index, (first + done) * size, some * size, bytes));
        rvit_values_of(bytes, tensor->dtype, some, out_values + done);
    }
    return RVIT_OK;
}

rvit_status rvit_tensors_read_bytes(const rvit_tensors *tensors, int32_t index, int64_t first, int64_t n, void *out_bytes)
{
    RVIT_ENTRY;
    const rvit_file_tensor *tensor = NULL;
    RVIT_TRY(find("rvit_tensors_read_bytes", tensors, index, &tensor));
    if (out_bytes == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_tensors_read_bytes: out_bytes is NULL");
    return rvit_tensor_set_read(tensors->set, index, first, n, out_bytes);
}
