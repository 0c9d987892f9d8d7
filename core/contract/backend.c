/* Functions that backends share: descriptions of devices, and checks of a device desc. */
#include "core/contract/backend.h"

#include <stdio.h>

#include "core/base/args.h"
#include "core/base/os.h"

/* The enum is in order of preference, except for UNKNOWN. */
static int rank_of(rvit_device_kind kind)
{
    return kind == RVIT_DEVICE_KIND_UNKNOWN ? RVIT_DEVICE_KIND_OTHER : (int)kind;
}

int rvit_device_outranks(const rvit_device_info *a, const rvit_device_info *b)
{
    const int rank_a = rank_of(a->kind), rank_b = rank_of(b->kind);
    return rank_a != rank_b ? rank_a < rank_b : a->memory_size > b->memory_size;
}

rvit_status rvit_device_no_memory(const rvit_device *device, const char *call, int64_t size)
{
    const int64_t left = device->api != NULL ? device->api->device_free_memory(device) : 0; /* api is NULL during creation */
    char free_text[48] = "";
    if (left > 0)
        (void)snprintf(free_text, sizeof free_text, ", %lld free", (long long)left);
    return rvit_fail(RVIT_OUT_OF_DEVICE_MEMORY, "%s: cannot allocate %lld bytes on %s (%lld bytes in total%s)", call, (long long)size,
                     device->info.name, (long long)device->info.memory_size, free_text);
}

void rvit_device_set_pci(rvit_device_info *info, uint32_t domain, uint32_t bus, uint32_t device, uint32_t function)
{
    (void)snprintf(info->pci_address, sizeof info->pci_address, "%04x:%02x:%02x.%x", domain, bus & 0xffu, device & 0xffu, function & 0xfu);
}

rvit_status rvit_handle_copy(const char *what, rvit_handle_type type, intptr_t handle, intptr_t *out_copy)
{
    static const char *const names[] = {
        [RVIT_HANDLE_OPAQUE_FD] = "RVIT_HANDLE_OPAQUE_FD", [RVIT_HANDLE_OPAQUE_WIN32] = "RVIT_HANDLE_OPAQUE_WIN32"};
    if (type != RVIT_HANDLE_OPAQUE_FD && type != RVIT_HANDLE_OPAQUE_WIN32)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: handle_type: %d is not a valid handle type", what, (int)type);
    if (type != RVIT_HANDLE_OF_SYSTEM)
        return rvit_fail(RVIT_UNSUPPORTED, "%s: handle_type is %s, expected %s on this system", what, names[type],
                         names[RVIT_HANDLE_OF_SYSTEM]);
    if (!rvit_os_handle_copy(handle, out_copy))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: " RVIT_OS_HANDLE_NAME " %lld is not open, or the process has too many open files",
                         what, (long long)handle);
    return RVIT_OK;
}

void rvit_handle_copy_end(intptr_t copy, int imported)
{
    if (!imported || !RVIT_OS_HANDLES_ARE_FDS)
        rvit_os_handle_close(copy);
}

static rvit_status check_desc(const rvit_device_desc *desc)
{
    if (desc->allocator != NULL && (desc->allocator->allocate == NULL || desc->allocator->release == NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: allocator needs both allocate and release");
    if ((int)desc->tier < RVIT_TIER_AUTO || desc->tier > RVIT_TIER_MATRIX)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: tier: %d is not a valid tier", (int)desc->tier);
    if (desc->n_threads < 0 || desc->n_threads > 1024)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: n_threads is %d, expected 0..1024", (int)desc->n_threads);
    if (desc->oracle && desc->backend != RVIT_BACKEND_CPU)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: oracle needs backend RVIT_BACKEND_CPU");
    if (desc->vector_bits != 0 && desc->vector_bits != 256 && desc->vector_bits != 512)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: vector_bits is %d, expected 0, 256 or 512", (int)desc->vector_bits);
    if (desc->index < -1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: index is %d, expected -1 or more", (int)desc->index);
    if (desc->cache_data == NULL && desc->cache_size > 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: cache_data is NULL, but cache_size is %zu", desc->cache_size);
    if (desc->submit_work < -1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: submit_work is %lld, expected -1 or more", (long long)desc->submit_work);
    if (desc->poll_us < -1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: poll_us is %d, expected -1 or more", (int)desc->poll_us);
    return RVIT_OK;
}

rvit_status rvit_device_desc_take(const rvit_device_desc *given, rvit_device_desc *out_desc)
{
    *out_desc = (rvit_device_desc)RVIT_DEVICE_DESC_INIT;
    if (given != NULL)
        RVIT_TRY(rvit_args_copy(out_desc, sizeof *out_desc, given, "device desc"));
    return check_desc(out_desc);
}
