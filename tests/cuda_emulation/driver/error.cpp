/* Names of results, and functions by name. */
#include <dlfcn.h>
#include <string.h>

#include <string>

#include "driver.h"

using namespace emu;

namespace
{
const struct {
    CUresult value;
    const char *name, *text;
} results[] = {
#define RESULT(name, text) \
    {                      \
        name, #name, text  \
    }
    RESULT(CUDA_SUCCESS, "no error"),
    RESULT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    RESULT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    RESULT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    RESULT(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    RESULT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    RESULT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    RESULT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    RESULT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    RESULT(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    RESULT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    RESULT(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    RESULT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    RESULT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    RESULT(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    RESULT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    RESULT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to end a thread-local capture sequence from another thread"),
#undef RESULT
};
} // namespace

CUresult cuGetErrorName(CUresult error, const char **text)
{
    EMU_CALL(NOTHING);
    for (const auto &r : results)
        if (r.value == error) {
            *text = r.name;
            return CUDA_SUCCESS;
        }
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    EMU_CALL(NOTHING);
    for (const auto &r : results)
        if (r.value == error) {
            *text = r.text;
            return CUDA_SUCCESS;
        }
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
}

/* The newest version of the function that exists here. */
CUresult cuGetProcAddress(const char *symbol, void **function, int, cuuint64_t, CUdriverProcAddressQueryResult *status)
{
    EMU_CALL(NOTHING);
    if (symbol == nullptr || function == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    Dl_info here;
    *function = nullptr;
    if (dladdr(reinterpret_cast<void *>(cuInit), &here) != 0)
        if (void *self = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD)) {
            for (const char *suffix : {"_v4", "_v3", "_v2", ""})
                if (*function == nullptr)
                    *function = dlsym(self, (std::string(symbol) + suffix).c_str());
            dlclose(self);
        }
    if (status != nullptr)
        *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#pragma GCC visibility push(default)
/* For tests: the number of calls of the driver function with this (versioned) name. */
extern "C" long long rvit_emulation_calls(const char *name)
{
    const std::lock_guard<std::recursive_mutex> held(state().lock);
    long long n = 0;
    for (const auto &entry : state().calls)
        if (strcmp(entry.first, name) == 0)
            n += entry.second;
    return n;
}

/* For tests: the number of reported mistakes. */
extern "C" int rvit_emulation_reports(void)
{
    return reports();
}

/* For libraries next to the driver: whether one allocation contains the memory. */
extern "C" int rvit_emulation_holds(const void *address, size_t size)
{
    const std::lock_guard<std::recursive_mutex> held(state().lock);
    return allocation_of(address, size) != nullptr;
}
#pragma GCC visibility pop
