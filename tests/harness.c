#include "harness.h"

#include <fnmatch.h>
#include <getopt.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "emulated_kernels.h"
#include "arrays.h"

harness H;

static char temporary_directory[4096];
enum { MOST_TEMPORARY_FILES = 32 };
static char temporary_paths[MOST_TEMPORARY_FILES][4200];
static int n_temporary_paths;

const char *temporary_path(const char *name)
{
    if (!temporary_directory[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(temporary_directory, sizeof temporary_directory, "%s/raggedvit_test_XXXXXX", base && base[0] ? base : "/tmp");
        if (!mkdtemp(temporary_directory))
            fail_msg("cannot make a temporary directory %s", temporary_directory);
    }
    for (int i = 0; i < n_temporary_paths; i++)
        if (!strcmp(strrchr(temporary_paths[i], '/') + 1, name))
            return temporary_paths[i];
    if (n_temporary_paths == MOST_TEMPORARY_FILES)
        fail_msg("too many temporary files");
    char *path = temporary_paths[n_temporary_paths++];
    snprintf(path, sizeof temporary_paths[0], "%s/%s", temporary_directory, name);
    return path;
}

static void remove_temporary_files(void)
{
    for (int i = 0; i < n_temporary_paths; i++)
        unlink(temporary_paths[i]);
    if (temporary_directory[0])
        rmdir(temporary_directory);
}

enum { FEW = 4 }; /* run one in so many of the cases for slow devices */

static int test_count;
static const char *choice; /* patterns with commas between; NULL: every test */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double test_start;
static int32_t chosen_cases; /* cases that leaves_out left out of the test */

int harness_setup(void **state)
{
    (void)state;
    random_seed(0x9e3779b97f4a7c15u);
    test_count++;
    chosen_cases = 0;
    test_start = seconds_now();
    return 0;
}

int harness_teardown(void **state)
{
    arrays_release();
    if (state != NULL && *state != NULL)
        print_message("%10.2f s %s\n", seconds_now() - test_start, (const char *)*state);
    return 0;
}

static int is_word_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static int has_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        if ((at == text || !is_word_character(at[-1])) && !is_word_character(at[n]))
            return 1;
    return 0;
}

void expect_status_at(rvit_status found, rvit_status wanted, const char *word, const char *text, const char *file, int line)
{
    const char *detail = rvit_status_detail();
    if (found != wanted) {
        print_error("%s:%d: %s returns %s (%s), expected %s\n", file, line, text, rvit_status_name(found), detail,
                    rvit_status_name(wanted));
        _fail(file, line);
    }
    if (wanted != RVIT_OK && !detail[0]) {
        print_error("%s:%d: %s returns %s without a detail\n", file, line, text, rvit_status_name(found));
        _fail(file, line);
    }
    if (wanted != RVIT_OK && word && !has_word(detail, word)) {
        print_error("%s:%d: the detail of %s does not contain \"%s\": %s\n", file, line, text, word, detail);
        _fail(file, line);
    }
}

static _Thread_local char kept_detail[1024];

void keep_detail(void)
{
    snprintf(kept_detail, sizeof kept_detail, "%s", rvit_status_detail());
}

void expect_detail_kept(const char *text, const char *file, int line)
{
    if (strcmp(rvit_status_detail(), kept_detail) == 0)
        return;
    print_error("%s:%d: %s succeeds, but changes the detail: %s\n", file, line, text, rvit_status_detail());
    _fail(file, line);
}

static int cases_are(const char *value)
{
    const char *cases = getenv("RVIT_TEST_CASES");
    return cases != NULL && strcmp(cases, value) == 0;
}

int runs_all_cases(void)
{
    return cases_are("all");
}

int leaves_out(int64_t number, int32_t share)
{
    if (!H.is_slow || number == 0)
        return 0;
    return number % share != 0 || chosen_cases++ % H.thinning != 0;
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--backend cpu|vulkan|cuda] [--tier scalar|subgroup|matrix] [--device N] [--vector-bits N]\n"
            "       [--filter PATTERN] [--choice PATTERN,...] [--absent BACKEND] [--stack BYTES]\n",
            program);
    return 2;
}

static int open_device(void)
{
    const rvit_status status = rvit_device_create(&H.desc, &H.device[DEVICE]);
    if (status == RVIT_UNAVAILABLE || status == RVIT_UNSUPPORTED) {
        printf("skipped: %s\n", rvit_status_detail());
        return 77;
    }
    if (status != RVIT_OK) {
        fprintf(stderr, "the device cannot be opened: %s: %s\n", rvit_status_name(status), rvit_status_detail());
        return 1;
    }
    H.info.struct_size = sizeof H.info;
    if (rvit_device_get_info(H.device[DEVICE], &H.info) != RVIT_OK) {
        fprintf(stderr, "rvit_device_get_info: %s\n", rvit_status_detail());
        return 1;
    }
    const int is_slow = RVIT_TEST_SANITIZED || H.info.is_software || strstr(H.info.name, "emulation") != NULL;
    H.is_slow = !runs_all_cases() && (is_slow || cases_are("few"));
    H.thinning = is_slow && cases_are("few") ? FEW : 1;
    printf("%s device %d: %s (%s), %s cases\n", H.backend_name, (int)H.info.index, H.info.name, H.info.driver,
           H.thinning > 1 ? "few"
           : H.is_slow    ? "a choice of"
                          : "all");
    return 0;
}

/* The oracle is slow and its results do not depend on the device: it runs only with the default CPU device. */
static int wants_oracle(void)
{
    return runs_all_cases() ||
           (H.desc.backend == RVIT_BACKEND_CPU && H.desc.tier == RVIT_TIER_AUTO && H.desc.vector_bits == 0 && H.desc.kernels == NULL);
}

static int open_oracle(void)
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    desc.oracle = 1;
    if (rvit_device_create(&desc, &H.device[ORACLE]) != RVIT_OK) {
        fprintf(stderr, "the oracle cannot be opened: %s\n", rvit_status_detail());
        return 1;
    }
    H.n_sides = 2;
    return 0;
}

static int is_chosen(const char *name)
{
    for (const char *at = choice; at != NULL; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char pattern[64];
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(at, ","), at);
        if (fnmatch(pattern, name, 0) == 0)
            return 1;
    }
    return choice == NULL;
}

/* Runs tests that are known to fail on the device one by one; a pass counts as a failure. */
static int run_suite(const suite *tests)
{
    struct CMUnitTest *expected_to_pass = calloc(tests->n_tests, sizeof *expected_to_pass);
    if (!expected_to_pass)
        return 1;
    size_t n = 0;
    int n_failed = 0;
    for (size_t i = 0; i < tests->n_tests; i++) {
        if (!is_chosen(tests->name) && !is_chosen(tests->tests[i].name))
            continue;
        const char *reason = known_failure(tests->tests[i].name);
        if (!reason) {
            expected_to_pass[n++] = tests->tests[i];
            continue;
        }
        const int count = test_count;
        printf("%s is expected to fail: %s\n", tests->tests[i].name, reason);
        if (_cmocka_run_group_tests(tests->name, &tests->tests[i], 1, NULL, NULL) == 0 && test_count > count) {
            fprintf(stderr, "%s now passes: remove it from the list\n", tests->tests[i].name);
            n_failed++;
        }
    }
    if (n > 0)
        n_failed += _cmocka_run_group_tests(tests->name, expected_to_pass, n, NULL, NULL);
    free(expected_to_pass);
    return n_failed;
}

const char *harness_first_option(int *argc, char ***argv, const char *option, const char *otherwise)
{
    if (*argc < 3 || strcmp((*argv)[1], option) != 0)
        return otherwise;
    const char *value = (*argv)[2];
    (*argv)[2] = (*argv)[0];
    *argv += 2;
    *argc -= 2;
    return value;
}

typedef struct whole_run {
    const suite *const *suites;
    size_t n_suites;
    int with_oracle, result;
} whole_run;

static void *run_all(void *argument)
{
    whole_run *run = argument;
    int result = open_device();
    if (result == 0 && run->with_oracle && wants_oracle())
        result = open_oracle();
    for (int s = 0; result == 0 && s < H.n_sides; s++)
        if (rvit_stream_create(H.device[s], &H.stream[s]) != RVIT_OK) {
            fprintf(stderr, "rvit_stream_create: %s\n", rvit_status_detail());
            result = 1;
        }
    int n_failed = 0;
    for (size_t i = 0; result == 0 && i < run->n_suites; i++)
        n_failed += run_suite(run->suites[i]);
    for (int s = 0; s < 2; s++) {
        rvit_stream_destroy(H.stream[s]);
        rvit_device_destroy(H.device[s]);
    }
    run->result = result ? result : n_failed ? 1 : 0;
    return NULL;
}

/* Runs all tests in a thread with a stack of this many bytes. */
static int run_on_stack(whole_run *run, size_t size)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, size) != 0 || pthread_create(&thread, &attributes, run_all, run) != 0) {
        fprintf(stderr, "cannot create a thread with a stack of %zu bytes\n", size);
        return 1;
    }
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    return 0;
}

static void note_pipeline(void *user, rvit_log_level level, const char *message)
{
    static const char pipeline[] = "vulkan: pipeline ";
    if (strncmp(message, pipeline, sizeof pipeline - 1) == 0)
        fprintf(user, "%s\n", message + sizeof pipeline - 1);
    else if (level <= RVIT_LOG_WARNING)
        rvit_log_stderr(NULL, level, message);
}

int harness_main(int argc, char **argv, int with_oracle, const suite *const *suites, size_t n_suites)
{
    static const struct option options[] = {{"backend", required_argument, NULL, 'b'},     {"tier", required_argument, NULL, 't'},
                                            {"device", required_argument, NULL, 'd'},      {"filter", required_argument, NULL, 'f'},
                                            {"choice", required_argument, NULL, 'c'},      {"absent", required_argument, NULL, 'a'},
                                            {"vector-bits", required_argument, NULL, 'v'}, {"stack", required_argument, NULL, 's'},
                                            {"kernels", required_argument, NULL, 'k'},     {NULL, 0, NULL, 0}};
    const rvit_device_desc init = RVIT_DEVICE_DESC_INIT;
    H.desc = init;
    H.desc.backend = RVIT_BACKEND_CPU;
    H.n_sides = 1;
    size_t stack = 0;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        int32_t value = 0;
        const rvit_enum type = c == 't' ? RVIT_ENUM_TIER : RVIT_ENUM_BACKEND;
        if (c == '?' || ((c == 'a' || c == 'b' || c == 't') && rvit_enum_from_name(type, optarg, &value) != RVIT_OK))
            return usage(argv[0]);
        if (c == 'a')
            H.absent = (rvit_backend)value;
        if (c == 'b')
            H.desc.backend = (rvit_backend)value;
        if (c == 't')
            H.desc.tier = (rvit_tier)value;
        if (c == 'd')
            H.desc.index = (int32_t)strtol(optarg, NULL, 10);
        if (c == 'v')
            H.desc.vector_bits = (int32_t)strtol(optarg, NULL, 10);
        if (c == 'k')
            H.desc.kernels = optarg;
        if (c == 's')
            stack = (size_t)strtoul(optarg, NULL, 10);
        if (c == 'f')
            cmocka_set_test_filter(optarg);
        if (c == 'c' && !runs_all_cases())
            choice = optarg;
    }
    if (optind != argc)
        return usage(argv[0]);
    const char *cases = getenv("RVIT_TEST_CASES"), *pipelines_path = getenv("RVIT_TEST_PIPELINES");
    if (cases != NULL && !cases_are("all") && !cases_are("few")) {
        fprintf(stderr, "RVIT_TEST_CASES is all or few, not %s\n", cases);
        return 2;
    }
    FILE *pipelines = pipelines_path != NULL ? fopen(pipelines_path, "w") : NULL;
    if (pipelines != NULL) {
        setvbuf(pipelines, NULL, _IOLBF, 0);
        rvit_log_set(note_pipeline, pipelines);
    } else if (pipelines_path != NULL) {
        perror(pipelines_path);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    emulated_kernels_register();
    H.backend_name = rvit_enum_name(RVIT_ENUM_BACKEND, H.desc.backend);
    whole_run run = {suites, n_suites, with_oracle, 1};
    if (stack == 0)
        run_all(&run);
    else if (run_on_stack(&run, stack) != 0)
        return 1;
    remove_temporary_files();
    if (pipelines != NULL) {
        rvit_log_set(NULL, NULL);
        fclose(pipelines);
        if (run.result == 77)
            unlink(pipelines_path);
    }
    if (run.result == 0 && test_count == 0) {
        fprintf(stderr, "no test has that name\n");
        return 1;
    }
    return run.result;
}
