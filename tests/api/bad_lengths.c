/* Invalid layouts, on the host and on a device that validates its input. */
#include "api.h"
#include "good_ops.h"

static void cu_seqlens_check(void **state)
{
    (void)state;
    static const int32_t good[] = {0, 4, 4, 10}, decreasing[] = {0, 4, 3, 10}, late[] = {1, 4, 4, 10}, negative[] = {0, -1, 4, 10};
    static const int32_t wraps[] = {0, INT32_MAX, INT32_MIN, 10};
    expect_ok(rvit_cu_seqlens_check(good, 3, 6, 10));
    expect_ok(rvit_cu_seqlens_check(good, 0, 0, 0));
    expect_ok(rvit_cu_seqlens_check(good, 3, INT32_MAX, INT64_MAX));
    expect_status(rvit_cu_seqlens_check(decreasing, 3, 100, 100), RVIT_INVALID_ARGUMENT, "1");
    assert_non_null(strstr(rvit_status_detail(), "image 1"));
    expect_status(rvit_cu_seqlens_check(late, 3, 100, 100), RVIT_INVALID_ARGUMENT, "cu_seqlens");
    expect_status(rvit_cu_seqlens_check(negative, 3, 100, 100), RVIT_INVALID_ARGUMENT, "0");
    assert_non_null(strstr(rvit_status_detail(), "image 0"));
    expect_status(rvit_cu_seqlens_check(wraps, 3, INT32_MAX, INT64_MAX), RVIT_INVALID_ARGUMENT, NULL);
    assert_non_null(strstr(rvit_status_detail(), "image 1"));
    expect_status(rvit_cu_seqlens_check(good, 3, 5, 100), RVIT_INVALID_ARGUMENT, "max_len");
    assert_non_null(strstr(rvit_status_detail(), "image 2"));
    expect_status(rvit_cu_seqlens_check(good, 3, 6, 9), RVIT_INVALID_ARGUMENT, "rows");
    expect_status(rvit_cu_seqlens_check(good, -1, 6, 10), RVIT_INVALID_ARGUMENT, "n_images");
    expect_status(rvit_cu_seqlens_check(NULL, 3, 6, 10), RVIT_INVALID_ARGUMENT, "cu_seqlens");
}

static void with_debug_checks(void (*body)(void))
{
    rvit_device *device = H.device[DEVICE];
    rvit_stream *stream = H.stream[DEVICE];
    rvit_device_desc desc = H.desc;
    desc.debug_checks = 1;
    H.device[DEVICE] = NULL;
    H.stream[DEVICE] = NULL;
    expect_ok(rvit_device_create(&desc, &H.device[DEVICE]));
    expect_ok(rvit_stream_create(H.device[DEVICE], &H.stream[DEVICE]));
    body();
    harness_teardown(NULL);
    rvit_stream_destroy(H.stream[DEVICE]);
    rvit_device_destroy(H.device[DEVICE]);
    H.device[DEVICE] = device;
    H.stream[DEVICE] = stream;
}

static void bad_lengths_on_a_checking_device(void)
{
    static const op_name with_lengths[] = {
        ATTENTION,       SELECT_TOP_K, SELECT_THRESHOLD,   SELECT_MASK,        SELECT_FUSED, SELECT_SAMPLE, SELECT_MASS, MEAN,
        BIPARTITE_MATCH, HEAD,         ATTENTION_BACKWARD, ATTENTION_RECEIVED, POOL,         ATTENTION_POOL};
    static const struct {
        int32_t cu[4];
        const char *names;
        int of_head; /* head knows no max_len */
    } bad[] = {{{0, 4, 3, 10}, "image 1", 1},       {{1, 4, 4, 10}, "cu_seqlens", 1}, {{0, -4, 4, 10}, "image 0", 1},
               {{0, 4, 4, 13}, "image 2", 1},       {{0, 4, 4, 11}, "image 2", 0},    {{0, 7, 7, 8}, "image 0", 0},
               {{0, 4, 4, INT32_MAX}, "image 2", 1}};
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    array *cu = array_input("cu_seqlens", 16);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(cu->host, bad[i].cu, 16);
        arrays_upload();
        for (size_t o = 0; o < sizeof with_lengths / sizeof with_lengths[0]; o++) {
            const op_name name = with_lengths[o];
            if ((name == HEAD && !bad[i].of_head) || (name == ATTENTION_BACKWARD && H.desc.backend == RVIT_BACKEND_VULKAN))
                continue;
            any_args args = ops[name].args;
            for (const view_field *field = ops[name].views; field->name; field++)
                if (!strcmp(field->name, "cu_seqlens"))
                    *view_of(&args, field) = array_view(cu, DEVICE);
            expect_status(ops[name].call(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, NULL);
            if (!strstr(rvit_status_detail(), bad[i].names))
                fail_msg("%s: the detail does not say \"%s\": %s", ops[name].name, bad[i].names, rvit_status_detail());
        }
        arrays_fetch(DEVICE);
        arrays_expect_unwritten(DEVICE);
    }
    for (int i = 0; i < N_GOOD_OPS; i++)
        (void)good_op_works(&ops[i]);
    arrays_fetch(DEVICE);
}

static rvit_status call_with_ints(const good_op *op, const char *name, const array *values)
{
    any_args args = op->args;
    for (const view_field *field = op->views; field->name; field++)
        if (!strcmp(field->name, name))
            *view_of(&args, field) = array_view(values, DEVICE);
    return op->call(H.stream[DEVICE], &args);
}

/* The good ops have 10 live rows of 12. */
static void bad_row_numbers_on_a_checking_device(void)
{
    static const op_name gathers[] = {LAYERNORM, MERGE, PACK, UNPACK},
                         with_live[] = {LINEAR, LAYERNORM, MERGE, PACK, UNPACK, ROPE, POSITIONS, EMBED, GRID_ROPE};
    static const struct {
        int at;
        int32_t value;
        int of_unpack; /* wrong only where numbers must ascend */
    } bad[] = {{0, -1, 0}, {9, 12, 0}, {4, INT32_MIN, 0}, {7, INT32_MAX, 0}, {5, 4, 1}, {5, 7, 1}};
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    array *rows = array_input("src_rows", 48), *live = array_input("live", 4);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (int32_t r = 0; r < 12; r++)
            memcpy(rows->host + r * 4, r == bad[i].at ? &bad[i].value : &r, 4);
        arrays_upload();
        for (int o = bad[i].of_unpack ? 3 : 0; o < 4; o++) {
            expect_status(call_with_ints(&ops[gathers[o]], "src_rows", rows), RVIT_INVALID_ARGUMENT, "src_rows");
            assert_non_null(strstr(rvit_status_detail(), ops[gathers[o]].name));
        }
    }
    static const int32_t lives[] = {-1, INT32_MIN}; /* above the capacity means the capacity */
    for (int i = 0; i < 2; i++) {
        memcpy(live->host, &lives[i], 4);
        arrays_upload();
        for (size_t o = 0; o < sizeof with_live / sizeof with_live[0]; o++)
            expect_status(call_with_ints(&ops[with_live[o]], "rows.live", live), RVIT_INVALID_ARGUMENT, "live");
    }
    arrays_fetch(DEVICE);
    arrays_expect_unwritten(DEVICE);
    /* Of the positions of rope and positions any may be below 0. */
    static const int32_t above[] = {0, 1, 2, 3, 0, 1, -1, 3, 4, GOOD_ROWS};
    memcpy(rows->host, above, sizeof above);
    arrays_upload();
    expect_status(call_with_ints(&ops[ROPE], "positions", rows), RVIT_INVALID_ARGUMENT, "positions[9]");
    expect_status(call_with_ints(&ops[POSITIONS], "src_rows", rows), RVIT_INVALID_ARGUMENT, "src_rows[9]");
    memset(rows->host + 36, 0x80, 4);
    arrays_upload();
    expect_ok(call_with_ints(&ops[ROPE], "positions", rows));
    expect_ok(call_with_ints(&ops[POSITIONS], "src_rows", rows));
    /* Numbers past the live rows may be anything. */
    static const int32_t unused[2] = {-1, 1 << 20};
    for (int32_t r = 0; r < 10; r++)
        memcpy(rows->host + r * 4, &r, 4);
    memcpy(rows->host + 40, unused, 8);
    arrays_upload();
    for (int o = 0; o < 4; o++)
        expect_ok(call_with_ints(&ops[gathers[o]], "src_rows", rows));
    arrays_fetch(DEVICE);
}

/* The good grids are those of two images that are present, of 4 and 5 tokens of at most 6, and of one that is not. */
static void bad_grids_on_a_checking_device(void)
{
    static const struct {
        int32_t grids[6], merge;
        const char *names;
    } bad[] = {{{1, 3, -1, 1}, 1, "grids[1]"},         {{32768, 0, 2, 2}, 1, "grids[0]"},
               {{1, 3, 6, 1}, 1, "grids[1] is 6 x 1"}, {{2, 2, 3, 1}, 2, "grids[1]"},
               {{1, 5, 1, 3}, 1, "10 tokens"},         {{1, 3, 2, 2}, 1, NULL},
               {{1, 3, 2, 2, -1, -1}, 1, NULL},        {{0, 9, 2, 2}, 1, NULL}};
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    good_op *op = &ops[GRID_LAYOUT];
    array *grids = array_input("grids", 24);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(grids->host, bad[i].grids, 24);
        arrays_upload();
        op->args.grid_layout.merge = bad[i].merge;
        op->args.grid_layout.rows = bad[i].names && !strcmp(bad[i].names, "10 tokens") ? 9 : GOOD_ROWS;
        const rvit_status status = call_with_ints(op, "grids", grids);
        if (!bad[i].names)
            (void)supported(DEVICE, "grid_layout", status);
        else {
            expect_status(status, RVIT_INVALID_ARGUMENT, "grid_layout");
            if (!strstr(rvit_status_detail(), bad[i].names))
                fail_msg("the detail does not say \"%s\": %s", bad[i].names, rvit_status_detail());
        }
    }
    arrays_fetch(DEVICE);
}

static void debug_checks(void **state)
{
    (void)state;
    with_debug_checks(bad_lengths_on_a_checking_device);
    with_debug_checks(bad_row_numbers_on_a_checking_device);
    with_debug_checks(bad_grids_on_a_checking_device);
}

SUITE(bad_lengths_suite, TEST(cu_seqlens_check), TEST(debug_checks));
