/* Shared by the parts of raggedvit selftest. selftest.c goes through the devices; a check is a function of selftest_ops.c or
   selftest_model.c; selftest_timings.c times; selftest_report.c prints and writes. */
#ifndef RVIT_CLI_SELFTEST_PARTS_H
#define RVIT_CLI_SELFTEST_PARTS_H

#include "engine.h"

enum check_result { CHECK_PASSED, CHECK_FAILED, CHECK_SKIPPED };

struct selftest {
    struct options options;          /* those of the command line, with the small random model */
    rvit_checkpoint *small;          /* it */
    struct engine reference, oracle; /* the small model on the CPU in f32; the oracle adds in float64 */
    struct engine engine;            /* the device that is tested, with the small model in one precision */
    /* Of the current check. */
    char running[128]; /* "vulkan 0, f16: attention" */
    char detail[512];  /* why it failed or was skipped */
    bool unsupported, lost;
    /* The report. */
    json_t *report, *of_device, *failures;
    int32_t n[3];    /* checks by result, of the device */
    bool any_failed; /* on any device */
    bool unwritable;
    double device_start;
};

/* A check returns whether it passed. It explains a failure by one of these of selftest_report.c, which return false. */
bool check_fails(struct selftest *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* subject: a policy, or NULL. */
bool check_status_fails(struct selftest *self, const char *subject, rvit_status status);
/* After a function that has complained and returned an exit code. */
bool check_complained(struct selftest *self, const char *subject);

struct check {
    const char *name;
    bool (*run)(struct selftest *self);
};
#define SELFTEST_OP_CHECKS 4
#define SELFTEST_MODEL_CHECKS 5
extern const struct check selftest_op_checks[SELFTEST_OP_CHECKS];       /* f32, f16 and bf16 */
extern const struct check selftest_model_checks[SELFTEST_MODEL_CHECKS]; /* all precisions */

/* Measures the five timings of the open device. */
void selftest_timings(struct selftest *self);

/* selftest_report.c. `backend` and `index` name the device; dtype may be "". The report on disk is always complete JSON: while a check
   runs, it says which. */
int selftest_open(struct selftest *self);
void selftest_device(struct selftest *self, const rvit_device_info *info);
void selftest_begin(struct selftest *self, const char *dtype, const char *name);
void selftest_end(struct selftest *self, const char *dtype, const char *name, enum check_result result, double seconds);
void selftest_timing(struct selftest *self, const char *dtype, const char *name, json_t *ms);
void selftest_device_end(struct selftest *self);
/* Returns the exit code. */
int selftest_close(struct selftest *self, int code);

#endif
