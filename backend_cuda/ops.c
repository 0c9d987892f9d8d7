/* Dispatches ops, reserves their scratch memory, and refuses what the backend does not support. */
#include "backend_cuda/cu.h"

rvit_status rvit_cu_run(rvit_cu_queue *queue, const rvit_op *op)
{
    queue->hints = op->hints;
    switch (op->type) {
#define RVIT_OP(TYPE, name) \
    case RVIT_OP_##TYPE:    \
        return rvit_cu_##name(queue, &op->name);
#include "core/contract/ops.def"
    case RVIT_OP_COUNT:
        break;
    }
    return rvit_fail(RVIT_INTERNAL, "cuda: %d is not an op type", (int)op->type);
}

rvit_status rvit_cu_reserve(rvit_cu_queue *queue, const rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_SELECT:
        return rvit_cu_select_reserve(queue, &op->select);
    case RVIT_OP_BIPARTITE_MATCH:
        return rvit_cu_bipartite_match_reserve(queue, &op->bipartite_match);
    case RVIT_OP_LINEAR:
        queue->hints = op->hints;
        return rvit_cu_linear_reserve(queue, &op->linear);
    default:
        return RVIT_OK;
    }
}

void rvit_cu_queue_close(rvit_cu_queue *queue)
{
    rvit_cu_lt_forget(queue);
    rvit_cu_scratch_free(queue, &queue->layout);
    rvit_cu_scratch_free(queue, &queue->sorted);
    rvit_cu_scratch_free(queue, &queue->workspace);
}

/* Attention, its gradient and received attention index an image with 32 bits. */
static const char *supports_heads(int64_t max_len, int64_t rows, int32_t n_heads, const int64_t *strides, int n_strides)
{
    const int64_t len = max_len < rows ? max_len : rows;
    for (int i = 0; i < n_strides; i++)
        if ((len + 64) * strides[i] > INT32_MAX)
            return "an image of 2^31 elements or more";
    return n_heads > RVIT_CU_MAX_GRID_Z ? "more than 65535 heads" : NULL;
}

/* Ops that read or write 8-bit values. */
static const char *supports_quantized(const rvit_device *base, rvit_dtype dtype)
{
    if (dtype == RVIT_I8)
        return "int8 is slower than f16 on CUDA; use e4m3";
    if (dtype == RVIT_E4M3 && !rvit_cu_device_of(base)->e4m3)
        return "e4m3 needs compute capability 8.9 and kernels compiled for 8.9 or later";
    return NULL;
}

const char *rvit_cu_supports(const rvit_device *base, const rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_ATTENTION: {
        const rvit_attention_args *a = &op->attention;
        const int64_t strides[] = {a->q_stride, a->k_stride, a->v_stride, a->out_stride};
        return supports_heads(a->max_len, a->rows, a->n_heads, strides, 4);
    }
    case RVIT_OP_ATTENTION_BACKWARD: {
        const rvit_attention_backward_args *a = &op->attention_backward;
        const int64_t strides[] = {a->q_stride,     a->k_stride,   a->v_stride,   a->out_stride,
                                   a->d_out_stride, a->d_q_stride, a->d_k_stride, a->d_v_stride};
        return supports_heads(a->max_len, a->rows, a->n_heads, strides, 8);
    }
    case RVIT_OP_ATTENTION_RECEIVED: {
        const rvit_attention_received_args *a = &op->attention_received;
        const int64_t strides[] = {a->q_stride, a->k_stride};
        return supports_heads(a->max_len, a->rows, a->n_heads, strides, 2);
    }
    case RVIT_OP_HEAD:
        if (((double)op->head.n_images / RVIT_CU_HEAD_IMAGES + 1) * (op->head.n_classes / (RVIT_CU_HEAD_WARPS * RVIT_CU_HEAD_CLASSES) + 1) >
            INT32_MAX)
            return "the grid would exceed 2^31 - 1 thread blocks";
        return NULL;
    case RVIT_OP_MEAN:
        if ((double)op->mean.n_images * (op->mean.dim / RVIT_CU_MEAN_COLUMNS + 1) > INT32_MAX)
            return "the grid would exceed 2^31 - 1 thread blocks";
        return NULL;
    case RVIT_OP_POOL:
        if ((double)op->pool.n_images * (op->pool.dim / (RVIT_CU_POOL_PIECES * 128) + 1) > INT32_MAX)
            return "the grid would exceed 2^31 - 1 thread blocks";
        return NULL;
    case RVIT_OP_ATTENTION_POOL:
        if ((double)op->attention_pool.n_images * op->attention_pool.n_heads > INT32_MAX)
            return "the grid would exceed 2^31 - 1 thread blocks";
        return NULL;
    case RVIT_OP_LINEAR:
        if (op->linear.rows.capacity > INT32_MAX - 1024)
            return "more than 2^31 - 1024 rows";
        if (op->linear.out_dtype == RVIT_E4M3)
            return rvit_cu_linear_lacks_e4m3(&rvit_cu_device_of(base)->machine, op->linear.out_features, op->linear.gated);
        return supports_quantized(base, op->linear.dtype);
    case RVIT_OP_LAYERNORM:
        return supports_quantized(base, op->layernorm.out_dtype);
    case RVIT_OP_QUANTIZE:
        return supports_quantized(base, op->quantize.out_dtype);
    case RVIT_OP_UNPACK:
        if (op->unpack.dim > 1 << 28)
            return "rows of more than 2^28 elements";
        return NULL;
    default:
        return NULL;
    }
}
