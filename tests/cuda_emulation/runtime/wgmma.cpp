/* sm_90a features: mbarriers, named barriers, TMA copies, wgmma. */
#include <string.h>

#include "half.h"
#include "machine.h"

namespace emu
{
namespace
{
/* The contents of an mbarrier. */
struct barrier_state {
    uint16_t arrivals, missing;
    int32_t bytes : 31; /* negative: copies of other blocks arrived before they were expected here */
    uint32_t phase : 1;
};
static_assert(sizeof(barrier_state) == 8, "as large as an mbarrier");

const unsigned SPIN_LIMIT = 1u << 22;

barrier_state &state_of(const block &in, site at, uint32_t barrier)
{
    return *static_cast<barrier_state *>(shared_bytes_of(in, at, barrier, 8));
}

barrier_state &state_of(site at, uint32_t barrier)
{
    return state_of(*this_worker()->here, at, barrier);
}

void end_phase(block &in, barrier_state &b)
{
    if (b.missing != 0 || b.bytes != 0)
        return;
    b.phase ^= 1;
    b.missing = b.arrivals;
    begin_epoch(in);
}

void arrive(block &in, site at, uint32_t barrier, int bytes)
{
    barrier_state &b = state_of(in, at, barrier);
    if (b.missing == 0)
        fail("%s:%d: more arrivals at a barrier than it was initialised for", at.file, at.line);
    b.missing--;
    b.bytes += bytes;
    end_phase(in, b);
}

/* A PTX matrix descriptor. */
struct matrix {
    uint32_t start, leading, stride, swizzle; /* swizzle: bytes */

    explicit matrix(uint64_t bits)
        : start((uint32_t)(bits & 0x3fff) << 4), leading((uint32_t)(bits >> 16 & 0x3fff) << 4),
          stride((uint32_t)(bits >> 32 & 0x3fff) << 4), swizzle(bits >> 62 == 0 ? 16 : 256u >> (bits >> 62))
    {
    }
    uint16_t at(uint32_t offset, unsigned size) const
    {
        uint32_t address = start + offset;
        address ^= (address >> 7 & (swizzle / 16 - 1)) << 4;
        uint16_t x = 0;
        memcpy(&x, shared_bytes({__FILE__, __LINE__}, address, size), size);
        return x;
    }
    /* Element k of a row with contiguous elements of `size` bytes. */
    uint16_t row(unsigned r, unsigned k, unsigned size) const
    {
        return at(r / 8 * stride + r % 8 * swizzle + k * size, size);
    }
    /* Element k of column n, where columns are contiguous. */
    uint16_t column(unsigned k, unsigned n) const
    {
        const unsigned width = swizzle / 2;
        return at((n / width * leading & 0x3ffff) + k / 8 * stride + k % 8 * swizzle + n % width * 2, 2);
    }
};

float number(uint16_t bits, operand type)
{
    return type == operand::e4m3 ? e4m3_to_f32((uint8_t)bits) : type == operand::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

/* Computes the warp's 16 rows. */
void execute(const warp &w, const issued_wgmma &p)
{
    float a[16][32], b[32], sum[16];
    const wgmma_args &all = p.lanes[0];
    const unsigned size = all.type == operand::e4m3 ? 1 : 2, depth = 32 / size;
    const unsigned first = w.lanes[0].id / WARP % 4 * 16;
    const matrix a_matrix(all.a), b_matrix(all.b);
    for (unsigned r = 0; r < 16; r++)
        for (unsigned k = 0; k < depth; k++) {
            if (all.registers != nullptr) { /* of 16 bits */
                const uint32_t pair = p.lanes[r % 8 * 4 + k % 8 / 2].registers[r / 8 + k / 8 * 2];
                a[r][k] = number((uint16_t)(k % 2 ? pair >> 16 : pair), all.type);
            } else {
                a[r][k] = number(a_matrix.row(first + r, k, size), all.type);
            }
        }
    for (unsigned n = 0; n < (unsigned)all.n; n++) {
        for (unsigned k = 0; k < depth; k++)
            b[k] = number(all.registers != nullptr ? b_matrix.column(k, n) : b_matrix.row(n, k, size), all.type);
        for (unsigned r = 0; r < 16; r++) {
            float &d = p.lanes[r % 8 * 4 + n % 8 / 2].d[n / 8 * 4 + r / 8 * 2 + n % 2];
            sum[r] = all.adds ? d : 0.0f;
            for (unsigned k = 0; k < depth; k++)
                sum[r] += a[r][k] * b[k];
            d = sum[r];
        }
    }
}

void wait_for_groups(warp &w, size_t pending)
{
    while (w.wgmma_groups.size() > pending) {
        const size_t n = w.wgmma_groups.front();
        for (size_t i = 0; i < n; i++)
            execute(w, w.issued[i]);
        w.issued.erase(w.issued.begin(), w.issued.begin() + (long)n);
        w.wgmma_groups.erase(w.wgmma_groups.begin());
    }
}
} // namespace

void wgmma_execute(warp &w, collective kind)
{
    if (kind == collective::wgmma) {
        issued_wgmma p;
        for (int i = 0; i < WARP; i++) {
            p.lanes[i] = w.lanes[i].wgmma;
            if (p.lanes[i].a != p.lanes[0].a || p.lanes[i].b != p.lanes[0].b || p.lanes[i].adds != p.lanes[0].adds)
                fail("the lanes of a wgmma have different matrices");
        }
        w.issued.push_back(p);
    } else if (kind == collective::wgmma_commit) {
        size_t in_groups = 0;
        for (size_t n : w.wgmma_groups)
            in_groups += n;
        w.wgmma_groups.push_back(w.issued.size() - in_groups);
    } else {
        wait_for_groups(w, (size_t)w.lanes[0].argument);
    }
}

void spin(site at, const void *what, bool (*ready)(const void *what, unsigned value), unsigned value)
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    for (unsigned i = 0; !ready(what, value); i++) {
        if (i == SPIN_LIMIT)
            fail("%s:%d: endless wait for a barrier", at.file, at.line);
        let_others_run(w, f);
    }
}

/* Returns whether this is the last thread. */
static bool arrive_at_group(site at, int number, int threads)
{
    worker &w = *this_worker();
    block &b = *w.here;
    auto &barrier = b.group_barriers[number];
    if (number < 1 || number > 15 || threads % WARP != 0 || threads > b.n_threads)
        fail("%s:%d: barrier %d of %d threads", at.file, at.line, number, threads);
    if (barrier.arrived > 0 && barrier.threads != threads)
        fail("%s:%d: barrier %d of %d and of %d threads", at.file, at.line, number, barrier.threads, threads);
    barrier.threads = threads;
    if (++barrier.arrived < threads)
        return false;
    barrier.arrived = 0;
    barrier.phase++;
    begin_epoch(b);
    return true;
}

void group_barrier(site at, int number, int threads)
{
    auto &barrier = this_worker()->here->group_barriers[number];
    const unsigned phase = barrier.phase;
    if (!arrive_at_group(at, number, threads))
        spin(
            at, &barrier.phase, [](const void *what, unsigned value) { return *static_cast<const unsigned *>(what) != value; }, phase);
}

void group_arrive(site at, int number, int threads)
{
    arrive_at_group(at, number, threads);
}

void barrier_init(site at, uint32_t barrier, int arrivals)
{
    barrier_state b = {};
    b.arrivals = b.missing = (uint16_t)arrivals;
    state_of(at, barrier) = b;
}

void barrier_arrive(site at, uint32_t barrier, int bytes)
{
    arrive(*this_worker()->here, at, barrier, bytes);
}

void barrier_expect(site at, uint32_t barrier, int bytes)
{
    barrier_state &b = state_of(at, barrier);
    if (b.missing == 0)
        fail("%s:%d: expect_tx on a barrier without pending arrivals", at.file, at.line);
    b.bytes += bytes;
}

void barrier_arrive_in(site at, uint32_t barrier, int rank)
{
    uint32_t there = cluster_address(at, barrier, rank);
    block &in = block_of_address(at, there);
    arrive(in, at, there, 0);
}

void barrier_wait(site at, uint32_t barrier, int parity)
{
    spin(
        at, &state_of(at, barrier),
        [](const void *what, unsigned value) { return static_cast<const barrier_state *>(what)->phase != value; }, (unsigned)parity);
}

namespace
{
/* Copies the bytes of a box to one block. */
uint32_t copy_into(const block &in, site at, uint32_t shared, const tensor_map &m, unsigned rank, const int (&from)[5])
{
    uint32_t to = shared;
    unsigned in_box[5] = {};
    for (bool more = true; more; to += m.element) {
        bool inside = true;
        uint64_t offset = 0;
        for (unsigned i = 0; i < rank; i++) {
            const int64_t index = (int64_t)from[i] + in_box[i];
            inside = inside && index >= 0 && index < (int64_t)m.size[i];
            offset += (uint64_t)index * m.stride[i];
        }
        uint16_t value = 0;
        if (inside)
            memcpy(&value, m.base + offset, m.element);
        memcpy(shared_bytes_of(in, at, to ^ (to >> 7 & (m.swizzle / 16 - 1)) << 4, m.element), &value, m.element);
        more = false;
        for (unsigned i = 0; i < rank && !more; i++) {
            more = ++in_box[i] < m.box[i];
            in_box[i] = more ? in_box[i] : 0;
        }
    }
    return to - shared;
}
} // namespace

void copy_box(site at, uint32_t shared, const void *map, unsigned rank, const int (&from)[5], uint32_t barrier, unsigned mask)
{
    tensor_map m;
    memcpy(&m, map, sizeof m);
    if (m.magic != TENSOR_MAP_MAGIC)
        fail("%s:%d: not a tensor map", at.file, at.line);
    if (m.rank != rank)
        fail("%s:%d: a %u-dimensional box of a %u-dimensional tensor", at.file, at.line, rank, (unsigned)m.rank);
    if (shared % 1024 != 0)
        fail("%s:%d: a swizzled box at shared address %u", at.file, at.line, shared);
    worker &w = *this_worker();
    const unsigned self = w.here->rank;
    for (unsigned to = 0, left = mask ? mask : 1u << self; left != 0; to++, left >>= 1) {
        if (!(left & 1))
            continue;
        uint32_t there = mask ? cluster_address(at, shared, (int)to) : shared;
        block &in = block_of_address(at, there);
        const int bytes = (int)copy_into(in, at, there, m, rank, from);
        barrier_state &b = state_of(in, at, barrier);
        if (w.launch->cluster == 1 && b.bytes < bytes) /* with a cluster, copies of other blocks may come first */
            fail("%s:%d: a copy of %d bytes to a barrier that expects %d", at.file, at.line, bytes, (int)b.bytes);
        b.bytes -= bytes;
        end_phase(in, b);
    }
}

void store_async_cluster(site at, uint32_t there, const void *bytes, uint32_t barrier_there)
{
    block &in = block_of_address(at, there);
    if (&block_of_address(at, barrier_there) != &in)
        fail("%s:%d: the destination and the barrier are in different blocks", at.file, at.line);
    void *to = shared_bytes_of(in, at, there, 16);
    if (watching_races)
        note_access(to, 16, true, __builtin_return_address(0));
    memcpy(to, bytes, 16);
    barrier_state &b = state_of(in, at, barrier_there);
    b.bytes -= 16;
    end_phase(in, b);
}
} // namespace emu
