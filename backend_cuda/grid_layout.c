#include "backend_cuda/cu.h"

rvit_status rvit_cu_grid_layout(rvit_cu_queue *queue, const rvit_grid_layout_args *args)
{
    (void)queue, (void)args;
    return rvit_fail(RVIT_INTERNAL, "grid_layout: not supported");
}
