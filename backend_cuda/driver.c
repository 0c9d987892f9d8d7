/* Opens the CUDA driver and maps its results to statuses. */
#include "backend_cuda/driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/os.h"

#define LIBRARY RVIT_OS_LIBRARY("libcuda.so.1", "libcuda.dylib", "nvcuda.dll")

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define NAME_OF(name) TEXT(name),
static const char *const names[] = {RVIT_CU_FUNCTIONS(NAME_OF) RVIT_CU_LATER_FUNCTIONS(NAME_OF) RVIT_CU_MAP_FUNCTIONS(NAME_OF)};
#define ONE_OF(name) +1
enum { N_FUNCTIONS = (int)(sizeof names / sizeof names[0]), N_NEEDED = 0 RVIT_CU_FUNCTIONS(ONE_OF) };

_Static_assert(sizeof(rvit_cu_driver) == N_FUNCTIONS * sizeof(void (*)(void)), "one function pointer for each name");
_Static_assert(sizeof(void *) == sizeof(void (*)(void)), "dlsym gives functions as object pointers");

static rvit_once once = RVIT_ONCE_INIT;
static rvit_cu_driver opened;
static rvit_status opened_status;
static char opened_detail[256];

__attribute__((format(printf, 1, 2))) static void unavailable(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(opened_detail, sizeof opened_detail, format, arguments);
    va_end(arguments);
    opened_status = RVIT_UNAVAILABLE;
}

static void open_driver(void)
{
    RVIT_SIGNALS_BLOCKED;
    static const char *const files[] = {LIBRARY, NULL};
    void *functions[N_FUNCTIONS];
    char why_not[192];
    if (rvit_library_open(files, names, N_NEEDED, N_FUNCTIONS, functions, why_not, sizeof why_not) == NULL) {
        unavailable("CUDA: %s; %s comes with the NVIDIA driver", why_not, LIBRARY);
        return;
    }
    memcpy(&opened, functions, sizeof opened);
    const CUresult result = opened.cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE) {
        unavailable("CUDA: the driver finds no device: cuInit failed: CUDA_ERROR_NO_DEVICE (%d)", (int)result);
    } else if (result == CUDA_ERROR_STUB_LIBRARY) {
        unavailable("CUDA: %s is the toolkit's stub, not a driver: remove its folder from LD_LIBRARY_PATH", LIBRARY);
    } else if (result != CUDA_SUCCESS) {
        const char *name = NULL, *text = NULL;
        (void)opened.cuGetErrorName(result, &name);
        (void)opened.cuGetErrorString(result, &text);
        unavailable("CUDA: cuInit failed: %s (%d): %s", name != NULL ? name : "unknown result", (int)result,
                    text != NULL ? text : "no description");
    }
}

rvit_status rvit_cu_driver_open(const rvit_cu_driver **out_driver)
{
    rvit_once_run(&once, open_driver);
    if (opened_status != RVIT_OK)
        return rvit_fail(opened_status, "%s", opened_detail);
    *out_driver = &opened;
    return RVIT_OK;
}

static rvit_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return RVIT_OUT_OF_DEVICE_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_MPS_CONNECTION_FAILED:
    case CUDA_ERROR_MPS_SERVER_NOT_READY:
    case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
    case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
        return RVIT_UNAVAILABLE;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_NOT_SUPPORTED:
        return RVIT_UNSUPPORTED;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
#if CUDA_VERSION >= 13000
    case CUDA_ERROR_CONTAINED:
#endif
    case CUDA_ERROR_MPS_RPC_FAILURE:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
        return RVIT_DEVICE_LOST;
    default:
        return RVIT_INTERNAL;
    }
}

rvit_status rvit_cu_fail(const rvit_cu_driver *driver, CUresult result, const char *call)
{
    const char *name = NULL, *text = NULL;
    (void)driver->cuGetErrorName(result, &name);
    (void)driver->cuGetErrorString(result, &text);
    return rvit_fail(status_of(result), "%s failed: %s (%d): %s", call, name != NULL ? name : "unknown result", (int)result,
                     text != NULL ? text : "no description");
}
