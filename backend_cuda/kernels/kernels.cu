/* Every kernel of kernels.def, in one translation unit so that one image results. */
#include "attention.cuh"
#include "attention_f32.cuh"
#include "attention_short.cuh"
#include "epilogue.cuh"
#include "head.cuh"
#include "layernorm.cuh"
#include "linear.cuh"
#include "linear_f32.cuh"
#include "linear_single.cuh"
#include "match.cuh"
#include "mean.cuh"
#include "merge.cuh"
#include "pack.cuh"
#include "patchify.cuh"
#include "select.cuh"

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
