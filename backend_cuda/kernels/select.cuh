/* Select in one launch: a CTA marks the rows that one image keeps, learns from its predecessors how many the images before it keep, and
   lists its own. Images are taken in the order of a ticket, so that a CTA only ever waits for CTAs that have started. */
#ifndef RVIT_SELECT_CUH
#define RVIT_SELECT_CUH

#include "elements.cuh"

enum {
    SELECT_TOP_K = 0,
    SELECT_THRESHOLD = 1,
    SELECT_MASK = 2,
    HELD_ROWS = 1024, /* images up to this long are ranked and listed from shared memory */
    DIGITS = 256
};

struct select_memory {
    uint32_t keys[HELD_ROWS];
    unsigned words[HELD_ROWS / 32]; /* a bit for each row: kept */
    int word_begin[HELD_ROWS / 32]; /* rows kept before each word */
    int histogram[DIGITS];
    int digit, need;
    int image, before, kept;
    int has_error;
};

/* What decides over the rows of an image. */
struct select_job {
    int image, begin, len, prefix, skip, k; /* rows skip .. len - 1 compete for k places */
    const float *scores;
    const uint8_t *keep_in;
    uint8_t *keep;
};

/* Orders scores as unsigned integers: NaN is 1, -infinity above it, and the two zeros are equal. 0 is left for no score. */
RVIT_DEVICE uint32_t key_of(float score)
{
    const uint32_t bits = float_bits(score), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 1;
    if (magnitude == 0)
        return 0x80000001u;
    return (bits & 0x80000000u ? ~bits : bits | 0x80000000u) + 1;
}

/* How many rows of the CTA with a lower thread number have the flag; *total: all of them. Every thread takes part. */
RVIT_DEVICE int block_rank(bool flag, unsigned *words, int *total)
{
    const int warps = (int)blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const unsigned word = warp_ballot(flag);
    block_sync();
    if (lane == 0)
        words[warp] = word;
    block_sync();
    int before = bit_count(word & ((1u << lane) - 1u)), all = 0;
    for (int i = 0; i < warps; i++) {
        const int n = bit_count(words[i]);
        before += i < warp ? n : 0;
        all += n;
    }
    *total = all;
    return before;
}

/* The key of the k-th best competing row, digit by digit, and how many rows with that key are among the k best. 1 <= k <= n. */
RVIT_DEVICE uint32_t find_threshold(const select_job &job, select_memory &memory, int *out_need)
{
    uint32_t found = 0, mask = 0;
    int need = job.k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int d = threadIdx.x; d < DIGITS; d += blockDim.x)
            memory.histogram[d] = 0;
        block_sync();
        for (int i = job.skip + (int)threadIdx.x; i < job.len; i += blockDim.x) {
            const uint32_t key = key_of(job.scores[i]);
            if ((key & mask) == found)
                atomic_add(&memory.histogram[key >> shift & 255u], 1);
        }
        block_sync();
        if (threadIdx.x == 0) {
            int digit = DIGITS - 1;
            while (need > memory.histogram[digit])
                need -= memory.histogram[digit--];
            memory.digit = digit, memory.need = need;
        }
        block_sync();
        found |= (uint32_t)memory.digit << shift;
        mask |= 255u << shift;
        need = memory.need;
        block_sync();
    }
    *out_need = need;
    return found;
}

/* Whether row i is kept, but for the ranking; *error is set where the row is one. */
RVIT_DEVICE bool is_kept(const rvit_cu_select_params &params, const select_job &job, int i, bool *error)
{
    if (params.mode == SELECT_MASK) {
        const bool given = job.keep_in[i] != 0;
        *error = *error || (!given && i < job.prefix);
        return given || i < job.prefix;
    }
    if (i < job.prefix)
        return true;
    if (params.mode == SELECT_TOP_K)
        return false;
    const float score = job.scores[i];
    *error = *error || score != score;
    return score >= params.threshold;
}

/* An image that shared memory holds: marks its rows in memory.words and in keep. */
RVIT_DEVICE bool mark_held(const rvit_cu_select_params &params, const select_job &job, select_memory &memory)
{
    const int n = job.len - job.skip, lane = threadIdx.x & 31;
    const bool ranked = params.mode == SELECT_TOP_K;
    bool error = false;
    if (ranked) {
        for (int c = threadIdx.x; c < (n + 3) / 4 * 4; c += blockDim.x) {
            memory.keys[c] = c < n ? key_of(job.scores[job.skip + c]) : 0u;
            error = error || memory.keys[c] == 1u;
        }
        block_sync();
    }
    for (int base = 0; base < job.len; base += blockDim.x) {
        const int i = base + (int)threadIdx.x, c = i - job.skip;
        bool kept = false;
        if (i < job.len) {
            kept = is_kept(params, job, i, &error);
            if (ranked && !kept && job.k == n) {
                kept = true;
            } else if (ranked && !kept && job.k > 0) {
                const uint32_t key = memory.keys[c];
                int better = 0;
                for (int j = 0; j < n; j += 4) {
                    const uint4 other = *reinterpret_cast<const uint4 *>(memory.keys + j);
                    /* On equal keys the earlier row is better. */
                    better += (other.x > key - (j < c)) + (other.y > key - (j + 1 < c)) + (other.z > key - (j + 2 < c)) +
                              (other.w > key - (j + 3 < c));
                }
                kept = better < job.k;
            }
            job.keep[i] = kept;
        }
        const unsigned word = warp_ballot(kept);
        if (lane == 0 && i < job.len)
            memory.words[i / 32] = word;
    }
    return error;
}

/* A longer one: marks its rows in keep and counts them. */
RVIT_DEVICE bool mark_long(const rvit_cu_select_params &params, const select_job &job, select_memory &memory, int *out_kept)
{
    bool error = false;
    uint32_t threshold = 0xffffffffu;
    int need = 0, kept_before = 0;
    if (params.mode == SELECT_TOP_K && job.k > 0)
        threshold = find_threshold(job, memory, &need);
    for (int base = 0; base < job.len; base += blockDim.x) {
        const int i = base + (int)threadIdx.x;
        bool kept = i < job.len && is_kept(params, job, i, &error), equal = false;
        if (params.mode == SELECT_TOP_K) {
            if (i >= job.skip && i < job.len) {
                const uint32_t key = key_of(job.scores[i]);
                error = error || key == 1u;
                kept = kept || key > threshold;
                equal = key == threshold;
            }
            int all;
            const int rank = block_rank(equal, memory.words, &all);
            kept = kept || (equal && rank < need);
            need -= all;
        }
        if (i < job.len)
            job.keep[i] = kept;
        int all;
        (void)block_rank(kept, memory.words, &all);
        kept_before += all;
    }
    *out_kept = kept_before;
    return error;
}

/* The state of an image: how many rows it keeps (AGGREGATE), or it and all images before it (INCLUSIVE); any other tag: not known yet. */
enum { AGGREGATE = 1, INCLUSIVE = 2 };

RVIT_DEVICE unsigned long long make_state(unsigned tag, int kind, int value)
{
    return (unsigned long long)tag << 34 | (unsigned long long)kind << 32 | (unsigned)value;
}

/* Sums stop at the row capacity, which only a broken layout, whose images overlap, exceeds. */
RVIT_DEVICE int add_up_to(int a, int b, int most)
{
    return (int)min((unsigned)a + (unsigned)b, (unsigned)most);
}

/* By one warp: publishes what the image keeps, and returns what the images before it keep. */
RVIT_DEVICE int look_back(const rvit_cu_select_params &params, int image, int kept, unsigned tag)
{
    const int lane = threadIdx.x & 31, most = params.rows;
    if (lane == 0 && image > 0)
        store_release(&params.states[image], make_state(tag, AGGREGATE, kept));
    int before = 0;
    for (int last = image - 1; last >= 0; last -= 32) {
        const int at = last - lane;
        unsigned long long state = make_state(tag, INCLUSIVE, 0);
        if (at >= 0)
            do {
                state = load_acquire(&params.states[at]);
            } while ((unsigned)(state >> 34) != tag);
        const int nearest = find_first(warp_ballot((state >> 32 & 3) == INCLUSIVE));
        int sum = nearest < 0 || lane <= nearest ? (int)(unsigned)state : 0;
        for (int mask = 16; mask > 0; mask /= 2)
            sum = add_up_to(sum, shuffle_xor(sum, mask), most);
        before = add_up_to(before, sum, most);
        if (nearest >= 0)
            break;
    }
    if (lane == 0) {
        const int inclusive = add_up_to(before, kept, most);
        store_release(&params.states[image], make_state(tag, INCLUSIVE, inclusive));
        params.out_cu_seqlens[image + 1] = inclusive;
    }
    return before;
}

/* By one thread, when its image no longer needs the states: the last one to come reports the error and leaves the scratch as the next
   select expects it. */
RVIT_DEVICE void finish_select(const rvit_cu_select_params &params, int image, bool error, unsigned tag)
{
    rvit_cu_select_scratch *scratch = params.scratch;
    if (error)
        atomic_max(&scratch->last_error, INT32_MAX - min(2LL * image + (params.mode == SELECT_MASK ? 2 : 1), (long long)INT32_MAX - 1));
    memory_fence();
    if (atomic_add(&scratch->finished, 1) != params.n_images - 1)
        return;
    memory_fence();
    const int last_error = atomic_max(&scratch->last_error, 0);
    if (params.error != nullptr)
        *params.error = last_error == 0 ? 0 : INT32_MAX - last_error;
    scratch->tickets = 0, scratch->finished = 0, scratch->last_error = 0;
    if (tag < (1u << 30) - 1u) {
        scratch->epoch = (int)tag;
        return;
    }
    for (int i = 0; i < params.n_states; i++)
        params.states[i] = 0;
    scratch->epoch = 0;
}

RVIT_DEVICE void select_image(const rvit_cu_select_params &params)
{
    RVIT_SHARED select_memory memory;
    if (params.n_images == 0) {
        if (threadIdx.x == 0) {
            params.out_cu_seqlens[0] = 0;
            if (params.error != nullptr)
                *params.error = 0;
        }
        return;
    }
    if (threadIdx.x == 0) {
        memory.image = atomic_add(&params.scratch->tickets, 1);
        memory.has_error = 0;
        if (memory.image == 0)
            params.out_cu_seqlens[0] = 0;
    }
    block_sync();
    select_job job;
    job.image = memory.image;
    const image_rows rows = rows_of_image(params.cu_seqlens, job.image, params.rows, params.max_len);
    job.begin = rows.begin, job.len = rows.len;
    job.prefix = min(params.n_prefix, job.len);
    job.skip = params.mode == SELECT_TOP_K && params.prefix_competes ? 0 : job.prefix;
    job.scores = params.mode == SELECT_MASK ? nullptr : params.scores + job.begin;
    job.keep_in = params.mode == SELECT_MASK ? params.keep_in + job.begin : nullptr;
    job.keep = params.keep + job.begin;
    job.k = params.mode == SELECT_TOP_K ? min(max(params.counts[job.len - job.skip], 0), job.len - job.skip) : 0;
    const unsigned tag = (unsigned)params.scratch->epoch + 1u;
    const bool is_held = job.len <= HELD_ROWS;
    const int lane = threadIdx.x & 31;
    int kept = 0;
    const bool error = is_held ? mark_held(params, job, memory) : mark_long(params, job, memory, &kept);
    if (warp_ballot(error) != 0 && lane == 0)
        (void)atomic_max(&memory.has_error, 1);
    block_sync();
    if (threadIdx.x < 32) {
        if (is_held) {
            const int n = lane * 32 < job.len ? bit_count(memory.words[lane]) : 0;
            int sum = n;
            for (int delta = 1; delta < 32; delta *= 2) {
                const int other = shuffle_up(sum, delta);
                sum += lane >= delta ? other : 0;
            }
            memory.word_begin[lane] = sum - n;
            kept = shuffle(sum, 31);
        }
        const int before = look_back(params, job.image, kept, tag);
        if (lane == 0) {
            memory.before = before;
            finish_select(params, job.image, memory.has_error != 0, tag);
        }
    }
    block_sync();
    int to = memory.before;
    for (int base = 0; base < job.len; base += blockDim.x) {
        const int i = base + (int)threadIdx.x;
        bool listed = false;
        int at = to;
        if (is_held) {
            if (i < job.len) {
                const unsigned word = memory.words[i / 32];
                listed = (word >> lane & 1u) != 0;
                at += memory.word_begin[i / 32] + bit_count(word & ((1u << lane) - 1u));
            }
        } else {
            int all;
            listed = i < job.len && job.keep[i] != 0;
            at += block_rank(listed, memory.words, &all);
            to = add_up_to(to, all, params.rows);
        }
        if (listed && at < params.rows)
            params.src_rows[at] = job.begin + i;
    }
}

#endif
