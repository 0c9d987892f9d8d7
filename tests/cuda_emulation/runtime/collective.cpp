/* Block barriers and warp collectives, also when some threads have returned. */
#include "machine.h"

namespace emu
{
namespace
{
const char *name_of(collective kind)
{
    static const char *const names[] = {
        "warp_sync", "shuffle",  "shuffle_up", "shuffle_down", "shuffle_xor",      "ballot", "movmatrix",          "ldmatrix",
        "mma f16",   "mma bf16", "mma e4m3",   "mma bytes",    "mma signed bytes", "wgmma",  "wgmma.commit_group", "wgmma.wait_group"};
    return names[(int)kind];
}

bool same(site a, site b)
{
    return a.line == b.line && a.file == b.file;
}

int source_lane(collective kind, int lane, int argument)
{
    int from = lane;
    if (kind == collective::shuffle)
        return argument & (WARP - 1);
    if (kind == collective::shuffle_up)
        from = lane - argument;
    else if (kind == collective::shuffle_down)
        from = lane + argument;
    else
        from = lane ^ argument;
    return from < 0 || from >= WARP ? lane : from;
}

void execute(warp &w, collective kind)
{
    uint32_t ballot = 0;
    switch (kind) {
    case collective::sync:
        w.order++;
        break;
    case collective::ballot:
        for (int i = 0; i < WARP; i++)
            ballot |= (uint32_t)(w.lanes[i].value != 0) << i;
        for (int i = 0; i < WARP; i++)
            w.lanes[i].result = ballot;
        break;
    case collective::transpose:
    case collective::load_matrix:
    case collective::multiply_f16:
    case collective::multiply_bf16:
    case collective::multiply_e4m3:
    case collective::multiply_u8:
    case collective::multiply_u8_s8:
        matrix_execute(w, kind);
        break;
    case collective::wgmma:
    case collective::wgmma_commit:
    case collective::wgmma_wait:
        wgmma_execute(w, kind);
        break;
    default:
        for (int i = 0; i < WARP; i++)
            w.lanes[i].result = w.lanes[source_lane(kind, i, w.lanes[i].argument)].value;
    }
}

/* Returns once all lanes have arrived and the collective is done. The last lane executes it, with the operands in the others' fibers;
   results stay there until their next collective. */
void join_collective(worker &w, fiber &f, site at, collective kind)
{
    warp &home = *f.home;
    if (watching_races)
        check_suspect();
    if (home.live != 0xffffffffu)
        fail("%s at %s:%d needs all lanes of the warp; %d have returned or do not exist", name_of(kind), at.file, at.line,
             WARP - __builtin_popcount(home.live));
    if (home.arrived == 0) {
        home.kind = kind;
        home.where = at;
    } else if (home.kind != kind || !same(home.where, at)) {
        fail("lanes of one warp diverge: %s at %s:%d and %s at %s:%d", name_of(kind), at.file, at.line, name_of(home.kind), home.where.file,
             home.where.line);
    }
    home.arrived |= f.bit;
    if (home.arrived != 0xffffffffu) {
        park(w, f, at);
        return;
    }
    home.arrived = 0;
    execute(home, kind);
    make_ready(home, ~f.bit);
    if (one_in(w, 4))
        yield(w, f);
}

void release(block &b)
{
    b.at_barrier = 0;
    begin_epoch(b);
    for (int i = 0; i * WARP < b.n_threads; i++) {
        make_ready(b.warps[i], b.barrier_lanes[i]);
        b.barrier_lanes[i] = 0;
    }
}
} // namespace

uint32_t warp_collective(site at, collective kind, uint32_t value, int argument)
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    f.value = value;
    f.argument = argument;
    join_collective(w, f, at, kind);
    return f.result;
}

void load_matrix(site at, uint32_t *r, bool transposed, uint32_t shared)
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    f.d = r;
    f.argument = transposed;
    f.address = shared_bytes(at, shared, 16);
    if (watching_races)
        note_access(f.address, 16, false, __builtin_return_address(0));
    join_collective(w, f, at, collective::load_matrix);
}

void multiply(site at, collective kind, float *d, const uint32_t *a, const uint32_t *b)
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    f.d = d;
    f.a = a;
    f.b = b;
    join_collective(w, f, at, kind);
}

void multiply_e4m3(site at, float *d, const uint32_t *a, const uint32_t *b)
{
    multiply(at, collective::multiply_e4m3, d, a, b);
}

void multiply_u8(site at, bool is_signed, int *d, const uint32_t *a, const uint32_t *b)
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    f.d = d;
    f.a = a;
    f.b = b;
    join_collective(w, f, at, is_signed ? collective::multiply_u8_s8 : collective::multiply_u8);
}

void wgmma_issue(site at, const wgmma_args &p)
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    f.wgmma = p;
    join_collective(w, f, at, collective::wgmma);
}

void wgmma_commit(site at)
{
    warp_collective(at, collective::wgmma_commit, 0, 0);
}

void wgmma_wait(site at, int pending)
{
    warp_collective(at, collective::wgmma_wait, 0, pending);
}

void block_barrier(site at)
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    if (watching_races)
        check_suspect();
    block &b = *w.here;
    uint32_t &mine = b.barrier_lanes[f.id / WARP];
    if (mine) {
        const site other = f.home->lanes[__builtin_ctz(mine)].waits;
        if (!same(other, at))
            fail("lanes of one warp are at different barriers, %s:%d and %s:%d", at.file, at.line, other.file, other.line);
    }
    if (++b.at_barrier == b.live) {
        release(b);
        if (w.seed != 0)
            yield(w, f);
        return;
    }
    mine |= f.bit;
    park(w, f, at);
}

void count_cluster_barrier(worker &w)
{
    if (w.cluster_barrier.arrived == 0 || w.cluster_barrier.arrived < w.cluster_barrier.live)
        return;
    w.cluster_barrier.arrived = 0;
    w.cluster_barrier.phase++;
}

void cluster_arrive(site at)
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    if (f.in_cluster_barrier)
        fail("%s:%d: the thread arrives twice at the cluster's barrier without waiting", at.file, at.line);
    f.in_cluster_barrier = true;
    f.cluster_phase = w.cluster_barrier.phase;
    w.cluster_barrier.arrived++;
    count_cluster_barrier(w);
}

void cluster_wait(site at)
{
    worker &w = *this_worker();
    fiber &f = *w.current;
    if (!f.in_cluster_barrier)
        fail("%s:%d: the thread waits at the cluster's barrier without arriving", at.file, at.line);
    spin(
        at, &w.cluster_barrier.phase, [](const void *what, unsigned value) { return *static_cast<const unsigned *>(what) != value; },
        f.cluster_phase);
    f.in_cluster_barrier = false;
}

int cluster_rank()
{
    return (int)this_worker()->here->rank;
}

void thread_returns(worker &w, fiber &f)
{
    warp &home = *f.home;
    if (watching_races)
        check_suspect();
    if (home.arrived)
        fail("the thread returns while lanes of its warp wait for it in %s at %s:%d", name_of(home.kind), home.where.file, home.where.line);
    home.live &= ~f.bit;
    block &b = *w.here;
    b.live--;
    if (b.at_barrier > 0 && b.at_barrier == b.live)
        release(b);
    w.cluster_barrier.live--;
    if (f.in_cluster_barrier && f.cluster_phase == w.cluster_barrier.phase)
        w.cluster_barrier.arrived--;
    count_cluster_barrier(w);
}
} // namespace emu
