/* The backend's kernels, compiled for the CPU. */
#include "backend_cuda/kernels/kernels.cu"

#include "runtime/kernel.h"

enum { CLUSTER_OF_FIXED = 1, CLUSTER_OF_DYNAMIC = 1, CLUSTER_OF_MAPPED = 1, CLUSTER_OF_PAIRED = 2 };
#define RVIT_CU_KERNEL(name, params, threads, ctas, wait, shared, ...) EMU_KERNEL_OF_CLUSTERS(name, CLUSTER_OF_##shared)
#include "backend_cuda/kernels/kernels.def"
