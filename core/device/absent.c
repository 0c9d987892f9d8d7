/* The functions of include/raggedvit/cuda.h and vulkan.h in builds without these backends, so that every build exports the same functions.
 */
#include <raggedvit/cuda.h>
#include <raggedvit/vulkan.h>

#include "core/base/status.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ABSENT(backend, function, ...)                                                                              \
    rvit_status function(__VA_ARGS__)                                                                               \
    {                                                                                                               \
        return rvit_fail(RVIT_UNAVAILABLE, "%s: this build of the library has no %s backend", #function, #backend); \
    }

#ifndef RVIT_HAVE_CUDA
ABSENT(CUDA, rvit_cuda_device_create, void *context, const rvit_allocator *allocator, rvit_device **out_device)
ABSENT(CUDA, rvit_cuda_device_context, const rvit_device *device, void **out_context)
ABSENT(CUDA, rvit_cuda_stream_set_workspace, rvit_stream *stream, void *address, int64_t size)

int64_t rvit_cuda_workspace_size(int32_t n_images, int64_t rows)
{
    return 0;
}
#endif

#ifndef RVIT_HAVE_VULKAN
ABSENT(Vulkan, rvit_vulkan_device_create, const rvit_vulkan_device_desc *vulkan, const rvit_device_desc *desc, rvit_device **out_device)
#endif
