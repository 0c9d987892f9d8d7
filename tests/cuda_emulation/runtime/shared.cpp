/* The shared memory of a block, and asynchronous copies to it. */
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "log.h"
#include "machine.h"

namespace emu
{
namespace
{
enum {
    PAGE = 4096,
    GUARD = 1 << 20, /* inaccessible bytes around a block's memory: the next memory may be another block's */
    ALIGNMENT = 128, /* guaranteed alignment of dynamic shared memory */
    FIRST_ADDRESS = 9 * ALIGNMENT,
    PAGES = (MAX_SHARED / PAGE + 2) * PAGE,
    BEFORE = 512 /* bytes checked before dynamic shared memory; after it, all up to the end of the page */
};

/* Static shared variables: the zero-initialised part of this OS thread's thread-local storage. */
struct local_statics {
    int mark;
    char *start;
    size_t size;
};

int find_statics(struct dl_phdr_info *info, size_t, void *data)
{
    local_statics &found = *static_cast<local_statics *>(data);
    const uintptr_t code = (uintptr_t)&find_statics;
    const ElfW(Phdr) *storage = nullptr;
    bool ours = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) &p = info->dlpi_phdr[i];
        if (p.p_type == PT_LOAD && code - (info->dlpi_addr + p.p_vaddr) < p.p_memsz)
            ours = true;
        if (p.p_type == PT_TLS)
            storage = &p;
    }
    if (ours && storage && info->dlpi_tls_data) {
        found.start = static_cast<char *>(info->dlpi_tls_data) + storage->p_filesz;
        found.size = storage->p_memsz - storage->p_filesz;
    }
    return ours;
}

/* The number of checked bytes after dynamic shared memory. */
size_t bytes_after(const block &b)
{
    return (size_t)(b.dynamic_pages + GUARD + PAGES - (b.dynamic + b.dynamic_size));
}

/* An address in another block of the cluster has that block's rank + 1 in the bits above those of a block's own memory. */
enum { RANK_BITS = 24 };
} // namespace

EMU_LOCAL local_statics this_statics = {1, nullptr, 0};

void poison(void *memory, size_t size)
{
    const uint32_t pattern = POISON;
    char *to = static_cast<char *>(memory);
    size_t i = 0;
    for (; i + 4 <= size; i += 4)
        memcpy(to + i, &pattern, 4);
    memcpy(to + i, &pattern, size - i);
}

bool is_poison(const void *memory, size_t size)
{
    const uint32_t pattern = POISON;
    const char *from = static_cast<const char *>(memory);
    size_t i = 0;
    for (; i + 4 <= size; i += 4)
        if (memcmp(from + i, &pattern, 4) != 0)
            return false;
    return memcmp(from + i, &pattern, size - i) == 0;
}

void shared_attach(worker &w)
{
    local_statics &local = this_statics;
    if (local.start == nullptr)
        dl_iterate_phdr(find_statics, &local);
    w.statics = local.start;
    w.statics_size = local.size;
}

void statics_begin(worker &w)
{
    poison(w.statics, w.statics_size);
}

void shared_begin(block &b, size_t dynamic_size)
{
    if (b.dynamic_pages == nullptr) {
        b.dynamic_pages = (char *)mmap(nullptr, PAGES + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (b.dynamic_pages == MAP_FAILED || mprotect(b.dynamic_pages + GUARD, PAGES, PROT_READ | PROT_WRITE) != 0)
            abort();
    }
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(b.dynamic_pages + GUARD, PAGES);
#endif
    b.dynamic_size = dynamic_size;
    b.dynamic = b.dynamic_pages + GUARD + PAGES - (dynamic_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    poison(b.dynamic - BEFORE, BEFORE + dynamic_size);
    poison(b.dynamic + dynamic_size, bytes_after(b));
#if defined(__SANITIZE_ADDRESS__)
    __asan_poison_memory_region(b.dynamic - BEFORE, BEFORE);
    __asan_poison_memory_region(b.dynamic + dynamic_size, bytes_after(b));
#endif
}

/* Blocks of a cluster would share their static shared variables here. */
void shared_end(worker &w)
{
    for (unsigned i = 0; i < w.launch->cluster; i++) {
        w.here = &w.blocks[i];
        const block &b = *w.here;
#if defined(__SANITIZE_ADDRESS__)
        __asan_unpoison_memory_region(b.dynamic_pages + GUARD, PAGES);
#endif
        const bool is_shared = w.launch->cluster > 1 && !is_poison(w.statics, w.statics_size);
        const bool is_damaged = !is_poison(b.dynamic - BEFORE, BEFORE) || !is_poison(b.dynamic + b.dynamic_size, bytes_after(b));
        if (w.failed || (!is_damaged && !is_shared))
            continue;
        char where[256];
        describe_position(w, where, sizeof(where));
        if (is_damaged)
            report("%s: a write outside the %zu bytes of dynamic shared memory", where, b.dynamic_size);
        else
            report("%s: static shared memory in a cluster is not emulated", where);
        w.failed = true;
    }
}

unsigned char *dynamic_shared()
{
    return reinterpret_cast<unsigned char *>(this_worker()->here->dynamic);
}

uint32_t shared_address(site at, const void *pointer)
{
    const block &b = *this_worker()->here;
    const size_t offset = (size_t)(static_cast<const char *>(pointer) - b.dynamic);
    if (offset > b.dynamic_size)
        fail("%s:%d: %p is not in dynamic shared memory", at.file, at.line, pointer);
    return (uint32_t)(FIRST_ADDRESS + offset);
}

void *shared_bytes(site at, uint32_t shared, size_t size)
{
    return shared_bytes_of(*this_worker()->here, at, shared, size);
}

void *shared_bytes_of(const block &b, site at, uint32_t shared, size_t size)
{
    if (shared >> RANK_BITS != 0)
        fail("%s:%d: an address in another block of the cluster, expected one in the block's own memory", at.file, at.line);
    const int64_t offset = (int64_t)shared - FIRST_ADDRESS;
    if (offset < 0 || (size_t)offset + size > b.dynamic_size)
        fail("%s:%d: access to bytes %lld to %lld of %zu bytes of dynamic shared memory", at.file, at.line, (long long)offset,
             (long long)(offset + (int64_t)size - 1), b.dynamic_size);
    if (shared % size)
        fail("%s:%d: shared address %u is not a multiple of %zu", at.file, at.line, shared, size);
    return b.dynamic + offset;
}

uint32_t cluster_address(site at, uint32_t shared, int rank)
{
    const worker &w = *this_worker();
    if (shared >> RANK_BITS != 0 || rank < 0 || (unsigned)rank >= w.launch->cluster)
        fail("%s:%d: rank %d of a cluster of %u blocks", at.file, at.line, rank, w.launch->cluster);
    return shared | ((uint32_t)rank + 1) << RANK_BITS;
}

block &block_of_address(site at, uint32_t &shared)
{
    worker &w = *this_worker();
    const uint32_t rank = shared >> RANK_BITS;
    shared &= (1u << RANK_BITS) - 1;
    if (rank == 0 || rank - 1 == w.here->rank)
        return *w.here;
    block &b = w.blocks[rank - 1];
    if (w.cluster_barrier.phase == 0)
        fail("%s:%d: memory of a block of the cluster that may not have started", at.file, at.line);
    if (b.live == 0)
        fail("%s:%d: memory of a block of the cluster that has ended", at.file, at.line);
    return b;
}

void copy_async(site at, uint32_t shared, const void *source, int size, bool valid)
{
    fiber &f = *this_worker()->current;
    void *to = shared_bytes(at, shared, (size_t)size);
    if (valid) { /* reports a bad source here, not at the wait */
        if ((uintptr_t)source % (size_t)size)
            fail("%s:%d: source %p is not a multiple of %d", at.file, at.line, source, size);
        const volatile char *bytes = static_cast<const volatile char *>(source);
        (void)bytes[0];
        (void)bytes[size - 1];
        if (watching_races)
            note_access(source, (size_t)size, false, __builtin_return_address(0));
    }
    if (watching_races)
        note_access(to, (size_t)size, true, __builtin_return_address(0));
    poison(to, (size_t)size);
    f.copies.push_back({to, source, size, valid});
}

void copy_async_commit()
{
    fiber &f = *this_worker()->current;
    f.groups.push_back(f.copies.size());
}

void copy_async_wait(int pending)
{
    fiber &f = *this_worker()->current;
    if (f.groups.size() <= f.landed_groups + (size_t)pending)
        return;
    f.landed_groups = f.groups.size() - (size_t)pending;
    for (; f.landed_copies < f.groups[f.landed_groups - 1]; f.landed_copies++) {
        const async_copy &c = f.copies[f.landed_copies];
        if (watching_races)
            note_access(c.to, (size_t)c.size, true, __builtin_return_address(0));
        if (c.valid)
            memcpy(c.to, c.source, (size_t)c.size);
        else
            memset(c.to, 0, (size_t)c.size);
    }
    if (f.landed_copies == f.copies.size()) /* groups in flight are empty */
        copies_discard(f);
}

void copies_discard(fiber &f)
{
    f.copies.clear();
    f.groups.clear();
    f.landed_copies = f.landed_groups = 0;
}
} // namespace emu
