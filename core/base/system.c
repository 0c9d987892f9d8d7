#include "core/base/system.h"

#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include "core/base/cgroup.h"
#include "core/base/proc_file.h"

/* Processors in the calling thread's affinity mask, which the threads that it starts inherit. */
static int64_t affinity_processors(void)
{
#if defined(__linux__)
    /* More bits than a cpu_set_t's 1024: the call fails if the kernel's mask is larger than ours. */
    unsigned long mask[32 * 1024 / (8 * sizeof(unsigned long))];
    if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)(void *)mask) == 0)
        return CPU_COUNT_S(sizeof mask, (cpu_set_t *)(void *)mask);
#endif
    return INT64_MAX;
}

int rvit_usable_processors(const char *root)
{
    const int64_t limits[] = {sysconf(_SC_NPROCESSORS_ONLN), affinity_processors(), rvit_cgroup_processors(root)};
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
