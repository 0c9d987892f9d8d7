/* Shared by all test programs: the devices named on the command line, guarded arrays, random numbers, comparisons.

   A program runs its suites on one device. On the CPU test_ops also feeds each op to the oracle (its float64 accumulation). Arrays
   and host memory belong to the running test and are freed after it, so a failing test leaks nothing into the next. */
#ifndef RVIT_TESTS_HARNESS_H
#define RVIT_TESTS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <raggedvit/raggedvit.h>

typedef enum side { DEVICE = 0, ORACLE = 1 } side;

typedef struct harness {
    rvit_device_desc desc; /* of the device under test */
    rvit_device_info info;
    rvit_device *device[2];
    rvit_stream *stream[2];
    int n_sides;              /* 2 with the oracle */
    int is_slow;              /* tests run only some of their cases: see leaves_out */
    int32_t thinning;         /* run only one in so many of these cases */
    const char *backend_name; /* as in --backend */
    rvit_backend absent;      /* the backend that must be UNAVAILABLE in this run; AUTO: none */
} harness;
extern harness H;

typedef struct suite {
    const char *name;
    const struct CMUnitTest *tests;
    size_t n_tests;
} suite;

#define TEST(function) TEST_OF(function, harness_setup, harness_teardown)
/* The state of a test is its name. */
#define TEST_OF(function, setup, teardown) cmocka_unit_test_prestate_setup_teardown(function, setup, teardown, #function)
#define SUITE(id, ...)                                           \
    static const struct CMUnitTest id##_tests[] = {__VA_ARGS__}; \
    const suite id = {#id, id##_tests, sizeof id##_tests / sizeof id##_tests[0]}

int harness_setup(void **state);
/* Releases the arrays; prints how long the test took, unless state is NULL (between the cases of a test). */
int harness_teardown(void **state);

/* The main function of a test program:
     --backend cpu|vulkan|cuda   --tier scalar|subgroup|matrix   --device N   --filter PATTERN (with * and ?)
     --choice PATTERN,...   only these tests and suites, unless all cases run (RVIT_TEST_CASES)
     --vector-bits 256|512   the CPU's widest vectors
     --kernels NAME   the CPU's kernels: a name of rvit_device_desc.kernels, or of emulated_kernels.h
     --stack BYTES   run the tests in a thread with a stack of this size
     --absent BACKEND   this backend must be UNAVAILABLE in this run, with a reason
   Exits 77 with the reason if the device is missing. */
int harness_main(int argc, char **argv, int with_oracle, const suite *const *suites, size_t n_suites);

/* Software Vulkan, emulated CUDA and sanitizers are slow. With them, a test runs only cases with a number that is a multiple of `share`;
   leaves_out returns 1 for the others. If the number is the sum of the counters of nested loops, every value of each counter still
   occurs. With a share of 2 and three loops, every pair of values occurs. Case 0 always runs.

   Environment: RVIT_TEST_CASES=all runs all cases on every device. RVIT_TEST_CASES=few runs only these cases on every device, and a quarter
   of them on slow devices.
   RVIT_TEST_PIPELINES=FILE writes the names of the Vulkan pipelines that the run creates to the file. */
int leaves_out(int64_t number, int32_t share);
/* Whether all cases must run (RVIT_TEST_CASES=all). */
int runs_all_cases(void);

/* Removes the option and its value from the front of the arguments and returns the value; returns `otherwise` if it is not the first. */
const char *harness_first_option(int *argc, char ***argv, const char *option, const char *otherwise);

/* Fails the test, with the library's detail, unless the call returns the status. A successful call must not change the detail. */
#define expect_ok(call) \
    (keep_detail(), expect_status_at((call), RVIT_OK, NULL, #call, __FILE__, __LINE__), expect_detail_kept(#call, __FILE__, __LINE__))
void keep_detail(void);
void expect_detail_kept(const char *text, const char *file, int line);
/* word: a whole word that the detail must contain; NULL: any detail. */
#define expect_status(call, status, word) expect_status_at((call), (status), (word), #call, __FILE__, __LINE__)
void expect_status_at(rvit_status found, rvit_status wanted, const char *word, const char *text, const char *file, int line);

/* expectations.c lists features that a device may lack and known failures, with reasons. Returns 1 if the call succeeded, 0 if it is
   UNSUPPORTED and listed. Anything else fails the test, including an unexpected pass. */
int supported(side s, const char *feature, rvit_status status);
/* Whether the feature is listed as missing on the device under test. */
int lacks(const char *feature);
/* How many of the types f32, f16, bf16 the device under test supports: bf16 may be missing. */
int n_types(void);
/* The reason why a test is expected to fail on the device under test, or NULL. */
const char *known_failure(const char *test);

/* The number of guard bytes before and after an array's payload, which are filled with NaN. A multiple of 16, but not of 32. */
#define GUARD 272
#define POISON 0xff   /* inputs that must not be read: NaN in every floating-point type, -1 as an index */
#define SENTINEL 0xa5 /* outputs before they are written */

/* An array on the device under test and on the oracle, if any. */
typedef struct array {
    const char *name;
    int64_t size; /* bytes of the payload */
    rvit_buffer_type type;
    int is_output;
    uint8_t *host;      /* the payload as uploaded */
    uint8_t *result[2]; /* the payload as last fetched */
    rvit_buffer *buffer[2];
    struct array *next;
} array;

/* Inputs are initialised with POISON, outputs with SENTINEL. Fill `host`, then call arrays_upload. An op may write only outputs. */
array *array_input(const char *name, int64_t size);
array *array_output(const char *name, int64_t size);
/* The same in mapped memory. */
array *array_mapped(const char *name, int64_t size, rvit_buffer_type type);
/* {NULL, 0} for a NULL array. */
rvit_view array_view(const array *a, side s);
/* The array of a buffer of the device under test. */
const array *array_of(const rvit_buffer *buffer);
/* The payload in a mapped buffer. */
void *array_mapping(const array *a, side s);
/* Uploads every array of the test, with guards, and waits; mapped memory may be written afterwards. */
void arrays_upload(void);
/* Waits, reads every array of the test back to `result`, and fails if a guard or an input changed. */
void arrays_fetch(side s);
/* Fails if bytes begin..size-1 of an output differ from what was uploaded. */
void array_expect_untouched(const array *a, side s, int64_t begin);
/* Fails if any output, as last fetched, differs from what was uploaded. */
void arrays_expect_unwritten(side s);

/* Zeroed host memory that is freed after the test. */
void *scratch(size_t size);
/* Replaces the prune desc of a session desc by a copy (or a default one) that the caller may change, and returns it. The copy is valid
   until the program ends; other copies of the session desc keep the old one. */
rvit_prune_desc *prune_in(rvit_session_desc *desc);

/* Random numbers, the same in every run of a test. */
void random_seed(uint64_t seed);
uint32_t random_bits(void);
int32_t random_below(int32_t n);
float random_normal(void);
void random_shuffle(int32_t *values, int32_t n);

/* Elements of any stored type. I8 and E4M3 are loaded without a scale and cannot be stored. */
float load(rvit_dtype dtype, const void *data, int64_t index);
void store(rvit_dtype dtype, void *data, int64_t index, float value);
float rounded(rvit_dtype dtype, float value);
void store_normal(rvit_dtype dtype, void *data, int64_t begin, int64_t n, float scale);
/* data[begin .. begin + n) as floats, in scratch memory. */
float *loaded(rvit_dtype dtype, const void *data, int64_t begin, int64_t n);

/* The tolerance of every op test: the largest error of `got` against `exact` is at most twice that of `plain` (the same computation in
   float32, in index order, rounded to the stored type). The plain error counts as at least the rounding error of the largest value. 2^-21
   of the largest exact value (4 units in the last place of a float32) is added. Both minimums matter only if plain is exact by chance.
   Reports the worst element. */
void check_close(const char *what, rvit_dtype stored, const float *got, const double *exact, const float *plain, int64_t n);
/* The same for sums with terms that cancel. terms: the sum of the absolute values for each sum; the minimum tolerance is a fraction of it.
 */
void check_close_sums(const char *what, rvit_dtype stored, const float *got, const double *exact, const float *plain, const double *terms,
                      int64_t n);
/* The tolerance of the oracle: half a unit in the last place of the stored type. */
void check_oracle(const char *what, rvit_dtype stored, const float *got, const double *exact, int64_t n);
/* Largest absolute difference; infinite if either has a NaN. */
double largest_difference(const float *a, const float *b, int64_t n);

/* Layouts. */
typedef struct batch {
    int32_t n_images, max_len;
    int64_t live, rows; /* rows in use, capacity */
    int32_t *cu;        /* [n_images + 1], scratch memory */
} batch;
batch batch_of(const int32_t *lengths, int32_t n_images, int64_t padding_rows);
/* 0..80, 127..129, 191..198, 255..257, 576, 577, in a fixed random order; at most EVERY_LENGTH of them, returns how many. */
#define EVERY_LENGTH 128
int32_t every_length(int32_t *out_lengths);
/* cu_seqlens as an input array. */
array *array_cu(const batch *b);

/* A path in a fresh temporary directory, removed with its files when the program ends. */
const char *temporary_path(const char *name);

#endif
