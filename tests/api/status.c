/* Status values, details, logging, and the small functions that only name things. */
#include "api.h"

#include <pthread.h>

static void names(void **state)
{
    (void)state;
    static const struct {
        rvit_status status;
        int value;
        const char *name;
    } known[] = {{RVIT_OK, 0, "OK"},
                 {RVIT_INVALID_ARGUMENT, 10, "INVALID_ARGUMENT"},
                 {RVIT_UNSUPPORTED, 20, "UNSUPPORTED"},
                 {RVIT_UNAVAILABLE, 30, "UNAVAILABLE"},
                 {RVIT_OUT_OF_HOST_MEMORY, 40, "OUT_OF_HOST_MEMORY"},
                 {RVIT_OUT_OF_DEVICE_MEMORY, 41, "OUT_OF_DEVICE_MEMORY"},
                 {RVIT_DEVICE_LOST, 50, "DEVICE_LOST"},
                 {RVIT_BAD_FILE, 60, "BAD_FILE"},
                 {RVIT_INTERNAL, 90, "INTERNAL"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(known[i].status, known[i].value);
        assert_string_equal(rvit_status_name(known[i].status), known[i].name);
    }
    assert_non_null(rvit_status_name((rvit_status)12345));
    assert_int_equal(rvit_dtype_size(RVIT_F32), 4);
    assert_int_equal(rvit_dtype_size(RVIT_F16), 2);
    assert_int_equal(rvit_dtype_size(RVIT_BF16), 2);
    assert_int_equal(rvit_dtype_size((rvit_dtype)12), 0);
    assert_string_equal(rvit_dtype_name(RVIT_F16), "f16");
    assert_non_null(rvit_dtype_name((rvit_dtype)12));
    assert_string_equal(rvit_backend_name(RVIT_BACKEND_AUTO), "auto");
    assert_string_equal(rvit_backend_name(RVIT_BACKEND_CUDA), "cuda");
    assert_non_null(rvit_backend_name((rvit_backend)12));
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", RVIT_VERSION_MAJOR, RVIT_VERSION_MINOR, RVIT_VERSION_PATCH);
    assert_string_equal(rvit_version(), version);
}

static void policies(void **state)
{
    (void)state;
    static const char *const wanted[] = {"none", "l2", "evit", "mask"};
    int32_t n = 0;
    rvit_prune_info info = RVIT_PRUNE_INFO_INIT;
    for (; rvit_prune_list(n, &info) == RVIT_OK; n++) {
        rvit_prune_type type;
        expect_ok(rvit_prune_from_name(info.name, &type));
        assert_int_equal(type, info.type);
        assert_true(info.summary && info.summary[0] && info.source && info.source[0]);
    }
    for (int i = 0; i < 4; i++) {
        rvit_prune_type type;
        expect_ok(rvit_prune_from_name(wanted[i], &type));
        assert_int_equal(type, i);
    }
    assert_true(n >= 4);
    rvit_prune_type type = (rvit_prune_type)77;
    expect_status(rvit_prune_from_name("tome", &type), RVIT_INVALID_ARGUMENT, "evit");
    expect_status(rvit_prune_from_name("", &type), RVIT_INVALID_ARGUMENT, NULL);
    expect_status(rvit_prune_from_name(NULL, &type), RVIT_INVALID_ARGUMENT, "name");
    expect_status(rvit_prune_from_name("l2", NULL), RVIT_INVALID_ARGUMENT, "out_type");
    assert_int_equal(type, 77);
    expect_status(rvit_prune_list(-1, &info), RVIT_INVALID_ARGUMENT, "index");
    expect_status(rvit_prune_list(n, &info), RVIT_INVALID_ARGUMENT, "index");
    info.struct_size = 0;
    expect_status(rvit_prune_list(0, &info), RVIT_INVALID_ARGUMENT, "struct_size");
}

static void *look(void *argument)
{
    const char **out = argument;
    out[0] = rvit_status_detail()[0] ? "not empty" : "";
    const int32_t cu[] = {5};
    if (rvit_cu_seqlens_check(cu, 0, 1, 1) == RVIT_INVALID_ARGUMENT && rvit_status_detail()[0])
        out[1] = "has a detail of its own";
    return NULL;
}

/* The detail belongs to the thread. */
static void details_are_per_thread(void **state)
{
    (void)state;
    const char *seen[2] = {NULL, NULL};
    expect_status(rvit_record_begin(NULL), RVIT_INVALID_ARGUMENT, "stream");
    char before[256];
    snprintf(before, sizeof before, "%s", rvit_status_detail());
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look, seen), 0);
    pthread_join(thread, NULL);
    assert_string_equal(seen[0], "");
    assert_non_null(seen[1]);
    assert_string_equal(before, rvit_status_detail());
}

typedef struct log_book {
    int n;
    char last[512];
} log_book;

static void write_down(void *user, rvit_log_level level, const char *message)
{
    log_book *book = user;
    book->n++;
    assert_in_range(level, RVIT_LOG_ERROR, RVIT_LOG_DEBUG);
    assert_null(strchr(message, '\n'));
    snprintf(book->last, sizeof book->last, "%s", message);
}

static void logging(void **state)
{
    (void)state;
    log_book book = {0, ""};
    rvit_device *device = NULL;
    rvit_log_set(write_down, &book);
    expect_ok(rvit_device_create(&H.desc, &device));
    rvit_log_set(NULL, NULL);
    assert_true(book.n > 0);
    assert_true(book.last[0]);
    const int n = book.n;
    rvit_device_destroy(device);
    expect_ok(rvit_device_create(&H.desc, &device));
    rvit_device_destroy(device);
    assert_int_equal(book.n, n);
}

SUITE(status_suite, TEST(names), TEST(policies), TEST(details_are_per_thread), TEST(logging));
