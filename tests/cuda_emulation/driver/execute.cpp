/* Executes launches, copies and fills, when they are enqueued or, with RVIT_EMU_LATE, when the host waits. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

namespace emu
{
namespace
{
double now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct range {
    uintptr_t start, end;
};

range heap()
{
    static uintptr_t start = 0;
    if (start == 0) {
        char line[512];
        unsigned long long from = 0;
        FILE *maps = fopen("/proc/self/maps", "r");
        while (maps != nullptr && fgets(line, sizeof(line), maps) != nullptr)
            if (strstr(line, "[heap]") != nullptr && sscanf(line, "%llx", &from) == 1)
                start = (uintptr_t)from;
        if (maps != nullptr)
            fclose(maps);
    }
    return {start, start ? (uintptr_t)sbrk(0) : 0};
}

/* The stack of the calling thread. */
range stack()
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return {here, here + (256 << 10)};
}

/* Whether a parameter points into the host's heap or stack, which kernels cannot access. Two cases are not pointers: a number whose low
   half is small, with stale data in the padding after it; and a float followed by zeros, if the heap has low addresses: its high half is
   0. */
bool host_address(uint64_t word, const range (&ranges)[2])
{
    for (const range &r : ranges)
        if (word >= r.start && word < r.end && (uint32_t)word >= 1u << 26 && word >> 32 != 0)
            return true;
    return false;
}

bool parameters_fit(const operation &op)
{
    const kernel &k = *op.function->entry;
    const range ranges[2] = {heap(), stack()};
    for (int i = 0; i < k.n_parameters; i++)
        for (size_t at = 0; at + 8 <= k.sizes[i]; at += 8) {
            uint64_t word;
            memcpy(&word, op.parameters.data() + op.offsets[(size_t)i] + at, 8);
            if (host_address(word, ranges)) {
                report("%s: byte %zu of parameter %d contains %#llx, a host address", k.name, at, i, (unsigned long long)word);
                return false;
            }
        }
    return true;
}

bool run_kernel(const operation &op)
{
    const void *arguments[64];
    for (size_t i = 0; i < op.offsets.size(); i++)
        arguments[i] = op.parameters.data() + op.offsets[i];
    describe_address = describe_device_address;
    if (!parameters_fit(op) || !launch(*op.function->entry, op.shape, arguments))
        return false;
    if (damaged_allocations()) {
        report("... by %s", op.function->entry->name);
        return false;
    }
    return true;
}

void execute(const operation &op)
{
    driver_state &s = state();
    if (s.lost != CUDA_SUCCESS)
        return;
    switch (op.kind) {
    case operation::LAUNCH:
        if (!run_kernel(op))
            s.lost = CUDA_ERROR_ILLEGAL_ADDRESS;
        break;
    case operation::COPY:
        memmove(op.to, op.staged ? op.staged->data() : op.from, op.size);
        break;
    case operation::FILL:
        for (size_t i = 0; i < op.size; i += op.width)
            memcpy(op.to + i, &op.value, op.width); /* the low bytes */
        break;
    case operation::RECORD:
        op.event->recorded = true;
        op.event->seconds = now();
        break;
    case operation::CALL:
        op.function_of_host(op.data);
        break;
    }
}

void spoil(CUstream stream)
{
    for (CUstream other : state().streams)
        if (other->captured != nullptr && other->captured == stream->captured)
            other->invalid = true;
}
} // namespace

CUresult forbidden_while_capturing()
{
    for (CUstream stream : state().streams)
        if (stream->captured != nullptr && stream->origin &&
            (stream->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
             (stream->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && stream->capturing_thread == this_thread_number()))) {
            spoil(stream);
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return CUDA_SUCCESS;
}

CUresult wait_for(CUstream stream)
{
    if (stream->captured != nullptr) {
        spoil(stream);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    flush(stream);
    return state().lost;
}

CUresult submit(CUstream stream, operation &&op)
{
    if (stream->captured != nullptr) {
        if (stream->invalid)
            return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        stream->captured->operations.push_back(std::move(op));
        return CUDA_SUCCESS;
    }
    if (late()) {
        if (op.kind == operation::COPY && !op.staged && allocation_of(op.from, op.size) == nullptr)
            op.staged = std::make_shared<std::vector<char>>(op.from, op.from + op.size);
        stream->queue.push_back(std::move(op));
        return CUDA_SUCCESS;
    }
    protect(true);
    execute(op);
    protect(false);
    return CUDA_SUCCESS;
}

void flush(CUstream stream)
{
    if (stream->queue.empty())
        return;
    std::vector<operation> queue;
    queue.swap(stream->queue);
    protect(true);
    for (const operation &op : queue)
        execute(op);
    protect(false);
}

void flush_all()
{
    for (CUstream stream : state().streams)
        flush(stream);
}
} // namespace emu
