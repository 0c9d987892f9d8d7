/* raggedvit selftest: checks that each device computes what it should, times it, and writes a report without anything personal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_list.h"
#include "core/base/os_program.h"
#include "devices.h"
#include "progress.h"
#include "random_model.h"
#include "selftest_parts.h"

enum { CHECK_IMAGES = 4 };

/* A driver may crash. The report on disk then says in which check; this says it on the terminal. */
static const struct selftest *current;

static void on_crash(int number)
{
    fprintf(stderr, "raggedvit: crashed (signal %d) while it ran: %s\n", number, current->running);
    if (current->options.report)
        fputs("raggedvit: the report has all results before it, and names it under \"running\"\n", stderr);
    fputs("raggedvit: --backend and --device test the other devices\n", stderr);
    _Exit(EXIT_PARTLY);
}

static void run_check(struct selftest *self, const char *dtype, const struct check *check)
{
    selftest_begin(self, dtype, check->name);
    const double start = now();
    const bool passed = check->run(self);
    progress_end();
    selftest_end(self, dtype, check->name, passed ? CHECK_PASSED : self->unsupported ? CHECK_SKIPPED : CHECK_FAILED, now() - start);
}

static void test_precision(struct selftest *self, rvit_precision precision)
{
    const char *dtype = rvit_enum_name(RVIT_ENUM_PRECISION, precision), *loads = "the model loads";
    selftest_begin(self, dtype, loads);
    const double start = now();
    const rvit_status status = engine_load(&self->engine, self->small, precision);
    self->engine.name[0] = 0; /* the report says it already */
    if (status != RVIT_OK) {
        (void)check_status_fails(self, NULL, status);
        selftest_end(self, dtype, loads, self->unsupported ? CHECK_SKIPPED : CHECK_FAILED, now() - start);
    } else {
        for (int i = 0; i < SELFTEST_OP_CHECKS && precision <= RVIT_PRECISION_BF16 && !self->lost; i++)
            run_check(self, dtype, &selftest_op_checks[i]);
        for (int i = 0; i < SELFTEST_MODEL_CHECKS && !self->lost; i++)
            run_check(self, dtype, &selftest_model_checks[i]);
    }
    rvit_model_destroy(self->engine.model);
    self->engine.model = NULL;
}

static rvit_status open_device(struct selftest *self, rvit_backend backend, int32_t index)
{
    const struct options *options = &self->options;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = backend;
    desc.index = index;
    desc.tier = options->tier;
    desc.kernels = backend == RVIT_BACKEND_CPU ? options->kernels : NULL;
    desc.n_threads = options->threads;
    rvit_device_destroy(self->engine.device);
    self->engine.device = NULL;
    self->lost = false;
    rvit_status status = rvit_device_create(&desc, &self->engine.device);
    if (status == RVIT_OK)
        status = rvit_device_get_info(self->engine.device, &self->engine.device_info);
    return status;
}

/* What the list says of a device that cannot be opened. */
static void find_listed(rvit_device_info *info)
{
    rvit_device_info *infos = NULL;
    int32_t n = 0, i = 0;
    if (list_devices(&infos, &n) != EXIT_OK)
        return;
    while (i < n && (infos[i].backend != info->backend || (info->index >= 0 && infos[i].index != info->index)))
        i++;
    if (i < n)
        *info = infos[i];
    free(infos);
}

/* info: what the list says, as far as it is known. Returns what became of the device itself. */
static rvit_status test_device(struct selftest *self, const rvit_device_info *info)
{
    const char *opens = "the device opens";
    const double start = now();
    self->engine = (struct engine){.device_info = *info, .model_info = RVIT_MODEL_INFO_INIT, .choice = RVIT_PRECISION_CHOICE_INIT};
    selftest_begin(self, "", opens);
    rvit_status status = open_device(self, info->backend, info->index);
    if (status != RVIT_OK) {
        (void)check_status_fails(self, NULL, status);
        find_listed(&self->engine.device_info);
    }
    selftest_device(self, &self->engine.device_info);
    selftest_end(self, "", opens, status == RVIT_OK ? CHECK_PASSED : CHECK_FAILED, now() - start);
    for (int precision = RVIT_PRECISION_F32; precision <= RVIT_PRECISION_FP8 && status == RVIT_OK; precision++) {
        test_precision(self, (rvit_precision)precision);
        if (self->lost)
            status = open_device(self, info->backend, self->engine.device_info.index);
    }
    if (status == RVIT_OK)
        selftest_timings(self);
    selftest_device_end(self);
    rvit_device_destroy(self->engine.device);
    self->engine.device = NULL;
    return status;
}

/* Reports a device without testing it. */
static void pass_over(struct selftest *self, const rvit_device_info *info, const char *why)
{
    selftest_device(self, info);
    json_object_set_new(self->of_device, "not_tested", json_string(why));
    if (info->index >= 0 && !self->options.json)
        print_line("  not tested: ", why);
}

/* The CPU first: if a driver crashes, its results are there. Software devices only on request, as everywhere. */
static int test_all(struct selftest *self)
{
    rvit_device_info *infos = NULL;
    int32_t n = 0;
    int code = list_devices(&infos, &n);
    for (int turn = 0; turn < 2 && code == EXIT_OK; turn++)
        for (int32_t i = 0; i < n; i++) {
            if ((infos[i].backend == RVIT_BACKEND_CPU) != (turn == 0))
                continue;
            if (infos[i].index < 0)
                pass_over(self, &infos[i], "not usable");
            else if (infos[i].is_software)
                pass_over(self, &infos[i], "a software device; --backend vulkan tests it");
            else
                (void)test_device(self, &infos[i]);
        }
    free(infos);
    return code;
}

/* The device of --backend and --device. */
static int test_one(struct selftest *self)
{
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    info.backend = self->options.backend;
    info.index = self->options.device;
    const rvit_status status = test_device(self, &info);
    if (status == RVIT_INVALID_ARGUMENT)
        return EXIT_USAGE;
    return status == RVIT_UNAVAILABLE || status == RVIT_UNSUPPORTED ? EXIT_DEVICE : EXIT_OK;
}

/* Opens the small model, and on the CPU the references. */
static int prepare(struct selftest *self)
{
    struct random_model random = {.file = NULL};
    struct options *options = &self->options, plain;
    int code = random_model_open(RANDOM_MODEL_SMALL, &random);
    options->model = random.path;
    options->limit = CHECK_IMAGES;
    options->checkpoint.architecture = "vit";
    options->checkpoint.n_heads = RANDOM_MODEL_SMALL;
    plain = *options;
    plain.kernels = NULL;
    if (code == EXIT_OK)
        code = engine_checkpoint(options, &self->small);
    if (code == EXIT_OK)
        code = engine_open(&plain, RVIT_BACKEND_CPU, -1, RVIT_TIER_AUTO, false, RVIT_PRECISION_F32, false, self->small, &self->reference);
    if (code == EXIT_OK)
        code = engine_open(&plain, RVIT_BACKEND_CPU, -1, RVIT_TIER_AUTO, true, RVIT_PRECISION_F32, false, self->small, &self->oracle);
    random_model_close(&random);
    options->model = "the random model";
    return code;
}

int run_selftest(const struct options *options)
{
    struct selftest self = {.options = *options};
    int code = prepare(&self);
    if (code == EXIT_OK)
        code = selftest_open(&self);
    if (code == EXIT_OK) {
        current = &self;
        rvit_crash_watch(on_crash);
        complain_mute(true); /* the lines of the checks have it */
        code = options->backend == RVIT_BACKEND_AUTO ? test_all(&self) : test_one(&self);
        complain_mute(false);
    }
    if (self.report)
        code = selftest_close(&self, code);
    engine_close(&self.reference);
    engine_close(&self.oracle);
    rvit_checkpoint_destroy(self.small);
    return code;
}
