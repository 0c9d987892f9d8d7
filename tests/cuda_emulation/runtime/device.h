/* What the emulated machine does for a kernel; emulated_intrinsics.h gives it the names that the kernels use. */
#ifndef EMU_DEVICE_H
#define EMU_DEVICE_H

#include <stddef.h>
#include <stdint.h>

namespace emu
{
struct coordinates {
    unsigned x, y, z;
};

struct launch_view {
    coordinates block_index, block_size, grid_size;
};

struct thread_view {
    coordinates index;
    const launch_view *launch;
};

/* The running thread. A fiber stays on its OS thread, hence const: one call a function is enough. */
const thread_view *self() __attribute__((const));

/* A place in a kernel's source: for messages, and to tell whether the lanes of a warp wait at the same one. */
struct site {
    const char *file;
    int line;
    static constexpr site here(const char *in_file = __builtin_FILE(), int at_line = __builtin_LINE())
    {
        return {in_file, at_line};
    }
};

void block_barrier(site at);
/* bar.sync with a number and a count of threads. */
void group_barrier(site at, int number, int threads);
void group_arrive(site at, int number, int threads);

/* barrier.cluster of all threads of all blocks, in two parts. It orders no memory: .relaxed. */
void cluster_arrive(site at);
void cluster_wait(site at);
int cluster_rank();
/* mapa: a shared address as one of the block of that rank. */
uint32_t cluster_address(site at, uint32_t shared, int rank);
/* st.async of 16 bytes, done at once; both addresses are of one block of the cluster. */
void store_async_cluster(site at, uint32_t there, const void *bytes, uint32_t barrier_there);

/* griddepcontrol.wait. */
void wait_for_previous();

enum class collective {
    sync,
    shuffle,
    shuffle_up,
    shuffle_down,
    shuffle_xor,
    ballot,
    transpose,
    load_matrix,
    multiply_f16,
    multiply_bf16,
    multiply_e4m3,
    multiply_u8,
    multiply_u8_s8,
    wgmma,
    wgmma_commit,
    wgmma_wait
};

/* All 32 lanes have to arrive, at one place, before any of them goes on. */
uint32_t warp_collective(site at, collective kind, uint32_t value, int argument);

/* ldmatrix.m8n8.x4: lane l gives the address of row l % 8 of matrix l / 8. */
void load_matrix(site at, uint32_t *r, bool transposed, uint32_t shared);

/* mma.sync m16n8k16, row.col, float32 accumulation: d += a b in the lane layout of the PTX manual. */
void multiply(site at, collective kind, float *d, const uint32_t *a, const uint32_t *b);
/* The same for m16n8k32 of e4m3 where tensor cores of 8 bits have it: of each sum of 32 products and d, with 13 bits behind the first one
   of the largest, the rest is cut off. */
void multiply_e4m3(site at, float *d, const uint32_t *a, const uint32_t *b);
/* mma.sync m16n8k32 of bytes, row.col, int32 accumulation; signed: B's are. */
void multiply_u8(site at, bool is_signed, int *d, const uint32_t *a, const uint32_t *b);

/* wgmma of a warpgroup: 64 rows, 16 columns of A, n columns of B. Each of its warps does its 16 rows when it waits for the group that the
   product was committed to, with what the registers and shared memory hold then. */
enum class operand { f16, bf16, e4m3 }; /* 16 columns of A, of e4m3 32 */
struct wgmma_args {
    int n;
    operand type;
    bool adds;
    const uint32_t *registers; /* of A; else shared memory has it */
    uint64_t a, b;             /* matrix descriptors */
    float *d;
};
void wgmma_issue(site at, const wgmma_args &p);
void wgmma_commit(site at);
void wgmma_wait(site at, int pending);

/* mbarriers in shared memory. */
void barrier_init(site at, uint32_t barrier, int arrivals);
void barrier_arrive(site at, uint32_t barrier, int bytes);
/* The bytes alone. */
void barrier_expect(site at, uint32_t barrier, int bytes);
/* By a thread of this block or another one of the cluster. */
void barrier_arrive_in(site at, uint32_t barrier, int rank);
void barrier_wait(site at, uint32_t barrier, int parity);

/* A CUtensorMap as the emulated driver makes it: bytes from a row to the next are those of its dimension. */
struct tensor_map {
    uint32_t magic, swizzle; /* bytes */
    const unsigned char *base;
    uint32_t element, rank, size[5], box[5]; /* element: bytes; past the rank 1 */
    uint64_t stride[5];
};
const uint32_t TENSOR_MAP_MAGIC = 0x70616d74u;
/* cp.async.bulk.tensor of so many dimensions; done at once. mask 0: for this block; else for those blocks of the cluster. */
void copy_box(site at, uint32_t shared, const void *map, unsigned rank, const int (&from)[5], uint32_t barrier, unsigned mask = 0);

unsigned char *dynamic_shared();
/* A shared-memory address as PTX has it, of a place in dynamic shared memory. */
uint32_t shared_address(site at, const void *pointer);
/* The block's bytes at a shared address that is a multiple of size. */
void *shared_bytes(site at, uint32_t shared, size_t size);

/* cp.async of 8 or 16 bytes; zeroes if not valid. From here until the wait that covers it the destination holds poison: on the device it
   may hold the old bytes, the new ones, or some of both. */
void copy_async(site at, uint32_t shared, const void *source, int size, bool valid);
void copy_async_commit();
/* Waits until at most `pending` of this thread's latest groups are still under way. */
void copy_async_wait(int pending);

/* Global memory that several blocks use. A thread that spins on a load lets others run. */
int atomic_add(int *p, int value);
int atomic_max(int *p, int value);
unsigned long long load_relaxed(const unsigned long long *p);
void store_relaxed(unsigned long long *p, unsigned long long value);

/* Keeps the compiler from fusing the operation that made x with the next one. */
inline float rounded(float x)
{
#if defined(__x86_64__)
    __asm__("" : "+x"(x));
#else
    __asm__("" : "+w"(x));
#endif
    return x;
}
} // namespace emu

#endif
