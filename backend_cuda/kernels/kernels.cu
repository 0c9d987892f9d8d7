/* All kernels of kernels.def, in one translation unit for one module. */
#define RVIT_CU_SOURCES
#include "kernels.def"
#undef RVIT_CU_SOURCES

#include "../tile.h"

/* Selects values for architectures with RVIT_CU_LARGE_SMEM bytes of shared memory per SM. Code for other architectures also runs there,
   and leaves memory unused. */
#if defined(__CUDA_ARCH__) && RVIT_CU_IS_LARGE(__CUDA_ARCH__ / 10)
#define LARGE_SMEM(elsewhere, here) here
#else
#define LARGE_SMEM(elsewhere, here) elsewhere
#endif

/* From compute capability 10.0 on, the same code needs more registers, so fewer CTAs fit an SM. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define BLACKWELL(here, elsewhere) here
#else
#define BLACKWELL(here, elsewhere) elsewhere
#endif

#if defined(RVIT_HOPPER)
#define HOPPER(here, elsewhere) here
#else
#define HOPPER(here, elsewhere) elsewhere
#endif

/* CTAs per cluster. */
#define CLUSTERED(n) HOPPER(n, 1)
#if defined(RVIT_HOPPER) && !defined(RVIT_EMULATION)
#define CLUSTER_PAIRED __cluster_dims__(2, 1, 1)
#else
#define CLUSTER_PAIRED
#endif
#define CLUSTER_FIXED
#define CLUSTER_DYNAMIC
#define CLUSTER_MAPPED

/* Tensor maps are read directly from the kernel's parameters. */
#define PARAM_SPACE_FIXED
#define PARAM_SPACE_DYNAMIC
#define PARAM_SPACE_MAPPED __grid_constant__
#define PARAM_SPACE_PAIRED __grid_constant__
#define WAIT_BEFORE wait_for_previous();
#define WAIT_INSIDE
#define RVIT_CU_KERNEL(name, type, threads, ctas, wait, shared, ...)                   \
    extern "C" __global__ void CLUSTER_##shared __launch_bounds__(threads, ctas)       \
        name(const PARAM_SPACE_##shared type params)                                   \
    {                                                                                  \
        launch_next();                                                                 \
        WAIT_##wait __VA_ARGS__(params);                                               \
    }
#include "kernels.def"
