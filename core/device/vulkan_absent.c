/* include/raggedvit/vulkan.h in builds without the Vulkan backend, so that every build exports the same functions. */
#include <raggedvit/vulkan.h>

#include "core/base/status.h"

static rvit_status absent(const char *function)
{
    return rvit_fail(RVIT_UNAVAILABLE, "%s: this build of the library has no Vulkan backend", function);
}

rvit_status rvit_vulkan_device_create(const rvit_vulkan_device_desc *vulkan, const rvit_device_desc *desc, rvit_device **out_device)
{
    (void)vulkan, (void)desc, (void)out_device;
    return absent("rvit_vulkan_device_create");
}

rvit_status rvit_vulkan_stream_wrap(rvit_device *device, void *command_buffer, rvit_stream **out_stream)
{
    (void)device, (void)command_buffer, (void)out_stream;
    return absent("rvit_vulkan_stream_wrap");
}

rvit_status rvit_vulkan_stream_set(rvit_stream *stream, void *command_buffer)
{
    (void)stream, (void)command_buffer;
    return absent("rvit_vulkan_stream_set");
}

rvit_status rvit_vulkan_buffer_wrap(rvit_device *device, const rvit_vulkan_buffer_desc *desc, rvit_buffer **out_buffer)
{
    (void)device, (void)desc, (void)out_buffer;
    return absent("rvit_vulkan_buffer_wrap");
}

rvit_status rvit_vulkan_buffer_handle(const rvit_buffer *buffer, uint64_t *out_buffer, int64_t *out_offset)
{
    (void)buffer, (void)out_buffer, (void)out_offset;
    return absent("rvit_vulkan_buffer_handle");
}

rvit_status rvit_vulkan_buffer_create_shared(rvit_device *device, int64_t size, rvit_buffer **out_buffer)
{
    (void)device, (void)size, (void)out_buffer;
    return absent("rvit_vulkan_buffer_create_shared");
}

rvit_status rvit_vulkan_buffer_export(const rvit_buffer *buffer, rvit_vulkan_memory *out_memory)
{
    (void)buffer, (void)out_memory;
    return absent("rvit_vulkan_buffer_export");
}

rvit_status rvit_vulkan_buffer_import(rvit_device *device, const rvit_vulkan_memory *memory, int64_t size, rvit_buffer **out_buffer)
{
    (void)device, (void)memory, (void)size, (void)out_buffer;
    return absent("rvit_vulkan_buffer_import");
}

rvit_status rvit_vulkan_semaphore_create(rvit_device *device, int32_t timeline, int32_t shared, rvit_vulkan_semaphore **out_semaphore)
{
    (void)device, (void)timeline, (void)shared, (void)out_semaphore;
    return absent("rvit_vulkan_semaphore_create");
}

rvit_status rvit_vulkan_semaphore_wrap(rvit_device *device, uint64_t semaphore, int32_t timeline, rvit_vulkan_semaphore **out_semaphore)
{
    (void)device, (void)semaphore, (void)timeline, (void)out_semaphore;
    return absent("rvit_vulkan_semaphore_wrap");
}

rvit_status rvit_vulkan_semaphore_import(rvit_device *device, int32_t fd, int32_t timeline, rvit_vulkan_semaphore **out_semaphore)
{
    (void)device, (void)fd, (void)timeline, (void)out_semaphore;
    return absent("rvit_vulkan_semaphore_import");
}

rvit_status rvit_vulkan_semaphore_export(const rvit_vulkan_semaphore *semaphore, int32_t *out_fd)
{
    (void)semaphore, (void)out_fd;
    return absent("rvit_vulkan_semaphore_export");
}

rvit_status rvit_vulkan_semaphore_handle(const rvit_vulkan_semaphore *semaphore, uint64_t *out_semaphore)
{
    (void)semaphore, (void)out_semaphore;
    return absent("rvit_vulkan_semaphore_handle");
}

void rvit_vulkan_semaphore_destroy(rvit_vulkan_semaphore *semaphore)
{
    (void)semaphore;
}

rvit_status rvit_vulkan_stream_wait(rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value)
{
    (void)stream, (void)semaphore, (void)value;
    return absent("rvit_vulkan_stream_wait");
}

rvit_status rvit_vulkan_stream_signal(rvit_stream *stream, const rvit_vulkan_semaphore *semaphore, uint64_t value)
{
    (void)stream, (void)semaphore, (void)value;
    return absent("rvit_vulkan_stream_signal");
}
