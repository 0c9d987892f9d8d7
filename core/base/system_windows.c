#include "core/base/system.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

int rvit_online_processors(void)
{
    const DWORD n = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return n < 1 ? 1 : (int)n;
}

/* Processors of a process in one group, by its affinity mask; a process that spans groups may use all of them. */
int rvit_usable_processors(const char *root)
{
    (void)root;
    DWORD_PTR process = 0, system = 0;
    int n = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &process, &system))
        for (; process != 0; process &= process - 1)
            n++;
    if (n == 0)
        n = rvit_online_processors();
    return n > 1024 ? 1024 : n;
}

static int get_memory(MEMORYSTATUSEX *out)
{
    *out = (MEMORYSTATUSEX){.dwLength = sizeof *out};
    return GlobalMemoryStatusEx(out) != 0;
}

/* What the system can still commit, page file included, within the limits of the process's job. */
int64_t rvit_available_memory(const char *root)
{
    (void)root;
    MEMORYSTATUSEX memory;
    if (!get_memory(&memory))
        return INT64_MAX;
    int64_t available = (int64_t)memory.ullAvailPageFile;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION job;
    if (QueryInformationJobObject(NULL, JobObjectExtendedLimitInformation, &job, sizeof job, NULL)) {
        if (job.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_PROCESS_MEMORY && (int64_t)job.ProcessMemoryLimit < available)
            available = (int64_t)job.ProcessMemoryLimit;
        if (job.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_JOB_MEMORY && (int64_t)job.JobMemoryLimit < available)
            available = (int64_t)job.JobMemoryLimit;
    }
    return available;
}

int64_t rvit_total_memory(void)
{
    MEMORYSTATUSEX memory;
    return get_memory(&memory) ? (int64_t)memory.ullTotalPhys : 0;
}

void rvit_cpu_name(const char *root, char *name, size_t size)
{
    (void)root;
    snprintf(name, size, "CPU");
#if defined(__x86_64__)
    unsigned words[13] = {0};
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]))
            return;
    const char *brand = (const char *)words;
    brand += strspn(brand, " ");
    if (*brand != '\0')
        snprintf(name, size, "%s", brand);
#endif
}

/* The numbers of PF_ARM_V82_DP, PF_ARM_V82_I8MM and PF_ARM_V86_BF16_INSTRUCTIONS_AVAILABLE, which older headers lack. */
int rvit_arm64_features(void)
{
    return (IsProcessorFeaturePresent(43) ? RVIT_ARM64_DOTPROD : 0) | (IsProcessorFeaturePresent(66) ? RVIT_ARM64_I8MM : 0) |
           (IsProcessorFeaturePresent(68) ? RVIT_ARM64_BF16 : 0);
}

/* Windows grants AMX to every process if it supports it. */
int rvit_allow_amx(void)
{
    return 0;
}
