/* The backends that are built in, in order of preference. */
#include "core/backend.h"

const rvit_backend_api *const rvit_backends[] = {
#ifdef RVIT_HAVE_VULKAN
    &rvit_backend_vulkan,
#endif
    &rvit_backend_cpu,
#ifdef RVIT_HAVE_CUDA
    /* Last, so that AUTO does not take it: it has not run on a GPU yet. */
    &rvit_backend_cuda,
#endif
};
const int rvit_n_backends = (int)(sizeof rvit_backends / sizeof rvit_backends[0]);
