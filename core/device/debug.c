/* debug_checks: reads back and validates an op's lengths and source rows before it runs. */
#include "core/device/device.h"

/* Reads n int32 of a view; the caller frees them. */
static rvit_status read_ints(rvit_stream *stream, rvit_view view, int64_t n, int32_t **out_values)
{
    *out_values = rvit_alloc_array(&stream->device->alloc, (size_t)n, sizeof **out_values);
    RVIT_TRY_MEMORY(*out_values);
    const rvit_status status = rvit_stream_read(stream, view, *out_values, n * 4);
    if (status != RVIT_OK)
        rvit_alloc_free(&stream->device->alloc, *out_values);
    return status;
}

static rvit_status check_layout(rvit_stream *stream, rvit_view view, int32_t n_images, int32_t max_len, int64_t rows)
{
    int32_t *lengths;
    RVIT_TRY(read_ints(stream, view, n_images + (int64_t)1, &lengths));
    const rvit_status status = rvit_cu_seqlens_check(lengths, n_images, max_len, rows);
    rvit_alloc_free(&stream->device->alloc, lengths);
    return status;
}

static rvit_status check_live(rvit_stream *stream, const rvit_op *op)
{
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    const int n = rvit_op_accesses(op, accesses);
    for (int i = 0; i < n; i++) {
        int32_t live = 0;
        if (accesses[i].live && accesses[i].view.buffer != NULL)
            RVIT_TRY(rvit_stream_read(stream, accesses[i].view, &live, sizeof live));
        if (live < 0)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s holds %d, expected 0 or more", rvit_op_name(op->type), accesses[i].name,
                             (int)live);
    }
    return RVIT_OK;
}

static rvit_status read_live(rvit_stream *stream, const rvit_rows *rows, int64_t *out_live)
{
    *out_live = rows->capacity;
    if (rows->live.buffer == NULL)
        return RVIT_OK;
    int32_t live;
    RVIT_TRY(rvit_stream_read(stream, rows->live, &live, sizeof live));
    if (live < rows->capacity)
        *out_live = live;
    return RVIT_OK;
}

/* Flags of number_rule. */
enum { ANY_ORDER = 0, ASCENDING = 1, OR_NEGATIVE = 2 };

/* An array of row numbers or positions, each below `limit`. */
typedef struct number_rule {
    const char *op, *field;
    rvit_view view;
    int64_t limit;
    int flags;
} number_rule;

static rvit_status check_number(const number_rule *rule, const int32_t *numbers, int64_t i)
{
    if ((numbers[i] < 0 && !(rule->flags & OR_NEGATIVE)) || numbers[i] >= rule->limit)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s[%lld] is %d, expected 0..%lld%s", rule->op, rule->field, (long long)i,
                         (int)numbers[i], (long long)rule->limit - 1, rule->flags & OR_NEGATIVE ? " or below 0" : "");
    if (rule->flags & ASCENDING && i > 0 && numbers[i] <= numbers[i - 1])
        return rvit_fail(RVIT_INVALID_ARGUMENT, "%s: %s[%lld] is %d, expected more than the previous one, %d", rule->op, rule->field,
                         (long long)i, (int)numbers[i], (int)numbers[i - 1]);
    return RVIT_OK;
}

static rvit_status check_numbers(rvit_stream *stream, const rvit_rows *rows, const number_rule *rule)
{
    int64_t n;
    RVIT_TRY(read_live(stream, rows, &n));
    if (rule->view.buffer == NULL || n == 0)
        return RVIT_OK;
    int32_t *numbers;
    RVIT_TRY(read_ints(stream, rule->view, n, &numbers));
    rvit_status status = RVIT_OK;
    for (int64_t i = 0; i < n && status == RVIT_OK; i++)
        status = check_number(rule, numbers, i);
    rvit_alloc_free(&stream->device->alloc, numbers);
    return status;
}

static rvit_status check_gather(rvit_stream *stream, const char *op, const rvit_rows *rows, rvit_view src_rows, int64_t source_rows,
                                int flags)
{
    return check_numbers(stream, rows, &(number_rule){op, "src_rows", src_rows, source_rows, flags});
}

/* The tokens of an image with this grid; negative: the grid is invalid. */
static int64_t tokens_of(const rvit_grid_layout_args *a, const int32_t *grid)
{
    if (grid[0] < 0 || grid[1] < 0 || grid[0] > INT16_MAX || grid[1] > INT16_MAX || grid[0] % a->merge != 0 || grid[1] % a->merge != 0)
        return -1;
    const int64_t patches = (int64_t)grid[0] * grid[1];
    return patches == 0 ? 0 : patches + a->n_prefix;
}

static rvit_status check_grid_list(const rvit_grid_layout_args *a, const int32_t *grids, int64_t n_images)
{
    int64_t rows = 0, patch_rows = 0;
    for (int64_t i = 0; i < n_images; i++) {
        const int64_t tokens = tokens_of(a, grids + 2 * i);
        if (tokens < 0 || tokens > a->max_len)
            return rvit_fail(RVIT_INVALID_ARGUMENT,
                             "grid_layout: grids[%lld] is %d x %d, expected sides of 0..32767, multiples of %d, and at most "
                             "%d tokens (max_len)",
                             (long long)i, (int)grids[2 * i], (int)grids[2 * i + 1], (int)a->merge, (int)a->max_len);
        rows += tokens;
        patch_rows += tokens == 0 ? 0 : tokens - a->n_prefix;
        if (rows > a->rows || patch_rows > a->patch_rows)
            return rvit_fail(RVIT_INVALID_ARGUMENT,
                             "grid_layout: grids[0..%lld] have %lld tokens and %lld patches, expected at most %lld (rows) and "
                             "%lld (patch_rows)",
                             (long long)i, (long long)rows, (long long)patch_rows, (long long)a->rows, (long long)a->patch_rows);
    }
    return RVIT_OK;
}

static rvit_status check_grids(rvit_stream *stream, const rvit_grid_layout_args *a)
{
    int64_t n_images;
    RVIT_TRY(read_live(stream, &(rvit_rows){.capacity = a->n_images, .live = a->live_images}, &n_images));
    if (n_images == 0)
        return RVIT_OK;
    int32_t *grids;
    RVIT_TRY(read_ints(stream, a->grids, 2 * n_images, &grids));
    const rvit_status status = check_grid_list(a, grids, n_images);
    rvit_alloc_free(&stream->device->alloc, grids);
    return status;
}

rvit_status rvit_op_check_lengths(rvit_stream *stream, const rvit_op *op)
{
    const char *name = rvit_op_name(op->type);
    RVIT_TRY(check_live(stream, op));
    switch (op->type) {
#define OF_BATCH(TYPE, name) \
    case RVIT_OP_##TYPE:     \
        return check_layout(stream, op->name.cu_seqlens, op->name.n_images, op->name.max_len, op->name.rows);
        OF_BATCH(ATTENTION, attention)
        OF_BATCH(ATTENTION_BACKWARD, attention_backward)
        OF_BATCH(ATTENTION_RECEIVED, attention_received)
        OF_BATCH(SELECT, select)
        OF_BATCH(MEAN, mean)
        OF_BATCH(BIPARTITE_MATCH, bipartite_match)
        OF_BATCH(POOL, pool)
        OF_BATCH(ATTENTION_POOL, attention_pool)
        OF_BATCH(PIXELPRUNE, pixelprune)
#undef OF_BATCH
    case RVIT_OP_GRID_RELAYOUT:
        RVIT_TRY(check_layout(stream, op->grid_relayout.cu_seqlens, op->grid_relayout.n_images, op->grid_relayout.max_len,
                              op->grid_relayout.rows));
        return check_layout(stream, op->grid_relayout.out_cu_seqlens, op->grid_relayout.n_images, op->grid_relayout.max_len,
                            op->grid_relayout.rows);
    case RVIT_OP_HEAD:
        if (op->head.cu_seqlens.buffer == NULL)
            return RVIT_OK;
        return check_layout(stream, op->head.cu_seqlens, op->head.n_images, INT32_MAX, op->head.rows);
    case RVIT_OP_LAYERNORM:
        return check_gather(stream, name, &op->layernorm.rows, op->layernorm.src_rows, op->layernorm.x_rows, ANY_ORDER);
    case RVIT_OP_MERGE:
        return check_gather(stream, name, &op->merge.rows, op->merge.src_rows, op->merge.x_rows, ANY_ORDER);
    case RVIT_OP_ROPE:
        return check_numbers(stream, &op->rope.rows,
                             &(number_rule){name, "positions", op->rope.positions, op->rope.n_positions, OR_NEGATIVE});
    case RVIT_OP_GRID_LAYOUT:
        return check_grids(stream, &op->grid_layout);
    case RVIT_OP_POSITIONS:
        return check_gather(stream, name, &op->positions.rows, op->positions.src_rows, op->positions.source_rows, OR_NEGATIVE);
    case RVIT_OP_PACK:
        return check_gather(stream, name, &op->pack.rows, op->pack.src_rows, op->pack.source_rows, ANY_ORDER);
    case RVIT_OP_UNPACK:
        return check_gather(stream, name, &op->unpack.rows, op->unpack.src_rows, op->unpack.destination_rows.capacity, ASCENDING);
    default:
        return RVIT_OK;
    }
}
