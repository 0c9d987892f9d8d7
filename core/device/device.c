/* Lists, selects, creates and destroys devices. */

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/printable.h"
#include "core/base/os.h"
#include "core/device/device.h"

static const rvit_backend_api *find_backend(rvit_backend backend)
{
    for (int i = 0; i < rvit_n_backends; i++)
        if (rvit_backends[i]->backend == backend)
            return rvit_backends[i];
    return NULL;
}

static rvit_status describe(const rvit_backend_api *api, int32_t index, rvit_device_info *info)
{
    RVIT_SIGNALS_BLOCKED;
    *info = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
    info->backend = api->backend;
    info->index = index;
    return api->device_describe(index, info);
}

static rvit_status list(rvit_device_info *infos, int32_t capacity, int32_t *out_n_infos)
{
    if (out_n_infos == NULL || capacity < 0 || (infos == NULL && capacity > 0))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_device_list: infos or out_n_infos is NULL, or capacity is negative");
    int32_t n = 0;
    for (int b = 0; b < rvit_n_backends; b++) {
        for (int32_t index = 0;; index++) {
            rvit_device_info info;
            const rvit_status status = describe(rvit_backends[b], index, &info);
            if (status == RVIT_INVALID_ARGUMENT)
                break;
            if (status != RVIT_OK) {
                info = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
                info.backend = rvit_backends[b]->backend;
                info.index = -1;
                rvit_printable(info.note, sizeof info.note, rvit_status_detail());
            }
            /* The caller's structs may have another size, from another version. */
            if (n < capacity)
                RVIT_TRY(rvit_args_return((unsigned char *)infos + (size_t)n * infos->struct_size, &info, sizeof info,
                                          "rvit_device_list: infos"));
            n++;
            if (status != RVIT_OK)
                break;
        }
    }
    *out_n_infos = n;
    return RVIT_OK;
}

rvit_status rvit_device_list(rvit_device_info *infos, int32_t capacity, int32_t *out_n_infos)
{
    RVIT_ENTRY;
    const rvit_detail kept = rvit_detail_keep();
    return rvit_detail_restore(&kept, list(infos, capacity, out_n_infos));
}

static rvit_status choose_hardware(const rvit_backend_api *api, int32_t *out_index)
{
    rvit_device_info info;
    RVIT_TRY(describe(api, -1, &info));
    if (info.is_software)
        return rvit_fail(RVIT_UNAVAILABLE, "%s: only software devices were found; select the backend explicitly to use one",
                         rvit_enum_name(RVIT_ENUM_BACKEND, api->backend));
    *out_index = info.index;
    return RVIT_OK;
}

static rvit_status create(const rvit_backend_api *api, const rvit_device_desc *desc, rvit_device **out_device)
{
    RVIT_SIGNALS_BLOCKED;
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, desc->allocator);
    rvit_device *device = NULL;
    RVIT_TRY(api->device_create(desc, &alloc, &device));
    device->api = api;
    device->debug_checks = desc->debug_checks;
    atomic_init(&device->references, 1);
    rvit_log(RVIT_LOG_INFO, "%s device %d: %s", rvit_enum_name(RVIT_ENUM_BACKEND, api->backend), (int)device->info.index,
             device->info.name);
    *out_device = device;
    return RVIT_OK;
}

static rvit_status choose_and_create(const rvit_device_desc *desc, rvit_device **out_device)
{
    if (out_device == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_device_create: out_device is NULL");
    rvit_device_desc full;
    RVIT_TRY(rvit_device_desc_take(desc, &full));
    if (full.backend != RVIT_BACKEND_AUTO) {
        const rvit_backend_api *api = find_backend(full.backend);
        if (api == NULL && ((int)full.backend < 0 || full.backend > RVIT_BACKEND_VULKAN))
            return rvit_fail(RVIT_UNAVAILABLE, "device desc: backend: %d is not a valid backend", (int)full.backend);
        if (api == NULL)
            return rvit_fail(RVIT_UNAVAILABLE, "backend %s is not in this build; see the output of CMake for what was missing",
                             rvit_enum_name(RVIT_ENUM_BACKEND, full.backend));
        return create(api, &full, out_device);
    }
    if (full.index >= 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "device desc: index %d needs a backend", (int)full.index);
    rvit_status status = RVIT_UNAVAILABLE;
    for (int i = 0; i < rvit_n_backends; i++) {
        /* Warn about a GPU that is present but fails, unless it only lacks the requested tier; do not warn about a missing GPU. */
        rvit_log_level level = RVIT_LOG_INFO;
        status = choose_hardware(rvit_backends[i], &full.index);
        if (status == RVIT_OK) {
            status = create(rvit_backends[i], &full, out_device);
            level = full.tier == RVIT_TIER_AUTO ? RVIT_LOG_WARNING : RVIT_LOG_INFO;
        }
        if (status == RVIT_OK || status == RVIT_OUT_OF_HOST_MEMORY)
            return status;
        rvit_log(level, "skipped %s: %s", rvit_enum_name(RVIT_ENUM_BACKEND, rvit_backends[i]->backend), rvit_status_detail());
    }
    return status;
}

rvit_status rvit_device_create(const rvit_device_desc *desc, rvit_device **out_device)
{
    RVIT_ENTRY;
    const rvit_detail kept = rvit_detail_keep();
    return rvit_detail_restore(&kept, choose_and_create(desc, out_device));
}

void rvit_device_destroy(rvit_device *device)
{
    RVIT_ENTRY;
    if (device != NULL && atomic_fetch_sub(&device->references, 1) == 1)
        device->api->device_destroy(device);
}

rvit_status rvit_device_get_info(const rvit_device *device, rvit_device_info *out_info)
{
    RVIT_ENTRY;
    if (device == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_device_get_info: device is NULL");
    rvit_device_info info = device->info;
    info.memory_free = device->api->device_free_memory(device);
    return rvit_args_return(out_info, &info, sizeof info, "device info");
}

rvit_status rvit_device_get_cache(rvit_device *device, void *data, size_t capacity, size_t *out_size)
{
    RVIT_ENTRY;
    if (device == NULL || out_size == NULL || (data == NULL && capacity > 0))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_device_get_cache: device, out_size or data is NULL");
    if (device->api->device_get_cache != NULL)
        return device->api->device_get_cache(device, data, capacity, out_size);
    *out_size = 0;
    return RVIT_OK;
}
