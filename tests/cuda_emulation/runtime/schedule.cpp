/* The threads of a block, one running at a time. Which goes next depends on the seed: a missing barrier makes some order give another
   result. */
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

fiber *take_ready(worker &w)
{
    if (w.ready_warps == 0)
        return nullptr;
    if (!(w.ready_warps >> w.warp_index & 1) || now_and_then(w, 8))
        w.warp_index = choose(w, w.ready_warps);
    warp &from = w.warps[w.warp_index];
    const unsigned lane = choose(w, from.ready);
    from.ready &= ~(1u << lane);
    if (from.ready == 0)
        w.ready_warps &= ~(1u << w.warp_index);
    return &from.lanes[lane];
}

[[noreturn]] void give_up(worker &w)
{
    w.failed = true;
    context_switch(w.current->stopped, w.scheduler, true);
    abort(); /* never continued */
}

[[noreturn]] void deadlock(worker &w)
{
    char where[700] = "";
    int shown = 0, length = 0;
    site last = {nullptr, 0};
    for (int i = 0; i < w.n_threads && shown < 4; i++) {
        const fiber &f = w.fibers[i];
        if (!(f.home->live & f.bit) || (f.waits.line == last.line && f.waits.file == last.file) || length >= (int)sizeof(where))
            continue;
        last = f.waits;
        const coordinates &at = f.view.index;
        length += snprintf(where + length, sizeof(where) - (size_t)length, "%sthread (%u,%u,%u) waits at %s:%d", shown++ ? "; " : "", at.x,
                           at.y, at.z, last.file, last.line);
    }
    fail("deadlock: %s; %d of %d threads have not returned", where, w.live, w.n_threads);
}

/* The running fiber has stopped or ended. */
void run_next(worker &w, fiber &self, bool ends)
{
    fiber *next = take_ready(w);
    if (next == nullptr) {
        if (w.live > 0)
            deadlock(w);
        context_switch(self.stopped, w.scheduler, ends);
        return;
    }
    if (next == &self)
        return;
    w.current = next;
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

/* The next thread that may run after this one in a fixed circle, so that all get their turn while some spin. */
fiber *next_in_circle(worker &w, const fiber &f)
{
    const unsigned home = f.id / WARP;
    const uint32_t above = ~(f.bit | (f.bit - 1));
    for (unsigned i = 0; i <= MAX_WARPS; i++) {
        const unsigned index = (home + i) % MAX_WARPS;
        warp &from = w.warps[index];
        const uint32_t ready = !(w.ready_warps >> index & 1) ? 0 : from.ready & (i == 0 ? above : i == MAX_WARPS ? ~above : 0xffffffffu);
        if (ready == 0)
            continue;
        const uint32_t bit = ready & (~ready + 1);
        from.ready &= ~bit;
        if (from.ready == 0)
            w.ready_warps &= ~(1u << index);
        w.warp_index = index;
        return &from.lanes[lowest(bit)];
    }
    return nullptr;
}

void reserve(worker &w, int n)
{
    if (w.stacks == nullptr) {
        w.stacks_size = MAX_THREADS * STACK_SIZE;
        w.stacks = (char *)mmap(nullptr, w.stacks_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (w.stacks == MAP_FAILED)
            abort();
        w.fibers = new fiber[MAX_THREADS]();
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (; w.n_stacks < n; w.n_stacks++) /* the lowest page of each stays a guard */
        if (mprotect(w.stacks + (size_t)w.n_stacks * STACK_SIZE + page, STACK_SIZE - page, PROT_READ | PROT_WRITE) != 0)
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

bool now_and_then(worker &w, unsigned odds)
{
    return w.seed > 1 && next_random(w) % odds == 0;
}

void make_ready(worker &w, warp &of, uint32_t lanes)
{
    of.ready |= lanes;
    if (lanes)
        w.ready_warps |= 1u << (&of - w.warps);
}

void park(worker &w, fiber &f, site at)
{
    f.waits = at;
    run_next(w, f, false);
    f.waits.line = 0;
}

void yield(worker &w, fiber &f)
{
    make_ready(w, *f.home, f.bit);
    run_next(w, f, false);
}

void stand_back(worker &w, fiber &f)
{
    settle_suspect();
    fiber *const next = next_in_circle(w, f);
    if (next == nullptr)
        return;
    make_ready(w, *f.home, f.bit);
    w.current = next;
    context_switch(f.stopped, next->stopped);
}

void describe_position(const worker &w, char *text, size_t size)
{
    const coordinates &b = w.view.block_index;
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
    give_up(w);
}

void block_run(worker &w, coordinates index)
{
    const grid &g = *w.launch;
    const int n = (int)(g.threads.x * g.threads.y * g.threads.z);
    reserve(w, n);
    w.view = {index, g.threads, g.blocks};
    w.n_threads = w.live = n;
    w.ready_warps = 0;
    w.epoch++;
    forget_suspect();
    w.failed = false;
    w.at_barrier = 0;
    for (auto &barrier : w.group_barriers)
        barrier = {};
    shared_begin(w, g.dynamic_shared);
    const unsigned across = g.threads.x, plane = g.threads.x * g.threads.y;
    for (int i = 0; i < n; i++) {
        fiber &f = w.fibers[i];
        const unsigned id = (unsigned)i;
        context_prepare(f.stopped, w.stacks + (size_t)i * STACK_SIZE, STACK_SIZE, (size_t)(id * 5 % 64) * 64, thread_main);
        f.view.index = {id % across, id % plane / across, id / plane};
        f.view.launch = &w.view;
        f.id = id;
        f.bit = 1u << id % WARP;
        f.home = &w.warps[id / WARP];
        f.waits.line = 0;
        f.waited = false;
        f.spins = 0;
        copies_discard(f);
    }
    for (int i = 0; i * WARP < n; i++) {
        warp &to = w.warps[i];
        const int lanes = n - i * WARP;
        to.live = lanes >= WARP ? 0xffffffffu : (1u << lanes) - 1;
        to.ready = 0;
        to.lanes = w.fibers + i * WARP;
        to.arrived = 0;
        to.order = 0;
        to.products.clear();
        to.product_groups.clear();
        w.barrier_lanes[i] = 0;
        make_ready(w, to, to.live);
    }
    w.warp_index = choose(w, w.ready_warps);
    fiber *first = take_ready(w);
    w.current = first;
    context_switch(w.scheduler, first->stopped);
    if (w.fault_signal)
        describe_fault(w);
    w.current = nullptr;
    shared_end(w);
}
} // namespace emu
