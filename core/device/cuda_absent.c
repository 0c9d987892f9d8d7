/* The functions of include/raggedvit/cuda.h for builds without the CUDA backend, so that every build exports the same functions. */
#include <raggedvit/cuda.h>

#include "core/base/status.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ABSENT(function, ...)                                                                               \
    rvit_status function(__VA_ARGS__)                                                                       \
    {                                                                                                       \
        return rvit_fail(RVIT_UNAVAILABLE, "%s: this build of the library has no CUDA backend", #function); \
    }

ABSENT(rvit_cuda_device_create, void *context, const rvit_allocator *allocator, rvit_device **out_device)
ABSENT(rvit_cuda_device_context, const rvit_device *device, void **out_context)
ABSENT(rvit_cuda_stream_wrap, rvit_device *device, void *cu_stream, rvit_stream **out_stream)
ABSENT(rvit_cuda_stream_set, rvit_stream *stream, void *cu_stream)
ABSENT(rvit_cuda_stream_set_workspace, rvit_stream *stream, uint64_t address, int64_t size)
ABSENT(rvit_cuda_stream_handle, const rvit_stream *stream, void **out_cu_stream)
ABSENT(rvit_cuda_buffer_wrap, rvit_device *device, uint64_t address, int64_t size, rvit_buffer **out_buffer)
ABSENT(rvit_cuda_buffer_set, rvit_buffer *buffer, uint64_t address, int64_t size)
ABSENT(rvit_cuda_buffer_address, const rvit_buffer *buffer, uint64_t *out_address)
ABSENT(rvit_cuda_buffer_import, rvit_device *device, int32_t fd, int64_t memory_size, int64_t offset, int64_t size,
       rvit_buffer **out_buffer)
ABSENT(rvit_cuda_semaphore_import, rvit_device *device, int32_t fd, int32_t timeline, rvit_cuda_semaphore **out_semaphore)
ABSENT(rvit_cuda_stream_wait, rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value)
ABSENT(rvit_cuda_stream_signal, rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value)

int64_t rvit_cuda_select_workspace(int32_t n_images, int64_t rows)
{
    return 0;
}

void rvit_cuda_semaphore_destroy(rvit_cuda_semaphore *semaphore)
{
}
