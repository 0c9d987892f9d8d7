/* Small kernels; those named bad_ are wrong on purpose. */
#include "emulated_intrinsics.h"

#include "kernels.h"
#include "runtime/kernel.h"

#define KERNEL(name)                                \
    extern "C" void name(const test_params params); \
    EMU_KERNEL(name)                                \
    extern "C" __global__ void name(const test_params params)

/* Sums a block's numbers in a tree; option 1 omits the barrier between steps. */
KERNEL(sum)
{
    RVIT_DYNAMIC_SHARED(memory);
    float *x = reinterpret_cast<float *>(memory);
    const int i = (int)threadIdx.x;
    x[i] = static_cast<const float *>(params.in)[blockIdx.x * blockDim.x + threadIdx.x];
    block_sync();
    for (int half = (int)blockDim.x / 2; half > 0; half /= 2) {
        if (i < half)
            x[i] += x[i + half];
        if (params.option != 1)
            block_sync();
    }
    if (i == 0)
        static_cast<float *>(params.out)[blockIdx.x] = x[0];
}

/* Each lane passes a number to the previous lane through static shared memory; option 1 omits warp_sync. */
KERNEL(pass)
{
    RVIT_SHARED int slots[64];
    const int i = (int)threadIdx.x;
    slots[i] = static_cast<const int *>(params.in)[i];
    if (params.option != 1)
        warp_sync();
    static_cast<int *>(params.out)[i] = slots[i / 32 * 32 + (i + 1) % 32];
}

/* Reads uninitialised shared memory. */
KERNEL(unwritten)
{
    RVIT_DYNAMIC_SHARED(memory);
    RVIT_SHARED float sums[32];
    float *out = static_cast<float *>(params.out);
    out[threadIdx.x] = reinterpret_cast<float *>(memory)[threadIdx.x];
    out[threadIdx.x + 32] = sums[threadIdx.x];
    sums[threadIdx.x] = 1.0f;
    reinterpret_cast<float *>(memory)[threadIdx.x] = 1.0f;
}

KERNEL(shuffles)
{
    const int lane = (int)threadIdx.x % 32, i = (int)threadIdx.x;
    int *out = static_cast<int *>(params.out) + i * 6;
    out[0] = shuffle(i, lane * 7 + 3);
    out[1] = shuffle_xor(i, 5);
    out[2] = shuffle_up(i, 3);
    out[3] = shuffle_down(i, 4);
    out[4] = (int)float_bits(shuffle((float)i, 31 - lane));
    out[5] = (int)warp_ballot(i % 3 == 0);
}

/* One warp: D (16x8) = A (16x16) B (16x8) + D. B is row-major; option 1: column-major. Option 2: bf16. */
KERNEL(matrix)
{
    RVIT_DYNAMIC_SHARED(memory);
    const uint32_t a_shared = shared_address(memory), b_shared = a_shared + 16 * 32;
    const int lane = (int)threadIdx.x;
    const char *a = static_cast<const char *>(params.in), *b = static_cast<const char *>(params.other);
    copy_async_16(a_shared + lane * 16, a + lane * 16, true);
    if (lane < 16)
        copy_async_16(b_shared + lane * 16, b + lane * 16, true);
    copy_commit();
    copy_wait<0>();
    warp_sync();
    uint32_t ra[4], rb[4];
    load_matrix_x4(ra, a_shared + (lane % 16) * 32 + (lane / 16) * 16);
    if (params.option & 1) /* rows of the stored matrix are columns of B: 8 rows of 16 */
        load_matrix_x4(rb, b_shared + (lane % 8) * 32 + (lane / 8 % 2) * 16);
    else /* 16 rows of 8 */
        load_matrix_x4_transposed(rb, b_shared + (lane % 16) * 16);
    float d[4];
    float *out = static_cast<float *>(params.out);
    const int row = lane / 4, column = lane % 4 * 2;
    for (int i = 0; i < 4; i++)
        d[i] = out[(row + i / 2 * 8) * 8 + column + i % 2];
    if (params.option & 2)
        mma_bf16(d, ra, rb[0], rb[1]);
    else
        mma_f16(d, ra, rb[0], rb[1]);
    for (int i = 0; i < 4; i++)
        out[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
}

/* One warp: D (16x8) = A (16x32) B (32x8) + D of int8, B column-major; option 1: B is signed. Then pairs of D / 256 as int8. */
KERNEL(matrix_u8)
{
    const uint32_t *a = static_cast<const uint32_t *>(params.in), *b = static_cast<const uint32_t *>(params.other);
    const int lane = (int)threadIdx.x, row = lane / 4, t = lane % 4;
    const uint32_t ra[4] = {a[row * 8 + t], a[(row + 8) * 8 + t], a[row * 8 + t + 4], a[(row + 8) * 8 + t + 4]};
    int d[4], *out = static_cast<int *>(params.out);
    for (int i = 0; i < 4; i++)
        d[i] = out[(row + i / 2 * 8) * 8 + 2 * t + i % 2];
    if (params.option)
        mma_u8<true>(d, ra, b[row * 8 + t], b[row * 8 + t + 4]);
    else
        mma_u8<false>(d, ra, b[row * 8 + t], b[row * 8 + t + 4]);
    for (int i = 0; i < 4; i++)
        out[(row + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
    for (int i = 0; i < 4; i += 2)
        out[128 + (row + i / 2 * 8) * 4 + t] = (int)saturate_u8x2(d[i] >> 8, d[i + 1] >> 8);
}

/* One warp: D (16x8) = A (16x32) B (32x8) + D of e4m3, B column-major. Then each lane's four sums as e4m3, and the warp's largest. */
KERNEL(matrix_e4m3)
{
    const uint32_t *a = static_cast<const uint32_t *>(params.in), *b = static_cast<const uint32_t *>(params.other);
    const int lane = (int)threadIdx.x, row = lane / 4, t = lane % 4;
    const uint32_t ra[4] = {a[row * 8 + t], a[(row + 8) * 8 + t], a[row * 8 + t + 4], a[(row + 8) * 8 + t + 4]};
    float d[4], *out = static_cast<float *>(params.out);
    for (int i = 0; i < 4; i++)
        d[i] = out[(row + i / 2 * 8) * 8 + 2 * t + i % 2];
    mma_e4m3(d, ra, b[row * 8 + t], b[row * 8 + t + 4]);
    for (int i = 0; i < 4; i++)
        out[(row + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
    reinterpret_cast<uint32_t *>(out)[128 + lane] = pack_e4m3(d[0], d[1], d[2], d[3]);
    const float largest = max_or_nan(max_or_nan(fabsf(d[0]), fabsf(d[1])), max_or_nan(fabsf(d[2]), fabsf(d[3])));
    out[160 + lane] = bits_float(warp_max(float_bits(largest)));
}

/* Copies in two groups. option sets how many may be in flight: 0 waits for both, 1 for the first, 2 for neither. The last word is not
   valid. */
KERNEL(async)
{
    RVIT_DYNAMIC_SHARED(memory);
    const uint32_t shared = shared_address(memory);
    const int i = (int)threadIdx.x, n = (int)blockDim.x;
    const char *in = static_cast<const char *>(params.in);
    copy_async_8(shared + i * 8, in + i * 8, i != n - 1);
    copy_commit();
    copy_async_8(shared + (n + i) * 8, in + (n + i) * 8, i != n - 1);
    copy_commit();
    if (params.option == 0)
        copy_wait<0>();
    else if (params.option == 1)
        copy_wait<1>();
    else
        copy_wait<2>();
    block_sync();
    for (int j = 0; j < 2; j++)
        static_cast<uint2 *>(params.out)[j * n + i] = reinterpret_cast<const uint2 *>(memory)[j * n + (i + 1) % n];
}

/* A ring of one stage; with option 1 the next copy starts before all have read. */
KERNEL(ring)
{
    RVIT_DYNAMIC_SHARED(memory);
    const uint32_t shared = shared_address(memory);
    const int i = (int)threadIdx.x, n = (int)blockDim.x;
    float sum = 0.0f;
    for (int round = 0; round < params.n; round++) {
        copy_async_8(shared + i * 8, static_cast<const float *>(params.in) + (round * n + i) * 2, true);
        copy_commit();
        copy_wait<0>();
        block_sync();
        sum += reinterpret_cast<const float *>(memory)[(i * 2 + 64) % (2 * n)];
        if (params.option != 1)
            block_sync();
    }
    static_cast<float *>(params.out)[i] = sum;
}

/* Inclusive sums over all blocks in one pass: a block publishes its sum and adds those of blocks with earlier tickets. */
KERNEL(scan)
{
    RVIT_SHARED int ticket, before;
    RVIT_SHARED int sums[8];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
    if (threadIdx.x == 0)
        ticket = atomic_add(params.counter, 1);
    block_sync();
    const int at = ticket * (int)blockDim.x + (int)threadIdx.x;
    int x = at < params.n ? static_cast<const int *>(params.in)[at] : 0;
    for (int delta = 1; delta < 32; delta *= 2) {
        const int other = shuffle_up(x, delta);
        x += lane >= delta ? other : 0;
    }
    if (lane == 31)
        sums[warp] = x;
    block_sync();
    int total = 0;
    for (int w = 0; w < warps; w++) {
        if (w == warp)
            x += total;
        total += sums[w];
    }
    if (threadIdx.x == 0) {
        const unsigned long long own = 1ull << 32, all = 2ull << 32;
        store_relaxed(&params.states[ticket], (ticket == 0 ? all : own) | (unsigned)total);
        int sum = 0;
        for (int i = ticket - 1; i >= 0; i--) {
            unsigned long long state;
            do
                state = load_relaxed(&params.states[i]);
            while (state == 0);
            sum += (int)(unsigned)state;
            if (state >= all)
                break;
        }
        if (ticket > 0)
            store_relaxed(&params.states[ticket], all | (unsigned)(sum + total));
        before = sum;
    }
    block_sync();
    if (at < params.n)
        static_cast<int *>(params.out)[at] = before + x;
}

/* Threads spin until the block's last one sets a flag. */
KERNEL(spin)
{
    if (threadIdx.x + 1 == blockDim.x)
        store_relaxed(params.states, 5);
    else
        while (load_relaxed(params.states) != 5) {
        }
    static_cast<int *>(params.out)[threadIdx.x] = 1;
}

/* All threads write one word: the same value, or with option 1 different ones. */
KERNEL(agree)
{
    RVIT_SHARED int word;
    if (threadIdx.x % 2 == 0)
        word = params.option == 1 ? (int)threadIdx.x : 7;
    block_sync();
    static_cast<int *>(params.out)[threadIdx.x] = word;
}

/* Like pass, with a shuffle between write and read, which orders no memory. With option 1, a barrier. */
KERNEL(shuffled)
{
    RVIT_SHARED int slots[32];
    const int i = (int)threadIdx.x;
    slots[i] = i;
    const int one = shuffle_xor(1, 1);
    if (params.option == 1)
        warp_sync();
    static_cast<int *>(params.out)[i] = slots[(i + one) % 32];
}

/* A warp barrier does not order accesses of different warps; with option 1, a block barrier. */
KERNEL(neighbour)
{
    RVIT_DYNAMIC_SHARED(memory);
    const int i = (int)threadIdx.x, n = (int)blockDim.x;
    memory[2 * i] = (unsigned char)i;
    warp_sync();
    if (params.option == 1)
        block_sync();
    static_cast<int *>(params.out)[i] = memory[2 * ((i + 32) % n)];
}

/* Writes to an address that another lane read before the barrier. With option 1, two lanes read it after the barrier. */
KERNEL(read_again)
{
    RVIT_SHARED int slots[32];
    const int i = (int)threadIdx.x;
    slots[i] = i;
    warp_sync();
    int sum = slots[i ^ 1];
    warp_sync();
    if (params.option == 1)
        sum += slots[i ^ 1];
    slots[i] += 1;
    static_cast<int *>(params.out)[i] = sum;
}

/* Like shuffled, in global memory. */
KERNEL(global_shuffled)
{
    int *const slots = static_cast<int *>(params.out);
    const int i = (int)threadIdx.x;
    slots[i] = i;
    const int one = shuffle_xor(1, 1);
    if (params.option == 1)
        warp_sync();
    slots[i + 32] = slots[(i + one) % 32];
}

/* Launched early: reads `in`, which nothing writes, and waits before it adds `other`, which the previous launch writes. Option 1 waits
   after that; 2 writes before the wait; 3 does not wait. */
KERNEL(early)
{
    const int i = (int)threadIdx.x;
    const float first = static_cast<const float *>(params.in)[i];
    float *const out = static_cast<float *>(params.out);
    if (params.option == 2)
        out[i] = first;
    if (params.option != 1 && params.option != 3)
        wait_for_previous();
    if (params.option == 3)
        return;
    const float second = static_cast<const float *>(params.other)[i];
    wait_for_previous();
    out[i] = first + second;
}

/* Writes to adjacent bytes do not conflict: in shared memory, */
KERNEL(shared_bytes)
{
    RVIT_SHARED unsigned char bytes[64];
    bytes[threadIdx.x] = (unsigned char)threadIdx.x;
    bytes[threadIdx.x] = (unsigned char)(bytes[threadIdx.x] + 1);
    static_cast<int *>(params.out)[threadIdx.x] = bytes[threadIdx.x];
}

/* and in global memory. */
KERNEL(global_bytes)
{
    unsigned char *const bytes = static_cast<unsigned char *>(params.out);
    bytes[threadIdx.x] = (unsigned char)threadIdx.x;
    bytes[threadIdx.x] = (unsigned char)(bytes[threadIdx.x] + 1);
}

KERNEL(bad_places)
{
    (void)params;
    if (threadIdx.x % 2)
        block_sync();
    else
        block_sync();
}

KERNEL(bad_return)
{
    if (threadIdx.x == 40)
        return;
    static_cast<int *>(params.out)[threadIdx.x] = shuffle_xor((int)threadIdx.x, 1);
}

/* Half of a warp at a barrier, the other half in a shuffle. */
KERNEL(bad_deadlock)
{
    if (threadIdx.x % 32 < 16)
        block_sync();
    else
        static_cast<int *>(params.out)[threadIdx.x] = shuffle_xor((int)threadIdx.x, 1);
}

KERNEL(bad_async)
{
    RVIT_DYNAMIC_SHARED(memory);
    copy_async_16(shared_address(memory) + threadIdx.x * 16 + 16, static_cast<const char *>(params.in) + threadIdx.x * 16, true);
}

KERNEL(bad_shared)
{
    RVIT_DYNAMIC_SHARED(memory);
    memory[threadIdx.x + params.option] = 1;
}

KERNEL(bad_index)
{
    RVIT_SHARED float sums[8];
    sums[threadIdx.x + params.option] = 1.0f;
    static_cast<float *>(params.out)[0] = sums[params.option];
}

KERNEL(bad_alignment)
{
    float *out = static_cast<float *>(params.out);
    *reinterpret_cast<float4 *>(out + threadIdx.x) = make_float4(1.0f, 2.0f, 3.0f, 4.0f);
}

KERNEL(bad_write)
{
    if (threadIdx.x == 5)
        static_cast<float *>(params.out)[params.n] = 1.0f;
}

KERNEL(bad_read)
{
    if (threadIdx.x == 5)
        static_cast<float *>(params.out)[0] = static_cast<const float *>(params.in)[params.n];
}

static int deep(volatile int *last, int n)
{
    volatile int here[64];
    here[n % 64] = n + (last ? last[n % 64] : 0);
    return n > 0 ? deep(here, n - 1) + here[n % 64] : 0;
}

KERNEL(bad_recursion)
{
    static_cast<int *>(params.out)[threadIdx.x] = deep(nullptr, params.n);
}

/* For measurements: n steps of simple arithmetic with a barrier every 16 steps. */
KERNEL(work)
{
    float x = (float)threadIdx.x;
    for (int i = 0; i < params.n; i++) {
        x = x * 1.0001f + 0.5f;
        if (i % 16 == 15)
            block_sync();
    }
    static_cast<float *>(params.out)[threadIdx.x] = x;
}

KERNEL(many_matrices)
{
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    uint32_t a[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00};
    for (int i = 0; i < params.n; i++)
        mma_f16(d, a, 0x3c003c00, 0x3c003c00);
    static_cast<float *>(params.out)[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}

KERNEL(nothing)
{
    (void)params;
}
