/* The functions that the emulated machine provides to kernels. emulated_intrinsics.h maps the kernels' names to them. */
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

/* The running thread. A fiber stays on its OS thread, hence const: one call per function is enough. */
const thread_view *self() __attribute__((const));

/* A source location in a kernel: for messages, and to compare where the lanes of a warp wait. */
struct site {
    const char *file;
    int line;
    static constexpr site here(const char *in_file = __builtin_FILE(), int at_line = __builtin_LINE())
    {
        return {in_file, at_line};
    }
};

void block_barrier(site at);
/* bar.sync with a number and a thread count. */
void group_barrier(site at, int number, int threads);
void group_arrive(site at, int number, int threads);

/* barrier.cluster, split into arrive and wait. Relaxed: it orders no memory. */
void cluster_arrive(site at);
void cluster_wait(site at);
int cluster_rank();
/* mapa: the address of `shared` in the block of that rank. */
uint32_t cluster_address(site at, uint32_t shared, int rank);
/* st.async of 16 bytes, done at once; both addresses are in the same block of the cluster. */
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

/* All 32 lanes must arrive at the same location before any continues. */
uint32_t warp_collective(site at, collective kind, uint32_t value, int argument);

/* ldmatrix.m8n8.x4: lane l has the address of row l % 8 of matrix l / 8. */
void load_matrix(site at, uint32_t *r, bool transposed, uint32_t shared);

/* mma.sync m16n8k16, row.col, float32 accumulation: d += a b in the lane layout of the PTX manual. */
void multiply(site at, collective kind, float *d, const uint32_t *a, const uint32_t *b);
/* The same for m16n8k32 of e4m3 on 8-bit tensor cores: the 32 terms of each sum and d are truncated 13 bits below the
   leading bit of the largest. */
void multiply_e4m3(site at, float *d, const uint32_t *a, const uint32_t *b);
/* mma.sync m16n8k32 of int8, row.col, int32 accumulation. is_signed: B is signed. */
void multiply_u8(site at, bool is_signed, int *d, const uint32_t *a, const uint32_t *b);

/* wgmma: 64 rows, 16 columns of A, n columns of B. Each warp computes its 16 rows when it waits for the wgmma's group, with the contents of
   registers and shared memory at that time. */
enum class operand { f16, bf16, e4m3 }; /* 16 columns of A, 32 for e4m3 */
struct wgmma_args {
    int n;
    operand type;
    bool adds;
    const uint32_t *registers; /* A; NULL: A is in shared memory */
    uint64_t a, b;             /* matrix descriptors */
    float *d;
};
void wgmma_issue(site at, const wgmma_args &p);
void wgmma_commit(site at);
void wgmma_wait(site at, int pending);

/* mbarriers in shared memory. */
void barrier_init(site at, uint32_t barrier, int arrivals);
void barrier_arrive(site at, uint32_t barrier, int bytes);
/* Expects bytes without arriving. */
void barrier_expect(site at, uint32_t barrier, int bytes);
/* By a thread of this block or of another one in the cluster. */
void barrier_arrive_in(site at, uint32_t barrier, int rank);
void barrier_wait(site at, uint32_t barrier, int parity);

/* A CUtensorMap of the emulated driver. stride[i]: bytes along dimension i. */
struct tensor_map {
    uint32_t magic, swizzle; /* bytes */
    const unsigned char *base;
    uint32_t element, rank, size[5], box[5]; /* element: bytes; entries past the rank are 1 */
    uint64_t stride[5];
};
const uint32_t TENSOR_MAP_MAGIC = 0x70616d74u;
/* cp.async.bulk.tensor with `rank` dimensions, done at once. mask: the destination blocks of the cluster; 0: this block. */
void copy_box(site at, uint32_t shared, const void *map, unsigned rank, const int (&from)[5], uint32_t barrier, unsigned mask = 0);

unsigned char *dynamic_shared();
/* The PTX shared-memory address of a pointer into dynamic shared memory. */
uint32_t shared_address(site at, const void *pointer);
/* The block's bytes at a shared address, which must be a multiple of size. */
void *shared_bytes(site at, uint32_t shared, size_t size);

/* cp.async of 8 or 16 bytes; zeros if not valid. Until the wait that covers it, the destination holds poison: on the device it may hold
   old or new bytes. */
void copy_async(site at, uint32_t shared, const void *source, int size, bool valid);
void copy_async_commit();
/* Waits until at most `pending` of this thread's latest groups are in flight. */
void copy_async_wait(int pending);

/* Global memory that several blocks use. A thread that spins on a load lets others run. */
int atomic_add(int *p, int value);
int atomic_max(int *p, int value);
unsigned long long load_relaxed(const unsigned long long *p);
void store_relaxed(unsigned long long *p, unsigned long long value);

/* Keeps the compiler from fusing the operation that computed x with the next one. */
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
