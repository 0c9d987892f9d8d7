/* Streams, copies and fills, and events. */
#include <pthread.h>
#include <string.h>

#include "driver.h"

namespace emu
{
unsigned long this_thread_number()
{
    return (unsigned long)pthread_self();
}

bool known(CUstream stream)
{
    if (stream != nullptr && state().streams.count(stream) > 0)
        return true;
    report(stream == nullptr ? "use of the default stream" : "use of an invalid or destroyed stream");
    return false;
}

namespace
{
/* Checks both ends: the whole range must be in the allocation where it starts; otherwise it is host memory. */
bool copy_fits(const void *to, const void *from, size_t size)
{
    for (const void *p : {to, from})
        if (p == nullptr || (in_allocation_pages(p) && allocation_of(p, size) == nullptr)) {
            report("copy of %zu bytes: %p is null or too close to the end of its allocation%s", size, p,
                   p ? describe_device_address(p) : "");
            return false;
        }
    return true;
}

CUresult copy(CUstream stream, void *to, const void *from, size_t size)
{
    if (!known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (size == 0)
        return CUDA_SUCCESS;
    if (!copy_fits(to, from, size))
        return CUDA_ERROR_INVALID_VALUE;
    operation op = {};
    op.kind = operation::COPY;
    op.to = static_cast<char *>(to);
    op.from = static_cast<const char *>(from);
    op.size = size;
    return submit(stream, std::move(op));
}

/* Waits for the streams that block the default stream: none, because all are non-blocking. */
CUresult copy_now(void *to, const void *from, size_t size)
{
    if (const CUresult refused = forbidden_while_capturing())
        return refused;
    if (size == 0)
        return CUDA_SUCCESS;
    if (!copy_fits(to, from, size))
        return CUDA_ERROR_INVALID_VALUE;
    protect(true);
    memmove(to, from, size);
    protect(false);
    return CUDA_SUCCESS;
}

CUresult fill(CUstream stream, CUdeviceptr to, unsigned value, unsigned width, size_t n)
{
    if (!known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (n == 0)
        return CUDA_SUCCESS;
    if (to % width || allocation_of((const void *)(uintptr_t)to, n * width) == nullptr) {
        report("fill of %zu bytes at %#llx outside any allocation", n * width, (unsigned long long)to);
        return CUDA_ERROR_INVALID_VALUE;
    }
    operation op = {};
    op.kind = operation::FILL;
    op.to = (char *)(uintptr_t)to;
    op.value = value;
    op.width = width;
    op.size = n * width;
    return submit(stream, std::move(op));
}

void *pointer(CUdeviceptr p)
{
    return (void *)(uintptr_t)p;
}
} // namespace
} // namespace emu

using namespace emu;

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    EMU_CALL(CONTEXT);
    if (const CUresult refused = forbidden_while_capturing())
        return refused;
    if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (fault_allocation())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *stream = new CUstream_st();
    state().streams.insert(*stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    EMU_CALL(CONTEXT);
    if (!known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    flush(stream);
    state().streams.erase(stream);
    if (stream->captured != nullptr && stream->origin)
        delete stream->captured;
    delete stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    EMU_CALL(CONTEXT);
    return known(stream) ? wait_for(stream) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamQuery(CUstream stream)
{
    EMU_CALL(CONTEXT);
    return known(stream) ? wait_for(stream) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    EMU_CALL(CONTEXT);
    return copy(stream, pointer(to), pointer(from), size);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    EMU_CALL(CONTEXT);
    return copy(stream, pointer(to), from, size);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    EMU_CALL(CONTEXT);
    return copy(stream, to, pointer(from), size);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    EMU_CALL(CONTEXT);
    return copy(stream, pointer(to), pointer(from), size);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy_args, CUstream stream)
{
    EMU_CALL(CONTEXT);
    CUresult result = CUDA_SUCCESS;
    if (copy_args->srcMemoryType != CU_MEMORYTYPE_DEVICE || copy_args->dstMemoryType != CU_MEMORYTYPE_DEVICE ||
        copy_args->srcPitch < copy_args->WidthInBytes || copy_args->dstPitch < copy_args->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t y = 0; y < copy_args->Height && result == CUDA_SUCCESS; y++)
        result = copy(stream, pointer(copy_args->dstDevice + y * copy_args->dstPitch),
                      pointer(copy_args->srcDevice + y * copy_args->srcPitch), copy_args->WidthInBytes);
    return result;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size)
{
    EMU_CALL(CONTEXT);
    return copy_now(pointer(to), from, size);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size)
{
    EMU_CALL(CONTEXT);
    return copy_now(to, pointer(from), size);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
    EMU_CALL(CONTEXT);
    return fill(stream, to, value, 1, n);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream)
{
    EMU_CALL(CONTEXT);
    return fill(stream, to, value, 4, n);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    EMU_CALL(CONTEXT);
    if (!known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (function == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    operation op = {};
    op.kind = operation::CALL;
    op.function_of_host = function;
    op.data = data;
    return submit(stream, std::move(op));
}

CUresult cuEventCreate(CUevent *event, unsigned)
{
    EMU_CALL(CONTEXT);
    if (event == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (fault_allocation())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *event = new CUevent_st();
    state().events.insert(*event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
    EMU_CALL(CONTEXT);
    if (state().events.count(event) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    flush_all();
    state().events.erase(event);
    delete event;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    EMU_CALL(CONTEXT);
    if (state().events.count(event) == 0 || !known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    event->stream = stream;
    if (stream->captured != nullptr) /* a graph edge; operations keep their order of capture */
        return stream->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    operation op = {};
    op.kind = operation::RECORD;
    op.event = event;
    return submit(stream, std::move(op));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned)
{
    EMU_CALL(CONTEXT);
    if (state().events.count(event) == 0 || !known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    const CUstream other = state().streams.count(event->stream) ? event->stream : nullptr;
    if (other != nullptr && other->captured != nullptr && stream->captured == nullptr) {
        stream->captured = other->captured; /* joins the capture */
        stream->mode = other->mode;
        stream->capturing_thread = other->capturing_thread;
        stream->origin = false;
        stream->invalid = other->invalid;
    } else if (other != nullptr) {
        flush(other);
    }
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    EMU_CALL(CONTEXT);
    if (state().events.count(event) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult refused = forbidden_while_capturing())
        return refused;
    flush_all();
    return state().lost;
}

CUresult cuEventQuery(CUevent event)
{
    EMU_CALL(CONTEXT);
    if (state().events.count(event) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    flush_all();
    return state().lost;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    EMU_CALL(CONTEXT);
    if (milliseconds == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (state().events.count(start) == 0 || state().events.count(end) == 0 || !start->recorded || !end->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)((end->seconds - start->seconds) * 1e3);
    return CUDA_SUCCESS;
}
