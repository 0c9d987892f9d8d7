/* Images of different sizes: the layout, the first rows and the rotation of a batch come from patch grids on the device. An image has the
   same bits as in a batch of one, one recorded program serves every set of grids, and pruned rows keep their angles. */
#include "properties.h"

enum {
    N_IMAGES = 7,
    N_PREFIX = 2,
    MAX_LEN = 90,
    ROWS = 260,
    DIM = 24,
    N_HEADS = 2,
    HEAD_DIM = 8,
    WIDTH = N_HEADS * HEAD_DIM,
    SIDE = 5, /* of the position table */
    KEPT = 3  /* tokens of an image after the prune stage, beside the prefix */
};

typedef struct batch_of_grids {
    array *live, *grids, *cu, *patch_cu, *cells, *patches, *prefix, *table, *x, *frequencies, *angles, *q,
        *k; /* q and k are turned in place */
    array *counts, *scores, *keep, *cu_after, *src_rows, *positions, *q_after, *k_after;
} batch_of_grids;

static void weights(array *a, uint64_t seed)
{
    random_seed(seed);
    store_normal(RVIT_F32, a->host, 0, a->size / 4, 1);
}

static batch_of_grids make(void)
{
    const batch_of_grids b = {.live = array_input("live", 4),
                              .grids = array_input("grids", N_IMAGES * 8),
                              .cu = array_output("cu_seqlens", (N_IMAGES + 1) * 4),
                              .patch_cu = array_output("patch_cu_seqlens", (N_IMAGES + 1) * 4),
                              .cells = array_output("cells", ROWS * 16),
                              .patches = array_input("patches", ROWS * DIM * 4),
                              .prefix = array_input("prefix", N_PREFIX * DIM * 4),
                              .table = array_input("table", SIDE * SIDE * DIM * 4),
                              .x = array_output("x", ROWS * DIM * 4),
                              .frequencies = array_input("frequencies", HEAD_DIM * 2),
                              .angles = array_output("angles", ROWS * HEAD_DIM * 4),
                              .q = array_output("q", ROWS * WIDTH * 4),
                              .k = array_output("k", ROWS * WIDTH * 4),
                              .counts = array_input("counts", (MAX_LEN + 1) * 4),
                              .scores = array_output("scores", ROWS * 4),
                              .keep = array_output("keep", ROWS),
                              .cu_after = array_output("cu_after", (N_IMAGES + 1) * 4),
                              .src_rows = array_output("src_rows", ROWS * 4),
                              .positions = array_output("positions", ROWS * 4),
                              .q_after = array_output("q_after", ROWS * WIDTH * 4),
                              .k_after = array_output("k_after", ROWS * WIDTH * 4)};
    weights(b.prefix, 1);
    weights(b.table, 2);
    expect_ok(rvit_rope_frequencies(RVIT_ROPE_CENTRED, 100, HEAD_DIM, (float *)(void *)b.frequencies->host));
    for (int32_t n = 0; n <= MAX_LEN; n++) {
        const int32_t kept = n < KEPT ? n : KEPT;
        memcpy(b.counts->host + n * 4, &kept, 4);
    }
    return b;
}

static int32_t tokens_of(const int32_t *grid)
{
    return grid[0] * grid[1] > 0 ? N_PREFIX + grid[0] * grid[1] : 0;
}

/* Image i of the batch is made from seeds[i] only. */
static void fill(const batch_of_grids *b, const int32_t (*grids)[2], const uint64_t *seeds, int32_t n)
{
    memset(b->grids->host, 0x7f, (size_t)b->grids->size);
    memcpy(b->live->host, &n, 4);
    memcpy(b->grids->host, grids, (size_t)n * 8);
    memset(b->patches->host, POISON, (size_t)b->patches->size);
    int64_t row = 0, patch = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t tokens = tokens_of(grids[i]), patches = grids[i][0] * grids[i][1];
        random_seed(seeds[i]);
        store_normal(RVIT_F32, b->patches->host, patch * DIM, (int64_t)patches * DIM, 1);
        store_normal(RVIT_F32, b->q->host, row * WIDTH, (int64_t)tokens * WIDTH, 1);
        store_normal(RVIT_F32, b->k->host, row * WIDTH, (int64_t)tokens * WIDTH, 1);
        patch += patches;
        row += tokens;
    }
}

#define AT(name) array_view(b->name, DEVICE)

static rvit_rows rows_of(const array *cu)
{
    const rvit_rows rows = {.capacity = ROWS, .live = {array_view(cu, DEVICE).buffer, array_view(cu, DEVICE).offset + N_IMAGES * 4}};
    return rows;
}

static rvit_status add_first_rows(const batch_of_grids *b, rvit_stream *stream)
{
    rvit_grid_layout_args layout = RVIT_GRID_LAYOUT_ARGS_INIT;
    layout.n_images = N_IMAGES, layout.n_prefix = N_PREFIX, layout.max_len = MAX_LEN, layout.rows = ROWS;
    layout.live_images = AT(live), layout.grids = AT(grids), layout.cu_seqlens = AT(cu), layout.patch_cu_seqlens = AT(patch_cu);
    layout.token_map = AT(cells);
    rvit_embed_args embed = RVIT_EMBED_ARGS_INIT;
    embed.rows = rows_of(b->cu), embed.patch_rows = ROWS, embed.dim = DIM, embed.n_prefix = N_PREFIX;
    embed.resample = RVIT_RESAMPLE_BILINEAR_ANTIALIAS, embed.table_height = embed.table_width = SIDE;
    embed.token_map = AT(cells), embed.patches = AT(patches), embed.prefix = AT(prefix), embed.table = AT(table), embed.out = AT(x);
    rvit_grid_rope_args angles = RVIT_GRID_ROPE_ARGS_INIT;
    angles.rows = rows_of(b->cu), angles.head_dim = HEAD_DIM, angles.coordinates = RVIT_ROPE_CENTRED;
    angles.token_map = AT(cells), angles.frequencies = AT(frequencies), angles.out = AT(angles);
    rvit_status status = rvit_grid_layout(stream, &layout);
    status = status == RVIT_OK ? rvit_embed(stream, &embed) : status;
    return status == RVIT_OK ? rvit_grid_rope(stream, &angles) : status;
}

static rvit_status add_rope(const batch_of_grids *b, rvit_stream *stream, const array *cu, const array *q, const array *k,
                            const array *positions)
{
    rvit_rope_args rope = RVIT_ROPE_ARGS_INIT;
    rope.rows = rows_of(cu), rope.n_heads = N_HEADS, rope.head_dim = HEAD_DIM, rope.n_positions = ROWS;
    rope.q = array_view(q, DEVICE), rope.k = array_view(k, DEVICE), rope.table = AT(angles), rope.positions = array_view(positions, DEVICE);
    return rvit_rope(stream, &rope);
}

/* Keeps the rows with the largest norms and copies their queries and keys, which are rotated as they are and again after the stage: the
   second rotation must be by the same angles. */
static rvit_status add_stage(const batch_of_grids *b, rvit_stream *stream)
{
    rvit_select_args select = RVIT_SELECT_ARGS_INIT;
    select.mode = RVIT_SELECT_TOP_K, select.score = RVIT_SCORE_L2, select.n_images = N_IMAGES, select.max_len = MAX_LEN;
    select.rows = ROWS, select.n_prefix = N_PREFIX, select.dim = DIM, select.x = AT(x), select.counts = AT(counts);
    select.cu_seqlens = AT(cu), select.scores = AT(scores), select.keep = AT(keep), select.out_cu_seqlens = AT(cu_after);
    select.src_rows = AT(src_rows);
    rvit_positions_args positions = RVIT_POSITIONS_ARGS_INIT;
    positions.rows = rows_of(b->cu_after), positions.source_rows = ROWS, positions.n_positions = ROWS;
    positions.src_rows = AT(src_rows), positions.keep = AT(keep), positions.out = AT(positions);
    rvit_pack_args pack = RVIT_PACK_ARGS_INIT;
    pack.rows = rows_of(b->cu_after), pack.source_rows = ROWS, pack.row_size = WIDTH * 4, pack.src_rows = AT(src_rows);
    rvit_status status = rvit_select(stream, &select);
    status = status == RVIT_OK ? rvit_positions(stream, &positions) : status;
    pack.source = AT(q), pack.destination = AT(q_after);
    status = status == RVIT_OK ? rvit_pack(stream, &pack) : status;
    pack.source = AT(k), pack.destination = AT(k_after);
    return status == RVIT_OK ? rvit_pack(stream, &pack) : status;
}

/* Stage, rotation of what it leaves, then the rotation of all rows: those kept must have the same bits in both. */
static void enqueue(const batch_of_grids *b, rvit_stream *stream)
{
    expect_ok(add_first_rows(b, stream));
    expect_ok(add_stage(b, stream));
    expect_ok(add_rope(b, stream, b->cu_after, b->q_after, b->k_after, b->positions));
    expect_ok(add_rope(b, stream, b->cu, b->q, b->k, NULL));
}

static int32_t int_at(const array *a, int64_t i)
{
    int32_t value;
    memcpy(&value, a->result[DEVICE] + i * 4, 4);
    return value;
}

static void expect_same_rows(const array *a, int64_t row_a, const array *b, int64_t row_b, int64_t rows, int64_t row_size)
{
    if (memcmp(a->result[DEVICE] + row_a * row_size, b->result[DEVICE] + row_b * row_size, (size_t)(rows * row_size)))
        fail_msg("%s: %d rows from %d on differ from those from %d on of %s", a->name, (int)rows, (int)row_a, (int)row_b, b->name);
}

static void expect_kept_rows_turn_alike(const batch_of_grids *b)
{
    const int32_t n = int_at(b->cu_after, N_IMAGES);
    for (int32_t t = 0; t < n; t++) {
        expect_same_rows(b->q_after, t, b->q, int_at(b->src_rows, t), 1, WIDTH * 4);
        expect_same_rows(b->k_after, t, b->k, int_at(b->src_rows, t), 1, WIDTH * 4);
    }
}

static const int32_t sizes[N_IMAGES][2] = {{3, 7}, {5, 5}, {0, 4}, {1, 1}, {8, 11}, {2, 30}, {6, 4}};
static const uint64_t seeds[N_IMAGES] = {11, 12, 13, 14, 15, 16, 17};

static void images_of_any_size_are_independent(void **state)
{
    (void)state;
    const batch_of_grids all = make(), alone = make();
    fill(&all, sizes, seeds, N_IMAGES);
    arrays_upload();
    enqueue(&all, H.stream[DEVICE]);
    arrays_fetch(DEVICE);
    expect_kept_rows_turn_alike(&all);
    uint8_t *x = scratch(ROWS * DIM * 4), *q = scratch(ROWS * WIDTH * 4), *k_after = scratch(ROWS * WIDTH * 4);
    memcpy(x, all.x->result[DEVICE], ROWS * DIM * 4);
    memcpy(q, all.q->result[DEVICE], ROWS * WIDTH * 4);
    memcpy(k_after, all.k_after->result[DEVICE], ROWS * WIDTH * 4);
    int32_t row = 0, after = 0;
    for (int32_t i = 0; i < N_IMAGES; i++) {
        const int32_t tokens = tokens_of(sizes[i]);
        const int32_t left = tokens < KEPT + N_PREFIX ? tokens : KEPT + N_PREFIX;
        fill(&alone, &sizes[i], &seeds[i], 1);
        arrays_upload();
        enqueue(&alone, H.stream[DEVICE]);
        arrays_fetch(DEVICE);
        assert_int_equal(int_at(alone.cu, N_IMAGES), tokens);
        assert_memory_equal(alone.x->result[DEVICE], x + (int64_t)row * DIM * 4, (size_t)tokens * DIM * 4);
        assert_memory_equal(alone.q->result[DEVICE], q + (int64_t)row * WIDTH * 4, (size_t)tokens * WIDTH * 4);
        assert_int_equal(int_at(alone.cu_after, N_IMAGES), left);
        assert_memory_equal(alone.k_after->result[DEVICE], k_after + (int64_t)after * WIDTH * 4, (size_t)left * WIDTH * 4);
        row += tokens, after += left;
    }
}

static void one_program_serves_all_grids(void **state)
{
    (void)state;
    const batch_of_grids replayed = make(), eager = make();
    rvit_program *program;
    arrays_upload();
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    enqueue(&replayed, H.stream[DEVICE]);
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    const int rounds = H.is_slow ? 6 : 100;
    for (int round = 0; round < rounds; round++) {
        int32_t grids[N_IMAGES][2];
        uint64_t numbers[N_IMAGES];
        random_seed((uint64_t)round + 1000);
        int32_t left = ROWS;
        const int32_t n = random_below(N_IMAGES + 1);
        for (int32_t i = 0; i < n; i++) {
            numbers[i] = random_bits();
            grids[i][0] = random_below(10), grids[i][1] = random_below(9);
            if (tokens_of(grids[i]) > left || tokens_of(grids[i]) > MAX_LEN)
                grids[i][0] = 0;
            left -= tokens_of(grids[i]);
        }
        fill(&replayed, (const int32_t(*)[2])grids, numbers, n);
        fill(&eager, (const int32_t(*)[2])grids, numbers, n);
        arrays_upload();
        expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
        enqueue(&eager, H.stream[DEVICE]);
        arrays_fetch(DEVICE);
        const int32_t rows = ROWS - left, after = int_at(eager.cu_after, N_IMAGES);
        assert_int_equal(int_at(eager.cu, N_IMAGES), rows);
        expect_same_rows(replayed.cu, 0, eager.cu, 0, N_IMAGES + 1, 4);
        expect_same_rows(replayed.cells, 0, eager.cells, 0, rows, 16);
        expect_same_rows(replayed.x, 0, eager.x, 0, rows, DIM * 4);
        expect_same_rows(replayed.q, 0, eager.q, 0, rows, WIDTH * 4);
        expect_same_rows(replayed.cu_after, 0, eager.cu_after, 0, N_IMAGES + 1, 4);
        expect_same_rows(replayed.k_after, 0, eager.k_after, 0, after, WIDTH * 4);
        expect_kept_rows_turn_alike(&replayed);
    }
    rvit_program_destroy(program);
}

SUITE(grids_suite, TEST(images_of_any_size_are_independent), TEST(one_program_serves_all_grids));
