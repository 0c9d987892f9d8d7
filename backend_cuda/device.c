/* CUDA devices, and the backend's function table. */
#include "backend_cuda/cu.h"

#include <stdio.h>
#include <string.h>

enum {
    LEAST_MAJOR = 8,     /* cp.async and mma.m16n8k16 came with compute capability 8.0 */
    STATIC_SHARED = 1024 /* upper limit of the fixed shared memory of kernels that also have dynamic shared memory */
};

/* Queries the properties that the backend needs. UNSUPPORTED: the device cannot run the kernels. */
static rvit_status inspect(const rvit_cu_driver *driver, CUdevice handle, rvit_device_info *info, rvit_cu_machine *machine)
{
    int major = 0, minor = 0, version = 0, integrated = 0;
    size_t memory = 0;
    CUuuid uuid;
    char pci[32] = "";
    RVIT_CU_TRY(driver, cuDeviceGetName, (info->name, (int)sizeof info->name, handle));
    RVIT_CU_TRY(driver, cuDeviceGetAttribute, (&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle));
    RVIT_CU_TRY(driver, cuDeviceGetAttribute, (&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle));
    RVIT_CU_TRY(driver, cuDeviceGetAttribute, (&machine->n_sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle));
    RVIT_CU_TRY(driver, cuDeviceGetAttribute, (&machine->max_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, handle));
    RVIT_CU_TRY(driver, cuDeviceGetAttribute, (&machine->sm_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, handle));
    RVIT_CU_TRY(driver, cuDeviceTotalMem, (&memory, handle));
    RVIT_CU_TRY(driver, cuDeviceGetUuid, (&uuid, handle));
    RVIT_CU_TRY(driver, cuDeviceGetAttribute, (&integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, handle));
    RVIT_CU_TRY(driver, cuDeviceGetPCIBusId, (pci, (int)sizeof pci, handle));
    RVIT_CU_TRY(driver, cuDriverGetVersion, (&version));
    machine->faster_mma = major == 9 || major == 10;
    /* Only on devices where all algorithms gave the same bits, because eager and recorded ops must agree. For smaller GEMMs the
       measurement error exceeds the gain. */
    machine->autotune_macs = major == 9 ? 1000000000 : 0;
    machine->wgmma = major == 9 && minor == 0;
    /* Needs a driver that records programmatic dependent launches in graphs. Other devices with this feature have not been measured. */
    machine->early = major == 9 && version >= 12030 && driver->cuLaunchKernelEx != NULL;
    machine->clusters = driver->cuLaunchKernelEx != NULL;
    info->backend = RVIT_BACKEND_CUDA;
    info->tier = RVIT_TIER_MATRIX;
    info->memory_size = (int64_t)memory;
    info->kind = integrated ? RVIT_DEVICE_KIND_INTEGRATED : RVIT_DEVICE_KIND_DISCRETE;
    memcpy(info->uuid, uuid.bytes, sizeof info->uuid);
    unsigned domain, bus, slot, function;
    if (sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4)
        rvit_device_set_pci(info, domain, bus, slot, function);
    (void)snprintf(info->driver, sizeof info->driver, "CUDA %d.%d, compute capability %d.%d", version / 1000, version % 1000 / 10, major,
                   minor);
    if (major < LEAST_MAJOR)
        return rvit_fail(RVIT_UNSUPPORTED, "CUDA: %s has compute capability %d.%d, expected 8.0 or later", info->name, major, minor);
    return RVIT_OK;
}

/* Finds the index-th usable device; -1: the first, which the driver ranks best. If wanted is set, finds that device and ignores index. */
static rvit_status find_device(const rvit_cu_driver *driver, int32_t index, const CUdevice *wanted, CUdevice *out_handle,
                               rvit_device_info *info, rvit_cu_machine *machine)
{
    int n = 0, n_usable = 0;
    rvit_status refused = RVIT_UNAVAILABLE;
    RVIT_CU_TRY(driver, cuDeviceGetCount, (&n));
    if (n == 0)
        return rvit_fail(RVIT_UNAVAILABLE, "CUDA: the driver finds no device");
    for (int i = 0; i < n; i++) {
        RVIT_CU_TRY(driver, cuDeviceGet, (out_handle, i));
        const rvit_status status = inspect(driver, *out_handle, info, machine);
        const int is_wanted = wanted != NULL && *wanted == *out_handle;
        if (status != RVIT_OK) {
            if (is_wanted)
                return status;
            rvit_log(RVIT_LOG_INFO, "cuda: %s skipped: %s", info->name, rvit_status_detail());
            refused = status == RVIT_UNSUPPORTED ? RVIT_UNAVAILABLE : status;
            continue;
        }
        info->index = n_usable++;
        if (is_wanted || (wanted == NULL && (index < 0 || info->index == index)))
            return RVIT_OK;
    }
    if (n_usable == 0)
        return refused;
    return rvit_fail(RVIT_INVALID_ARGUMENT, "cuda: there is no device %d, the last is %d", (int)index, n_usable - 1);
}

rvit_status rvit_cu_device_describe(int32_t index, rvit_device_info *out_info)
{
    const rvit_cu_driver *driver = NULL;
    CUdevice handle;
    rvit_cu_machine machine;
    RVIT_TRY(rvit_cu_driver_open(&driver));
    return find_device(driver, index, NULL, &handle, out_info, &machine);
}

/* Needs the device's context to be current. */
static rvit_status open_device(rvit_cu_device *device)
{
    RVIT_TRY(rvit_cu_kernels_load(device));
    device->base.takes_ops = rvit_cu_nodes_work(device);
    device->base.transfers = 1;
    device->base.fast_8bit = RVIT_PRECISION_FP8;
    return rvit_cu_lt_open(device);
}

static rvit_status find_context(rvit_cu_device *device, CUcontext external, int32_t index)
{
    rvit_device_info *info = &device->base.info;
    *info = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
    RVIT_TRY(rvit_cu_driver_open(&device->driver));
    if (external == NULL) {
        const rvit_status status = find_device(device->driver, index, NULL, &device->handle, info, &device->machine);
        if (status != RVIT_OK)
            return status == RVIT_INVALID_ARGUMENT ? RVIT_UNAVAILABLE : status;
        device->machine.max_shared -= STATIC_SHARED;
        RVIT_CU_TRY(device->driver, cuDevicePrimaryCtxRetain, (&device->context, device->handle));
        device->retained = 1;
        return RVIT_OK;
    }
    CUcontext popped;
    CUdevice wanted;
    RVIT_CU_TRY(device->driver, cuCtxPushCurrent, (external));
    const CUresult result = device->driver->cuCtxGetDevice(&wanted);
    (void)device->driver->cuCtxPopCurrent(&popped);
    if (result != CUDA_SUCCESS)
        return rvit_cu_fail(device->driver, result, "cuCtxGetDevice");
    RVIT_TRY(find_device(device->driver, -1, &wanted, &device->handle, info, &device->machine));
    device->machine.max_shared -= STATIC_SHARED;
    device->context = external;
    return RVIT_OK;
}

static rvit_status create(CUcontext context, int32_t index, int sleeps, const rvit_alloc *alloc, rvit_device **out_device)
{
    rvit_alloc own;
    rvit_alloc_copy(&own, alloc);
    rvit_cu_device *device = rvit_alloc_new(&own, sizeof *device);
    RVIT_TRY_MEMORY(device);
    rvit_alloc_copy(&device->base.alloc, &own);
    device->sleeps = sleeps;
    device->choose_linear = rvit_cu_linear_choose;
    rvit_status status = find_context(device, context, index);
    if (status == RVIT_OK && device->driver->cuCtxGetId != NULL && device->driver->cuCtxGetId(device->context, &device->id) != CUDA_SUCCESS)
        device->id = 0;
    int entered = 0;
    if (status == RVIT_OK)
        status = rvit_cu_enter(device, &entered);
    if (status == RVIT_OK)
        status = open_device(device);
    rvit_cu_leave(device, entered);
    if (status != RVIT_OK) {
        rvit_cu_device_destroy(&device->base);
        return status;
    }
    *out_device = &device->base;
    return RVIT_OK;
}

rvit_status rvit_cu_device_create(const rvit_device_desc *desc, const rvit_alloc *alloc, rvit_device **out_device)
{
    if (desc->tier != RVIT_TIER_AUTO && desc->tier != RVIT_TIER_MATRIX)
        return rvit_fail(RVIT_UNSUPPORTED, "cuda: the only tier is RVIT_TIER_MATRIX");
    return create(NULL, desc->index, desc->poll_us < 0, alloc, out_device);
}

rvit_status rvit_cu_device_create_on(CUcontext context, const rvit_alloc *alloc, rvit_device **out_device)
{
    return create(context, 0, 0, alloc, out_device);
}

void rvit_cu_device_destroy(rvit_device *base)
{
    rvit_cu_device *device = rvit_cu_device_of(base);
    if (device->context != NULL) {
        int entered = 0;
        const rvit_status status = rvit_cu_enter(device, &entered);
        rvit_cu_lt_close(device, status == RVIT_OK);
        if (status == RVIT_OK) {
            if (device->module != NULL)
                (void)device->driver->cuModuleUnload(device->module);
            rvit_cu_leave(device, entered);
        }
        if (device->retained)
            (void)device->driver->cuDevicePrimaryCtxRelease(device->handle);
    }
    rvit_alloc alloc;
    rvit_alloc_copy(&alloc, &base->alloc);
    rvit_alloc_free(&alloc, device);
}

static int64_t free_memory(const rvit_device *base)
{
    const rvit_cu_device *device = rvit_cu_device_of(base);
    size_t left = 0, total = 0;
    int entered = 0;
    if (rvit_cu_enter(device, &entered) != RVIT_OK || device->driver->cuMemGetInfo(&left, &total) != CUDA_SUCCESS)
        left = 0;
    rvit_cu_leave(device, entered);
    return (int64_t)left;
}

const rvit_backend_api rvit_backend_cuda = {
    .backend = RVIT_BACKEND_CUDA,
    .device_describe = rvit_cu_device_describe,
    .device_create = rvit_cu_device_create,
    .device_destroy = rvit_cu_device_destroy,
    .device_free_memory = free_memory,
    .supports = rvit_cu_supports,
    .prefers_quantized = rvit_cu_prefers_quantized,
    .buffer_create = rvit_cu_buffer_create,
    .buffer_destroy = rvit_cu_buffer_destroy,
    .memory_types = 1 << RVIT_MEMORY_CUDA | 1 << RVIT_MEMORY_EXTERNAL,
    .buffer_wrap = rvit_cu_buffer_wrap,
    .stream_create = rvit_cu_stream_create,
    .stream_wrap = rvit_cu_stream_wrap,
    .stream_set = rvit_cu_stream_set,
    .stream_destroy = rvit_cu_stream_destroy,
    .stream_enqueue = rvit_cu_stream_enqueue,
    .stream_synchronize = rvit_cu_stream_synchronize,
    .semaphore_open = rvit_cu_semaphore_open,
    .semaphore_close = rvit_cu_semaphore_close,
    .stream_semaphore = rvit_cu_stream_semaphore,
    .program_create = rvit_cu_program_create,
    .program_destroy = rvit_cu_program_destroy,
    .program_launch = rvit_cu_program_launch,
};
