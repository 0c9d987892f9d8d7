/* Checks whether an op may run: its rules, its arrays and their overlaps, and what the device supports. */
#include "core/base/status.h"
#include "core/contract/op.h"
#include "core/device/device.h"

static rvit_status check_access(const rvit_device *device, const rvit_op *op, const rvit_access *access)
{
    const char *op_name = rvit_op_name(op->type);
    const rvit_view view = access->view;
    if (view.buffer == NULL)
        return access->optional || op->by_launch ? RVIT_OK : rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is missing", op_name, access->name);
    if (view.buffer->device != device)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is in a buffer of another device", op_name, access->name);
    if (view.offset < 0 || view.offset % access->alignment != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s is at offset %lld, expected a multiple of %d", op_name, access->name,
                         (long long)view.offset, (int)access->alignment);
    if (access->size > view.buffer->size || view.offset > view.buffer->size - access->size)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s needs %lld bytes from offset %lld, but its buffer holds %lld", op_name,
                         access->name, (long long)access->size, (long long)view.offset, (long long)view.buffer->size);
    if (device->max_array > 0 && access->size > device->max_array && op->type != RVIT_OP_COPY)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: %s has %lld bytes, but %s supports arrays of at most %lld", op_name, access->name,
                         (long long)access->size, device->info.name, (long long)device->max_array);
    return RVIT_OK;
}

/* Where an array begins in its buffer's memory. Wrapped buffers may share memory, so offsets are not enough. */
static int64_t address_of(const rvit_access *access)
{
    return (int64_t)access->view.buffer->address + access->view.offset;
}

static int overlap(const rvit_access *a, const rvit_access *b)
{
    return a->view.buffer != NULL && b->view.buffer != NULL && a->view.buffer->memory == b->view.buffer->memory &&
           rvit_ranges_overlap(address_of(a), a->size, address_of(b), b->size);
}

/* The stride, in elements, of a slot whose rows may interleave with those of another such slot; 0: no such slot. */
static int64_t interleaved_stride(const rvit_op *op, int slot)
{
    const rvit_attention_args *f = &op->attention;
    const rvit_attention_backward_args *b = &op->attention_backward;
    switch (op->type) {
    case RVIT_OP_ROPE:
        return slot == RVIT_SLOT(rope, q) ? op->rope.q_stride : slot == RVIT_SLOT(rope, k) ? op->rope.k_stride : 0;
    case RVIT_OP_ATTENTION:
        return slot == RVIT_SLOT(attention, q)     ? f->q_stride
               : slot == RVIT_SLOT(attention, k)   ? f->k_stride
               : slot == RVIT_SLOT(attention, v)   ? f->v_stride
               : slot == RVIT_SLOT(attention, out) ? f->out_stride
                                                   : 0;
    case RVIT_OP_ATTENTION_BACKWARD:
        return slot == RVIT_SLOT(attention_backward, d_q)   ? b->d_q_stride
               : slot == RVIT_SLOT(attention_backward, d_k) ? b->d_k_stride
               : slot == RVIT_SLOT(attention_backward, d_v) ? b->d_v_stride
                                                            : 0;
    default:
        return 0;
    }
}

/* Bytes of a row of such a slot, without the gap after it, and of an element. */
static int64_t interleaved_width(const rvit_op *op, int64_t *out_size)
{
    if (op->type == RVIT_OP_ROPE) {
        *out_size = rvit_dtype_size(op->rope.dtype);
        return *out_size * op->rope.n_heads * op->rope.head_dim;
    }
    const int forward = op->type == RVIT_OP_ATTENTION;
    *out_size = rvit_dtype_size(forward ? op->attention.dtype : op->attention_backward.dtype);
    return *out_size * (forward ? (int64_t)op->attention.n_heads * op->attention.head_dim
                                : (int64_t)op->attention_backward.n_heads * op->attention_backward.head_dim);
}

/* Whether the rows of two overlapping arrays interleave, as those of d_q, d_k and d_v do in a packed gradient. */
static int interleaved(const rvit_op *op, const rvit_access *accesses, int i, int j)
{
    const int64_t stride = interleaved_stride(op, i);
    if (stride == 0 || stride != interleaved_stride(op, j))
        return 0;
    int64_t size;
    const int64_t width = interleaved_width(op, &size), period = stride * size;
    const int64_t distance = (address_of(&accesses[j]) - address_of(&accesses[i])) % period;
    const int64_t ahead = distance < 0 ? distance + period : distance;
    return ahead >= width && ahead <= period - width;
}

static int in_place(const rvit_access *accesses, int i, int j)
{
    return accesses[i].in_place == j && address_of(&accesses[i]) == address_of(&accesses[j]);
}

rvit_status rvit_op_check(rvit_device *device, rvit_op *op)
{
    const char *name = rvit_op_name(op->type);
    RVIT_TRY(rvit_op_prepare(op));
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    const int n = rvit_op_accesses(op, accesses);
    for (int i = 0; i < n; i++)
        RVIT_TRY(check_access(device, op, &accesses[i]));
    for (int i = 0; i < n; i++) {
        if (!accesses[i].writes)
            continue;
        for (int j = 0; j < n; j++) {
            if (j != i && overlap(&accesses[i], &accesses[j]) && !in_place(accesses, i, j) && !interleaved(op, accesses, i, j))
                return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s overlaps %s", name, accesses[i].name, accesses[j].name);
        }
    }
    const char *reason = device->api->supports(device, op);
    if (reason != NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: %s", name, reason);
    return RVIT_OK;
}
