/* Finds accesses of a block's threads to the same memory that no barrier orders. With kernels compiled with -fsanitize=thread, the
   compiler calls the functions at the end of this file before each access; no sanitizer library is linked.

   Two accesses of a block are ordered by a block barrier between them, and those of one warp also by a warp barrier. Other collectives
   make lanes wait for each other but order no memory. Threads may write the same value to the same address at the same time.

   All shared memory is watched, and the global memory that the block itself has written, as far as a fixed-size table holds it. Accesses
   by other blocks are not seen. But a kernel launched early must not write global memory before it has waited, nor read what was written
   since a launch last waited for all before it. */
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

/* The last write to a byte of shared memory, and the reads since. epoch: of the block that owns the memory. order: warp barriers. A
   reader may represent several threads: lanes of one warp, or threads of several warps. */
struct record {
    uint32_t written_epoch, read_epoch, written_order, read_order, written_at, read_at;
    uint16_t writer, reader;
};

enum { GLOBAL_RECORDS = 1 << 16, WORD = 4 };

/* The last write to WORD bytes of global memory at `word`. All words with the same hash share a record. */
struct global_record {
    uintptr_t word;
    unsigned bytes;
    record c;
};

uint32_t code_offset(const void *code)
{
    Dl_info module;
    static const uintptr_t base = dladdr(reinterpret_cast<void *>(&code_offset), &module) ? (uintptr_t)module.dli_fbase : 0;
    return (uint32_t)((uintptr_t)code - base);
}

/* The number of a thread in its cluster. */
unsigned number(const fiber &f)
{
    return f.home->home->rank * MAX_THREADS + f.id;
}

bool ordered(const fiber &f, unsigned other, uint32_t order)
{
    return other / WARP == number(f) / WARP && order < f.home->order;
}

/* The same for the threads that have read the record. */
bool reads_ordered(const fiber &f, const record &c)
{
    const unsigned lane = c.reader & SEVERAL_LANES ? (c.reader & ~(unsigned)SEVERAL_LANES) * WARP : c.reader;
    return c.reader != SEVERAL_WARPS && ordered(f, lane, c.read_order);
}

/* A write to what another thread wrote; harmless if the value does not change. */
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
    fail("thread %u %s (%s %#zx, no barrier between); code at +%#x, and before it at +%#x by %s", number(f), what, memory, offset,
         code_offset(code), before, who);
}

void note_read(record &c, uint32_t epoch, const fiber &f, const char *memory, size_t offset, const void *code)
{
    const uint32_t order = f.home->order;
    if (c.written_epoch == epoch && c.writer != number(f) && !ordered(f, c.writer, c.written_order))
        race("reads what another thread has written", f, memory, offset, code, c.written_at, c.writer);
    const uint16_t warp = (uint16_t)(number(f) / WARP);
    /* A conflict with this read, by a thread without a barrier, is also a conflict with the reads ordered before it. */
    if (c.read_epoch != epoch || c.reader == number(f) || reads_ordered(f, c))
        c.reader = (uint16_t)number(f);
    else if (c.reader == SEVERAL_WARPS)
        return;
    else if (c.reader & SEVERAL_LANES ? c.reader != (SEVERAL_LANES | warp) : c.reader / WARP != warp)
        c.reader = SEVERAL_WARPS;
    else
        c.reader = SEVERAL_LANES | warp;
    c.read_epoch = epoch;
    c.read_order = order;
    c.read_at = code_offset(code);
}

void note_write(record &c, uint32_t epoch, const fiber &f, const char *memory, size_t offset, const void *code)
{
    if (c.written_epoch == epoch && c.writer != number(f) && !ordered(f, c.writer, c.written_order)) {
        this_suspect.size = 1; /* note_access fills in the rest */
        this_suspect.memory = memory;
        this_suspect.offset = offset;
        this_suspect.before = c.written_at;
        this_suspect.other = c.writer;
    }
    if (c.read_epoch == epoch && c.reader != number(f) && !reads_ordered(f, c))
        race("writes where another thread has read", f, memory, offset, code, c.read_at, c.reader);
    c.writer = (uint16_t)number(f);
    c.written_epoch = epoch;
    c.written_order = f.home->order;
    c.written_at = code_offset(code);
}
} // namespace

/* The running fiber has passed its last write. */
void check_suspect()
{
    suspect &s = this_suspect;
    if (s.size == 0)
        return;
    const bool same = memcmp(s.address, s.old, s.size) == 0;
    s.size = 0;
    if (!same)
        race("writes a different value where another thread has written", *this_worker()->current, s.memory, s.offset, s.code, s.before,
             s.other);
}

void forget_suspect()
{
    this_suspect.size = 0;
}

namespace
{
struct table {
    global_record words[GLOBAL_RECORDS];
    record shared[1]; /* for the dynamic shared memory of each block of a cluster, then for static */
};

table &table_of(worker &w)
{
    if (w.accesses == nullptr) {
        const size_t bytes = sizeof(table) + ((size_t)MAX_CLUSTER * MAX_SHARED + w.statics_size) * sizeof(record);
        w.accesses = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (w.accesses == MAP_FAILED)
            abort();
    }
    return *static_cast<table *>(w.accesses);
}

/* Words of global memory that were written, with the number of the run that wrote them. A run is a launch and the
   early launches that follow it. */
enum { WRITTEN_WORDS = 1 << 20, WORD_BITS = 46 };
uint64_t written[WRITTEN_WORDS];
uint64_t this_run = 1;

uint64_t &written_at(uintptr_t word)
{
    return written[(word ^ word >> 20) % WRITTEN_WORDS];
}

/* An access by an early kernel before it has waited. */
void check_early(const fiber &f, uintptr_t address, size_t size, bool writes)
{
    if (writes)
        fail("thread %u writes to global memory before it has waited for the previous launch", number(f));
    for (uintptr_t word = address / WORD; word * WORD < address + size; word++)
        if (__atomic_load_n(&written_at(word), __ATOMIC_RELAXED) == (this_run << WORD_BITS | word))
            fail("thread %u reads what an earlier launch has written before waiting for it (%#zx)", number(f), (size_t)word * WORD);
}

void note_word(global_record &g, uintptr_t word, unsigned bytes, const worker &w, bool writes, const void *code)
{
    static const char memory[] = "global memory,";
    const fiber &f = *w.current;
    const bool known = g.word == word && (g.bytes & bytes) != 0 && g.c.written_epoch == w.here->epoch;
    if (!writes) {
        if (known)
            note_read(g.c, w.here->epoch, f, memory, word * WORD, code);
        return;
    }
    if (known) {
        note_write(g.c, w.here->epoch, f, memory, word * WORD, code);
        g.bytes = bytes; /* drops writes of other threads to the word */
        return;
    }
    g.word = word;
    g.bytes = bytes;
    g.c = {w.here->epoch, 0, f.home->order, 0, code_offset(code), 0, (uint16_t)number(f), 0};
}

void note_global(worker &w, uintptr_t address, size_t size, bool writes, const void *code)
{
    if (w.stacks != nullptr && address - (uintptr_t)w.stacks < w.stacks_size)
        return; /* this thread's own write */
    if (w.launch->early && !w.current->waited)
        check_early(*w.current, address, size, writes);
    if (writes)
        for (uintptr_t word = address / WORD; word * WORD < address + size; word++)
            __atomic_store_n(&written_at(word), this_run << WORD_BITS | word, __ATOMIC_RELAXED);
    table &t = table_of(w);
    for (uintptr_t word = address / WORD; word * WORD < address + size; word++) {
        const unsigned from = word * WORD < address ? (unsigned)(address - word * WORD) : 0;
        const unsigned to = address + size - word * WORD < WORD ? (unsigned)(address + size - word * WORD) : (unsigned)WORD;
        global_record &g = t.words[(word ^ word >> 16) % GLOBAL_RECORDS];
        note_word(g, word, (1u << to) - (1u << from), w, writes, code);
    }
}

void note_shared(worker &w, const block &in, const char *memory, size_t first, size_t offset, size_t size, bool writes, const void *code)
{
    table &t = table_of(w);
    for (size_t i = offset; i < offset + size; i++) {
        record &c = t.shared[first + i];
        if (writes)
            note_write(c, in.epoch, *w.current, memory, i, code);
        else
            note_read(c, in.epoch, *w.current, memory, i, code);
    }
}
} // namespace

void note_launch(const grid &g)
{
    if (g.early)
        return;
    if (++this_run >> (64 - WORD_BITS) != 0) {
        memset(written, 0, sizeof(written));
        this_run = 1;
    }
}

void note_access(const void *address, size_t size, bool writes, const void *code)
{
    worker *const w = this_worker();
    if (w == nullptr || w->current == nullptr)
        return;
    check_suspect();
    const char *const at = static_cast<const char *>(address);
    const block *in = nullptr;
    for (unsigned i = 0; i < w->launch->cluster && in == nullptr; i++)
        if ((size_t)(at - w->blocks[i].dynamic) < w->blocks[i].dynamic_size)
            in = &w->blocks[i];
    if (in != nullptr)
        note_shared(*w, *in, "dynamic shared memory, byte", (size_t)in->rank * MAX_SHARED, (size_t)(at - in->dynamic), size, writes, code);
    else if ((size_t)(at - w->statics) < w->statics_size)
        note_shared(*w, *w->here, "static shared memory, byte", (size_t)MAX_CLUSTER * MAX_SHARED, (size_t)(at - w->statics), size, writes,
                    code);
    else
        note_global(*w, (uintptr_t)address, size, writes, code);
    suspect &s = this_suspect;
    if (s.size != 0) {
        s.size = size < sizeof(s.old) ? size : sizeof(s.old);
        s.address = address;
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

extern "C" void __tsan_read_range(void *address, long size)
{
    emu::note_access(address, (size_t)size, false, __builtin_return_address(0));
}

extern "C" void __tsan_write_range(void *address, long size)
{
    emu::note_access(address, (size_t)size, true, __builtin_return_address(0));
}

extern "C" void __tsan_func_entry(void *)
{
}

extern "C" void __tsan_func_exit(void *)
{
}

extern "C" void __tsan_init(void)
{
    emu::watching_races = true;
}
#pragma GCC visibility pop
