/* Copies: small ones by a kernel, which starts sooner than a copy engine, large ones by the driver. */
#include "backend_cuda/cu.h"

enum { SMALL = 1 << 16 };

rvit_status rvit_cu_copy(rvit_cu_queue *queue, const rvit_copy_args *args)
{
    queue->copies++;
    const uintptr_t source = (uintptr_t)rvit_cu_at(args->source), destination = (uintptr_t)rvit_cu_at(args->destination);
    if (args->size > SMALL) {
        queue->after_own_kernel = 0;
        RVIT_CU_TRY(queue->device->driver, cuMemcpyAsync, (destination, source, (size_t)args->size, queue->stream));
        queue->launches++;
        return RVIT_OK;
    }
    rvit_cu_copy_params params = {
        .source = (const void *)source,
        .destination = (void *)destination,
        .size = args->size,
        .wide = ((source | destination | (uintptr_t)args->size) & 15) == 0,
    };
    const int64_t items = args->size / (params.wide ? 16 : 4);
    return rvit_cu_launch(queue, RVIT_CU_copy, rvit_cu_tile_ctas(&queue->device->machine, items, 256, 4), 256, 0, &params);
}
