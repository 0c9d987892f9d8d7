/* Distributes a grid's blocks over one or more OS threads. */
#include "launch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "log.h"
#include "machine.h"

namespace emu
{
namespace
{
std::map<std::string, kernel> &kernels()
{
    static std::map<std::string, kernel> table;
    return table;
}

struct settings {
    uint64_t seed;
    unsigned threads;
};

settings from_environment()
{
    settings s = {0, 1};
    if (const char *seed = getenv("RVIT_EMU_SEED"))
        s.seed = strtoull(seed, nullptr, 0);
    if (const char *threads = getenv("RVIT_EMU_THREADS"))
        s.threads = (unsigned)strtoul(threads, nullptr, 0);
    s.threads = s.threads < 1 ? 1 : s.threads > 16 ? 16 : s.threads;
    return s;
}

/* Written when the program ends: how often each kernel was launched. */
struct launch_counts {
    std::map<std::string, uint64_t> counts;

    ~launch_counts()
    {
        const char *path = getenv("RVIT_EMU_LAUNCHED");
        FILE *file = path != nullptr ? fopen(path, "w") : nullptr;
        if (file == nullptr)
            return;
        for (const auto &entry : kernels())
            fprintf(file, "%s %llu\n", entry.first.c_str(), (unsigned long long)counts[entry.first]);
        fclose(file);
    }
};

uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) | 1;
}

/* The first block of the i-th cluster. */
coordinates block_at(const grid &g, uint64_t i)
{
    const uint64_t first = (i * g.step + g.start) % g.n_clusters * g.cluster; /* n_clusters < 2^32 */
    const uint64_t plane = (uint64_t)g.blocks.x * g.blocks.y;
    return {(unsigned)(first % g.blocks.x), (unsigned)(first % plane / g.blocks.x), (unsigned)(first / plane)};
}

uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Blocks may run in any order on the device. Here they do unless the seed is 0. */
void order_blocks(grid &g, uint64_t seed)
{
    g.step = 1;
    g.start = 0;
    if (seed == 1) {
        g.step = g.n_clusters - 1 ? g.n_clusters - 1 : 1;
        g.start = g.n_clusters - 1;
    } else if (seed > 1) {
        g.start = mix(seed) % g.n_clusters;
        g.step = mix(seed + 77) % g.n_clusters;
        while (common_divisor(g.step, g.n_clusters) != 1)
            g.step++;
    }
}

/* Faults of this OS thread are handled on a separate stack, because a fiber's stack may have overflowed. */
struct fault_stack {
    stack_t before;
    fault_stack(worker &w)
    {
        stack_t own;
        memset(&own, 0, sizeof(own));
        if (w.fault_stack.empty())
            w.fault_stack.resize(1 << 16);
        own.ss_sp = w.fault_stack.data();
        own.ss_size = w.fault_stack.size();
        sigaltstack(&own, &before);
    }
    ~fault_stack()
    {
        sigaltstack(&before, nullptr);
    }
};

void run_blocks(worker &w, grid &g)
{
    const fault_stack handled_there(w);
    set_this_worker(&w);
    shared_attach(w);
    context_of_caller(w.scheduler);
    w.launch = &g;
    while (!__atomic_load_n(&g.failed, __ATOMIC_RELAXED)) {
        const uint64_t i = __atomic_fetch_add(&g.next, 1, __ATOMIC_RELAXED);
        if (i >= g.n_clusters)
            break;
        w.random = mix(w.seed * 0x9e3779b97f4a7c15u + i);
        w.fault_signal = 0;
        cluster_run(w, block_at(g, i));
        if (w.failed)
            __atomic_store_n(&g.failed, true, __ATOMIC_RELAXED);
    }
    w.launch = nullptr;
    set_this_worker(nullptr);
}

/* A pool of further OS threads; the launching thread works, too. */
struct pool {
    std::mutex lock;
    std::condition_variable work, idle;
    std::vector<std::thread> threads;
    worker workers[16] = {};
    grid *present = nullptr;
    unsigned wanted = 0, busy = 0;
    uint64_t generation = 0;
    bool stop = false;

    ~pool()
    {
        {
            std::lock_guard<std::mutex> guard(lock);
            stop = true;
        }
        work.notify_all();
        for (std::thread &t : threads)
            t.join();
    }

    void help(unsigned index)
    {
        uint64_t seen = 0;
        std::unique_lock<std::mutex> guard(lock);
        for (;;) {
            work.wait(guard, [&] { return stop || (generation != seen && index <= wanted); });
            if (stop)
                return;
            seen = generation;
            grid *g = present;
            guard.unlock();
            run_blocks(workers[index], *g);
            guard.lock();
            if (--busy == 0)
                idle.notify_all();
        }
    }

    void run(grid &g, unsigned n_threads)
    {
        const unsigned extra = g.n_clusters < n_threads ? (unsigned)g.n_clusters - 1 : n_threads - 1;
        if (extra > 0) {
            std::lock_guard<std::mutex> guard(lock);
            while (threads.size() < extra) {
                const unsigned index = (unsigned)threads.size() + 1;
                threads.emplace_back([this, index] { help(index); });
            }
            present = &g;
            wanted = busy = extra;
            generation++;
            work.notify_all();
        }
        run_blocks(workers[0], g);
        if (extra > 0) {
            std::unique_lock<std::mutex> guard(lock);
            idle.wait(guard, [&] { return busy == 0; });
            wanted = 0;
        }
    }
};

#if !defined(__SANITIZE_ADDRESS__)
struct sigaction previous_action[3];
const int caught[3] = {SIGSEGV, SIGBUS, SIGFPE};

/* A kernel's fault ends its block; any other is passed on. */
void on_fault(int signal, siginfo_t *info, void *machine_context)
{
    worker *w = this_worker();
    if (w != nullptr && w->current != nullptr) {
        w->failed = true;
        w->fault_signal = signal;
        w->fault_address = info->si_addr;
#if defined(__x86_64__)
        w->fault_writes = (static_cast<ucontext_t *>(machine_context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#endif
        context_abandon(w->scheduler, machine_context);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (caught[i] == signal)
            sigaction(signal, &previous_action[i], nullptr);
}
#endif

/* Catches faults during a launch, on a separate stack. */
struct fault_guard {
#if !defined(__SANITIZE_ADDRESS__)
    fault_guard()
    {
        struct sigaction action;
        memset(&action, 0, sizeof(action));
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        for (int i = 0; i < 3; i++)
            sigaction(caught[i], &action, &previous_action[i]);
    }
    ~fault_guard()
    {
        for (int i = 0; i < 3; i++)
            sigaction(caught[i], &previous_action[i], nullptr);
    }
#endif
};
} // namespace

void kernel_register(const kernel &k)
{
    kernels()[k.name] = k;
}

const kernel *kernel_find(const char *name)
{
    const auto found = kernels().find(name);
    return found == kernels().end() ? nullptr : &found->second;
}

bool launch(const kernel &k, const launch_shape &shape, const void *const *arguments)
{
    static std::mutex one_at_a_time;
    static pool workers;
    static launch_counts launched;
    const std::lock_guard<std::mutex> guard(one_at_a_time);
    launched.counts[k.name]++;
    const settings s = from_environment();
    grid g = {};
    g.entry = &k;
    g.arguments = arguments;
    g.blocks = {shape.grid[0], shape.grid[1], shape.grid[2]};
    g.threads = {shape.block[0], shape.block[1], shape.block[2]};
    g.dynamic_shared = shape.dynamic_shared;
    g.early = shape.early;
    note_launch(g);
    g.cluster = shape.cluster;
    g.n_clusters = (uint64_t)shape.grid[0] * shape.grid[1] * shape.grid[2] / g.cluster;
    order_blocks(g, s.seed);
    for (worker &w : workers.workers)
        w.seed = s.seed;
    const fault_guard faults;
    (void)faults;
    workers.run(g, s.threads);
    if (g.early && !g.waited && !g.failed) {
        report("%s: an early kernel ends without waiting: the next launch may begin before the previous one has ended", k.name);
        return false;
    }
    return !g.failed;
}
} // namespace emu
