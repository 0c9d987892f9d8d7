/* The backends that are built in, in order of preference. */
#include "core/contract/backend.h"

const rvit_backend_api *const rvit_backends[] = {
#ifdef RVIT_HAVE_CUDA
    &rvit_backend_cuda,
#endif
#ifdef RVIT_HAVE_VULKAN
    &rvit_backend_vulkan,
#endif
    &rvit_backend_cpu,
};
const int rvit_n_backends = (int)(sizeof rvit_backends / sizeof rvit_backends[0]);
