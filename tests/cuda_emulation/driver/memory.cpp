/* Device and page-locked memory. Each allocation is between inaccessible pages and ends at most 255 bytes before one; writes to those bytes
   are detected. Freed addresses are not reused. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "runtime/machine.h"

namespace emu
{
namespace
{
const size_t PAGE = 4096, ALIGNMENT = 256;

size_t round_up(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

char *after_end(uintptr_t start, const allocation &a)
{
    return reinterpret_cast<char *>(start) + a.size;
}

size_t watched(uintptr_t start, const allocation &a)
{
    return (size_t)(a.pages + a.pages_size - PAGE - after_end(start, a));
}

bool damaged(uintptr_t start, const allocation &a)
{
#if defined(__SANITIZE_ADDRESS__)
    (void)start, (void)a;
    return false; /* it is poisoned */
#else
    if (is_poison(after_end(start, a), watched(start, a)))
        return false;
    report("a write past the end of the %zu bytes at %#llx", a.size, (unsigned long long)start);
    return true;
#endif
}

CUresult allocate(size_t size, bool host, void **out)
{
    driver_state &s = state();
    if (size == 0 || out == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (fault_allocation() || size > memory_size() || s.allocated + size > memory_size())
        return CUDA_ERROR_OUT_OF_MEMORY;
    const size_t inner = round_up(size, PAGE), total = inner + 2 * PAGE;
    char *pages = (char *)mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (mprotect(pages + PAGE, inner, PROT_READ | PROT_WRITE) != 0) {
        munmap(pages, total);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    char *start = pages + PAGE + inner - round_up(size, ALIGNMENT);
    const allocation a = {size, pages, total, host, current_context()};
    poison(start, size);
    poison(start + size, watched((uintptr_t)start, a));
#if defined(__SANITIZE_ADDRESS__)
    __asan_poison_memory_region(start + size, watched((uintptr_t)start, a));
#endif
    s.allocations[(uintptr_t)start] = a;
    s.allocated += size;
    *out = start;
    return CUDA_SUCCESS;
}

void release(std::map<uintptr_t, allocation>::iterator found)
{
    driver_state &s = state();
    const allocation a = found->second;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(after_end(found->first, a), watched(found->first, a));
#endif
    s.freed[found->first] = a.size;
    s.allocated -= a.size;
    s.allocations.erase(found);
    mmap(a.pages, a.pages_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

CUresult deallocate(uintptr_t start, bool host)
{
    driver_state &s = state();
    const auto found = s.allocations.find(start);
    if (found == s.allocations.end() || found->second.host != host) {
        report("free of %#llx, which is not a%s allocation%s", (unsigned long long)start, host ? " page-locked" : " device",
               s.freed.count(start) ? " (already freed)" : "");
        return CUDA_ERROR_INVALID_VALUE;
    }
    flush_all();
    const bool bad = damaged(found->first, found->second);
    release(found);
    return bad ? CUDA_ERROR_ILLEGAL_ADDRESS : s.lost;
}
} // namespace

EMU_LOCAL struct {
    char mark, text[127];
} text_of_address = {1, ""};

const allocation *allocation_of(const void *p, size_t size, uintptr_t *out_start)
{
    const std::map<uintptr_t, allocation> &all = state().allocations;
    auto next = all.upper_bound((uintptr_t)p);
    if (next == all.begin())
        return nullptr;
    --next;
    const size_t offset = (uintptr_t)p - next->first;
    if (offset > next->second.size || next->second.size - offset < size)
        return nullptr;
    if (out_start)
        *out_start = next->first;
    return &next->second;
}

bool in_allocation_pages(const void *p)
{
    const std::map<uintptr_t, allocation> &all = state().allocations;
    auto next = all.upper_bound((uintptr_t)p);
    if (next != all.end() && (uintptr_t)next->second.pages <= (uintptr_t)p)
        return true;
    if (next == all.begin())
        return false;
    --next;
    return (uintptr_t)p < (uintptr_t)next->second.pages + next->second.pages_size;
}

const char *describe_device_address(const void *p)
{
    const std::map<uintptr_t, allocation> &all = state().allocations;
    const uintptr_t at = (uintptr_t)p;
    text_of_address.text[0] = '\0';
    for (const auto &entry : all) {
        const allocation &a = entry.second;
        if (at < (uintptr_t)a.pages || at >= (uintptr_t)a.pages + a.pages_size)
            continue;
        if (at < entry.first)
            snprintf(text_of_address.text, sizeof(text_of_address.text), ", %llu bytes before an allocation of %zu bytes",
                     (unsigned long long)(entry.first - at), a.size);
        else
            snprintf(text_of_address.text, sizeof(text_of_address.text), ", byte %llu of an allocation of %zu bytes",
                     (unsigned long long)(at - entry.first), a.size);
    }
    for (const auto &entry : state().freed)
        if (text_of_address.text[0] == '\0' && at >= entry.first && at < entry.first + entry.second)
            snprintf(text_of_address.text, sizeof(text_of_address.text), ", byte %llu of %zu bytes that have been freed",
                     (unsigned long long)(at - entry.first), entry.second);
    return text_of_address.text;
}

bool damaged_allocations()
{
    bool any = false;
    for (const auto &entry : state().allocations)
        any = damaged(entry.first, entry.second) || any;
    return any;
}

void release_all_memory(CUcontext context)
{
    std::map<uintptr_t, allocation> &all = state().allocations;
    for (auto next = all.begin(); next != all.end();) {
        const auto present = next++;
        if (present->second.context == context)
            release(present);
    }
}

void protect(bool execute)
{
    const char *text = getenv("RVIT_EMU_PROTECT");
    if (text == nullptr || strcmp(text, "0") == 0)
        return;
    for (const auto &entry : state().allocations)
        if (!entry.second.host)
            mprotect(entry.second.pages + PAGE, entry.second.pages_size - 2 * PAGE, execute ? PROT_READ | PROT_WRITE : PROT_NONE);
}
} // namespace emu

using namespace emu;

CUresult cuMemAlloc(CUdeviceptr *out, size_t size)
{
    EMU_CALL(CONTEXT);
    if (const CUresult refused = forbidden_while_capturing())
        return refused;
    void *start = nullptr;
    const CUresult result = allocate(size, false, &start);
    if (result == CUDA_SUCCESS) {
        *out = (CUdeviceptr)(uintptr_t)start;
        protect(false);
    }
    return result;
}

CUresult cuMemFree(CUdeviceptr p)
{
    EMU_CALL(CONTEXT);
    if (const CUresult refused = forbidden_while_capturing())
        return refused;
    if (p == 0)
        return CUDA_SUCCESS;
    protect(true);
    const CUresult result = deallocate((uintptr_t)p, false);
    protect(false);
    return result;
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
    EMU_CALL(CONTEXT);
    if (const CUresult refused = forbidden_while_capturing())
        return refused;
    if (flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(size, true, out);
}

CUresult cuMemFreeHost(void *p)
{
    EMU_CALL(CONTEXT);
    if (const CUresult refused = forbidden_while_capturing())
        return refused;
    return p == nullptr ? CUDA_SUCCESS : deallocate((uintptr_t)p, true);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned flags)
{
    EMU_CALL(CONTEXT);
    const allocation *a = allocation_of(p, 1);
    if (out == nullptr || flags != 0 || a == nullptr || !a->host)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *unused, size_t *total)
{
    EMU_CALL(CONTEXT);
    if (unused == nullptr || total == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *total = memory_size();
    *unused = *total - state().allocated;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr p)
{
    EMU_CALL(INITIALISED);
    uintptr_t start = 0;
    const allocation *a = allocation_of((const void *)(uintptr_t)p, 1, &start);
    if (data == nullptr || a == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const CUdeviceptr device_start = (CUdeviceptr)start;
    void *host = (void *)(uintptr_t)p;
    const unsigned type = a->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE, managed = 0;
    const int ordinal = 0;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        memcpy(data, &a->context, sizeof(a->context));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        memcpy(data, &type, sizeof(type));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        memcpy(data, &p, sizeof(p));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!a->host)
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(data, &host, sizeof(host));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        memcpy(data, &managed, sizeof(managed));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        memcpy(data, &ordinal, sizeof(ordinal));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        memcpy(data, &device_start, sizeof(device_start));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        memcpy(data, &a->size, sizeof(a->size));
        return CUDA_SUCCESS;
    default:
        report("cuPointerGetAttribute: the emulation does not know attribute %d", (int)attribute);
        return CUDA_ERROR_INVALID_VALUE;
    }
}
