/* Assigns offsets to the tensors of a model, then reads, converts and writes them. */
#include "core/weights/loader.h"

#include <string.h>

#include "core/base/half.h"
#include "core/model/checkpoint.h"

/* Staging memory is filled in order and copied in parts, so that the device copies while the host keeps reading. The host waits only when
   it is full. */
#define PART_SIZE (1 << 19)

rvit_status rvit_weights_place(rvit_weights_loader *l, int64_t n, rvit_dtype dtype, rvit_view *view)
{
    view->buffer = l->model->weights;
    view->offset = l->size;
    l->size += (n * rvit_dtype_size(dtype) + 255) / 256 * 256;
    if (n > l->largest)
        l->largest = n;
    return RVIT_OK;
}

/* A copy has a multiple of 4 bytes; the offsets leave room for an odd element. */
rvit_status rvit_weights_copy_staged(rvit_weights_loader *l)
{
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = (rvit_view){l->staging, l->copied - l->start};
    args.destination = (rvit_view){l->model->weights, l->copied};
    args.size = (l->staged - l->copied + 3) / 4 * 4;
    l->copied += args.size;
    return args.size == 0 ? RVIT_OK : rvit_copy(l->stream, &args);
}

/* Provides staging memory for the weights from byte `at` on. *size: the requested bytes; on return those available, enough for at least one
   element of any type. */
static rvit_status stage(rvit_weights_loader *l, int64_t at, int64_t *size, void **out_host)
{
    if (l->staged - l->copied >= PART_SIZE)
        RVIT_TRY(rvit_weights_copy_staged(l));
    if (at + 256 > l->start + l->staging->size) {
        RVIT_TRY(rvit_weights_copy_staged(l));
        RVIT_TRY(rvit_stream_synchronize(l->stream));
        l->start = l->copied = at;
    }
    const int64_t room = l->start + l->staging->size - at;
    const int64_t max = room < PART_SIZE ? room : PART_SIZE;
    if (*size > max)
        *size = max;
    *out_host = (uint8_t *)l->staging->host + (at - l->start);
    l->staged = at + *size;
    return RVIT_OK;
}

rvit_status rvit_weights_write(rvit_weights_loader *l, int64_t n, rvit_dtype dtype, rvit_view view)
{
    const int64_t element = rvit_dtype_size(dtype);
    for (int64_t done = 0; done < n;) {
        int64_t size = (n - done) * element;
        void *host;
        RVIT_TRY(stage(l, view.offset + done * element, &size, &host));
        const int64_t some = size / element;
        if (dtype == RVIT_F32)
            memcpy(host, l->values + done, (size_t)size);
        else
            rvit_narrow(l->values + done, some, dtype, host);
        done += some;
    }
    return RVIT_OK;
}

rvit_status rvit_weights_write_raw(rvit_weights_loader *l, const void *bytes, int64_t size, rvit_view view)
{
    for (int64_t done = 0; done < size;) {
        int64_t some = size - done;
        void *host;
        RVIT_TRY(stage(l, view.offset + done, &some, &host));
        memcpy(host, (const uint8_t *)bytes + done, (size_t)some);
        done += some;
    }
    return RVIT_OK;
}

rvit_status rvit_weights_name(const rvit_weights_loader *l, rvit_role role, int32_t index, char name[RVIT_NAME_SIZE])
{
    if (rvit_family_name(l->checkpoint->config.family, role, index, name) == NULL)
        return rvit_fail(RVIT_INTERNAL, "%s checkpoints have no tensor for role %d", l->checkpoint->config.family->name, (int)role);
    return RVIT_OK;
}

rvit_status rvit_weights_read(const rvit_weights_loader *l, rvit_role role, int32_t index, int64_t n, float *values)
{
    char name[RVIT_NAME_SIZE];
    RVIT_TRY(rvit_weights_name(l, role, index, name));
    return rvit_checkpoint_read(l->checkpoint, &l->model->device->alloc, name, n, values);
}

int rvit_weights_has(const rvit_weights_loader *l, rvit_role role)
{
    return l->checkpoint->config.family->names[role] != NULL;
}

rvit_status rvit_weights_load(rvit_weights_loader *l, rvit_role role, int32_t index, int64_t n, rvit_dtype dtype, rvit_view *view)
{
    RVIT_TRY(rvit_weights_place(l, n, dtype, view));
    if (l->stream == NULL)
        return RVIT_OK;
    char name[RVIT_NAME_SIZE];
    RVIT_TRY(rvit_weights_name(l, role, index, name));
    const int64_t element = rvit_dtype_size(dtype);
    for (int64_t done = 0; done < n;) {
        int64_t size = (n - done) * element;
        void *host;
        RVIT_TRY(stage(l, view->offset + done * element, &size, &host));
        RVIT_TRY(rvit_checkpoint_read_part(l->checkpoint, &l->model->device->alloc, name, n, done, size / element, dtype, host));
        done += size / element;
    }
    return RVIT_OK;
}

rvit_status rvit_weights_load_zeros(rvit_weights_loader *l, int64_t n, rvit_dtype dtype, rvit_view *view)
{
    RVIT_TRY(rvit_weights_place(l, n, dtype, view));
    if (l->stream == NULL)
        return RVIT_OK;
    memset(l->values, 0, (size_t)n * sizeof *l->values);
    return rvit_weights_write(l, n, dtype, *view);
}

rvit_status rvit_weights_load_padded(rvit_weights_loader *l, rvit_role role, int32_t index, const int64_t size[2], const int64_t padded[2],
                                     rvit_dtype dtype, rvit_view *view)
{
    const int64_t n = padded[0] * padded[1];
    if (n == size[0] * size[1])
        return rvit_weights_load(l, role, index, n, dtype, view);
    RVIT_TRY(rvit_weights_place(l, n, dtype, view));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_weights_read(l, role, index, size[0] * size[1], l->more));
    memset(l->values, 0, (size_t)n * sizeof *l->values);
    for (int64_t row = 0; row < size[0]; row++)
        memcpy(l->values + row * padded[1], l->more + row * size[1], (size_t)size[1] * sizeof *l->values);
    return rvit_weights_write(l, n, dtype, *view);
}

rvit_status rvit_weights_load_norm_of(rvit_weights_loader *l, rvit_role gamma, rvit_role beta, int32_t block, int64_t n, int64_t padded,
                                      rvit_view *out_gamma, rvit_view *out_beta)
{
    const int64_t size[2] = {1, n}, wide[2] = {1, padded};
    RVIT_TRY(rvit_weights_load_padded(l, gamma, block, size, wide, RVIT_F32, out_gamma));
    return l->checkpoint->config.norm_beta ? rvit_weights_load_padded(l, beta, block, size, wide, RVIT_F32, out_beta) : RVIT_OK;
}

rvit_status rvit_weights_load_norm(rvit_weights_loader *l, rvit_role gamma, rvit_role beta, int32_t block, rvit_view *out_gamma,
                                   rvit_view *out_beta)
{
    return rvit_weights_load_norm_of(l, gamma, beta, block, l->model->info.dim, l->model->info.dim, out_gamma, out_beta);
}
