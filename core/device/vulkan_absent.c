/* The functions of include/raggedvit/vulkan.h for builds without the Vulkan backend, so that every build exports the same functions. */
#include <raggedvit/vulkan.h>

#include "core/base/status.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define ABSENT(function, ...)                                                                                 \
    rvit_status function(__VA_ARGS__)                                                                         \
    {                                                                                                         \
        return rvit_fail(RVIT_UNAVAILABLE, "%s: this build of the library has no Vulkan backend", #function); \
    }

ABSENT(rvit_vulkan_device_create, const rvit_vulkan_device_desc *vulkan, const rvit_device_desc *desc, rvit_device **out_device)
ABSENT(rvit_vulkan_stream_wrap, rvit_device *device, void *command_buffer, rvit_stream **out_stream)
ABSENT(rvit_vulkan_stream_set, rvit_stream *stream, void *command_buffer)
ABSENT(rvit_vulkan_buffer_wrap, rvit_device *device, const rvit_vulkan_buffer_desc *desc, rvit_buffer **out_buffer)
ABSENT(rvit_vulkan_buffer_handle, const rvit_buffer *buffer, uint64_t *out_buffer, int64_t *out_offset)
ABSENT(rvit_vulkan_buffer_create_shared, rvit_device *device, int64_t size, rvit_buffer **out_buffer)
ABSENT(rvit_vulkan_buffer_export, const rvit_buffer *buffer, rvit_vulkan_memory *out_memory)
ABSENT(rvit_vulkan_buffer_import, rvit_device *device, const rvit_vulkan_memory *memory, int64_t size, rvit_buffer **out_buffer)
ABSENT(rvit_vulkan_semaphore_create, rvit_device *device, int32_t timeline, int32_t shared, rvit_vulkan_semaphore **out_semaphore)
ABSENT(rvit_vulkan_semaphore_wrap, rvit_device *device, uint64_t semaphore, int32_t timeline, rvit_vulkan_semaphore **out_semaphore)
ABSENT(rvit_vulkan_semaphore_import, rvit_device *device, int32_t fd, int32_t timeline, rvit_vulkan_semaphore **out_semaphore)
ABSENT(rvit_vulkan_semaphore_export, const rvit_vulkan_semaphore *semaphore, int32_t *out_fd)
ABSENT(rvit_vulkan_semaphore_handle, const rvit_vulkan_semaphore *semaphore, uint64_t *out_semaphore)
ABSENT(rvit_vulkan_stream_wait, rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value)
ABSENT(rvit_vulkan_stream_signal, rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value)

void rvit_vulkan_semaphore_destroy(rvit_vulkan_semaphore *semaphore)
{
}
