/* Select in one launch: the CTAs of an image score its rows. The last one marks the rows to keep, looks back for how many rows the
   previous images keep, and lists its own. */
#ifndef RVIT_SELECT_CUH
#define RVIT_SELECT_CUH

#include "layout.cuh"
#include "rank.cuh"
#include "score.cuh"
#include "select_sums.cuh"

enum { SELECT_TOP_K = 0, SELECT_THRESHOLD = 1, SELECT_MASK = 2, SELECT_SAMPLE = 3, SELECT_MASS = 4 };

/* Kinds of error; the lowest one is reported. */
enum { ERROR_NAN = 0, ERROR_PREFIX = 1, ERROR_SUM = 2, ERROR_NONE = 3 };

struct select_memory {
    union {
        rank_memory rank;
        sums_memory sums;
        int dropped[SHARED_ROWS]; /* rows to fuse */
    };
    uint8_t marks[SHARED_ROWS];       /* for an image that fits: 1 for each kept row */
    unsigned words[SHARED_ROWS / 32]; /* the marks as bits */
    int word_begin[SHARED_ROWS / 32]; /* kept rows before each word */
    unsigned warp_words[MAX_WARPS];
    layout_memory layout;
    int passed, error;
};

/* An image, and what decides which of its rows are kept. */
struct select_job {
    int image, begin, len, prefix, skip; /* rows skip .. len - 1 compete */
    int k;                               /* TOP_K: how many of them to keep */
    uint8_t *marks;                      /* of its rows: in shared memory if they fit, otherwise keep itself */
};

/* Marks the scores that reach the threshold, and returns their number. */
RVIT_DEVICE int mark_passing(const float *scores, int n, float threshold, select_memory &memory, uint8_t *marks, bool *has_nan)
{
    if (threadIdx.x == 0)
        memory.passed = 0;
    block_sync();
    int passed = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float score = scores[i];
        *has_nan = *has_nan || score != score;
        marks[i] = score >= threshold;
        passed += score >= threshold;
    }
    for (int mask = 16; mask > 0; mask /= 2)
        passed += shuffle_xor(passed, mask);
    if ((threadIdx.x & 31) == 0)
        (void)atomic_add(&memory.passed, passed);
    block_sync();
    return memory.passed;
}

/* Marks the competing rows by score. Returns the kind of error that this thread found. */
RVIT_DEVICE int mark_competing(const rvit_cu_select_params &params, const select_job &job, select_memory &memory)
{
    const float *scores = params.scores + job.begin + job.skip;
    uint8_t *marks = job.marks + job.skip;
    const int n = job.len - job.skip;
    bool has_nan = false;
    if (params.mode == SELECT_SAMPLE || params.mode == SELECT_MASS) {
        unsigned long long *global_keys = params.sorted == nullptr ? nullptr : params.sorted + job.begin;
        const int flaw = mark_sums(params, params.mode == SELECT_SAMPLE, scores, n, global_keys, memory.sums, marks);
        return flaw == FLAW_NONE ? ERROR_NONE : flaw == FLAW_NAN ? ERROR_NAN : ERROR_SUM;
    }
    int k = job.k;
    if (params.mode == SELECT_THRESHOLD) {
        k = min(params.k_min, n);
        if (mark_passing(scores, n, params.threshold, memory, marks, &has_nan) >= k)
            return has_nan ? ERROR_NAN : ERROR_NONE;
    }
    has_nan = mark_best(scores, n, k, memory.rank, marks) || has_nan;
    return has_nan ? ERROR_NAN : ERROR_NONE;
}

/* Marks rows by the mask keep_in. */
RVIT_DEVICE int mark_from_mask(const rvit_cu_select_params &params, const select_job &job)
{
    int error = ERROR_NONE;
    for (int i = threadIdx.x; i < job.len; i += blockDim.x) {
        const bool is_kept = params.keep_in[job.begin + i] != 0;
        job.marks[i] = is_kept || i < job.prefix;
        if (!is_kept && i < job.prefix)
            error = ERROR_PREFIX;
    }
    return error;
}

/* Writes the marks to keep, and returns the number of kept rows. */
RVIT_DEVICE int count_marks(const rvit_cu_select_params &params, const select_job &job, select_memory &memory, bool in_shared)
{
    const int lane = threadIdx.x & 31;
    int kept = 0;
#pragma unroll 1
    for (int base = 0; base < job.len; base += blockDim.x) {
        const int i = base + (int)threadIdx.x;
        const bool is_kept = i < job.len && job.marks[i] != 0;
        if (in_shared) {
            const unsigned word = warp_ballot(is_kept);
            if (lane == 0 && i < job.len)
                memory.words[i / 32] = word;
            if (i < job.len)
                params.keep[job.begin + i] = is_kept;
        } else {
            int all;
            (void)block_rank(is_kept, memory.warp_words, &all);
            kept += all;
        }
    }
    if (!in_shared)
        return kept;
    block_sync();
    const int n = lane * 32 < job.len ? bit_count(memory.words[lane]) : 0;
    int sum = n;
    for (int delta = 1; delta < 32; delta *= 2) {
        const int other = shuffle_up(sum, delta);
        sum += lane >= delta ? other : 0;
    }
    if (threadIdx.x < 32)
        memory.word_begin[lane] = sum - n;
    return shuffle(sum, 31);
}

/* Lists the kept rows from index `to` on; the first dropped row follows if it holds the fused token. */
RVIT_DEVICE void list_rows(const rvit_cu_select_params &params, const select_job &job, select_memory &memory, bool in_shared, int to,
                           int kept)
{
    const int max_rows = params.layout.rows, lane = threadIdx.x & 31;
    int before = 0; /* kept rows before this round */
#pragma unroll 1
    for (int base = 0; base < job.len; base += blockDim.x) {
        const int i = base + (int)threadIdx.x;
        bool is_kept = false;
        int rank = 0;
        if (in_shared) {
            if (i < job.len) {
                const unsigned word = memory.words[i / 32];
                is_kept = (word >> lane & 1u) != 0;
                rank = memory.word_begin[i / 32] + bit_count(word & ((1u << lane) - 1u));
            }
        } else {
            int all;
            is_kept = i < job.len && job.marks[i] != 0;
            rank = before + block_rank(is_kept, memory.warp_words, &all);
            before += all;
        }
        const bool is_fused = params.fuse_x != nullptr && !is_kept && i < job.len && i == rank; /* all rows before it are kept */
        const int at = saturating_add(to, is_fused ? kept : rank, max_rows);
        if ((is_kept || is_fused) && at < max_rows)
            params.layout.src_rows[at] = job.begin + i;
    }
}

/* Adds n rows at a column, weighted by their scores, in order. */
template <typename T> RVIT_DEVICE void add_rows(const rvit_cu_select_params &params, const int *rows, int n, int column, float4 &sum)
{
    enum { AHEAD = 5 };
    const T *x = static_cast<const T *>(params.fuse_x) + column;
#pragma unroll 1
    for (int from = 0; from < n; from += AHEAD) {
        typename raw_4<T>::type raw[AHEAD];
        float score[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (from + i < n) {
                raw[i] = load_raw_4(x + (long long)rows[from + i] * params.fuse_dim);
                score[i] = params.scores[rows[from + i]];
            }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (from + i < n) {
                const float4 value = raw_4<T>::floats(raw[i]);
                sum.x = add_rn(sum.x, mul_rn(score[i], value.x)), sum.y = add_rn(sum.y, mul_rn(score[i], value.y));
                sum.z = add_rn(sum.z, mul_rn(score[i], value.z)), sum.w = add_rn(sum.w, mul_rn(score[i], value.w));
            }
    }
}

/* Stores the sum of the dropped rows, weighted by their scores, in the first of them. A thread takes four columns. */
RVIT_DEVICE void fuse(const rvit_cu_select_params &params, const select_job &job, select_memory &memory)
{
    const int dim = params.fuse_dim;
    int *dropped = memory.dropped;
#pragma unroll 1
    for (int first_column = 0; first_column < dim; first_column += blockDim.x * 4) {
        const int column = first_column + (int)threadIdx.x * 4;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        int first = -1;
#pragma unroll 1
        for (int chunk = 0; chunk < job.len; chunk += SHARED_ROWS) {
            int n = 0;
#pragma unroll 1
            for (int base = chunk; base < min(chunk + SHARED_ROWS, job.len); base += blockDim.x) {
                const int i = base + (int)threadIdx.x;
                const bool is_dropped = i < min(chunk + SHARED_ROWS, job.len) && job.marks[i] == 0;
                int all;
                const int rank = n + block_rank(is_dropped, memory.warp_words, &all);
                if (is_dropped)
                    dropped[rank] = job.begin + i;
                n += all;
            }
            block_sync();
            if (first < 0 && n > 0)
                first = dropped[0];
            if (column >= dim)
                n = 0;
            if (params.fuse_dtype == RVIT_CU_F32)
                add_rows<float>(params, dropped, n, column, sum);
            else if (params.fuse_dtype == RVIT_CU_F16)
                add_rows<f16>(params, dropped, n, column, sum);
            else
                add_rows<bf16>(params, dropped, n, column, sum);
            block_sync();
        }
        if (first >= 0 && column < dim)
            store_4_as(params.fuse_dtype, params.fuse_x, (long long)first * dim + column, sum);
    }
}

RVIT_DEVICE void select_image(const rvit_cu_select_params &params)
{
    RVIT_SHARED select_memory memory;
    const rvit_cu_layout &layout = params.layout;
    const int ticket = take_ticket(layout, memory.layout);
    if (ticket < 0)
        return;
    const unsigned tag = layout_tag(layout);
    select_job job;
    job.image = ticket / layout.parts;
    const image_rows rows = rows_of_image(layout.cu_seqlens, job.image, layout.rows, layout.max_len);
    job.begin = rows.begin, job.len = rows.len;
    job.prefix = min(layout.n_prefix, job.len);
    job.skip = params.mode == SELECT_TOP_K && params.prefix_competes ? 0 : job.prefix;
    const int n = job.len - job.skip;
    job.k = params.mode == SELECT_TOP_K ? min(max(params.counts[n], 0), n) : 0;
    if (params.score != SCORE_GIVEN && params.mode != SELECT_MASK) {
        const int groups = (job.len + params.group_size - 1) / params.group_size,
                  each = (groups + layout.parts - 1) / layout.parts * params.group_size;
        const int begin = min(job.len, (ticket - job.image * layout.parts) * each);
        score_rows(params, job.begin, job.len, job.begin + begin, job.begin + min(job.len, begin + each));
        if (!is_last_part(layout, job.image, memory.layout))
            return;
    }
    const bool in_shared = job.len <= SHARED_ROWS;
    job.marks = in_shared ? memory.marks : params.keep + job.begin;
    if (threadIdx.x == 0)
        memory.error = -ERROR_NONE;
    int error;
    if (params.mode == SELECT_MASK) {
        error = mark_from_mask(params, job);
    } else {
        error = mark_competing(params, job, memory);
        block_sync(); /* a competing prefix row is marked twice */
        for (int i = threadIdx.x; i < job.prefix; i += blockDim.x)
            job.marks[i] = 1;
    }
    block_sync();
    if (error != ERROR_NONE)
        (void)atomic_max(&memory.error, -error);
    const int kept = count_marks(params, job, memory, in_shared);
    block_sync();
    if (threadIdx.x < 32) {
        const bool is_fused = params.fuse_x != nullptr && kept < job.len;
        const int before = look_back(layout, job.image, kept + is_fused, tag);
        if (threadIdx.x == 0)
            memory.layout.before = before;
    }
    block_sync();
    list_rows(params, job, memory, in_shared, memory.layout.before, kept);
    if (threadIdx.x == 0)
        finish_layout(layout, job.image, memory.error == -ERROR_NONE ? -1 : -memory.error, tag);
    if (params.fuse_x != nullptr && kept < job.len)
        fuse(params, job, memory);
}

#endif
