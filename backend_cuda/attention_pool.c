#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(attention_pool);

rvit_status rvit_cu_attention_pool(rvit_cu_queue *queue, const rvit_attention_pool_args *args)
{
    if (args->n_images == 0)
        return RVIT_OK;
    rvit_cu_attention_pool_params params = {
        .x = rvit_cu_at(args->x),
        .weight = rvit_cu_at(args->weight),
        .logits = rvit_cu_at(args->logits),
        .sizes = rvit_cu_at(args->sizes),
        .bias = rvit_cu_at(args->bias),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .out = rvit_cu_at(args->out),
        .probs = rvit_cu_at(args->probs),
        .logits_stride = args->logits_stride,
        .max_len = args->max_len,
        .rows = (int32_t)args->rows,
        .dim = args->dim,
        .n_heads = args->n_heads,
        .head_dim = args->head_dim,
        .out_dtype = (int32_t)args->out_dtype,
    };
    return rvit_cu_launch(queue, kernels[args->dtype], (int64_t)args->n_images * args->n_heads, RVIT_CU_ATTENTION_POOL_WARPS * 32, 0,
                          &params);
}
