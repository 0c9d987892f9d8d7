/* External memory and semaphores for the tests of several backends. */
#ifndef RVIT_TESTS_INTEROP_H
#define RVIT_TESTS_INTEROP_H

#include <raggedvit/device.h>

/* type: HOST or CUDA. */
static inline rvit_status wrap_memory(rvit_device *device, rvit_memory_type type, uint64_t address, int64_t size, rvit_buffer **out_buffer)
{
    rvit_memory_desc desc = RVIT_MEMORY_DESC_INIT;
    desc.type = type;
    desc.address = (void *)(uintptr_t)address;
    desc.size = size;
    return rvit_buffer_wrap(device, &desc, out_buffer);
}

static inline rvit_status import_memory(rvit_device *device, const rvit_external_memory *memory, int64_t size, rvit_buffer **out_buffer)
{
    rvit_memory_desc desc = RVIT_MEMORY_DESC_INIT;
    desc.type = RVIT_MEMORY_EXTERNAL;
    desc.external = memory;
    desc.size = size;
    return rvit_buffer_wrap(device, &desc, out_buffer);
}

static inline rvit_status create_semaphore(rvit_device *device, int32_t timeline, int32_t shared, rvit_semaphore **out_semaphore)
{
    rvit_semaphore_desc desc = RVIT_SEMAPHORE_DESC_INIT;
    desc.timeline = timeline;
    desc.shared = shared;
    return rvit_semaphore_create(device, &desc, out_semaphore);
}

static inline rvit_status import_semaphore(rvit_device *device, intptr_t fd, int32_t timeline, rvit_semaphore **out_semaphore)
{
    rvit_semaphore_desc desc = RVIT_SEMAPHORE_DESC_INIT;
    desc.timeline = timeline;
    desc.handle_type = RVIT_HANDLE_OPAQUE_FD;
    desc.handle = fd;
    return rvit_semaphore_create(device, &desc, out_semaphore);
}

#endif
