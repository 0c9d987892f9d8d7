/* Graph kernels whose parameters change between launches: the input arrays of a session's run. */
#include <string.h>

#include "backend_cuda/cu.h"

#define RVIT_CU_KERNEL(name, params, ...) _Static_assert(sizeof(params) <= RVIT_CU_MAX_PARAMS, "room for the params of " #name);
#include "backend_cuda/kernels/kernels.def"

static const size_t sizes[] = {
#define RVIT_CU_KERNEL(name, params, ...) [RVIT_CU_##name] = sizeof(params),
#include "backend_cuda/kernels/kernels.def"
};

void rvit_cu_node_keep(rvit_cu_node *node, rvit_cu_kernel kernel, rvit_cu_grid grid, const void *params)
{
    node->kernel = kernel;
    node->grid = grid;
    node->known = 1;
    memcpy(node->params, params, sizes[kernel]);
}

#if CUDA_VERSION >= 13000
int rvit_cu_nodes_work(const rvit_cu_device *device)
{
    return device->driver->cuStreamGetCaptureInfo != NULL && device->driver->cuGraphExecKernelNodeSetParams != NULL;
}

rvit_status rvit_cu_node_find(const rvit_cu_queue *queue, rvit_cu_node *node)
{
    CUstreamCaptureStatus status;
    const CUgraphNode *last = NULL;
    size_t n_last = 0;
    RVIT_CU_TRY(queue->device->driver, cuStreamGetCaptureInfo, (queue->stream, &status, NULL, NULL, &last, NULL, &n_last));
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE || n_last != 1 || !node->known)
        return rvit_fail(RVIT_INTERNAL, "cuda: an op that launches update is not a single kernel node");
    node->node = last[0];
    return RVIT_OK;
}

rvit_status rvit_cu_node_change(const rvit_cu_queue *queue, rvit_cu_kernel kernel, rvit_cu_grid grid, int32_t threads, int32_t shared,
                                void *params)
{
    rvit_cu_node *node = queue->node;
    if (node->known && node->kernel == kernel && memcmp(&node->grid, &grid, sizeof grid) == 0 &&
        memcmp(node->params, params, sizes[kernel]) == 0)
        return RVIT_OK;
    void *arguments[] = {params};
    const CUDA_KERNEL_NODE_PARAMS node_params = {
        .func = queue->device->kernels[kernel],
        .gridDimX = grid.x,
        .gridDimY = grid.y,
        .gridDimZ = grid.z,
        .blockDimX = (unsigned)threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = (unsigned)shared,
        .kernelParams = arguments,
    };
    node->known = 0;
    RVIT_CU_TRY(queue->device->driver, cuGraphExecKernelNodeSetParams, (queue->changed, node->node, &node_params));
    rvit_cu_node_keep(node, kernel, grid, params);
    return RVIT_OK;
}
#else
int rvit_cu_nodes_work(const rvit_cu_device *device)
{
    (void)device;
    return 0;
}

rvit_status rvit_cu_node_find(const rvit_cu_queue *queue, rvit_cu_node *node)
{
    (void)queue, (void)node;
    return rvit_fail(RVIT_INTERNAL, "cuda: this build cannot update graph kernels (CUDA 13)");
}

rvit_status rvit_cu_node_change(const rvit_cu_queue *queue, rvit_cu_kernel kernel, rvit_cu_grid grid, int32_t threads, int32_t shared,
                                void *params)
{
    (void)kernel, (void)grid, (void)threads, (void)shared, (void)params;
    return rvit_cu_node_find(queue, queue->node);
}
#endif
