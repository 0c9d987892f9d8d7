/* Rows of 8 bits are not supported yet: rvit_cu_supports refuses them. */
#include "backend_cuda/cu.h"

rvit_status rvit_cu_quantize(rvit_cu_queue *queue, const rvit_quantize_args *args)
{
    (void)queue, (void)args;
    return rvit_fail(RVIT_INTERNAL, "cuda: rows of 8 bits are not supported");
}
