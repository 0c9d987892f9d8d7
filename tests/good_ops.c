#include "good_ops.h"

#include "op_table.h"

#define RVIT_OP(TYPE, id)                                                   \
    static rvit_status call_##id(rvit_stream *stream, const any_args *args) \
    {                                                                       \
        return rvit_##id(stream, args ? &args->id : NULL);                  \
    }                                                                       \
    static void make_##id(good_op *op)                                      \
    {                                                                       \
        const good_op made = {                                              \
            .name = #id,                                                    \
            .type = RVIT_OP_##TYPE,                                         \
            .call = call_##id,                                              \
            .args = {.id = {.struct_size = sizeof(rvit_##id##_args)}},      \
        };                                                                  \
        *op = made;                                                         \
    }
#include "core/contract/ops.def"

/* Sizes depend on defaults, so fill them in, in a copy. */
static void find_views(good_op *op)
{
    rvit_op prepared = {.type = op->type};
    switch (op->type) {
#define RVIT_OP(TYPE, name)            \
    case RVIT_OP_##TYPE:               \
        prepared.name = op->args.name; \
        break;
#include "core/contract/ops.def"
    case RVIT_OP_COUNT:
        break;
    }
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    expect_ok(rvit_op_prepare(&prepared));
    const int n = rvit_op_accesses(&prepared, accesses);
    view_field *field = op->views;
    for (int i = 0; i < n; i++)
        if (accesses[i].view.buffer) {
            const view_field found = {accesses[i].name, op_table[op->type].offsets[i], accesses[i].alignment, accesses[i].optional};
            *field++ = found;
        }
}

int good_op_works(const good_op *op)
{
    return supported(DEVICE, op->name, op->call(H.stream[DEVICE], &op->args));
}

rvit_view *view_of(any_args *args, const view_field *field)
{
    return (rvit_view *)(void *)((uint8_t *)args + field->offset);
}

rvit_view good_input(const char *name, int64_t size)
{
    array *a = array_input(name, size);
    memset(a->host, 0, (size_t)size);
    return array_view(a, DEVICE);
}

rvit_view good_output(const char *name, int64_t size)
{
    return array_view(array_output(name, size), DEVICE);
}

rvit_view good_ints(const char *name, const int32_t *values, int n)
{
    array *a = array_input(name, n * 4);
    memcpy(a->host, values, (size_t)n * 4);
    return array_view(a, DEVICE);
}

rvit_view good_lengths(void)
{
    static const int32_t cu[GOOD_IMAGES + 1] = {0, 4, 4, 10};
    return good_ints("cu_seqlens", cu, GOOD_IMAGES + 1);
}

rvit_rows good_rows(void)
{
    static const int32_t live = 10;
    const rvit_rows r = {.capacity = GOOD_ROWS, .live = good_ints("live", &live, 1)};
    return r;
}

rvit_view good_row_numbers(void)
{
    static const int32_t numbers[GOOD_ROWS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    return good_ints("src_rows", numbers, GOOD_ROWS);
}

static void make_select_by(good_op *op, rvit_select_mode mode, rvit_score_type score, int fused)
{
    make_select(op);
    good_select_by(&op->args.select, mode, score, fused);
}

void good_ops(good_op *out)
{
#define RVIT_OP(TYPE, name)  \
    make_##name(&out[TYPE]); \
    good_##name(&out[TYPE].args.name);
#include "core/contract/ops.def"
    make_select_by(&out[SELECT_THRESHOLD], RVIT_SELECT_THRESHOLD, RVIT_SCORE_GIVEN, 0);
    make_select_by(&out[SELECT_MASK], RVIT_SELECT_MASK, RVIT_SCORE_GIVEN, 0);
    make_select_by(&out[SELECT_L2], RVIT_SELECT_TOP_K, RVIT_SCORE_L2, 0);
    make_select_by(&out[SELECT_FUSED], RVIT_SELECT_TOP_K, RVIT_SCORE_CLS_ATTENTION, 1);
    make_select_by(&out[SELECT_SAMPLE], RVIT_SELECT_SAMPLE, RVIT_SCORE_CLS_NORM, 0);
    make_select_by(&out[SELECT_MASS], RVIT_SELECT_MASS, RVIT_SCORE_POSITION, 0);
    make_select_by(&out[SELECT_PREDICTOR], RVIT_SELECT_TOP_K, RVIT_SCORE_PREDICTOR, 0);
    make_select_by(&out[SELECT_ANCHORS], RVIT_SELECT_TOP_K, RVIT_SCORE_CLS_ATTENTION, 0);
    out[SELECT_ANCHORS].args.select.anchors = good_input("anchors", GOOD_ROWS);
    out[SELECT_ANCHORS].args.select.anchor_columns = 2;
    for (int i = 0; i < N_GOOD_OPS; i++)
        find_views(&out[i]);
    arrays_upload();
}
