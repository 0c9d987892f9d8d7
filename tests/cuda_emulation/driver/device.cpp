/* Initialisation, the device, and contexts. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/machine.h"

namespace emu
{
EMU_LOCAL struct {
    int mark, depth;
    CUcontext contexts[62];
} this_stack = {1, 0, {}};

namespace
{
const device_model models[] = {
    {75, 40, 65536, 65536, 4 << 20},     {80, 108, 166912, 167936, 40 << 20}, {86, 48, 101376, 102400, 4 << 20},
    {89, 48, 101376, 102400, 48 << 20},  {90, 132, 232448, 233472, 50 << 20}, {100, 148, 232448, 233472, 126 << 20},
    {120, 70, 101376, 102400, 48 << 20},
};

bool usable(CUcontext context)
{
    driver_state &s = state();
    return context == &s.primary ? s.primary.references > 0 && !s.primary.gone : s.contexts.count(context) > 0;
}

void report_leaks(const driver_state &s)
{
    const size_t external = s.memories.size() + s.semaphores.size();
    const size_t n =
        s.allocations.size() + s.modules.size() + s.streams.size() + s.events.size() + s.graphs.size() + s.executables.size() + external;
    if (n > 0)
        report("the primary context is destroyed with %zu allocations, %zu modules, %zu streams, %zu events, %zu graphs, %zu executable "
               "graphs, "
               "%zu external objects in it",
               s.allocations.size(), s.modules.size(), s.streams.size(), s.events.size(), s.graphs.size(), s.executables.size(), external);
}
} // namespace

/* The context and everything in it has been destroyed. */
void release_all_objects()
{
    driver_state &s = state();
    for (CUmodule each : s.modules)
        delete each;
    for (CUstream each : s.streams)
        delete each;
    for (CUevent each : s.events)
        delete each;
    for (CUgraph each : s.graphs)
        delete each;
    for (CUgraphExec each : s.executables)
        delete each;
    for (CUexternalMemory each : s.memories)
        delete each;
    for (CUexternalSemaphore each : s.semaphores)
        delete each;
    s.modules.clear();
    s.streams.clear();
    s.events.clear();
    s.graphs.clear();
    s.executables.clear();
    s.memories.clear();
    s.semaphores.clear();
}

driver_state &state()
{
    static driver_state *const s = new driver_state; /* never destroyed: a program may make calls during exit */
    return *s;
}

const device_model &model()
{
    const char *text = getenv("RVIT_EMU_ARCH");
    const int wanted = text ? atoi(text) : 89;
    for (const device_model &m : models)
        if (m.capability == wanted)
            return m;
    return models[3];
}

CUcontext current_context()
{
    return this_stack.depth ? this_stack.contexts[this_stack.depth - 1] : nullptr;
}

call::call(const char *name, needs what) : held(state().lock), result(CUDA_SUCCESS)
{
    driver_state &s = state();
    s.calls[name]++;
    if (what >= INITIALISED && !s.initialised)
        result = CUDA_ERROR_NOT_INITIALIZED;
    else if (what >= CONTEXT && current_context() == nullptr)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (what >= CONTEXT && !usable(current_context()))
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else if (what >= CONTEXT)
        result = s.lost;
}
} // namespace emu

using namespace emu;

CUresult cuInit(unsigned flags)
{
    EMU_CALL(NOTHING);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fault_no_device())
        return CUDA_ERROR_NO_DEVICE;
    state().initialised = true;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    EMU_CALL(NOTHING);
    if (version == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *version = fault_driver_version();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    EMU_CALL(INITIALISED);
    if (count == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *count = fault_no_device() ? 0 : 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    EMU_CALL(INITIALISED);
    if (device == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (ordinal != 0 || fault_no_device())
        return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    EMU_CALL(INITIALISED);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (name == nullptr || size < 1)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)size, "CUDA emulation on the CPU");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    EMU_CALL(INITIALISED);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (uuid == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, "emulated on CPU", 16);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *name, int size, CUdevice device)
{
    EMU_CALL(INITIALISED);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (name == nullptr || size < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)size, "0000:0A:1F.0");
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    EMU_CALL(INITIALISED);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (bytes == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = memory_size();
    return CUDA_SUCCESS;
}

namespace
{
/* -1: unknown to the emulation. */
int attribute_value(CUdevice_attribute attribute)
{
    const device_model &m = model();
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return m.shared_per_block;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return m.shared_per_processor;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        return m.capability < 80 ? 0 : 1024;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return m.capability == 75 ? 1024 : m.capability % 10 ? 1536 : 2048;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: {
        const char *text = getenv("RVIT_EMU_PROCESSORS");
        return text ? atoi(text) : m.processors;
    }
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return m.l2_size;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return m.capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return m.capability % 10;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return 1000000;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
        return 1;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 0;
    default:
        return -1;
    }
}
} // namespace

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    EMU_CALL(INITIALISED);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (value == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute_value(attribute);
    if (*value < 0) {
        report("cuDeviceGetAttribute: the emulation does not know attribute %d", (int)attribute);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    EMU_CALL(INITIALISED);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (context == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    driver_state &s = state();
    if (!usable(&s.primary))
        faults_restart();
    if (fault_allocation())
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!usable(&s.primary))
        s.primary.id = ++s.ids;
    s.primary.gone = false;
    s.primary.references++;
    *context = &s.primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    EMU_CALL(INITIALISED);
    driver_state &s = state();
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (s.primary.references == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--s.primary.references > 0 || s.primary.gone)
        return CUDA_SUCCESS;
    if (s.lost == CUDA_SUCCESS && s.contexts.empty())
        report_leaks(s);
    release_all_memory(&s.primary);
    if (s.contexts.empty())
        release_all_objects();
    s.lost = CUDA_SUCCESS;
    return CUDA_SUCCESS;
}

/* Retained references stay. */
CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    EMU_CALL(INITIALISED);
    driver_state &s = state();
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    release_all_memory(&s.primary);
    if (s.contexts.empty())
        release_all_objects();
    s.primary.gone = true;
    s.lost = CUDA_SUCCESS;
    return CUDA_SUCCESS;
}

/* Ids are unique, also for a primary context before and after a reset. */
CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    EMU_CALL(INITIALISED);
    if (context == nullptr)
        context = current_context();
    if (context == nullptr || id == nullptr)
        return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    if (!usable(context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = context->id;
    return CUDA_SUCCESS;
}

/* A context owned by the caller, for tests with memory of another context. */
CUresult cuCtxCreate(CUcontext *context,
#if CUDA_VERSION >= 13000
                     CUctxCreateParams *,
#endif
                     unsigned, CUdevice device)
{
    EMU_CALL(INITIALISED);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (context == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (this_stack.depth == (int)(sizeof(this_stack.contexts) / sizeof(*this_stack.contexts)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *context = new CUctx_st{1, false, ++state().ids};
    state().contexts.insert(*context);
    this_stack.contexts[this_stack.depth++] = *context;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext context)
{
    EMU_CALL(INITIALISED);
    if (state().contexts.erase(context) == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    release_all_memory(context);
    if (current_context() == context)
        this_stack.depth--;
    delete context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    EMU_CALL(INITIALISED);
    if (context == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *context = current_context();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    EMU_CALL(INITIALISED);
    if (context != nullptr && !usable(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (this_stack.depth > 0)
        this_stack.depth--;
    if (context != nullptr)
        this_stack.contexts[this_stack.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    EMU_CALL(INITIALISED);
    if (context == nullptr || (context != &state().primary && !usable(context)))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (this_stack.depth == (int)(sizeof(this_stack.contexts) / sizeof(*this_stack.contexts)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    this_stack.contexts[this_stack.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    EMU_CALL(INITIALISED);
    if (this_stack.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    const CUcontext top = this_stack.contexts[--this_stack.depth];
    if (context != nullptr)
        *context = top;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    EMU_CALL(INITIALISED);
    if (current_context() == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (device == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    EMU_CALL(CONTEXT);
    if (const CUresult refused = forbidden_while_capturing())
        return refused;
    flush_all();
    return state().lost;
}
