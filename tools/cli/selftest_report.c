/* What selftest prints, and its report. Every text of a driver or of the system passes private_remove. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/os_program.h"
#include "core/base/system.h"
#include "devices.h"
#include "output_file.h"
#include "printable.h"
#include "private_text.h"
#include "progress.h"
#include "selftest_parts.h"

#define SCHEMA 1
static const char left_out[] = "no name of a person or a host, no file path, UUID, PCI address or serial number";

bool check_fails(struct selftest *self, const char *format, ...)
{
    va_list arguments;
    const size_t used = strlen(self->detail);
    const char *separator = used > 0 ? "; " : "";
    snprintf(self->detail + used, sizeof self->detail - used, "%s", separator);
    va_start(arguments, format);
    vsnprintf(self->detail + strlen(self->detail), sizeof self->detail - strlen(self->detail), format, arguments);
    va_end(arguments);
    return false;
}

static bool fails_with(struct selftest *self, rvit_status status, const char *subject, const char *text)
{
    self->lost |= status == RVIT_DEVICE_LOST;
    self->unsupported = status == RVIT_UNSUPPORTED && !self->detail[0];
    return check_fails(self, "%s%s%s", subject ? subject : "", subject ? ": " : "", text);
}

bool check_status_fails(struct selftest *self, const char *subject, rvit_status status)
{
    return fails_with(self, status, subject, rvit_status_detail()[0] ? rvit_status_detail() : rvit_status_name(status));
}

bool check_complained(struct selftest *self, const char *subject)
{
    rvit_status status;
    const char *text = last_complaint(&status);
    return fails_with(self, status, subject, text);
}

static bool prints(const struct selftest *self)
{
    return !self->options.json;
}

static json_t *private_json(const char *text)
{
    char clean[512];
    private_remove(text, clean, sizeof clean);
    return json_text(clean);
}

/* Writes the report as it is now. */
static void write_report(struct selftest *self)
{
    struct output_file file;
    if (!self->options.report || self->unwritable)
        return;
    char *text = json_dumps(self->report, JSON_INDENT(1) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    const bool written = text && output_file_open(self->options.report, &file) && output_file_write(&file, text, strlen(text)) &&
                         output_file_write(&file, "\n", 1) && output_file_commit(&file);
    if (!written) {
        complain_mute(false);
        complain(self->options.report, "%s", text ? file.reason : "out of memory");
    }
    if (text)
        output_file_close(&file);
    self->unwritable = !written;
    free(text);
}

static void set_running(struct selftest *self, const char *what)
{
    snprintf(self->running, sizeof self->running, "%s", what);
    json_object_set_new(self->report, "complete", json_boolean(!what[0]));
    json_object_set_new(self->report, "running", what[0] ? json_text(what) : json_null());
}

int selftest_open(struct selftest *self)
{
    char date[32], system[256], kernel[128];
    const time_t today = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&today));
    rvit_os_name(system, sizeof system);
    rvit_os_version(kernel, sizeof kernel);
    json_t *build =
        json_pack("{s:s, s:s, s:s, s:s, s:o}", "compiler", RVIT_BUILD_COMPILER, "type", RVIT_BUILD_TYPE, "system", RVIT_BUILD_SYSTEM,
                  "backends", RVIT_BUILD_BACKENDS, "cuda", RVIT_BUILD_CUDA[0] ? json_string(RVIT_BUILD_CUDA) : json_null());
    json_t *machine =
        json_pack("{s:o, s:o, s:o, s:i, s:i}", "cpu", private_json(self->oracle.device_info.name), "system", private_json(system), "kernel",
                  private_json(kernel), "processors", (int)rvit_online_processors(), "threads", self->options.threads);
    self->report = json_pack("{s:s, s:i, s:s, s:s, s:s, s:b, s:n, s:o, s:o, s:[], s:[]}", "benchmark", "selftest", "schema", SCHEMA,
                             "version", rvit_version(), "date", date, "left_out", left_out, "complete", false, "running", "build", build,
                             "machine", machine, "devices", "failures");
    if (!self->report)
        return fail_with(EXIT_FAULT, NULL, "out of memory");
    self->failures = json_object_get(self->report, "failures");
    if (prints(self)) {
        printf("raggedvit %s, %s by %s for %s: %s%s%s\n", rvit_version(), RVIT_BUILD_TYPE, RVIT_BUILD_COMPILER, RVIT_BUILD_SYSTEM,
               RVIT_BUILD_BACKENDS, RVIT_BUILD_CUDA[0] ? " of CUDA " : "", RVIT_BUILD_CUDA);
        printf("%s, %s, %d processors, ", json_string_value(json_object_get(machine, "system")),
               json_string_value(json_object_get(machine, "kernel")), (int)rvit_online_processors());
        print_line("", json_string_value(json_object_get(machine, "cpu")));
    }
    set_running(self, "the list of devices");
    write_report(self);
    return self->unwritable ? EXIT_FAULT : EXIT_OK;
}

void selftest_device(struct selftest *self, const rvit_device_info *info)
{
    rvit_device_info clean = *info;
    private_remove(info->name, clean.name, sizeof clean.name);
    private_remove(info->driver, clean.driver, sizeof clean.driver);
    private_remove(info->note, clean.note, sizeof clean.note);
    self->of_device = device_to_json(&clean, false);
    static const char *const not_for_reports[] = {"uuid", "pci_address", "memory_free", "default"};
    for (size_t i = 0; i < sizeof not_for_reports / sizeof *not_for_reports; i++)
        json_object_del(self->of_device, not_for_reports[i]);
    const bool is_usable = info->index >= 0 && info->name[0]; /* without a name there is no device of that number */
    json_object_set_new(self->of_device, "usable", json_boolean(is_usable));
    if (!is_usable)
        json_object_set_new(self->of_device, "tier", json_string(""));
    json_object_set_new(self->of_device, "checks", json_array());
    json_object_set_new(self->of_device, "timings", json_array());
    json_array_append_new(json_object_get(self->report, "devices"), self->of_device);
    memset(self->n, 0, sizeof self->n);
    self->device_start = now();
    if (!prints(self))
        return;
    char dtypes[64];
    device_dtypes(info, dtypes, sizeof dtypes);
    printf("\n%s", rvit_enum_name(RVIT_ENUM_BACKEND, info->backend));
    if (info->index >= 0)
        printf(" %d", info->index);
    if (!is_usable) {
        puts(": not usable");
    } else {
        print_line(": ", clean.name);
        printf("  %s tier, %s%s", rvit_enum_name(RVIT_ENUM_TIER, info->tier), rvit_enum_name(RVIT_ENUM_DEVICE_KIND, info->kind),
               info->is_software ? ", software" : "");
        if (info->memory_size > 0)
            printf(", %.1f GiB", (double)info->memory_size / (1 << 30));
        if (dtypes[0])
            printf(", instructions for %s", dtypes);
        print_line(clean.driver[0] ? ", " : "", clean.driver);
    }
    if (clean.note[0])
        print_line("  ", clean.note);
    fflush(stdout);
}

void selftest_begin(struct selftest *self, const char *dtype, const char *name)
{
    char what[128];
    const rvit_device_info *info = &self->engine.device_info;
    snprintf(what, sizeof what, "%s", rvit_enum_name(RVIT_ENUM_BACKEND, info->backend));
    if (info->index >= 0)
        append_text(what, sizeof what, " %d", info->index);
    append_text(what, sizeof what, ", %s%s%s", dtype, dtype[0] ? ", " : "", name);
    self->detail[0] = 0;
    self->unsupported = false;
    set_running(self, what);
    write_report(self);
}

static void print_result(const struct selftest *self, const char *result, const char *dtype, const char *name, double value,
                         const char *unit, const char *detail)
{
    if (!prints(self))
        return;
    printf("  %-7s  %-4s  %-61s %9.*f %s\n", result, dtype, name, unit[0] == 'm' ? 3 : 2, value, unit);
    if (detail[0])
        print_line("                 ", detail);
    fflush(stdout);
}

void selftest_end(struct selftest *self, const char *dtype, const char *name, enum check_result result, double seconds)
{
    static const char *const results[] = {"passed", "failed", "skipped"}, *const printed[] = {"passed", "FAILED", "skipped"};
    char clean[512];
    private_remove(self->detail, clean, sizeof clean);
    json_t *check = json_pack("{s:s, s:s, s:s, s:o, s:f}", "name", name, "dtype", dtype, "result", results[result], "detail",
                              json_text(clean), "seconds", seconds);
    json_array_append_new(json_object_get(self->of_device, "checks"), check);
    self->n[result]++;
    self->any_failed |= result == CHECK_FAILED;
    if (result == CHECK_FAILED)
        json_array_append_new(self->failures, json_pack("{s:s, s:O, s:O}", "check", self->running, "name", json_object_get(check, "name"),
                                                        "detail", json_object_get(check, "detail")));
    print_result(self, printed[result], dtype, name, seconds, "s", clean);
}

void selftest_timing(struct selftest *self, const char *dtype, const char *name, json_t *ms)
{
    print_result(self, "timing", dtype, name, json_number_value(json_object_get(ms, "median")), "ms", "");
    json_array_append_new(json_object_get(self->of_device, "timings"),
                          json_pack("{s:s, s:s, s:o}", "name", name, "dtype", dtype, "ms", ms));
}

void selftest_device_end(struct selftest *self)
{
    const double seconds = now() - self->device_start;
    json_object_update_new(self->of_device, json_pack("{s:i, s:i, s:i, s:f}", "passed", self->n[CHECK_PASSED], "failed",
                                                      self->n[CHECK_FAILED], "skipped", self->n[CHECK_SKIPPED], "seconds", seconds));
    if (prints(self))
        printf("  %d checks passed, %d failed, %d skipped, %.0f s\n", self->n[CHECK_PASSED], self->n[CHECK_FAILED], self->n[CHECK_SKIPPED],
               seconds);
    write_report(self);
}

int selftest_close(struct selftest *self, int code)
{
    set_running(self, "");
    write_report(self);
    if (self->options.json)
        json_print_line(json_incref(self->report));
    else if (self->options.report && !self->unwritable)
        printf("\nThe report has what is printed above, as JSON: %s.\nTo attach it to an issue see docs/devices.md.\n", left_out);
    json_decref(self->report);
    self->report = NULL;
    return self->unwritable ? EXIT_FAULT : code == EXIT_OK && self->any_failed ? EXIT_PARTLY : code;
}
