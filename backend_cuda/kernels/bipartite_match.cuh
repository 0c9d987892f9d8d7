/* Bipartite matching, the first half of token merging. If the metrics of an image fit in shared memory, it takes one launch: the CTAs of
   an image compute metrics, and the last one finds the best group of B for each group of A, takes the best pairs and lists the remaining
   rows. Otherwise bipartite_match_metric computes the metrics first, and the CTAs of an image share the search. A (merge) group is
   `group_size` consecutive rows; their metrics form one vector of `dim`. Group i of A is group a0 + 2 i of the image, group i of B is
   group b0 + 2 i. */
#ifndef RVIT_BIPARTITE_MATCH_CUH
#define RVIT_BIPARTITE_MATCH_CUH

#include "layout.cuh"
#include "rank.cuh"

#include "../tile.h"

/* The dot products of a CTA: MATCH_A groups of A and MATCH_B groups of B per thread. A thread takes every MATCH_LINES-th group of A and
   every MATCH_LINE-th group of B, so that a line of threads reads 16 adjacent groups of B. Metrics outside shared memory are staged
   there, MATCH_CHANNELS at a time. */
enum {
    MATCH_LINE = 16,
    MATCH_A = 4,
    MATCH_B = 4,
    MATCH_LINES = RVIT_CU_BIPARTITE_MATCH_THREADS / MATCH_LINE,
    MATCH_A_TILE = MATCH_LINES * MATCH_A,
    MATCH_B_TILE = MATCH_LINE * MATCH_B,
    MATCH_CHANNELS = 64,
    MATCH_PITCH = MATCH_CHANNELS + 4 /* an odd number of 16-byte chunks: adjacent groups are in different banks */
};
static_assert((MATCH_A_TILE + MATCH_B_TILE) * MATCH_PITCH * 4 == RVIT_CU_BIPARTITE_MATCH_STAGED,
              "the host plans with the size of what is staged");
static_assert(MATCH_A_TILE == 2 * RVIT_CU_BIPARTITE_MATCH_TILE, "the host plans with half of the groups of A that a CTA takes at a time");

/* A range of groups of B. */
struct match_choice {
    int first, end;
};

struct match_memory {
    union {
        rank_memory rank;
        match_choice choices[MATCH_A_TILE]; /* of the groups of A being processed */
    };
    float values[SHARED_ROWS / 2]; /* for each group of A, its largest dot product; NaN without a choice */
    int partners[SHARED_ROWS / 2]; /* for each group of A, its group of B; later -1 if it is not merged */
    uint8_t marks[SHARED_ROWS / 2];
    layout_memory layout;
};
static_assert(sizeof(match_memory) <= RVIT_CU_BIPARTITE_MATCH_FIXED, "the host plans with the size of match_memory");

struct match_job {
    int image, begin, len; /* rows */
    int group_size, dim, groups, prefix, a0, n_a, b0, n_b, merges;
    const float *metric; /* of the image's groups after the prefix, `pitch` apart; in shared memory, all groups of A, then all of B */
    int pitch;
    float *values;
    int *partners;
    uint8_t *marks;
};

/* Four channels of a row's keys, the first at offset, summed over every step-th head from `first` on. */
template <typename T> RVIT_DEVICE float4 sum_over_heads(const rvit_cu_bipartite_match_params &params, long long offset, int first, int step)
{
    enum { AHEAD = 6 };
    const T *k = static_cast<const T *>(params.k) + offset;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int base = first; base < params.n_heads; base += AHEAD * step) {
        typename raw_4<T>::type raw[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (base + i * step < params.n_heads)
                raw[i] = load_raw_4(k + (base + i * step) * params.head_dim);
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (base + i * step < params.n_heads) {
                const float4 value = raw_4<T>::floats(raw[i]);
                sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
            }
    }
    return sum;
}

/* A warp sums the keys of a row over the heads and scales the result to length 1. A lane holds 4 channels; extra lanes share the heads. */
RVIT_DEVICE void metric_of_row(const rvit_cu_bipartite_match_params &params, long long row)
{
    const int lane = threadIdx.x & 31, lanes = params.head_dim / 4, groups = 32 / lanes, group = lane / lanes;
    const long long offset = row * params.k_stride + (lane - group * lanes) * 4;
    float4 part = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (group < groups) {
        if (params.dtype == RVIT_CU_F32)
            part = sum_over_heads<float>(params, offset, group, groups);
        else if (params.dtype == RVIT_CU_F16)
            part = sum_over_heads<f16>(params, offset, group, groups);
        else
            part = sum_over_heads<bf16>(params, offset, group, groups);
    }
    float4 sum = part;
#pragma unroll 1
    for (int g = 1; g < groups; g++) {
        const int from = (lane + g * lanes) & 31;
        sum.x += shuffle(part.x, from), sum.y += shuffle(part.y, from);
        sum.z += shuffle(part.z, from), sum.w += shuffle(part.w, from);
    }
    const float squares = sum.x * sum.x + sum.y * sum.y + (sum.z * sum.z + sum.w * sum.w);
    const float length = sqrtf(warp_sum(lane < lanes ? squares : 0.0f));
    if (lane >= lanes)
        return;
    if (length == 0.0f)
        sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    else
        sum = make_float4(sum.x / length, sum.y / length, sum.z / length, sum.w / length);
    store_4(params.metric + row * params.head_dim + lane * 4, sum);
}

/* Called by warp number `warp` of `warps`. */
RVIT_DEVICE void metric_of_rows(const rvit_cu_bipartite_match_params &params, int begin, int end, int warp, int warps)
{
#pragma unroll 1
    for (int row = begin + warp; row < end; row += warps)
        metric_of_row(params, row);
}

/* For all rows of the batch. */
RVIT_DEVICE void metric_of_batch(const rvit_cu_bipartite_match_params &params)
{
    const int warps = (int)blockDim.x / 32, rows = min(max(params.layout.cu_seqlens[params.layout.n_images], 0), params.layout.rows);
    metric_of_rows(params, 0, rows, (int)blockIdx.x * warps + (int)threadIdx.x / 32, (int)gridDim.x * warps);
}

/* Whether a value is larger, or equal with a lower index. A negative than_index means no value yet. NaN is never better. */
RVIT_DEVICE bool is_better(float value, int index, float than_value, int than_index)
{
    return value > than_value || (value == than_value && index >= 0 && (unsigned)index < (unsigned)than_index);
}

/* The first row of a group, counted in the batch. */
RVIT_DEVICE int group_begin(const match_job &job, int group)
{
    return job.begin + group * job.group_size;
}

/* The number of groups of B that start before this row. */
RVIT_DEVICE int groups_before(const match_job &job, int row, int rows)
{
    const int ahead = min(max(row, 0), rows) - group_begin(job, job.b0), step = 2 * job.group_size;
    return ahead <= 0 ? 0 : min((ahead + step - 1) / step, job.n_b);
}

/* The groups that group a of A may be merged into: all, or those of its window. */
RVIT_DEVICE match_choice choice_of(const rvit_cu_bipartite_match_params &params, const match_job &job, int a)
{
    match_choice choice = {0, job.n_b};
    const int32_t *windows = params.window_cu_seqlens;
    if (windows == nullptr)
        return choice;
    /* The last window that starts at or before the row. */
    const int row = group_begin(job, job.a0 + 2 * a);
    int window = 0, past = params.n_windows;
    while (window + 1 < past) {
        const int middle = (window + past) / 2;
        if (windows[middle] <= row)
            window = middle;
        else
            past = middle;
    }
    choice.first = groups_before(job, windows[window], params.layout.rows);
    choice.end = past > 0 ? groups_before(job, windows[window + 1], params.layout.rows) : choice.first;
    return choice;
}

/* The index of group a of A in the metrics, which start after the prefix. A larger `a` gives the last group. */
RVIT_DEVICE int slot_of_a(const match_job &job, int a)
{
    return job.a0 - job.prefix + 2 * min(a, job.n_a - 1);
}

RVIT_DEVICE int slot_of_b(const match_job &job, int b)
{
    return job.b0 - job.prefix + 2 * min(b, job.n_b - 1);
}

/* Copies channels c .. c + MATCH_CHANNELS - 1 of groups a .. last - 1 of A and b .. of B to shared memory, A first. */
RVIT_DEVICE void stage_groups(const match_job &job, int a, int last, int b, int c, float *staged)
{
    enum { PIECES = MATCH_CHANNELS / 4, LINES = RVIT_CU_BIPARTITE_MATCH_THREADS / PIECES, AHEAD = 2 };
    const int line = threadIdx.x / PIECES, piece = threadIdx.x % PIECES * 4;
    block_sync();
#pragma unroll 1
    for (int first = 0; first < MATCH_A_TILE + MATCH_B_TILE && c + piece < job.dim; first += LINES * AHEAD) {
        if (first < MATCH_A_TILE && a + first >= last)
            continue;
        float4 value[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int row = line + first + i * LINES;
            const int slot = row < MATCH_A_TILE ? slot_of_a(job, a + row) : slot_of_b(job, b + row - MATCH_A_TILE);
            value[i] = load_4(job.metric + (long long)slot * job.pitch + c + piece);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            store_4(staged + (line + first + i * LINES) * MATCH_PITCH + piece, value[i]);
    }
    block_sync();
}

RVIT_DEVICE float4 load_shared_floats(uint32_t shared)
{
    const uint4 raw = load_shared_16(shared);
    return make_float4(bits_float(raw.x), bits_float(raw.y), bits_float(raw.z), bits_float(raw.w));
}

/* Finds the group of B with the largest dot product for groups first .. last - 1 of A; ties go to the lowest. staged: NULL if the metrics
   are in shared memory. */
RVIT_DEVICE void find_partners(const rvit_cu_bipartite_match_params &params, const match_job &job, int first, int last, float *staged,
                               match_choice *choices)
{
    const int column = threadIdx.x % MATCH_LINE, line = threadIdx.x / MATCH_LINE;
    const int channels = staged == nullptr ? job.dim : MATCH_CHANNELS, pitch = staged == nullptr ? job.pitch : MATCH_PITCH;
    const uint32_t shared = shared_address(staged == nullptr ? job.metric : staged);
    for (int a = first; a < last; a += MATCH_A_TILE) {
        /* Uniform in the CTA. */
        const bool is_full = a + MATCH_A_TILE / 2 < last;
        float value[MATCH_A];
        int index[MATCH_A];
#pragma unroll
        for (int i = 0; i < MATCH_A; i++)
            value[i] = bits_float(0xff800000u), index[i] = -1;
        block_sync();
        if (threadIdx.x < MATCH_A_TILE)
            choices[threadIdx.x] = choice_of(params, job, min(a + (int)threadIdx.x, last - 1));
        block_sync();
        /* Windows are in the same order as the groups of A. */
        const int end = choices[MATCH_A_TILE - 1].end;
        for (int b = choices[0].first; b < end; b += MATCH_B_TILE) {
            float sum[MATCH_A][MATCH_B];
#pragma unroll
            for (int j = 0; j < MATCH_B; j++)
#pragma unroll
                for (int i = 0; i < MATCH_A; i++)
                    sum[i][j] = 0.0f;
            for (int base = 0; base < job.dim; base += channels) {
                uint32_t x[MATCH_A], y[MATCH_B];
                if (staged != nullptr)
                    stage_groups(job, a, last, b, base, staged);
#pragma unroll
                for (int i = 0; i < MATCH_A; i++) {
                    const int row = line + i * MATCH_LINES;
                    x[i] = shared + (staged != nullptr ? row : min(a + row, job.n_a - 1)) * pitch * 4;
                }
#pragma unroll
                for (int j = 0; j < MATCH_B; j++) {
                    const int row = column + j * MATCH_LINE;
                    const int slot = staged != nullptr ? MATCH_A_TILE + row : job.n_a + min(b + row, job.n_b - 1);
                    y[j] = shared + slot * pitch * 4;
                }
#pragma unroll 1
                for (int c = 0; c < min(channels, job.dim - base) * 4; c += 16) {
                    float4 left[MATCH_A];
#pragma unroll
                    for (int i = 0; i < MATCH_A; i++)
                        if (i < MATCH_A / 2 || is_full)
                            left[i] = load_shared_floats(x[i] + c);
#pragma unroll
                    for (int j = 0; j < MATCH_B; j++) {
                        if (b + j * MATCH_LINE >= end)
                            continue; /* uniform in the CTA */
                        const float4 right = load_shared_floats(y[j] + c);
#pragma unroll
                        for (int i = 0; i < MATCH_A; i++)
                            if (i < MATCH_A / 2 || is_full)
                                sum[i][j] = fmaf(left[i].w, right.w,
                                                 fmaf(left[i].z, right.z, fmaf(left[i].y, right.y, fmaf(left[i].x, right.x, sum[i][j]))));
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < MATCH_A; i++) {
                const match_choice choice = choices[line + i * MATCH_LINES];
#pragma unroll
                for (int j = 0; j < MATCH_B; j++) {
                    const int other = b + column + j * MATCH_LINE;
                    if (other >= choice.first && other < choice.end && sum[i][j] > value[i])
                        value[i] = sum[i][j], index[i] = other;
                }
            }
        }
#pragma unroll
        for (int i = 0; i < MATCH_A; i++) {
            for (int mask = MATCH_LINE / 2; mask > 0; mask /= 2) {
                const float other = shuffle_xor(value[i], mask);
                const int other_index = shuffle_xor(index[i], mask);
                if (is_better(other, other_index, value[i], index[i]))
                    value[i] = other, index[i] = other_index;
            }
            const int own = a + line + i * MATCH_LINES;
            if (column != 0 || own >= last)
                continue;
            const match_choice choice = choices[line + i * MATCH_LINES];
            job.values[own] = choice.first < choice.end ? value[i] : bits_float(0x7fc00000u);
            job.partners[own] = index[i] < 0 ? choice.first : index[i];
        }
    }
}

/* The number of groups of A that are merged; those without a choice are not. Every thread must call this. */
RVIT_DEVICE int count_merges(const match_job &job, rank_memory &memory)
{
    int n = 0;
    for (int base = 0; base < job.n_a; base += blockDim.x) {
        const int a = base + (int)threadIdx.x;
        int all;
        (void)block_rank(a < job.n_a && key_of(job.values[a]) != 1u, memory.words, &all);
        n += all;
    }
    return min(n, job.merges);
}

/* The first row in the batch of the first merged group of A, from `from` on, with group b of B as its partner, or -1. */
RVIT_DEVICE int next_merged(const match_job &job, int b, int from)
{
    enum { AHEAD = 8 };
    for (int a = from; a < job.n_a; a += AHEAD) {
        int partner[AHEAD], found = -1;
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            partner[i] = a + i < job.n_a ? job.partners[a + i] : -1;
#pragma unroll
        for (int i = AHEAD - 1; i >= 0; i--)
            found = partner[i] == b ? a + i : found;
        if (found >= 0)
            return group_begin(job, job.a0 + 2 * found);
    }
    return -1;
}

/* Writes the rows of a group. next: the first row of the next group in its list, or -1. */
RVIT_DEVICE void link_group(const rvit_cu_bipartite_match_params &params, const match_job &job, int group, bool is_kept, int next)
{
    const int row = group_begin(job, group);
    for (int j = 0; j < job.group_size; j++)
        params.keep[row + j] = is_kept, params.next_rows[row + j] = next < 0 ? -1 : next + j;
}

/* Writes keep and the lists of merged rows. */
RVIT_DEVICE void link_rows(const rvit_cu_bipartite_match_params &params, const match_job &job)
{
    for (int i = threadIdx.x; i < job.prefix; i += blockDim.x)
        link_group(params, job, i, true, -1);
    for (int a = threadIdx.x; a < job.n_a; a += blockDim.x) {
        const int partner = job.partners[a];
        link_group(params, job, job.a0 + 2 * a, partner < 0, partner < 0 ? -1 : next_merged(job, partner, a + 1));
    }
    for (int b = threadIdx.x; b < job.n_b; b += blockDim.x)
        link_group(params, job, job.b0 + 2 * b, true, next_merged(job, b, 0));
    /* Rows after the last whole group. */
    for (int i = job.groups * job.group_size + (int)threadIdx.x; i < job.len; i += blockDim.x)
        params.keep[job.begin + i] = 1, params.next_rows[job.begin + i] = -1;
}

/* Lists the kept rows in order, from index `to` on. */
RVIT_DEVICE void list_in_order(const rvit_cu_bipartite_match_params &params, const match_job &job, rank_memory &memory, int to)
{
    for (int base = 0; base < job.len; base += blockDim.x) {
        const int i = base + (int)threadIdx.x;
        const bool is_kept = i < job.len && params.keep[job.begin + i] != 0;
        int all;
        const int at = saturating_add(to, block_rank(is_kept, memory.words, &all), params.layout.rows);
        if (is_kept && at < params.layout.rows)
            params.layout.src_rows[at] = job.begin + i;
        to = saturating_add(to, all, params.layout.rows);
    }
}

/* Lists the prefix, the kept rows of A, and the rows of B, from index `to` on. */
RVIT_DEVICE void list_halves(const rvit_cu_bipartite_match_params &params, const match_job &job, rank_memory &memory, int to)
{
    const int max_rows = params.layout.rows;
    int32_t *src_rows = params.layout.src_rows;
    const auto put = [&](int slot, int row) {
        const int at = saturating_add(to, slot, max_rows);
        if (at < max_rows)
            src_rows[at] = job.begin + row;
    };
    for (int i = threadIdx.x; i < job.prefix; i += blockDim.x)
        put(i, i);
    int before = job.prefix;
    for (int base = 0; base < job.n_a; base += blockDim.x) {
        const int a = base + (int)threadIdx.x;
        const bool is_kept = a < job.n_a && params.keep[job.begin + job.a0 + 2 * a] != 0;
        int all;
        const int rank = block_rank(is_kept, memory.words, &all);
        if (is_kept)
            put(before + rank, job.a0 + 2 * a);
        before += all;
    }
    for (int b = threadIdx.x; b < job.n_b; b += blockDim.x)
        put(before + b, job.b0 + 2 * b);
}

/* How many of first, first + 2, ... are below end. */
RVIT_DEVICE int every_second(int first, int end)
{
    return first < end ? (end - first + 1) / 2 : 0;
}

RVIT_DEVICE match_job match_job_of(const rvit_cu_bipartite_match_params &params, int image)
{
    match_job job;
    job.image = image;
    const image_rows rows = rows_of_image(params.layout.cu_seqlens, image, params.layout.rows, params.layout.max_len);
    job.begin = rows.begin, job.len = rows.len;
    job.group_size = params.group_size, job.dim = params.group_size * params.head_dim, job.groups = job.len / job.group_size;
    job.prefix = min(params.layout.n_prefix, job.groups);
    job.a0 = job.prefix + (job.prefix & 1), job.n_a = every_second(job.a0, job.groups);
    job.b0 = job.prefix | 1, job.n_b = every_second(job.b0, job.groups);
    job.merges = min(params.merges, (job.groups - job.prefix) / 2);
    return job;
}

/* Sets where the image's metrics and lists are: in shared memory if they fit, otherwise in the op's result arrays, in the image's own
   rows, which are written last. */
RVIT_DEVICE void load_metrics(const rvit_cu_bipartite_match_params &params, match_job &job, match_memory &memory, float *metrics)
{
    const int n = job.groups - job.prefix, dim = job.dim;
    const float *metric = params.metric + (long long)group_begin(job, job.prefix) * params.head_dim;
    job.metric = metric, job.pitch = dim;
    if (n <= params.shared_groups) {
        /* The pitch is an odd number of 16-byte chunks, so that adjacent groups of A, and of B, are in different banks. */
        enum { AHEAD = 8 };
        const int pieces = dim / 4, pitch = dim + 4, lines = (int)blockDim.x / pieces, line = (int)threadIdx.x / pieces;
        const int column = ((int)threadIdx.x - line * pieces) * 4;
        for (int row = line; line < lines && row < n; row += lines * AHEAD) {
            float4 value[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (row + i * lines < n)
                    value[i] = load_4(metric + (row + i * lines) * dim + column);
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (row + i * lines < n) {
                    const int group = row + i * lines, slot = ((group ^ (job.a0 - job.prefix)) & 1) == 0 ? group / 2 : job.n_a + group / 2;
                    store_4(metrics + slot * pitch + column, value[i]);
                }
        }
        job.metric = metrics, job.pitch = pitch;
    }
    const bool in_shared = !params.splits && job.n_a <= SHARED_ROWS / 2;
    job.values = in_shared ? memory.values : reinterpret_cast<float *>(params.next_rows + job.begin);
    job.partners = in_shared ? memory.partners : params.layout.src_rows + job.begin;
    job.marks = in_shared ? memory.marks : params.keep + job.begin;
}

RVIT_DEVICE void match_image(const rvit_cu_bipartite_match_params &params)
{
    RVIT_DYNAMIC_SHARED(dynamic);
    match_memory &memory = *reinterpret_cast<match_memory *>(dynamic);
    const rvit_cu_layout &layout = params.layout;
    const int ticket = take_ticket(layout, memory.layout), image = ticket / layout.parts;
    if (ticket < 0)
        return;
    const unsigned tag = layout_tag(layout);
    match_job job = match_job_of(params, image);
    const int part = ticket - image * layout.parts;
    float *metrics = reinterpret_cast<float *>(dynamic + RVIT_CU_BIPARTITE_MATCH_FIXED);
    int first = 0, last = job.n_a;
    if (params.splits) {
        const int each = (job.n_a + layout.parts - 1) / layout.parts;
        first = min(job.n_a, part * each), last = min(job.n_a, first + each);
    } else {
        const int each = (job.len + layout.parts - 1) / layout.parts, begin = job.begin + min(job.len, part * each);
        metric_of_rows(params, begin, min(job.begin + job.len, begin + each), threadIdx.x / 32, blockDim.x / 32);
        if (!is_last_part(layout, image, memory.layout))
            return;
    }
    load_metrics(params, job, memory, metrics);
    block_sync();
    if (job.merges > 0)
        find_partners(params, job, first, last, params.splits ? metrics : nullptr, memory.choices);
    block_sync();
    if (params.splits && !is_last_part(layout, image, memory.layout))
        return;
    if (job.merges > 0) {
        if (params.window_cu_seqlens != nullptr)
            job.merges = count_merges(job, memory.rank);
        (void)mark_best(job.values, job.n_a, job.merges, memory.rank, job.marks);
        block_sync();
    }
    for (int a = threadIdx.x; a < job.n_a; a += blockDim.x)
        if (job.merges == 0 || job.marks[a] == 0)
            job.partners[a] = -1;
    block_sync();
    link_rows(params, job);
    block_sync();
    if (threadIdx.x < 32) {
        /* Once the partners of a long image are no longer needed, rows of later images may be listed. */
        const bool may_be_long = params.splits || layout.max_len > SHARED_ROWS;
        if (may_be_long)
            memory_fence();
        const int before = look_back(layout, job.image, job.len - job.merges * job.group_size, tag);
        if (may_be_long)
            memory_fence();
        if (threadIdx.x == 0)
            memory.layout.before = before;
    }
    block_sync();
    if (job.group_size > 1)
        list_in_order(params, job, memory.rank, memory.layout.before);
    else
        list_halves(params, job, memory.rank, memory.layout.before);
    if (threadIdx.x == 0)
        finish_layout(layout, job.image, -1, tag);
}

#endif
