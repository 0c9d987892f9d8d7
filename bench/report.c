#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

double report_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void first_line_value(const char *path, const char *key, char *out, size_t size)
{
    snprintf(out, size, "unknown");
    FILE *file = fopen(path, "r");
    char line[512];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *value = line + strlen(key);
        value += strspn(value, " \t:=\"");
        snprintf(out, size, "%s", value);
        out[strcspn(out, "\"\n")] = '\0';
        break;
    }
    if (file != NULL)
        fclose(file);
}

json_t *report_new(const char *benchmark, const rvit_device *device)
{
    char date[32], cpu[128], system[128], kernel[160];
    const time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    first_line_value("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    first_line_value("/etc/os-release", "PRETTY_NAME", system, sizeof system);
    struct utsname name;
    uname(&name);
    snprintf(kernel, sizeof kernel, "%s %s", name.sysname, name.release);
    json_t *report = json_pack("{s:s, s:s, s:s, s:s, s:o, s:{s:s, s:i, s:s, s:s}}", "benchmark", benchmark, "date", date, "version",
                               rvit_version(), "compiler", __VERSION__, "seed", json_sprintf("%#llx", REPORT_SEED), "machine", "cpu", cpu,
                               "cores", (int)sysconf(_SC_NPROCESSORS_ONLN), "system", system, "kernel", kernel);
    if (device == NULL)
        return report;
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    if (rvit_device_get_info(device, &info) != RVIT_OK)
        fprintf(stderr, "device info: %s\n", rvit_status_detail());
    json_object_set_new(report, "device",
                        json_pack("{s:s, s:s, s:s, s:s}", "backend", rvit_enum_name(RVIT_ENUM_BACKEND, info.backend), "name", info.name,
                                  "driver", info.driver, "tier", rvit_enum_name(RVIT_ENUM_TIER, info.tier)));
    return report;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

json_t *report_samples(double *samples, int n, double scale)
{
    qsort(samples, (size_t)n, sizeof *samples, compare);
    return json_pack("{s:f, s:f, s:f, s:f, s:i}", "median", scale * samples[n / 2], "p10", scale * samples[n / 10], "p90",
                     scale * samples[n - 1 - n / 10], "minimum", scale * samples[0], "count", n);
}

int report_write(json_t *report, const char *path)
{
    int code = 0;
    if (path != NULL && json_dump_file(report, path, JSON_INDENT(1)) != 0) {
        fprintf(stderr, "bench: %s: cannot write\n", path);
        code = 1;
    }
    json_decref(report);
    return code;
}

long report_peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss * 1024;
}
