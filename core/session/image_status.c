/* Finds the images of a run that failed: they could not be pruned, or their results are not finite. The other images keep their results.

   NaN and infinity spread: a norm or a GEMM spreads them over a row, attention over all rows of the image. So a few values per image are
   enough. Results with one row per image are read completely (a few KB). In results with one row per token, the first row of each image is
   read completely, which finds a column that a bad weight breaks, and the first value of every other row, which finds an overflow in the
   last MLP, after all attention. Attention weights are read completely, because heads and windows are independent. The only failure that
   goes unnoticed is a single float32 sum that overflows in a row with no norm after it. */
#include <math.h>
#include <string.h>

#include "core/base/entry.h"
#include "core/base/half.h"
#include "core/contract/image_descriptor.h"
#include "core/session/results.h"

#define F16_MAX 65504.0f

/* The error code of an image: 0: none; 1..OUTPUTS: KINDS * stage + an error code of rvit_select (1..KINDS); above: OUTPUTS + 1 + the
   rvit_result that is not finite. */
enum { KINDS = 3, OF_MASK = 1, OUTPUTS = KINDS * RVIT_PRUNE_MAX_STAGES };
/* The state of the image's input, ORed into its code. GOOD: the pixels are in host memory, finite and at most F16_MAX. */
enum { INPUT_GOOD = 0, INPUT_BAD = 1 << 16, INPUT_UNKNOWN = 1 << 17 };

typedef struct check {
    const rvit_session *session;
    int32_t *image_errors; /* codes */
    int32_t first;         /* the first image with a result that is not finite; -1: none */
} check;

/* The exponent of NaN and infinity is all ones: adding one to it carries into the sign bit. */
static uint32_t carry_of(float value)
{
    return (rvit_float_bits(value) & 0x7f800000u) + 0x00800000u;
}

static int are_finite(const float *values, int64_t n)
{
    uint32_t carries = 0;
    for (int64_t i = 0; i < n; i++)
        carries |= carry_of(values[i]);
    return carries >> 31 == 0;
}

static int firsts_are_finite(const float *values, int64_t rows, int64_t columns)
{
    uint32_t carries = 0;
    for (int64_t i = 0; i < rows; i++)
        carries |= carry_of(values[i * columns]);
    return carries >> 31 == 0;
}

static int are_pixels(const float *values, int64_t n)
{
    int good = 1;
    for (int64_t i = 0; i < n; i++)
        good &= fabsf(values[i]) <= F16_MAX;
    return good;
}

/* float16 values: without the sign, infinity is 0x7c00, and NaN is above. */
static int are_half_pixels(const uint16_t *values, int64_t n)
{
    int good = 1;
    for (int64_t i = 0; i < n; i++)
        good &= (values[i] & 0x7fffu) < 0x7c00u;
    return good;
}

static int32_t state_of_pixels(const rvit_session *s, int32_t image)
{
    const int32_t *staging = rvit_session_host(s, s->plan->staged_images);
    const void *entry = staging + RVIT_IMAGE_ENTRIES(s->plan->desc.max_images) + (int64_t)image * RVIT_IMAGE_ENTRY_WORDS;
    const rvit_image_entry *e = entry;
    if (e->read != RVIT_IMAGE_READ_F32 && e->read != RVIT_IMAGE_READ_F16)
        return INPUT_GOOD;
    if (e->on_device)
        return INPUT_UNKNOWN;
    const char *planes = (const char *)staging + ((uint64_t)e->offset_high << 32 | e->offset_low);
    int good = 1;
    for (uint64_t plane = 0; plane < 3; plane++)
        for (int64_t y = 0; y < e->height; y++) {
            const void *line = planes + plane * ((uint64_t)e->plane_high << 32 | e->plane_low) + y * e->stride;
            good &= e->read == RVIT_IMAGE_READ_F32 ? are_pixels(line, e->width) : are_half_pixels(line, e->width);
        }
    return good ? INPUT_GOOD : INPUT_BAD;
}

static int32_t state_of_input(const rvit_session *s, int32_t image)
{
    const rvit_model_info *info = &s->model->info;
    const float *input = rvit_session_host(s, s->plan->input);
    if (image >= s->n_images) /* of an earlier run */
        return INPUT_UNKNOWN;
    if (s->plan->desc.input == RVIT_INPUT_IMAGES)
        return state_of_pixels(s, image);
    if (input == NULL)
        return INPUT_UNKNOWN;
    int64_t begin = image, rows = 1, columns = (int64_t)info->channels * info->image_height * info->image_width;
    if (s->plan->desc.variable_resolution) {
        const int32_t *cu = rvit_session_host(s, s->plan->host_cu_seqlens);
        columns = rvit_model_row_values(s->model);
        begin = cu[image] - (int64_t)image * info->n_prefix;
        rows = cu[image + 1] - cu[image] - info->n_prefix;
    }
    return are_pixels(input + begin * columns, rows * columns) ? INPUT_GOOD : INPUT_BAD;
}

static const char *reason_of(const rvit_session *s, int32_t input)
{
    if (input == INPUT_BAD)
        return "its pixels are NaN, infinite or beyond 65504";
    if (s->model->dtype == RVIT_F16)
        return input == INPUT_GOOD ? "the model overflows float16; use bf16 or f32"
                                   : "its pixels are not finite, or the model overflows float16, where bf16 or f32 helps";
    return input == INPUT_GOOD ? "weights of the model are not finite, or it overflows float32"
                               : "its pixels are not finite, or weights are not, or the model overflows float32";
}

static rvit_status fail_image(const rvit_session *s, int32_t image, int32_t code)
{
    static const char *const words[KINDS] = {"a score is NaN", "the given mask drops a prefix token",
                                             "scores are negative, infinite or all zero, and cannot be added up"};
    const int32_t input = code & (INPUT_BAD | INPUT_UNKNOWN);
    const rvit_status status = input == INPUT_BAD ? RVIT_INVALID_ARGUMENT : RVIT_NOT_FINITE;
    const char *reason = reason_of(s, input);
    code = (code & ~input) - 1;
    if (code >= OUTPUTS)
        return rvit_fail(status, "image %d: its %s are not finite: %s", (int)image, rvit_result_name((rvit_result)(code - OUTPUTS)),
                         reason);
    const int32_t stage = code / KINDS, kind = code % KINDS, block = s->plan->schedule.blocks[stage];
    if (kind == OF_MASK)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image %d: %s at prune stage %d (block %d)", (int)image, words[kind], (int)stage,
                         (int)block);
    return rvit_fail(status, "image %d: %s at prune stage %d (block %d): %s", (int)image, words[kind], (int)stage, (int)block, reason);
}

/* Takes over and clears the errors of the stages. Returns the first image of the first stage that has one; -1: none. */
static int32_t take_reports(rvit_session *s, int32_t *image_errors)
{
    const rvit_session_plan *plan = s->plan;
    const size_t n = (size_t)plan->desc.max_images;
    int32_t first = -1;
    for (int32_t i = 0; i < plan->schedule.n_stages; i++) {
        int32_t of_stage = -1;
        int32_t *reported = rvit_session_host(s, plan->stages[i].error);
        if (reported == NULL || reported[0] == 0)
            continue;
        for (size_t image = n; image-- > 0;)
            if (reported[1 + image] != 0 && image_errors[image] == 0) {
                image_errors[image] = (KINDS * i + reported[1 + image]) | state_of_input(s, (int32_t)image);
                of_stage = (int32_t)image;
            }
        first = first < 0 ? of_stage : first;
        memset(reported, 0, (1 + n) * sizeof *reported);
    }
    return first;
}

static void note(check *c, int32_t image, rvit_result what)
{
    c->image_errors[image] = (OUTPUTS + 1 + (int32_t)what) | state_of_input(c->session, image);
    if (c->first < 0 || image < c->first)
        c->first = image;
}

/* A result with one row per image. */
static void check_images(check *c, rvit_result what, const rvit_result_view *view)
{
    const float *values = view->data;
    for (int32_t i = 0; i < view->rows; i++)
        if (c->image_errors[i] == 0 && !are_finite(values + (int64_t)i * view->width, view->width))
            note(c, i, what);
}

/* A result with one row per token after a stage, or per `area` tokens. */
static void check_tokens(check *c, rvit_result what, const rvit_result_view *view, int32_t area)
{
    const int32_t *cu = rvit_session_cu_seqlens(c->session, view->stage);
    const int is_whole = what == RVIT_RESULT_CLS_ATTENTION || what == RVIT_RESULT_RECEIVED_ATTENTION;
    for (int32_t i = 0; i < c->session->n_images; i++) {
        const int64_t begin = cu[i] / area, rows = cu[i + 1] / area - begin, read = is_whole || rows == 0 ? rows : 1;
        const float *first = (const float *)view->data + begin * view->width;
        if (c->image_errors[i] == 0 &&
            (!are_finite(first, read * view->width) || !firsts_are_finite(first, is_whole ? 0 : rows, view->width)))
            note(c, i, what);
    }
}

/* Results in device memory are not checked. */
static void check_result(check *c, rvit_result what, int32_t index)
{
    const rvit_result_view view = rvit_session_values(c->session, what, index);
    const int32_t side = c->session->model->info.merge;
    if (view.data == NULL)
        return;
    if (what == RVIT_RESULT_LOGITS || what == RVIT_RESULT_POOLED || what == RVIT_RESULT_PROJECTED)
        check_images(c, what, &view);
    else
        check_tokens(c, what, &view, what == RVIT_RESULT_MERGED || what == RVIT_RESULT_DEEPSTACK ? side * side : 1);
}

static void check_outputs(check *c)
{
    const rvit_model_info *info = &c->session->model->info;
    static const rvit_result order[] = {
        RVIT_RESULT_LOGITS,         RVIT_RESULT_POOLED,        RVIT_RESULT_PROJECTED,         RVIT_RESULT_FEATURES,
        RVIT_RESULT_BLOCK_FEATURES, RVIT_RESULT_CLS_ATTENTION, RVIT_RESULT_RECEIVED_ATTENTION};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        check_result(c, order[i], 0);
    if (info->merge == 0)
        return;
    check_result(c, RVIT_RESULT_MERGED, 0);
    for (int32_t i = 0; i < info->n_deepstack; i++)
        check_result(c, RVIT_RESULT_DEEPSTACK, i);
}

rvit_status rvit_session_take_errors(rvit_session *s)
{
    check c = {.session = s, .image_errors = rvit_session_host(s, s->plan->image_errors), .first = -1};
    if (s->has_image_errors)
        memset(c.image_errors, 0, (size_t)s->plan->desc.max_images * sizeof *c.image_errors);
    const int32_t reported = take_reports(s, c.image_errors);
    check_outputs(&c);
    const int32_t first = reported >= 0 ? reported : c.first;
    s->has_image_errors = first >= 0;
    return first < 0 ? RVIT_OK : fail_image(s, first, c.image_errors[first]);
}

rvit_status rvit_session_image_status(const rvit_session *session, int32_t image)
{
    RVIT_ENTRY;
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_image_status: session is NULL");
    if (!session->has_results || image < 0 || image >= session->n_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_image_status: there is no result of image %d", (int)image);
    const int32_t *image_errors = rvit_session_host(session, session->plan->image_errors);
    return session->has_image_errors && image_errors[image] != 0 ? fail_image(session, image, image_errors[image]) : RVIT_OK;
}
