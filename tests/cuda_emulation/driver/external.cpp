/* External memory and semaphores, imported from files in memory. A semaphore is a 64-bit number at the start of the file; a wait for a
   larger number is an error. A binary semaphore is 1 when signalled. */
#include "driver.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace emu
{
namespace
{
const size_t PAGE = 4096;

size_t whole_pages(size_t size)
{
    return (size + PAGE - 1) / PAGE * PAGE;
}

bool is_file_of(int fd, size_t size)
{
    struct stat s;
    return fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && (size_t)s.st_size >= size;
}

struct use {
    CUexternalSemaphore semaphore;
    uint64_t value;
};

/* Runs in stream order, so that late operations also see the value late. */
void signal_now(void *data)
{
    const use *u = static_cast<use *>(data);
    *u->semaphore->value = u->semaphore->timeline ? u->value : 1;
    delete u;
}

void wait_now(void *data)
{
    const use *u = static_cast<use *>(data);
    const uint64_t wanted = u->semaphore->timeline ? u->value : 1;
    if (*u->semaphore->value < wanted)
        report("a stream waits for value %llu of a semaphore whose value is %llu", (unsigned long long)wanted,
               (unsigned long long)*u->semaphore->value);
    if (!u->semaphore->timeline)
        *u->semaphore->value = 0;
    delete u;
}

CUresult enqueue(CUstream stream, CUexternalSemaphore semaphore, uint64_t value, CUhostFn function)
{
    if (!known(stream) || state().semaphores.count(semaphore) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    operation op = {};
    op.kind = operation::CALL;
    op.function_of_host = function;
    op.data = new use{semaphore, value};
    return submit(stream, std::move(op));
}
} // namespace
} // namespace emu

using namespace emu;

CUresult cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    EMU_CALL(CONTEXT);
    if (out == nullptr || desc == nullptr || desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD || desc->size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_file_of(desc->handle.fd, desc->size))
        return CUDA_ERROR_INVALID_HANDLE;
    if (fault_allocation())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = new CUextMemory_st{desc->handle.fd, desc->size};
    state().memories.insert(*out);
    return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    EMU_CALL(CONTEXT);
    if (out == nullptr || desc == nullptr || state().memories.count(memory) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (desc->size == 0 || desc->offset > memory->size || desc->size > memory->size - desc->offset || desc->offset % 256 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    const size_t before = desc->offset % PAGE, inner = whole_pages(before + desc->size), total = inner + 2 * PAGE;
    char *pages = (char *)mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (mmap(pages + PAGE, inner, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->fd, (off_t)(desc->offset - before)) ==
        MAP_FAILED) {
        munmap(pages, total);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* Up to the end of the last page. The rest belongs to the exporter and is not checked. */
    const allocation a = {inner - before, pages, total, false, current_context()};
    char *start = pages + PAGE + before;
    state().allocations[(uintptr_t)start] = a;
    state().allocated += a.size;
    *out = (CUdeviceptr)(uintptr_t)start;
    return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    EMU_CALL(CONTEXT);
    if (state().memories.erase(memory) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    close(memory->fd);
    delete memory;
    return CUDA_SUCCESS;
}

CUresult cuImportExternalSemaphore(CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
    EMU_CALL(CONTEXT);
    const bool timeline = desc != nullptr && desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
    if (out == nullptr || desc == nullptr || (!timeline && desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_file_of(desc->handle.fd, sizeof(uint64_t)))
        return CUDA_ERROR_INVALID_HANDLE;
    void *value = mmap(nullptr, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, desc->handle.fd, 0);
    if (value == MAP_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *out = new CUextSemaphore_st{desc->handle.fd, static_cast<uint64_t *>(value), timeline};
    state().semaphores.insert(*out);
    return CUDA_SUCCESS;
}

CUresult cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned n,
                                       CUstream stream)
{
    EMU_CALL(CONTEXT);
    if (semaphores == nullptr || params == nullptr || n != 1)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, semaphores[0], params[0].params.fence.value, wait_now);
}

CUresult cuSignalExternalSemaphoresAsync(const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params,
                                         unsigned n, CUstream stream)
{
    EMU_CALL(CONTEXT);
    if (semaphores == nullptr || params == nullptr || n != 1)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, semaphores[0], params[0].params.fence.value, signal_now);
}

CUresult cuDestroyExternalSemaphore(CUexternalSemaphore semaphore)
{
    EMU_CALL(CONTEXT);
    if (state().semaphores.count(semaphore) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    flush_all();
    state().semaphores.erase(semaphore);
    munmap(semaphore->value, PAGE);
    close(semaphore->fd);
    delete semaphore;
    return CUDA_SUCCESS;
}
