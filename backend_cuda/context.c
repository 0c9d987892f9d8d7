/* Makes a device's context current in the calling thread while the backend uses it. */
#include "backend_cuda/cu.h"

rvit_status rvit_cu_enter(const rvit_cu_device *device, int *out_entered)
{
    CUcontext current = NULL;
    unsigned long long id = device->id;
    *out_entered = 0;
    if (id != 0)
        RVIT_CU_TRY(device->driver, cuCtxGetId, (device->context, &id));
    if (id != device->id)
        return rvit_fail(RVIT_DEVICE_LOST, "cuda: %s was reset after the device was created", device->base.info.name);
    RVIT_CU_TRY(device->driver, cuCtxGetCurrent, (&current));
    if (current == device->context)
        return RVIT_OK;
    RVIT_CU_TRY(device->driver, cuCtxPushCurrent, (device->context));
    *out_entered = 1;
    return RVIT_OK;
}

void rvit_cu_leave(const rvit_cu_device *device, int entered)
{
    CUcontext popped;
    if (entered)
        (void)device->driver->cuCtxPopCurrent(&popped);
}
