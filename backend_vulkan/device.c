/* Devices, and the backend's function table for core. */
#include "backend_vulkan/handles.h"

#include <stdio.h>
#include <string.h>

rvit_status rvit_vk_device_describe(int32_t index, rvit_device_info *out_info)
{
    rvit_vk_instance instance;
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, NULL);
    RVIT_TRY(rvit_vk_instance_open(&alloc, &instance));
    rvit_vk_physical physical;
    const rvit_status status = rvit_vk_instance_device(&instance, &alloc, index, &physical);
    rvit_vk_instance_close(&instance);
    if (status != RVIT_OK)
        return status;
    rvit_vk_apply_denied(&physical);
    *out_info = physical.info;
    return RVIT_OK;
}

static int64_t device_free_memory(const rvit_device *base)
{
    const rvit_vk_device *device = rvit_vk_device_of(base);
    return device->physical.has_budget ? rvit_vk_free_memory(&device->instance, device->physical.handle) : 0;
}

static rvit_status check_tier(const rvit_vk_physical *physical, rvit_tier tier)
{
    if (tier == RVIT_TIER_MATRIX && physical->why_no_matrix != NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "vulkan: %s has no matrix tier: %s", physical->info.name, physical->why_no_matrix);
    if (tier == RVIT_TIER_SUBGROUP && !physical->has_subgroups)
        return rvit_fail(RVIT_UNSUPPORTED, "vulkan: %s has no subgroup arithmetic in compute shaders", physical->info.name);
    return RVIT_OK;
}

/* An integrated GPU computes about 1e11 MACs per second; drivers abort a submit after two to ten seconds. */
#define INTEGRATED_SUBMIT_WORK 5e10

static double submit_work(const rvit_vk_physical *physical, int64_t requested)
{
    if (requested != 0)
        return requested > 0 ? (double)requested : 0.0;
    return physical->type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? INTEGRATED_SUBMIT_WORK : 0.0;
}

#define POLL_US 2000

static int64_t poll_ns(const rvit_device_info *info, int32_t requested)
{
    if (requested != 0)
        return requested > 0 ? (int64_t)requested * 1000 : 0;
    return info->is_software ? 0 : POLL_US * 1000;
}

/* Lowers the device's tier by one and records the reason in the note. */
static void lower_tier(rvit_vk_device *device, const char *reason)
{
    rvit_device_info *info = &device->base.info;
    const char *name = rvit_enum_name(RVIT_ENUM_TIER, info->tier);
    rvit_log(RVIT_LOG_WARNING, "vulkan: %s: %s tier skipped: %s", info->name, name, reason);
    const size_t n = strlen(info->note);
    (void)snprintf(info->note + n, sizeof info->note - n, "%s%s tier: %s", n == 0 ? "" : "; ", name, reason);
    info->tier = info->tier == RVIT_TIER_MATRIX && device->physical.has_subgroups ? RVIT_TIER_SUBGROUP : RVIT_TIER_SCALAR;
}

/* Runs the self-test until it passes: first disables direct loads into matrices, then lowers the tier. */
static rvit_status run_self_tests(rvit_vk_device *device, const rvit_device_desc *desc)
{
    while (device->proven_tier != device->base.info.tier) {
        const rvit_status status = rvit_vk_self_test(device);
        if (status == RVIT_OK)
            device->proven_tier = device->base.info.tier;
        if (status == RVIT_OK || status == RVIT_OUT_OF_HOST_MEMORY || status == RVIT_OUT_OF_DEVICE_MEMORY || status == RVIT_DEVICE_LOST)
            return status;
        char reason[192];
        (void)snprintf(reason, sizeof reason, "%s", rvit_status_detail());
        if (device->base.info.tier == RVIT_TIER_MATRIX && device->physical.matrix.in_rows) {
            rvit_log(RVIT_LOG_WARNING, "vulkan: %s: matrices are loaded through shared memory: %s", device->base.info.name, reason);
            device->physical.matrix.in_rows = 0;
            continue;
        }
        if (desc->tier != RVIT_TIER_AUTO || device->base.info.tier == RVIT_TIER_SCALAR)
            return rvit_fail(RVIT_UNSUPPORTED, "vulkan: %s fails the self-test of its tier: %s", device->base.info.name, reason);
        lower_tier(device, reason);
    }
    return RVIT_OK;
}

/* Sets the tier. highest: the upper limit for AUTO. */
static rvit_status choose_tier(rvit_vk_device *device, const rvit_device_desc *desc, rvit_tier highest)
{
    if (desc->tier == RVIT_TIER_AUTO && !desc->skip_self_test)
        rvit_vk_apply_denied(&device->physical);
    device->base.info = device->physical.info;
    while (desc->tier == RVIT_TIER_AUTO && device->base.info.tier > highest)
        lower_tier(device, "the device was lost in its self-test");
    if (desc->tier != RVIT_TIER_AUTO)
        device->base.info.tier = desc->tier;
    RVIT_TRY(check_tier(&device->physical, device->base.info.tier));
    device->submit_work = submit_work(&device->physical, desc->submit_work);
    device->poll_ns = poll_ns(&device->physical.info, desc->poll_us);
    return RVIT_OK;
}

/* Bytes of the largest array that can be bound at any offset, rounded up to whole words. */
static int64_t max_array(const VkPhysicalDeviceLimits *limits)
{
    return (int64_t)limits->maxStorageBufferRange - (int64_t)limits->minStorageBufferOffsetAlignment - 3;
}

/* Runs after handle and queue are set. */
static rvit_status start(rvit_vk_device *device, const rvit_device_desc *desc)
{
    device->base.max_array = max_array(&device->physical.limits);
    device->base.binds_capacity = 1;
    device->base.fast_8bit = RVIT_PRECISION_AUTO;
    RVIT_TRY(rvit_vk_cache_open(device, desc->cache_data, desc->cache_size));
    RVIT_TRY(rvit_vk_dispatch_sizes_open(device, NULL, &device->dispatch_sizes));
    const rvit_detail kept = rvit_detail_keep();
    if (!desc->skip_self_test)
        RVIT_TRY(rvit_detail_restore(&kept, run_self_tests(device, desc)));
    device->base.info.native_dtypes = rvit_vk_native_dtypes(&device->physical, device->base.info.tier, device->enabled);
    return RVIT_OK;
}

/* Disables extensions whose functions the driver does not provide. */
static void drop_empty_extensions(rvit_vk_device *device)
{
    if (!rvit_vk_has_memory_handles(device))
        device->enabled &= ~(uint32_t)RVIT_VK_EXT_MEMORY_HANDLE;
    if (!rvit_vk_has_semaphore_handles(device))
        device->enabled &= ~(uint32_t)RVIT_VK_EXT_SEMAPHORE_HANDLE;
}

static rvit_status open_device(rvit_vk_device *device, const rvit_device_desc *desc, rvit_tier highest)
{
    RVIT_TRY(rvit_vk_instance_open(&device->base.alloc, &device->instance));
    rvit_status status = rvit_vk_instance_device(&device->instance, &device->base.alloc, desc->index, &device->physical);
    if (status == RVIT_INVALID_ARGUMENT)
        status = RVIT_UNAVAILABLE;
    RVIT_TRY(status);
    RVIT_TRY(choose_tier(device, desc, highest));
    /* The kernels below the matrix tier need no features; the int8 kernels are faster with one. */
    const uint32_t matrix = RVIT_VK_MATRIX_FEATURES | (device->physical.matrix.has_bf16 ? RVIT_VK_BF16_FEATURES : 0) |
                            (device->physical.matrix.i8_m != 0 ? RVIT_VK_INT8 : 0);
    const uint32_t wanted = RVIT_VK_SHARING_FEATURES | RVIT_VK_EXT_PORTABLE |
                            (device->base.info.tier >= RVIT_TIER_SUBGROUP ? RVIT_VK_DOT : 0) |
                            (device->base.info.tier == RVIT_TIER_MATRIX ? matrix : 0);
    device->enabled = device->physical.features & wanted;
    const VkResult result = rvit_vk_create_handle(device);
    if (result != VK_SUCCESS)
        return rvit_vk_fail(result, "vkCreateDevice");
    const char *missing = rvit_vk_load_functions(&device->instance, device->handle, &device->vk);
    if (missing != NULL) {
        if (device->vk.vkDestroyDevice != NULL)
            device->vk.vkDestroyDevice(device->handle, NULL);
        device->handle = VK_NULL_HANDLE;
        return rvit_fail(RVIT_UNAVAILABLE, "vulkan: the driver of %s has no %s", device->physical.info.name, missing);
    }
    drop_empty_extensions(device);
    device->vk.vkGetDeviceQueue(device->handle, device->physical.queue_family, 0, &device->queue);
    return start(device, desc);
}

static rvit_status import_device(rvit_vk_device *device, const rvit_vulkan_device_desc *external, const rvit_device_desc *desc)
{
    const uint32_t version = external->api_version == 0 ? VK_API_VERSION_1_1 : external->api_version;
    device->is_external = 1;
    RVIT_TRY(rvit_vk_instance_import(external->instance, (PFN_vkGetInstanceProcAddr)external->get_instance_proc_addr, version,
                                     &device->instance));
    RVIT_TRY(rvit_vk_instance_import_device(&device->instance, &device->base.alloc, external->physical_device, external->queue_family,
                                            rvit_vk_named_features(external->features, external->extensions, external->n_extensions),
                                            &device->physical));
    RVIT_TRY(choose_tier(device, desc, RVIT_TIER_MATRIX));
    device->enabled = device->physical.features;
    device->user = external->user;
    device->lock_queue = external->lock_queue;
    device->unlock_queue = external->unlock_queue;
    device->queue = external->queue;
    const char *missing = rvit_vk_load_functions(&device->instance, external->device, &device->vk);
    if (missing != NULL)
        return rvit_fail(RVIT_UNAVAILABLE, "vulkan device desc: get_instance_proc_addr does not provide %s", missing);
    drop_empty_extensions(device);
    device->handle = external->device;
    return start(device, desc);
}

/* external: the caller's device; NULL: the library creates one. */
static rvit_status create(const rvit_vulkan_device_desc *external, const rvit_device_desc *desc, const rvit_alloc *alloc,
                          rvit_tier *highest, rvit_device **out_device)
{
    rvit_alloc own;
    rvit_alloc_copy(&own, alloc);
    rvit_vk_device *device = rvit_alloc_new(&own, sizeof *device);
    RVIT_TRY_MEMORY(device);
    rvit_alloc_copy(&device->base.alloc, &own);
    rvit_mutex_init(&device->queue_lock);
    rvit_mutex_init(&device->pipeline_lock);
    const rvit_status status = external != NULL ? import_device(device, external, desc) : open_device(device, desc, *highest);
    *highest = device->base.info.tier;
    if (status != RVIT_OK) {
        rvit_vk_device_destroy(&device->base);
        return status;
    }
    *out_device = &device->base;
    return RVIT_OK;
}

rvit_status rvit_vk_device_create(const rvit_device_desc *desc, const rvit_alloc *alloc, rvit_device **out_device)
{
    rvit_tier tier = RVIT_TIER_MATRIX;
    rvit_status status = create(NULL, desc, alloc, &tier, out_device);
    /* A kernel that hangs or crashes loses the device: retry with a lower tier. */
    while (status == RVIT_DEVICE_LOST && desc->tier == RVIT_TIER_AUTO && tier > RVIT_TIER_SCALAR) {
        tier = tier == RVIT_TIER_MATRIX ? RVIT_TIER_SUBGROUP : RVIT_TIER_SCALAR;
        status = create(NULL, desc, alloc, &tier, out_device);
    }
    return status;
}

rvit_status rvit_vk_device_create_on(const rvit_vulkan_device_desc *external, const rvit_device_desc *desc, const rvit_alloc *alloc,
                                     rvit_device **out_device)
{
    rvit_tier tier = RVIT_TIER_MATRIX;
    return create(external, desc, alloc, &tier, out_device);
}

void rvit_vk_device_destroy(rvit_device *base)
{
    rvit_vk_device *device = rvit_vk_device_of(base);
    if (device->handle != VK_NULL_HANDLE) {
        /* The streams have waited for their work. The caller's device may have other work, which is not waited for. */
        if (!device->is_external)
            (void)device->vk.vkDeviceWaitIdle(device->handle);
        rvit_vk_buffer_close(device, &device->dispatch_sizes);
        rvit_vk_pipelines_destroy(device);
        device->vk.vkDestroyPipelineCache(device->handle, device->pipeline_cache, NULL);
        if (!device->is_external)
            device->vk.vkDestroyDevice(device->handle, NULL);
    }
    rvit_vk_instance_close(&device->instance);
    rvit_mutex_destroy(&device->pipeline_lock);
    rvit_mutex_destroy(&device->queue_lock);
    rvit_alloc alloc;
    rvit_alloc_copy(&alloc, &device->base.alloc);
    rvit_alloc_free(&alloc, device);
}

const rvit_backend_api rvit_backend_vulkan = {
    .backend = RVIT_BACKEND_VULKAN,
    .device_describe = rvit_vk_device_describe,
    .device_create = rvit_vk_device_create,
    .device_destroy = rvit_vk_device_destroy,
    .device_free_memory = device_free_memory,
    .device_get_cache = rvit_vk_device_get_cache,
    .supports = rvit_vk_supports,
    .arrange_weight = rvit_vk_arrange_weight,
    .buffer_create = rvit_vk_buffer_create,
    .buffer_destroy = rvit_vk_buffer_destroy,
    .memory_types = 1 << RVIT_MEMORY_VULKAN | 1 << RVIT_MEMORY_EXTERNAL,
    .buffer_wrap = rvit_vk_buffer_wrap,
    .buffer_export = rvit_vk_buffer_export,
    .stream_create = rvit_vk_stream_create,
    .stream_wrap = rvit_vk_commands_create,
    .stream_set = rvit_vk_commands_set,
    .stream_destroy = rvit_vk_stream_destroy,
    .stream_enqueue = rvit_vk_stream_enqueue,
    .stream_synchronize = rvit_vk_stream_synchronize,
    .semaphore_open = rvit_vk_semaphore_open,
    .semaphore_close = rvit_vk_semaphore_close,
    .semaphore_export = rvit_vk_semaphore_export,
    .stream_semaphore = rvit_vk_stream_semaphore,
    .program_create = rvit_vk_program_create,
    .program_destroy = rvit_vk_program_destroy,
    .program_launch = rvit_vk_program_launch,
};
