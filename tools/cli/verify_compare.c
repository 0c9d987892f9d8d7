#include "verify_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <raggedvit/experimental.h>
#include "session_results.h"

static int32_t top1(const float *logits, int32_t n_classes, double *out_margin)
{
    int32_t best = 0;
    for (int32_t c = 1; c < n_classes; c++)
        if (logits[c] > logits[best])
            best = c;
    *out_margin = INFINITY;
    for (int32_t c = 0; c < n_classes; c++)
        if (c != best && (double)logits[best] - logits[c] < *out_margin)
            *out_margin = (double)logits[best] - logits[c];
    return best;
}

/* Infinite if either value is not finite, so that no tolerance accepts it. */
static double difference(double a, double b)
{
    return isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
}

void figures_add_logits(struct figures *self, const float *a, const float *b, int32_t n_images, const bool *skipped)
{
    const int32_t n = self->n_values;
    self->n_images += n_images;
    for (int32_t i = 0; i < n_images; i++, a += n, b += n) {
        double margin_a, margin_b;
        if (skipped && skipped[i]) {
            self->n_skipped++;
            continue;
        }
        if (self->has_classes) {
            const bool equal = top1(a, n, &margin_a) == top1(b, n, &margin_b);
            const bool decided = margin_b > 2 * self->tolerance;
            self->n_equal += equal;
            self->n_decided += decided;
            self->n_decided_equal += decided && equal;
        }
        for (int32_t c = 0; c < n; c++) {
            const double d = difference((double)a[c], (double)b[c]);
            self->largest = fmax(self->largest, d);
            self->sum += d;
            self->squares += d * d;
        }
        self->n_logits += n;
    }
}

void figures_add_own(struct figures *self, const float *a, const float *b, int32_t n_images, const int32_t *right)
{
    const int32_t n = self->n_values;
    for (int32_t i = 0; i < n_images; i++, a += n, b += n) {
        double margin;
        if (self->has_classes) {
            const int32_t top[2] = {top1(a, n, &margin), top1(b, n, &margin)};
            self->n_equal_unmasked += top[0] == top[1];
            self->n_expected += right != NULL;
            for (int side = 0; side < 2; side++)
                self->n_right[side] += right && top[side] == right[i];
        }
        for (int32_t c = 0; c < n; c++) {
            const double d = difference((double)a[c], (double)b[c]);
            self->largest_unmasked = fmax(self->largest_unmasked, d);
            self->squares_unmasked += d * d;
        }
    }
}

/* The number of rows that only one of two ascending lists has. */
static int64_t count_unshared(const struct kept_row *a, int32_t n_a, const struct kept_row *b, int32_t n_b)
{
    int64_t shared = 0;
    for (int32_t i = 0, j = 0; i < n_a && j < n_b;)
        if (a[i].token == b[j].token) {
            shared += a[i].size == b[j].size;
            i++;
            j++;
        } else if (a[i].token < b[j].token) {
            i++;
        } else {
            j++;
        }
    return n_a + n_b - 2 * shared;
}

int32_t figures_add_kept(struct figures *self, const rvit_session *a, const rvit_session *b, int32_t n_images, bool *out_differs)
{
    int32_t n_different = 0;
    for (int32_t i = 0; i < n_images; i++) {
        int64_t unshared_in_image = 0;
        for (int32_t s = 0; s < self->n_stages; s++) {
            const int32_t n_a = kept_rows(a, s, i, self->kept[0]), n_b = kept_rows(b, s, i, self->kept[1]);
            const int64_t unshared = count_unshared(self->kept[0], n_a, self->kept[1], n_b);
            self->stages[s].kept += n_a;
            self->stages[s].differ += unshared;
            unshared_in_image += unshared;
        }
        out_differs[i] = unshared_in_image > 0;
        n_different += out_differs[i];
    }
    return n_different;
}

static const int32_t *kept_tokens(const rvit_session *session, int32_t stage, int32_t image, int32_t *out_n)
{
    const int32_t *cu_seqlens = session_cu_seqlens(session, stage);
    *out_n = cu_seqlens[image + 1] - cu_seqlens[image];
    return session_kept(session, stage, image);
}

static double half_to_double(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                            : ldexp(fraction, -24);
    return half >> 15 ? -magnitude : magnitude;
}

double element_at(const void *data, rvit_dtype dtype, int64_t index)
{
    float value = 0;
    uint32_t bits;
    switch (dtype) {
    case RVIT_F32:
        return (double)((const float *)data)[index];
    case RVIT_F16:
        return half_to_double(((const uint16_t *)data)[index]);
    case RVIT_BF16:
        bits = (uint32_t)((const uint16_t *)data)[index] << 16;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    case RVIT_I8:
    case RVIT_E4M3:
    case RVIT_I32:
    case RVIT_U8:
        break; /* not a type of the residual stream */
    }
    return NAN;
}

rvit_status figures_add_blocks(struct figures *self, const rvit_session *a, const rvit_session *b, int32_t dim)
{
    for (int32_t block = 0; block < self->n_blocks; block++) {
        rvit_result_view of_a = RVIT_RESULT_VIEW_INIT, of_b = RVIT_RESULT_VIEW_INIT;
        rvit_status status = rvit_session_get(a, RVIT_TRACE_BLOCK, block, &of_a);
        if (status == RVIT_OK)
            status = rvit_session_get(b, RVIT_TRACE_BLOCK, block, &of_b);
        if (status != RVIT_OK)
            return status;
        if (of_a.rows != of_b.rows)
            continue;
        double largest_difference = 0, largest = 1e-30;
        for (int64_t i = 0; i < of_a.rows * dim; i++) {
            const double value = element_at(of_b.data, of_b.dtype, i);
            largest_difference = fmax(largest_difference, difference(element_at(of_a.data, of_a.dtype, i), value));
            largest = fmax(largest, fabs(value));
        }
        self->blocks[block] = fmax(self->blocks[block], largest_difference / largest);
    }
    return RVIT_OK;
}

int64_t session_count_unlike(const rvit_session *session, int32_t stage, int32_t n_images, const struct selection *selection,
                             const int32_t *layout, bool fused)
{
    int64_t count = 0;
    for (int32_t i = 0; i < n_images; i++) {
        int32_t n_before, n_after;
        const int32_t *before = stage > 0 ? kept_tokens(session, stage - 1, i, &n_before) : NULL;
        const int32_t *after = kept_tokens(session, stage, i, &n_after), *src_rows = selection->src_rows + selection->cu_seqlens[i];
        const int32_t n_selected = selection->cu_seqlens[i + 1] - selection->cu_seqlens[i];
        const bool one_more = fused && n_selected < layout[i + 1] - layout[i];
        for (int32_t j = 0; j < n_selected && j < n_after; j++)
            count += after[j] != (before ? before[src_rows[j] - layout[i]] : src_rows[j] - layout[i]);
        count += abs(n_selected + one_more - n_after);
        count += one_more && n_after == n_selected + 1 && after[n_selected] >= 0;
    }
    return count;
}

void session_masks(const rvit_session *session, int32_t n_images, int32_t tokens, uint8_t *out)
{
    const int32_t n_stages = session_n_stages(session);
    memset(out, 0, (size_t)n_stages * (size_t)n_images * (size_t)tokens);
    for (int32_t s = 0; s < n_stages; s++)
        for (int32_t i = 0; i < n_images; i++, out += tokens) {
            int32_t n;
            const int32_t *kept = kept_tokens(session, s, i, &n);
            for (int32_t j = 0; j < n; j++)
                if (kept[j] >= 0)
                    out[kept[j]] = 1;
        }
}

int session_run(rvit_session *session, const struct engine *engine, const float *images, const uint8_t *masks, int32_t n_images)
{
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = n_images;
    run.input.data = images;
    run.keep = masks;
    const rvit_status status = rvit_session_run(session, &run, NULL);
    if (status == RVIT_OK)
        return EXIT_OK;
    const int code = complain_status(engine->name, status);
    return is_of_images(status) ? EXIT_PARTLY : code;
}
