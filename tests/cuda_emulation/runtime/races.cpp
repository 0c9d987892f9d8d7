/* Accesses of different threads to the same shared memory that no barrier orders. Where the kernels are compiled with -fsanitize=thread,
   the compiler calls the functions at the end of this file before each access; no sanitizer library is linked.

   Two accesses of a block are ordered by a block barrier between them, and those of one warp also by a warp barrier. Other collectives
   make lanes wait for each other but order no memory. Threads that write the same value to the same place may do so at once. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "machine.h"

namespace emu
{
bool watching_races = false;

namespace
{
enum : uint16_t { SEVERAL_LANES = 0x8000, SEVERAL_WARPS = 0xffff };
enum { CELL = 2 };

/* The last write to CELL bytes, and the reads since. epoch: block barriers, of all blocks that the worker has run; order: warp barriers.
   A reader may stand for several: lanes of one warp, or threads of several. */
struct cell {
    uint32_t written_epoch, read_epoch, written_order, read_order, written_at, read_at;
    uint16_t writer, reader;
};

uint32_t place(const void *code)
{
    Dl_info module;
    static const uintptr_t base = dladdr(reinterpret_cast<void *>(&place), &module) ? (uintptr_t)module.dli_fbase : 0;
    return (uint32_t)((uintptr_t)code - base);
}

bool ordered(const fiber &f, unsigned other, uint32_t order)
{
    return other / WARP == f.id / WARP && order < f.home->order;
}

/* A write where another thread has written: harmless if it leaves what was there. */
struct suspect {
    int mark;
    size_t size; /* 0: none */
    const void *address;
    const char *memory;
    size_t offset;
    const void *code;
    uint32_t before;
    uint16_t other;
    unsigned char old[16];
};
} // namespace

EMU_LOCAL suspect this_suspect = {1, 0, nullptr, nullptr, 0, nullptr, 0, 0, {0}};

namespace
{
[[noreturn]] void race(const char *what, const fiber &f, const char *memory, size_t offset, const void *code, uint32_t before,
                       unsigned other)
{
    char who[64];
    if (other == SEVERAL_WARPS)
        snprintf(who, sizeof(who), "threads of several warps");
    else if (other & SEVERAL_LANES)
        snprintf(who, sizeof(who), "lanes of warp %u", other & ~(unsigned)SEVERAL_LANES);
    else
        snprintf(who, sizeof(who), "thread %u", other);
    fail("thread %u %s (byte %zu of %s shared memory, no barrier between); code at +%#x, and before it at +%#x by %s", f.id, what, offset,
         memory, place(code), before, who);
}

void read_cell(cell &c, uint32_t epoch, const fiber &f, const char *memory, size_t offset, const void *code)
{
    const uint32_t order = f.home->order;
    if (c.written_epoch == epoch && c.writer != f.id && !ordered(f, c.writer, c.written_order))
        race("reads what another has written", f, memory, offset, code, c.written_at, c.writer);
    const uint16_t warp = (uint16_t)(f.id / WARP);
    if (c.read_epoch != epoch || c.reader == f.id)
        c.reader = (uint16_t)f.id;
    else if (c.reader == SEVERAL_WARPS)
        return;
    else if (c.reader & SEVERAL_LANES ? c.reader != (SEVERAL_LANES | warp) : c.reader / WARP != warp)
        c.reader = SEVERAL_WARPS;
    else
        c.reader = SEVERAL_LANES | warp;
    c.read_epoch = epoch;
    c.read_order = order;
    c.read_at = place(code);
}

void write_cell(cell &c, uint32_t epoch, const fiber &f, const char *memory, size_t offset, const void *code)
{
    if (c.written_epoch == epoch && c.writer != f.id && !ordered(f, c.writer, c.written_order)) {
        this_suspect.size = 1; /* note_access fills in the rest */
        this_suspect.before = c.written_at;
        this_suspect.other = c.writer;
    }
    if (c.read_epoch == epoch && c.reader != f.id) {
        const unsigned lane = c.reader & SEVERAL_LANES ? (c.reader & ~(unsigned)SEVERAL_LANES) * WARP : c.reader;
        if (c.reader == SEVERAL_WARPS || !ordered(f, lane, c.read_order))
            race("writes where another has read", f, memory, offset, code, c.read_at, c.reader);
    }
    c.writer = (uint16_t)f.id;
    c.written_epoch = epoch;
    c.written_order = f.home->order;
    c.written_at = place(code);
}
} // namespace

/* The running fiber has gone past its last write. */
void settle_suspect()
{
    suspect &s = this_suspect;
    if (s.size == 0)
        return;
    const bool same = memcmp(s.address, s.old, s.size) == 0;
    s.size = 0;
    if (!same)
        race("writes another value where another has written", *this_worker()->current, s.memory, s.offset, s.code, s.before, s.other);
}

void forget_suspect()
{
    this_suspect.size = 0;
}

void note_access(const void *address, size_t size, bool writes, const void *code)
{
    worker *const w = this_worker();
    if (w == nullptr || w->current == nullptr)
        return;
    settle_suspect();
    const char *const at = static_cast<const char *>(address);
    const char *memory = "dynamic";
    size_t offset = (size_t)(at - w->dynamic), cells = 0;
    if (offset >= w->dynamic_size) {
        offset = (size_t)(at - w->statics);
        if (offset >= w->statics_size)
            return; /* global memory, or the thread's own */
        memory = "static";
        cells = MAX_SHARED / CELL;
    }
    if (w->cells == nullptr) {
        const size_t bytes = (MAX_SHARED + w->statics_size) / CELL * sizeof(cell) + sizeof(cell);
        w->cells = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (w->cells == MAP_FAILED)
            abort();
    }
    const fiber &f = *w->current;
    for (size_t i = offset / CELL; i <= (offset + size - 1) / CELL; i++) {
        cell &c = static_cast<cell *>(w->cells)[cells + i];
        if (writes)
            write_cell(c, w->epoch, f, memory, i * CELL, code);
        else
            read_cell(c, w->epoch, f, memory, i * CELL, code);
    }
    suspect &s = this_suspect;
    if (s.size != 0) {
        s.size = size < sizeof(s.old) ? size : sizeof(s.old);
        s.address = address;
        s.memory = memory;
        s.offset = offset;
        s.code = code;
        memcpy(s.old, address, s.size);
    }
}
} // namespace emu

#pragma GCC visibility push(hidden)
#define EMU_ACCESS(name, size, writes)                                        \
    extern "C" void name(void *address)                                       \
    {                                                                         \
        emu::note_access(address, size, writes, __builtin_return_address(0)); \
    }
#define EMU_ACCESSES(size)                               \
    EMU_ACCESS(__tsan_read##size, size, false)           \
    EMU_ACCESS(__tsan_write##size, size, true)           \
    EMU_ACCESS(__tsan_unaligned_read##size, size, false) \
    EMU_ACCESS(__tsan_unaligned_write##size, size, true)
EMU_ACCESSES(1)
EMU_ACCESSES(2)
EMU_ACCESSES(4)
EMU_ACCESSES(8)
EMU_ACCESSES(16)

extern "C" void __tsan_read_range(void *address, size_t size)
{
    emu::note_access(address, size, false, __builtin_return_address(0));
}

extern "C" void __tsan_write_range(void *address, size_t size)
{
    emu::note_access(address, size, true, __builtin_return_address(0));
}

extern "C" void __tsan_func_entry(void *)
{
}

extern "C" void __tsan_func_exit(void)
{
}

extern "C" void __tsan_init(void)
{
    emu::watching_races = true;
}
#pragma GCC visibility pop
