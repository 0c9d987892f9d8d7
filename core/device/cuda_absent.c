/* include/raggedvit/cuda.h in builds without the CUDA backend, so that every build exports the same functions. */
#include <raggedvit/cuda.h>

#include "core/base/status.h"

static rvit_status absent(const char *function)
{
    return rvit_fail(RVIT_UNAVAILABLE, "%s: this build of the library has no CUDA backend", function);
}

rvit_status rvit_cuda_device_create(void *context, const rvit_allocator *allocator, rvit_device **out_device)
{
    (void)context, (void)allocator, (void)out_device;
    return absent("rvit_cuda_device_create");
}

rvit_status rvit_cuda_device_context(const rvit_device *device, void **out_context)
{
    (void)device, (void)out_context;
    return absent("rvit_cuda_device_context");
}

rvit_status rvit_cuda_stream_wrap(rvit_device *device, void *cu_stream, rvit_stream **out_stream)
{
    (void)device, (void)cu_stream, (void)out_stream;
    return absent("rvit_cuda_stream_wrap");
}

rvit_status rvit_cuda_stream_set(rvit_stream *stream, void *cu_stream)
{
    (void)stream, (void)cu_stream;
    return absent("rvit_cuda_stream_set");
}

rvit_status rvit_cuda_stream_set_workspace(rvit_stream *stream, uint64_t address, int64_t size)
{
    (void)stream, (void)address, (void)size;
    return absent("rvit_cuda_stream_set_workspace");
}

int64_t rvit_cuda_select_workspace(int32_t n_images, int64_t rows)
{
    (void)n_images, (void)rows;
    return 0;
}

rvit_status rvit_cuda_stream_handle(const rvit_stream *stream, void **out_cu_stream)
{
    (void)stream, (void)out_cu_stream;
    return absent("rvit_cuda_stream_handle");
}

rvit_status rvit_cuda_buffer_wrap(rvit_device *device, uint64_t address, int64_t size, rvit_buffer **out_buffer)
{
    (void)device, (void)address, (void)size, (void)out_buffer;
    return absent("rvit_cuda_buffer_wrap");
}

rvit_status rvit_cuda_buffer_set(rvit_buffer *buffer, uint64_t address, int64_t size)
{
    (void)buffer, (void)address, (void)size;
    return absent("rvit_cuda_buffer_set");
}

rvit_status rvit_cuda_buffer_address(const rvit_buffer *buffer, uint64_t *out_address)
{
    (void)buffer, (void)out_address;
    return absent("rvit_cuda_buffer_address");
}

rvit_status rvit_cuda_buffer_import(rvit_device *device, int32_t fd, int64_t memory_size, int64_t offset, int64_t size,
                                    rvit_buffer **out_buffer)
{
    (void)device, (void)fd, (void)memory_size, (void)offset, (void)size, (void)out_buffer;
    return absent("rvit_cuda_buffer_import");
}

rvit_status rvit_cuda_semaphore_import(rvit_device *device, int32_t fd, int32_t timeline, rvit_cuda_semaphore **out_semaphore)
{
    (void)device, (void)fd, (void)timeline, (void)out_semaphore;
    return absent("rvit_cuda_semaphore_import");
}

void rvit_cuda_semaphore_destroy(rvit_cuda_semaphore *semaphore)
{
    (void)semaphore;
}

rvit_status rvit_cuda_stream_wait(rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value)
{
    (void)stream, (void)semaphore, (void)value;
    return absent("rvit_cuda_stream_wait");
}

rvit_status rvit_cuda_stream_signal(rvit_stream *stream, const rvit_cuda_semaphore *semaphore, uint64_t value)
{
    (void)stream, (void)semaphore, (void)value;
    return absent("rvit_cuda_stream_signal");
}
