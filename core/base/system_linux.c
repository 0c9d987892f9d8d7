#include "core/base/system.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cgroup.h"
#include "core/base/proc_file.h"

/* Processors in the calling thread's affinity mask, which the threads that it starts inherit. */
static int64_t affinity_processors(void)
{
    /* More bits than a cpu_set_t's 1024: the call fails if the kernel's mask is larger than ours. */
    unsigned long mask[32 * 1024 / (8 * sizeof(unsigned long))];
    if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)(void *)mask) == 0)
        return CPU_COUNT_S(sizeof mask, (cpu_set_t *)(void *)mask);
    return INT64_MAX;
}

int rvit_online_processors(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > INT32_MAX ? INT32_MAX : (int)n;
}

int rvit_usable_processors(const char *root)
{
    const int64_t limits[] = {rvit_online_processors(), affinity_processors(), rvit_cgroup_processors(root)};
    int64_t usable = 1024;
    for (int i = 0; i < 3; i++)
        if (limits[i] < usable)
            usable = limits[i];
    return usable < 1 ? 1 : (int)usable;
}

static int64_t kib(int64_t number)
{
    return number < 0 ? 0 : number > INT64_MAX / 4096 ? INT64_MAX / 4 : number * 1024;
}

int64_t rvit_available_memory(const char *root)
{
    int64_t available = 0, swap_free = 0;
    const int is_known = rvit_proc_number(root, "/proc", "meminfo", "MemAvailable:", &available);
    (void)rvit_proc_number(root, "/proc", "meminfo", "SwapFree:", &swap_free);
    swap_free = kib(swap_free);
    const int64_t of_machine = is_known ? kib(available) + swap_free : INT64_MAX;
    const int64_t of_group = rvit_cgroup_memory(root, swap_free);
    return of_group < of_machine ? of_group : of_machine;
}

int64_t rvit_total_memory(void)
{
    const int64_t pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_size > 0 ? pages * page_size : 0;
}

/* The value of the first "model name" line of /proc/cpuinfo. */
void rvit_cpu_name(char *name, size_t size)
{
    static const char key[] = "model name";
    char line[256];
    snprintf(name, size, "CPU");
    FILE *file = rvit_proc_open("", "/proc", "cpuinfo");
    while (file != NULL && rvit_proc_line(file, line, sizeof line)) {
        const char *value = strncmp(line, key, sizeof key - 1) == 0 ? strchr(line, ':') : NULL;
        if (value == NULL)
            continue;
        value += 1 + strspn(value + 1, " \t");
        if (*value != '\0')
            snprintf(name, size, "%s", value);
        break;
    }
    if (file != NULL)
        fclose(file);
}

/* The kernel refuses if the alternate signal stack is too small. */
int rvit_allow_amx(void)
{
#if defined(SYS_arch_prctl)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 ? 0 : errno;
#else
    return ENOSYS;
#endif
}
