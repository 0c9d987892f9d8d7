/* The scores of rows. include/raggedvit/prune.h fixes the order of operations of L2, CLS_ATTENTION and POSITION: every backend gives the
   same bits. */
#ifndef RVIT_SCORE_CUH
#define RVIT_SCORE_CUH

#include "elements.cuh"

enum { SCORE_GIVEN = 0, SCORE_L2 = 1, SCORE_CLS_ATTENTION = 2, SCORE_CLS_NORM = 3, SCORE_PREDICTOR = 4, SCORE_POSITION = 5 };

/* A warp sums x[i] y[i] in 32 lanes, then pairwise; lane 0 has the result. AHEAD products are loaded before the first is used.
   IS_SQUARE: y is x. */
template <int AHEAD, bool IS_SQUARE, typename T> RVIT_DEVICE float sum_products(const T *x, const T *y, int dim)
{
    float sum = 0.0f;
    for (int first = threadIdx.x & 31; first < dim; first += 32 * AHEAD) {
        T left[AHEAD], right[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * 32 < dim) {
                left[i] = x[first + i * 32];
                if (!IS_SQUARE)
                    right[i] = y[first + i * 32];
            }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * 32 < dim)
                sum = add_rn(sum, mul_rn(to_float(left[i]), to_float(IS_SQUARE ? left[i] : right[i])));
    }
    for (int half = 16; half > 0; half /= 2)
        sum = add_rn(sum, shuffle_down(sum, half));
    return sum;
}

/* The mean of a merge group's scores, from their sum: the score of each of its rows. */
RVIT_DEVICE float group_mean(const rvit_cu_select_params &params, float sum)
{
    return params.group_size == 1 ? sum : mul_rn(sum, 1.0f / (float)params.group_size);
}

RVIT_DEVICE float mean_over_heads(const rvit_cu_select_params &params, long long row)
{
    const float *probs = params.cls_probs + row * params.n_heads;
    float sum = probs[0];
    for (int head = 1; head < params.n_heads; head++)
        sum = add_rn(sum, probs[head]);
    return mul_rn(sum, params.factor);
}

/* The same by a warp, where lane i has probability i of the row. */
RVIT_DEVICE float mean_over_lanes(const rvit_cu_select_params &params, long long row, float prob)
{
    const int lane = threadIdx.x & 31;
    float sum = shuffle(prob, 0);
#pragma unroll 2
    for (int head = 1; head < params.n_heads; head++) {
        if (head % 32 == 0)
            prob = head + lane < params.n_heads ? params.cls_probs[row * params.n_heads + head + lane] : 0.0f;
        sum = add_rn(sum, shuffle(prob, head & 31));
    }
    return mul_rn(sum, params.factor);
}

/* log(e^o0 / (e^o0 + e^o1)) = -log(1 + e^d), d = o1 - o0, without overflow. */
RVIT_DEVICE float log_softmax_of_first(float o0, float o1)
{
    const float d = o1 - o0;
    return d <= 0.0f ? -log1pf(expf(d)) : -(d + log1pf(expf(-d)));
}

/* By a warp; lane 0 has the result. */
template <typename T> RVIT_DEVICE float score_of_row(const rvit_cu_select_params &params, int row)
{
    const T *x = static_cast<const T *>(params.x) + row * params.x_stride;
    if (params.score == SCORE_PREDICTOR) {
        const T *weight = static_cast<const T *>(params.weight);
        float o0 = 0.0f, o1 = 0.0f;
#pragma unroll 1
        for (int i = 0; i < 2; i++) {
            o0 = o1;
            o1 = sum_products<6, false>(x, weight + i * params.dim, params.dim) + params.bias[i];
        }
        return log_softmax_of_first(o0, o1);
    }
    const int lane = threadIdx.x & 31;
    const bool has_probs = params.score == SCORE_CLS_NORM;
    const float prob = has_probs && lane < params.n_heads ? params.cls_probs[(long long)row * params.n_heads + lane] : 0.0f;
    const float score = sum_products<12, true>(x, x, params.dim);
    return has_probs ? mul_rn(mean_over_lanes(params, row, prob), sqrtf(score)) : score;
}

/* The scores that read rows of x: one warp per merge group. */
template <typename T> RVIT_DEVICE void score_wide_rows(const rvit_cu_select_params &params, int begin, int end)
{
    const int lane = threadIdx.x & 31, warps = (int)blockDim.x / 32;
    for (int group_first = begin + (int)threadIdx.x / 32 * params.group_size; group_first < end; group_first += warps * params.group_size) {
        const int past = min(group_first + params.group_size, end);
        float sum = 0.0f;
#pragma unroll 1
        for (int row = group_first; row < past; row++) {
            const float score = score_of_row<T>(params, row);
            sum = row == group_first ? score : add_rn(sum, score);
        }
        if (lane == 0)
            for (int row = group_first; row < past; row++)
                params.scores[row] = group_mean(params, sum);
    }
}

RVIT_DEVICE bool any_anchor(const uint8_t *anchors, int begin, int end)
{
    bool any = false;
    for (int i = begin; i < end; i++)
        any = any || anchors[i] != 0;
    return any;
}

/* Whether patch i of n is an anchor or next to one, as defined in prune.h. */
RVIT_DEVICE bool near_anchor(const uint8_t *anchors, int n, int columns, int i)
{
    if (anchors[i] != 0 || (i > 0 && anchors[i - 1] != 0) || (i + 1 < n && anchors[i + 1] != 0) ||
        (i >= columns && anchors[i - columns] != 0) || (n - i > columns && anchors[i + columns] != 0))
        return true;
    const int line = min(columns, n);
    return (i == 0 && any_anchor(anchors, 0, line)) || (i == n - 1 && any_anchor(anchors, n - line, n));
}

/* Added to a row's score: more than the largest score if it is near an anchor. */
RVIT_DEVICE float anchor_bonus(const rvit_cu_select_params &params, int first, int len, int row)
{
    const int begin = first + min(params.layout.n_prefix, len);
    return row >= begin && near_anchor(params.anchors + begin, first + len - begin, params.anchor_columns, row - begin) ? 2.0f : 0.0f;
}

/* Scores rows begin .. end - 1 of the image whose `len` rows start at first. */
RVIT_DEVICE void score_rows(const rvit_cu_select_params &params, int first, int len, int begin, int end)
{
    if (params.score == SCORE_CLS_ATTENTION) {
        for (int row = begin + (int)threadIdx.x; row < end; row += blockDim.x) {
            const int group_first = row - (row - first) % params.group_size, past = min(group_first + params.group_size, first + len);
            float sum = mean_over_heads(params, group_first);
            for (int other = group_first + 1; other < past; other++)
                sum = add_rn(sum, mean_over_heads(params, other));
            const float score = group_mean(params, sum);
            params.scores[row] = params.anchors == nullptr ? score : add_rn(score, anchor_bonus(params, first, len, row));
        }
    } else if (params.score == SCORE_POSITION) {
        for (int row = begin + (int)threadIdx.x; row < end; row += blockDim.x)
            params.scores[row] = params.position_scores[row - first];
    } else if (params.dtype == RVIT_CU_F32) {
        score_wide_rows<float>(params, begin, end);
    } else if (params.dtype == RVIT_CU_F16) {
        score_wide_rows<f16>(params, begin, end);
    } else {
        score_wide_rows<bf16>(params, begin, end);
    }
}

#endif
