/* A driver too old for the backend: it only has the first functions that the backend looks for. */
#include <cuda.h>

CUresult cuInit(unsigned int flags)
{
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 10020;
    return CUDA_SUCCESS;
}
