/* The backend's kernels, compiled for the processor. */
#include "backend_cuda/kernels/bucket.cu"
#include "backend_cuda/kernels/kernels.cu"

#include "runtime/kernel.h"

#define RVIT_CU_KERNEL(name, ...) EMU_KERNEL(name)
#include "backend_cuda/kernels/kernels.def"
EMU_KERNEL(choose_bucket)
