/* The emulated machine. An OS thread ("worker") runs one cluster at a time, usually a single block. CUDA threads are fibers that switch
   only where a thread must wait for others. */
#ifndef EMU_MACHINE_H
#define EMU_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "device.h"
#include "fiber.h"

namespace emu
{
enum { WARP = 32, MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / WARP, MAX_SHARED = 227 * 1024, MAX_CLUSTER = 8 };

/* A thread-local variable of the emulation itself. It must be initialised to a nonzero value and never be removed, because
   zero-initialised thread-local storage is the kernels' static shared memory, which is poisoned before each block. */
#define EMU_LOCAL __attribute__((used)) thread_local

/* The contents of uninitialised memory: NaN as f16, bf16 and f32, a large number as an integer. */
const uint32_t POISON = 0x7fff7fffu;
void poison(void *memory, size_t size);
bool is_poison(const void *memory, size_t size);

struct kernel;
struct warp;
struct block;

struct async_copy {
    void *to;
    const void *source;
    int size;
    bool valid;
};

/* A CUDA thread. */
struct fiber {
    context stopped;
    thread_view view;
    unsigned id;
    uint32_t bit; /* of its lane */
    warp *home;
    site waits; /* line 0: not waiting */
    /* of the warp collective that it waits in */
    uint32_t value, result;
    int argument;
    bool waited;             /* for the previous launch */
    bool in_cluster_barrier; /* has arrived but not waited; cluster_phase: the phase it waits for */
    unsigned cluster_phase;
    wgmma_args wgmma;
    const void *address;
    const uint32_t *a, *b;
    void *d;
    unsigned spins;
    /* cp.async: copies in order, where each committed group ends, and how many of both have landed */
    std::vector<async_copy> copies;
    std::vector<size_t> groups;
    size_t landed_copies, landed_groups;
};

/* A wgmma that a warp has issued: the arguments of its lanes. */
struct issued_wgmma {
    wgmma_args lanes[WARP];
};

/* live: not returned; ready: may run; arrived: at the collective `kind`, at `where`. */
struct warp {
    uint32_t live, ready, arrived;
    collective kind;
    site where;
    fiber *lanes;
    block *home;
    uint32_t order; /* counts its warp barriers */
    /* not yet executed, and the number in each committed group */
    std::vector<issued_wgmma> issued;
    std::vector<size_t> wgmma_groups;
};

/* A launch, shared by the workers. */
struct grid {
    const kernel *entry;
    const void *const *arguments;
    coordinates blocks, threads;
    size_t dynamic_shared;
    unsigned cluster;                 /* blocks per cluster */
    uint64_t n_clusters, step, start; /* the i-th cluster to run is (start + i * step) mod n_clusters */
    uint64_t next;                    /* atomic: clusters assigned so far */
    bool failed;                      /* atomic */
    bool early, waited;               /* waited: some thread has waited; atomic */
};

/* A running block. */
struct block {
    unsigned rank; /* in its cluster */
    launch_view view;
    fiber *fibers;
    warp warps[MAX_WARPS];
    uint32_t ready_warps;
    unsigned warp_index; /* the warp that ran last */
    int n_threads, live;
    int at_barrier;
    uint32_t barrier_lanes[MAX_WARPS];
    uint32_t epoch; /* changes after each barrier of the block's threads; unique among blocks */
    struct {
        int arrived, threads;
        unsigned phase;
    } group_barriers[16];
    char *dynamic; /* between inaccessible pages */
    size_t dynamic_size;
    char *dynamic_pages;
};

struct worker {
    grid *launch;
    block blocks[MAX_CLUSTER];
    block *here;    /* the block of the current fiber */
    fiber *fibers;  /* MAX_THREADS per block */
    fiber *current; /* nullptr: the scheduler is running */
    uint32_t epochs;
    struct {
        int arrived, live; /* threads */
        unsigned phase;    /* 0: until all threads have arrived once, other blocks may not have started */
    } cluster_barrier;
    context scheduler;
    char *stacks;
    size_t stacks_size;
    int n_stacks[MAX_CLUSTER];
    char *statics; /* the other shared variables of the block */
    size_t statics_size;
    void *accesses;        /* of the current blocks (races.cpp) */
    uint64_t seed, random; /* seed 0: ascending order, 1: descending, others: random */
    bool failed;           /* the block was aborted */
    int fault_signal;      /* 0: none */
    const void *fault_address;
    bool fault_writes;
    std::vector<char> fault_stack;
};

/* The worker of this OS thread; nullptr outside launches. */
worker *this_worker();
void set_this_worker(worker *w);

/* schedule.cpp. first: the cluster's first block. */
void cluster_run(worker &w, coordinates first);
/* Suspends the running fiber until it is made ready. */
void park(worker &w, fiber &f, site at);
/* Continues when its turn comes in the order of the seed, possibly at once. */
void yield(worker &w, fiber &f);
/* Lets the next ready fiber run, round-robin. */
void let_others_run(worker &w, fiber &f);
void make_ready(warp &of, uint32_t lanes);
/* Orders later accesses of the block's threads after their earlier ones. */
void begin_epoch(block &b);
/* Called when a thread of the cluster has reached its barrier or ended. */
void count_cluster_barrier(worker &w);
/* With a random order of threads: true with a probability of 1 / odds. */
bool one_in(worker &w, unsigned odds);
/* Aborts the block and its launch with a message. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The start of a message: kernel, block, thread. */
void describe_position(const worker &w, char *text, size_t size);

/* collective.cpp */
void thread_returns(worker &w, fiber &f);

/* matrix.cpp: executes a transpose, load_matrix or multiply. */
void matrix_execute(warp &w, collective kind);

/* wgmma.cpp: executes a warp's wgmma operation. */
void wgmma_execute(warp &w, collective kind);
/* Lets others run until ready(); fails if that never happens. */
void spin(site at, const void *what, bool (*ready)(const void *what, unsigned value), unsigned value);

/* races.cpp: whether the kernels were compiled to report their accesses. The runtime reports those that it makes for them. */
extern bool watching_races;
void note_access(const void *address, size_t size, bool writes, const void *code);
void note_launch(const grid &g);
/* When the running fiber stops, its last write is checked; when a block starts, it is dropped. */
void check_suspect();
void forget_suspect();

/* shared.cpp */
void shared_attach(worker &w); /* finds this OS thread's static shared variables */
void statics_begin(worker &w);
void shared_begin(block &b, size_t dynamic_size);
void shared_end(worker &w); /* whether memory around it was written */
/* The block of an address, which may be another one of the cluster, and the address in that block. */
block &block_of_address(site at, uint32_t &shared);
void *shared_bytes_of(const block &b, site at, uint32_t shared, size_t size);
void copies_discard(fiber &f);
} // namespace emu

#endif
