/* Every kernel of kernels.def, in one translation unit so that one image results. */
#define RVIT_CU_SOURCES
#include "kernels.def"
#undef RVIT_CU_SOURCES

#include "../tile.h"

/* Where an SM has RVIT_CU_ROOMY bytes of shared memory. What is compiled for others runs there too, and leaves memory unused. */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
#define ROOMY(lean, roomy) roomy
#else
#define ROOMY(lean, roomy) lean
#endif

#define WAIT_BEFORE wait_for_previous();
#define WAIT_INSIDE
#define RVIT_CU_KERNEL(name, type, threads, ctas, wait, shared, ...)                    \
    extern "C" __global__ void __launch_bounds__(threads, ctas) name(const type params) \
    {                                                                                   \
        launch_next();                                                                  \
        WAIT_##wait __VA_ARGS__(params);                                                \
    }
#include "kernels.def"
