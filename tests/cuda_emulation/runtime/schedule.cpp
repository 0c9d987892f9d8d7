/* Runs the threads of a block one at a time. The order depends on the seed, so that some order shows a missing barrier. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launch.h"
#include "log.h"
#include "machine.h"

#if defined(__SANITIZE_ADDRESS__)
#define STACK_SIZE ((size_t)256 << 10)
#else
#define STACK_SIZE ((size_t)64 << 10)
#endif

namespace emu
{
const char *(*describe_address)(const void *address) = nullptr;

EMU_LOCAL struct {
    int mark;
    worker *self;
} this_thread = {1, nullptr};

namespace
{
uint64_t next_random(worker &w)
{
    w.random ^= w.random << 13;
    w.random ^= w.random >> 7;
    w.random ^= w.random << 17;
    return w.random >> 11;
}

unsigned lowest(uint32_t bits)
{
    return (unsigned)__builtin_ctz(bits);
}

unsigned choose(worker &w, uint32_t bits)
{
    if (w.seed == 0)
        return lowest(bits);
    if (w.seed == 1)
        return 31u - (unsigned)__builtin_clz(bits);
    const unsigned turn = (unsigned)next_random(w) & 31;
    const uint32_t turned = bits >> turn | (turn ? bits << (32 - turn) : 0);
    return (lowest(turned) + turn) & 31;
}

bool has_ready(const block &b)
{
    return b.ready_warps != 0;
}

/* The block to continue with: this one, unless none of its threads is ready or chance decides. */
block *choose_block(worker &w)
{
    const unsigned n = w.launch->cluster;
    const unsigned from = w.here->rank + (n > 1 && one_in(w, 8) ? 1 + (unsigned)next_random(w) % n : 0);
    for (unsigned i = 0; i < n; i++)
        if (has_ready(w.blocks[(from + i) % n]))
            return &w.blocks[(from + i) % n];
    return nullptr;
}

fiber *take_lane(block &b, unsigned index, unsigned lane)
{
    warp &from = b.warps[index];
    from.ready &= ~(1u << lane);
    if (from.ready == 0)
        b.ready_warps &= ~(1u << index);
    b.warp_index = index;
    return &from.lanes[lane];
}

fiber *take_ready(worker &w)
{
    block *b = choose_block(w);
    if (b == nullptr)
        return nullptr;
    if (!(b->ready_warps >> b->warp_index & 1) || one_in(w, 8))
        b->warp_index = choose(w, b->ready_warps);
    return take_lane(*b, b->warp_index, choose(w, b->warps[b->warp_index].ready));
}

void set_current(worker &w, fiber *next)
{
    w.current = next;
    w.here = next->home->home;
}

[[noreturn]] void abort_block(worker &w)
{
    w.failed = true;
    context_switch(w.current->stopped, w.scheduler, true);
    abort(); /* never resumed */
}

[[noreturn]] void deadlock(worker &w)
{
    char where[700] = "";
    int shown = 0, length = 0;
    site last = {nullptr, 0};
    int live = 0, threads = 0;
    for (unsigned i = 0; i < w.launch->cluster; i++)
        live += w.blocks[i].live, threads += w.blocks[i].n_threads;
    for (int i = 0; i < threads && shown < 4; i++) {
        const block &b = w.blocks[i / w.here->n_threads];
        const fiber &f = b.fibers[i % b.n_threads];
        if (!(f.home->live & f.bit) || (f.waits.line == last.line && f.waits.file == last.file) || length >= (int)sizeof(where))
            continue;
        last = f.waits;
        const coordinates &at = f.view.index;
        length += snprintf(where + length, sizeof(where) - (size_t)length, "%sthread (%u,%u,%u) of block %u waits at %s:%d",
                           shown++ ? "; " : "", at.x, at.y, at.z, b.view.block_index.x, last.file, last.line);
    }
    fail("deadlock: %s; %d of %d threads have not returned", where, live, threads);
}

/* The running fiber has stopped or ended. */
void run_next(worker &w, fiber &self, bool ends)
{
    fiber *next = take_ready(w);
    if (next == nullptr) {
        for (unsigned i = 0; i < w.launch->cluster; i++)
            if (w.blocks[i].live > 0)
                deadlock(w);
        context_switch(self.stopped, w.scheduler, ends);
        return;
    }
    if (next == &self)
        return;
    set_current(w, next);
    context_switch(self.stopped, next->stopped, ends);
}

void thread_main()
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    context_started(f.stopped);
    w.launch->entry->invoke(w.launch->entry->function, w.launch->arguments);
    thread_returns(w, f);
    run_next(w, f, true);
    abort();
}

void describe_fault(worker &w)
{
    char where[256];
    describe_position(w, where, sizeof(where));
    const char *what = describe_address ? describe_address(w.fault_address) : "";
    report("%s: illegal %s at address %p%s", where,
           w.fault_signal == SIGFPE ? "operation"
           : w.fault_writes         ? "write"
                                    : "read",
           w.fault_address, what);
}

/* The next runnable thread in a fixed cycle, so that all get their turn while some spin. */
fiber *next_in_circle(worker &w, const fiber &f)
{
    const unsigned all = MAX_WARPS * w.launch->cluster, home = w.here->rank * MAX_WARPS + f.id / WARP;
    const uint32_t above = ~(f.bit | (f.bit - 1));
    for (unsigned i = 0; i <= all; i++) {
        block &b = w.blocks[(home + i) % all / MAX_WARPS];
        const unsigned index = (home + i) % MAX_WARPS;
        const uint32_t ready = !(b.ready_warps >> index & 1) ? 0
                                                             : b.warps[index].ready & (i == 0     ? above
                                                                                       : i == all ? ~above
                                                                                                  : 0xffffffffu);
        if (ready != 0)
            return take_lane(b, index, lowest(ready));
    }
    return nullptr;
}

char *stack_of(const worker &w, const block &b, int i)
{
    return w.stacks + ((size_t)b.rank * MAX_THREADS + (size_t)i) * STACK_SIZE;
}

void reserve(worker &w, const block &b, int n)
{
    if (w.stacks == nullptr) {
        w.stacks_size = (size_t)MAX_CLUSTER * MAX_THREADS * STACK_SIZE;
        w.stacks = (char *)mmap(nullptr, w.stacks_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (w.stacks == MAP_FAILED)
            abort();
        w.fibers = new fiber[MAX_CLUSTER * MAX_THREADS]();
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int &i = w.n_stacks[b.rank]; i < n; i++) /* the lowest page of each stays a guard page */
        if (mprotect(stack_of(w, b, i) + page, STACK_SIZE - page, PROT_READ | PROT_WRITE) != 0)
            abort();
}
} // namespace

worker *this_worker()
{
    return this_thread.self;
}

void set_this_worker(worker *w)
{
    this_thread.self = w;
}

const thread_view *self()
{
    return &this_thread.self->current->view;
}

bool one_in(worker &w, unsigned odds)
{
    return w.seed > 1 && next_random(w) % odds == 0;
}

void make_ready(warp &of, uint32_t lanes)
{
    of.ready |= lanes;
    if (lanes)
        of.home->ready_warps |= 1u << (&of - of.home->warps);
}

void begin_epoch(block &b)
{
    b.epoch = ++this_worker()->epochs;
}

void park(worker &w, fiber &f, site at)
{
    f.waits = at;
    run_next(w, f, false);
    f.waits.line = 0;
}

void yield(worker &w, fiber &f)
{
    make_ready(*f.home, f.bit);
    run_next(w, f, false);
}

void let_others_run(worker &w, fiber &f)
{
    check_suspect();
    fiber *const next = next_in_circle(w, f);
    if (next == nullptr)
        return;
    make_ready(*f.home, f.bit);
    set_current(w, next);
    context_switch(f.stopped, next->stopped);
}

void describe_position(const worker &w, char *text, size_t size)
{
    const coordinates &b = w.here->view.block_index;
    int n = snprintf(text, size, "%s: block (%u,%u,%u)", w.launch->entry->name, b.x, b.y, b.z);
    if (w.current && n > 0 && (size_t)n < size) {
        const coordinates &t = w.current->view.index;
        snprintf(text + n, size - (size_t)n, ", thread (%u,%u,%u)", t.x, t.y, t.z);
    }
}

void wait_for_previous()
{
    worker &w = *this_worker();
    w.current->waited = true;
    __atomic_store_n(&w.launch->waited, true, __ATOMIC_RELAXED);
}

void fail(const char *format, ...)
{
    worker &w = *this_worker();
    char text[1024], where[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    describe_position(w, where, sizeof(where));
    report("%s: %s", where, text);
    abort_block(w);
}

static void block_begin(worker &w, block &b, coordinates index)
{
    const grid &g = *w.launch;
    const int n = (int)(g.threads.x * g.threads.y * g.threads.z);
    reserve(w, b, n);
    b.view = {index, g.threads, g.blocks};
    b.fibers = w.fibers + (size_t)b.rank * MAX_THREADS;
    b.n_threads = b.live = n;
    b.ready_warps = 0;
    begin_epoch(b);
    b.at_barrier = 0;
    for (auto &barrier : b.group_barriers)
        barrier = {};
    shared_begin(b, g.dynamic_shared);
    const unsigned across = g.threads.x, plane = g.threads.x * g.threads.y;
    for (int i = 0; i < n; i++) {
        fiber &f = b.fibers[i];
        const unsigned id = (unsigned)i;
        context_prepare(f.stopped, stack_of(w, b, i), STACK_SIZE, (size_t)(id * 5 % 64) * 64, thread_main);
        f.view.index = {id % across, id % plane / across, id / plane};
        f.view.launch = &b.view;
        f.id = id;
        f.bit = 1u << id % WARP;
        f.home = &b.warps[id / WARP];
        f.waits.line = 0;
        f.waited = false;
        f.in_cluster_barrier = false;
        f.spins = 0;
        copies_discard(f);
    }
    for (int i = 0; i * WARP < n; i++) {
        warp &to = b.warps[i];
        const int lanes = n - i * WARP;
        to.live = lanes >= WARP ? 0xffffffffu : (1u << lanes) - 1;
        to.ready = 0;
        to.lanes = b.fibers + i * WARP;
        to.home = &b;
        to.arrived = 0;
        to.order = 0;
        to.issued.clear();
        to.wgmma_groups.clear();
        b.barrier_lanes[i] = 0;
        make_ready(to, to.live);
    }
    b.warp_index = choose(w, b.ready_warps);
}

void cluster_run(worker &w, coordinates first)
{
    const unsigned n = w.launch->cluster;
    forget_suspect();
    w.failed = false;
    w.cluster_barrier = {};
    statics_begin(w);
    for (unsigned i = 0; i < n; i++) {
        w.blocks[i].rank = i;
        block_begin(w, w.blocks[i], {first.x + i, first.y, first.z});
        w.cluster_barrier.live += w.blocks[i].n_threads;
    }
    w.here = &w.blocks[n > 1 ? choose(w, (1u << n) - 1) % n : 0];
    set_current(w, take_ready(w));
    context_switch(w.scheduler, w.current->stopped);
    if (w.fault_signal)
        describe_fault(w);
    w.current = nullptr;
    shared_end(w);
}
} // namespace emu
