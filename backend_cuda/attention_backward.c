#include "backend_cuda/cu.h"

rvit_status rvit_cu_attention_backward(rvit_cu_queue *queue, const rvit_attention_backward_args *args)
{
    (void)queue, (void)args;
    return rvit_fail(RVIT_INTERNAL, "cuda: the gradient of attention is not supported");
}
