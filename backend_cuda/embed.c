#include "backend_cuda/cu.h"

rvit_status rvit_cu_embed(rvit_cu_queue *queue, const rvit_embed_args *args)
{
    (void)queue, (void)args;
    return rvit_fail(RVIT_INTERNAL, "embed: not supported");
}
