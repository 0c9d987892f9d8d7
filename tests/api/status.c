/* Status values, details, logging, and the small functions that only name things. */
#include "api.h"

#include <limits.h>
#include <pthread.h>
#include <unistd.h>

/* Each enum: its last value and that value's name. */
static const struct {
    rvit_enum type;
    int32_t last;
    const char *name;
} enums[] = {{RVIT_ENUM_BACKEND, RVIT_BACKEND_VULKAN, "vulkan"},
             {RVIT_ENUM_TIER, RVIT_TIER_MATRIX, "matrix"},
             {RVIT_ENUM_DEVICE_KIND, RVIT_DEVICE_KIND_CPU, "cpu"},
             {RVIT_ENUM_DTYPE, RVIT_U8, "uint8"},
             {RVIT_ENUM_PRECISION, RVIT_PRECISION_AUTO, "auto"},
             {RVIT_ENUM_QUANTIZATION, RVIT_QUANTIZATION_FP8, "fp8"},
             {RVIT_ENUM_ACTIVATION, RVIT_ACTIVATION_SILU, "silu"},
             {RVIT_ENUM_RESAMPLE, RVIT_RESAMPLE_NEAREST, "nearest"},
             {RVIT_ENUM_FIT, RVIT_FIT_OTHER, "other"},
             {RVIT_ENUM_FILTER, RVIT_FILTER_NEAREST, "nearest"},
             {RVIT_ENUM_PROCESSOR, RVIT_PROCESSOR_HF_FLOAT, "hf-float"},
             {RVIT_ENUM_POOLING, RVIT_POOLING_NONE, "none"},
             {RVIT_ENUM_POSITION, RVIT_POSITION_NONE, "none"},
             {RVIT_ENUM_PRUNE, RVIT_PRUNE_PIXELPRUNE, "pixelprune"}};

static void enum_names(void **state)
{
    (void)state;
    const int32_t n = (int32_t)(sizeof enums / sizeof *enums);
    for (int32_t i = 0; i < n; i++) {
        assert_string_equal(rvit_enum_name(enums[i].type, enums[i].last), enums[i].name);
        assert_string_equal(rvit_enum_name(enums[i].type, enums[i].last + 1), "unknown");
        assert_string_equal(rvit_enum_name(enums[i].type, -1), "unknown");
        for (int32_t value = 0; value <= enums[i].last; value++) {
            int32_t found = -1;
            expect_ok(rvit_enum_from_name(enums[i].type, rvit_enum_name(enums[i].type, value), &found));
            assert_int_equal(found, value);
        }
    }
    assert_string_equal(rvit_enum_name((rvit_enum)n, 0), "unknown");
    assert_string_equal(rvit_enum_name((rvit_enum)-1, 0), "unknown");
    assert_string_equal(rvit_enum_name(RVIT_ENUM_DTYPE, RVIT_I8), "int8");
    int32_t type = 77;
    expect_status(rvit_enum_from_name(RVIT_ENUM_PRUNE, "evit2", &type), RVIT_INVALID_ARGUMENT, "evit");
    expect_status(rvit_enum_from_name(RVIT_ENUM_PRUNE, "evit2", &type), RVIT_INVALID_ARGUMENT, "pixelprune");
    expect_status(rvit_enum_from_name(RVIT_ENUM_PRUNE, "evit\033[2J", &type), RVIT_INVALID_ARGUMENT, "'evit\\x1b[2J'");
    expect_status(rvit_enum_from_name(RVIT_ENUM_TIER, "", &type), RVIT_INVALID_ARGUMENT, "no tier");
    expect_status(rvit_enum_from_name(RVIT_ENUM_TIER, NULL, &type), RVIT_INVALID_ARGUMENT, "name");
    expect_status(rvit_enum_from_name(RVIT_ENUM_TIER, "auto", NULL), RVIT_INVALID_ARGUMENT, "out_value");
    expect_status(rvit_enum_from_name((rvit_enum)n, "auto", &type), RVIT_INVALID_ARGUMENT, "rvit_enum");
    assert_int_equal(type, 77);
}

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
                 {RVIT_NOT_FINITE, 70, "NOT_FINITE"},
                 {RVIT_INTERNAL, 90, "INTERNAL"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(known[i].status, known[i].value);
        assert_string_equal(rvit_status_name(known[i].status), known[i].name);
    }
    assert_non_null(rvit_status_name((rvit_status)12345));
    assert_int_equal(rvit_dtype_size(RVIT_F32), 4);
    assert_int_equal(rvit_dtype_size(RVIT_F16), 2);
    assert_int_equal(rvit_dtype_size(RVIT_BF16), 2);
    assert_int_equal(rvit_dtype_size(RVIT_I8), 1);
    assert_int_equal(rvit_dtype_size(RVIT_E4M3), 1);
    assert_int_equal(rvit_dtype_size((rvit_dtype)12), 0);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", RVIT_VERSION_MAJOR, RVIT_VERSION_MINOR, RVIT_VERSION_PATCH);
    assert_string_equal(rvit_version(), version);
}

/* Parameters, and where each is not none, its default; blocks -1: from the first given on. */
static const struct {
    const char *name;
    rvit_prune_type type;
    int32_t parameters;
    double keep, threshold, mass;
    int32_t merges, n_blocks, blocks[3];
} known_policies[] = {{.name = "none", .type = RVIT_PRUNE_NONE, .keep = -1, .threshold = -1, .mass = -1, .blocks = {0}},
                      {.name = "l2",
                       .type = RVIT_PRUNE_L2,
                       .parameters = RVIT_PRUNE_KEEP,
                       .keep = 0.5,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 1,
                       .blocks = {3}},
                      {.name = "l2-threshold",
                       .type = RVIT_PRUNE_L2_THRESHOLD,
                       .parameters = RVIT_PRUNE_THRESHOLD,
                       .keep = -1,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 1,
                       .blocks = {3}},
                      {.name = "evit",
                       .type = RVIT_PRUNE_EVIT,
                       .parameters = RVIT_PRUNE_KEEP,
                       .keep = 0.7,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 3,
                       .blocks = {3, 6, 9}},
                      {.name = "evit-fused",
                       .type = RVIT_PRUNE_EVIT_FUSED,
                       .parameters = RVIT_PRUNE_KEEP,
                       .keep = 0.7,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 3,
                       .blocks = {3, 6, 9}},
                      {.name = "evit-paper",
                       .type = RVIT_PRUNE_EVIT_PAPER,
                       .parameters = RVIT_PRUNE_KEEP,
                       .keep = 0.5,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 1,
                       .blocks = {3}},
                      {.name = "dynamicvit",
                       .type = RVIT_PRUNE_DYNAMICVIT,
                       .parameters = RVIT_PRUNE_KEEP,
                       .keep = 0.7,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 3,
                       .blocks = {3, 6, 9}},
                      {.name = "dynamicvit-gate",
                       .type = RVIT_PRUNE_DYNAMICVIT_GATE,
                       .parameters = RVIT_PRUNE_THRESHOLD,
                       .keep = -1,
                       .threshold = 0.5,
                       .mass = -1,
                       .n_blocks = 3,
                       .blocks = {3, 6, 9}},
                      {.name = "ats",
                       .type = RVIT_PRUNE_ATS,
                       .parameters = RVIT_PRUNE_SAMPLES,
                       .keep = -1,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = -1,
                       .blocks = {3}},
                      {.name = "ats-paper",
                       .type = RVIT_PRUNE_ATS_PAPER,
                       .parameters = RVIT_PRUNE_MASS | RVIT_PRUNE_KEEP,
                       .keep = -1,
                       .threshold = -1,
                       .mass = 0.9,
                       .n_blocks = 1,
                       .blocks = {3}},
                      {.name = "tome",
                       .type = RVIT_PRUNE_TOME,
                       .parameters = RVIT_PRUNE_MERGES,
                       .keep = -1,
                       .threshold = -1,
                       .mass = -1,
                       .merges = 8,
                       .n_blocks = -1,
                       .blocks = {0}},
                      {.name = "random",
                       .type = RVIT_PRUNE_RANDOM,
                       .parameters = RVIT_PRUNE_KEEP | RVIT_PRUNE_SEED,
                       .keep = 0.5,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 1,
                       .blocks = {3}},
                      {.name = "mask", .type = RVIT_PRUNE_MASK, .keep = -1, .threshold = -1, .mass = -1, .n_blocks = 1, .blocks = {3}},
                      {.name = "received",
                       .type = RVIT_PRUNE_RECEIVED,
                       .parameters = RVIT_PRUNE_KEEP,
                       .keep = 0.5,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 1,
                       .blocks = {3}},
                      {.name = "fastervlm",
                       .type = RVIT_PRUNE_FASTERVLM,
                       .parameters = RVIT_PRUNE_KEEP,
                       .keep = 0.5,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 1,
                       .blocks = {-2}},
                      {.name = "map-probe",
                       .type = RVIT_PRUNE_MAP_PROBE,
                       .parameters = RVIT_PRUNE_KEEP,
                       .keep = 0.5,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 1,
                       .blocks = {-1}},
                      {.name = "hiprune",
                       .type = RVIT_PRUNE_HIPRUNE,
                       .parameters = RVIT_PRUNE_KEEP | RVIT_PRUNE_ALPHA | RVIT_PRUNE_OBJECT_BLOCK,
                       .keep = 0.5,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 1,
                       .blocks = {-2}},
                      {.name = "pixelprune",
                       .type = RVIT_PRUNE_PIXELPRUNE,
                       .parameters = RVIT_PRUNE_TAU,
                       .keep = -1,
                       .threshold = -1,
                       .mass = -1,
                       .n_blocks = 1,
                       .blocks = {0}}};

static void policies(void **state)
{
    (void)state;
    enum { N_WANTED = sizeof known_policies / sizeof known_policies[0] };
    int32_t n = 0, found = 0;
    rvit_prune_info info = RVIT_PRUNE_INFO_INIT;
    for (; rvit_prune_list(n, &info) == RVIT_OK; n++) {
        assert_string_equal(info.name, rvit_enum_name(RVIT_ENUM_PRUNE, (int32_t)info.type));
        assert_true(info.summary[0] && info.source[0] && info.site[0]);
        for (int i = 0; i < N_WANTED; i++) {
            if (strcmp(info.name, known_policies[i].name))
                continue;
            found++;
            assert_int_equal(info.type, known_policies[i].type);
            assert_int_equal(info.parameters,
                             known_policies[i].parameters | (i > 0 && info.type != RVIT_PRUNE_PIXELPRUNE ? RVIT_PRUNE_BLOCKS : 0));
            assert_true(info.default_keep == known_policies[i].keep || (info.default_keep < 0 && known_policies[i].keep < 0));
            assert_true(info.default_threshold == known_policies[i].threshold ||
                        (info.default_threshold < 0 && known_policies[i].threshold < 0));
            assert_true(info.default_mass == known_policies[i].mass || (info.default_mass < 0 && known_policies[i].mass < 0));
            assert_int_equal(info.default_samples, 0);
            assert_int_equal(info.default_merges, known_policies[i].merges);
            assert_int_equal(info.n_default_blocks, known_policies[i].n_blocks);
            assert_true(info.default_alpha == (info.type == RVIT_PRUNE_HIPRUNE ? 0.1 : -1));
            assert_true(info.default_tau == (info.type == RVIT_PRUNE_PIXELPRUNE ? 0 : -1));
            assert_true(info.default_object_part == (info.type == RVIT_PRUNE_HIPRUNE ? 0.375 : -1));
            for (int j = 0; j < (known_policies[i].n_blocks < 0 ? 1 : known_policies[i].n_blocks); j++)
                assert_int_equal(info.default_blocks[j], known_policies[i].blocks[j]);
        }
    }
    assert_int_equal(found, N_WANTED);
    assert_int_equal(n, N_WANTED);
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

/* Levels that are none are not written, whatever is read for them. */
static void odd_log_levels(void **state)
{
    (void)state;
    static const int levels[] = {-1, INT_MIN, INT_MAX, 99, 0, RVIT_LOG_ERROR};
    int ends[2];
    char written[256] = "";
    assert_int_equal(pipe(ends), 0);
    const int before = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        rvit_log_stderr(NULL, (rvit_log_level)levels[i], "text");
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    assert_true(read(ends[0], written, sizeof written - 1) > 0);
    close(ends[0]);
    assert_string_equal(written, "raggedvit: error: text\n");
}

/* What goes to standard error may go to a terminal: one line, without anything it would obey. */
static void log_lines(void **state)
{
    (void)state;
    char line[2048], message[3000];
    int ends[2];
    const int before = dup(STDERR_FILENO);
    assert_true(before >= 0);
    memset(message, 'x', sizeof message - 1);
    message[sizeof message - 1] = '\0';
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    rvit_log_stderr(NULL, RVIT_LOG_ERROR, "a\033[2J\nb");
    const ssize_t n_short = read(ends[0], line, 100);
    rvit_log_stderr(NULL, RVIT_LOG_ERROR, message);
    const ssize_t n_long = read(ends[0], line + 100, sizeof line - 100);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[0]);
    close(ends[1]);
    static const char expected[] = "raggedvit: error: a\\x1b[2J\\x0ab\n";
    assert_int_equal(n_short, sizeof expected - 1);
    assert_memory_equal(line, expected, sizeof expected - 1);
    assert_true(n_long > 1000);
    assert_int_equal(line[100 + n_long - 1], '\n');
}

SUITE(status_suite, TEST(names), TEST(enum_names), TEST(policies), TEST(details_are_per_thread), TEST(logging), TEST(odd_log_levels),
      TEST(log_lines));
