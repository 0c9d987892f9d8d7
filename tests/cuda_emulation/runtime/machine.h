/* The emulated machine: an OS thread ("worker") runs one cluster of blocks at a time, mostly of one, its threads as fibers that switch only
   where a thread has to wait for others. */
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

/* A thread-local variable of the emulation's own. It must hold something but zeroes at first, and all of it be kept: the zero-filled
   thread-local storage is the kernels' static shared memory, and poisoned before each block. */
#define EMU_LOCAL __attribute__((used)) thread_local

/* What uninitialised memory holds: NaN as f16, bf16 and f32, a large number as an integer. */
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
    site waits; /* line 0: for nothing */
    /* of the warp collective it waits in */
    uint32_t value, result;
    int argument;
    bool waited;             /* for the launch before */
    bool in_cluster_barrier; /* has arrived there, and not yet waited: for the end of which phase */
    unsigned cluster_phase;
    wgmma_args wgmma;
    const void *address;
    const uint32_t *a, *b;
    void *d;
    unsigned spins;
    /* cp.async: the copies in order, where each closed group ends, and how many of both have landed */
    std::vector<async_copy> copies;
    std::vector<size_t> groups;
    size_t landed_copies, landed_groups;
};

/* A product that a warp has issued: what its lanes gave. */
struct issued_wgmma {
    wgmma_args lanes[WARP];
};

/* live: has not returned; ready: may run; arrived: is at the collective kind, where. */
struct warp {
    uint32_t live, ready, arrived;
    collective kind;
    site where;
    fiber *lanes;
    block *home;
    uint32_t order; /* counts its warp barriers */
    /* not yet carried out, and how many of them each committed group has */
    std::vector<issued_wgmma> issued;
    std::vector<size_t> wgmma_groups;
};

/* A launch, shared by the workers. */
struct grid {
    const kernel *entry;
    const void *const *arguments;
    coordinates blocks, threads;
    size_t dynamic_shared;
    unsigned cluster;                 /* blocks that run at the same time */
    uint64_t n_clusters, step, start; /* the i-th cluster to run is (start + i * step) mod n_clusters */
    uint64_t next;                    /* atomic: clusters dealt out */
    bool failed;                      /* atomic */
    bool early, waited;               /* waited: some thread has; atomic */
};

/* A block that runs. */
struct block {
    unsigned rank; /* in its cluster */
    launch_view view;
    fiber *fibers;
    warp warps[MAX_WARPS];
    uint32_t ready_warps;
    unsigned warp_index; /* the one that ran last */
    int n_threads, live;
    int at_barrier;
    uint32_t barrier_lanes[MAX_WARPS];
    uint32_t epoch; /* another after each barrier of threads of the block, and no other block's */
    struct {
        int arrived, threads;
        unsigned phase;
    } group_barriers[16];
    char *dynamic; /* before it and behind it is memory that cannot be touched */
    size_t dynamic_size;
    char *dynamic_pages;
};

struct worker {
    grid *launch;
    block blocks[MAX_CLUSTER];
    block *here;    /* of the current fiber */
    fiber *fibers;  /* MAX_THREADS for each block */
    fiber *current; /* nullptr: the scheduler runs */
    uint32_t epochs;
    struct {
        int arrived, live; /* threads */
        unsigned phase;    /* 0: until all have been there once, a block may not have begun */
    } cluster_barrier;
    context scheduler;
    char *stacks;
    size_t stacks_size;
    int n_stacks[MAX_CLUSTER];
    char *statics; /* the block's other shared variables */
    size_t statics_size;
    void *accesses;        /* by the present blocks (races.cpp) */
    uint64_t seed, random; /* seed 0: ascending order, 1: descending, others: random */
    bool failed;           /* the block was given up */
    int fault_signal;      /* 0: none */
    const void *fault_address;
    bool fault_writes;
    std::vector<char> fault_stack;
};

/* What this OS thread is; nullptr outside launches. */
worker *this_worker();
void set_this_worker(worker *w);

/* schedule.cpp. first: the first block's place in the cluster's row of blocks. */
void cluster_run(worker &w, coordinates first);
/* Stops the running fiber until it has been made ready. */
void park(worker &w, fiber &f, site at);
/* Goes on whenever its turn comes by the order of the seed, which may be at once. */
void yield(worker &w, fiber &f);
/* Lets another run, if one can, and so on in turn. */
void stand_back(worker &w, fiber &f);
void make_ready(warp &of, uint32_t lanes);
/* What threads of the block do from here on comes after what they have done. */
void begin_epoch(block &b);
/* A thread of the cluster is at its barrier or has ended. */
void count_cluster_barrier(worker &w);
/* True once in `odds` times if the order is random. */
bool now_and_then(worker &w, unsigned odds);
/* Gives up the block and with it the launch, and says why. */
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The beginning of a message: kernel, block, thread. */
void describe_position(const worker &w, char *text, size_t size);

/* collective.cpp */
void thread_returns(worker &w, fiber &f);

/* matrix.cpp: carries out a transpose, load_matrix or multiply. */
void matrix_execute(warp &w, collective kind);

/* wgmma.cpp: carries out what a warp does together. */
void wgmma_execute(warp &w, collective kind);
/* Lets others run until ready(); fails if that never comes. */
void spin(site at, const void *what, bool (*ready)(const void *what, unsigned value), unsigned value);

/* races.cpp: the kernels have been compiled to note their accesses. Those that the runtime does for them it notes itself. */
extern bool watching_races;
void note_access(const void *address, size_t size, bool writes, const void *code);
void note_launch(const grid &g);
/* The running fiber stops, or a block begins: its last write is looked at again, or forgotten. */
void settle_suspect();
void forget_suspect();

/* shared.cpp */
void shared_attach(worker &w); /* finds this OS thread's */
void statics_begin(worker &w);
void shared_begin(block &b, size_t dynamic_size);
void shared_end(worker &w); /* was anything written around it? */
/* An address that may be one of another block of the cluster: that block, and the address there. */
block &block_of_address(site at, uint32_t &shared);
void *shared_bytes_of(const block &b, site at, uint32_t shared, size_t size);
void copies_discard(fiber &f);
} // namespace emu

#endif
