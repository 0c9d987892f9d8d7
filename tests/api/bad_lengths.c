/* Layouts that break the rules: on the host, and on a device that checks what it is given. */
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
    static const op_name with_lengths[] = {ATTENTION, SELECT_TOP_K, SELECT_THRESHOLD, SELECT_MASK, HEAD};
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
            if (name == HEAD && !bad[i].of_head)
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
        expect_ok(ops[i].call(H.stream[DEVICE], &ops[i].args));
    arrays_fetch(DEVICE);
}

static void debug_checks(void **state)
{
    (void)state;
    with_debug_checks(bad_lengths_on_a_checking_device);
}

SUITE(bad_lengths_suite, TEST(cu_seqlens_check), TEST(debug_checks));
