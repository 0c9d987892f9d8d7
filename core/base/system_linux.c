#include "core/base/system.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
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

/* Processors of arm64, which /proc/cpuinfo names by numbers (asm/cputype.h of Linux; Arm's reference manuals). */
static const struct {
    int implementer, part;
    const char *name;
} arm64_parts[] = {
    {0x41, 0xd03, "Cortex-A53"},     {0x41, 0xd04, "Cortex-A35"},   {0x41, 0xd05, "Cortex-A55"},   {0x41, 0xd07, "Cortex-A57"},
    {0x41, 0xd08, "Cortex-A72"},     {0x41, 0xd09, "Cortex-A73"},   {0x41, 0xd0a, "Cortex-A75"},   {0x41, 0xd0b, "Cortex-A76"},
    {0x41, 0xd0c, "Neoverse N1"},    {0x41, 0xd0d, "Cortex-A77"},   {0x41, 0xd0e, "Cortex-A76AE"}, {0x41, 0xd40, "Neoverse V1"},
    {0x41, 0xd41, "Cortex-A78"},     {0x41, 0xd42, "Cortex-A78AE"}, {0x41, 0xd44, "Cortex-X1"},    {0x41, 0xd46, "Cortex-A510"},
    {0x41, 0xd47, "Cortex-A710"},    {0x41, 0xd48, "Cortex-X2"},    {0x41, 0xd49, "Neoverse N2"},  {0x41, 0xd4a, "Neoverse E1"},
    {0x41, 0xd4b, "Cortex-A78C"},    {0x41, 0xd4c, "Cortex-X1C"},   {0x41, 0xd4d, "Cortex-A715"},  {0x41, 0xd4e, "Cortex-X3"},
    {0x41, 0xd4f, "Neoverse V2"},    {0x41, 0xd80, "Cortex-A520"},  {0x41, 0xd81, "Cortex-A720"},  {0x41, 0xd82, "Cortex-X4"},
    {0x41, 0xd84, "Neoverse V3"},    {0x41, 0xd85, "Cortex-X925"},  {0x41, 0xd87, "Cortex-A725"},  {0x41, 0xd8e, "Neoverse N3"},
    {0x43, 0x0af, "ThunderX2"},      {0x46, 0x001, "A64FX"},        {0x48, 0xd01, "Kunpeng 920"},  {0x4e, 0x004, "NVIDIA Carmel"},
    {0x51, 0x001, "Qualcomm Oryon"}, {0x61, 0x022, "Apple M1"},     {0x61, 0x023, "Apple M1"},     {0x61, 0x032, "Apple M2"},
    {0x61, 0x033, "Apple M2"},       {0xc0, 0xac3, "Ampere-1"},     {0xc0, 0xac4, "Ampere-1A"},
};

static void add_arm64_part(int implementer, int part, char *name, size_t size)
{
    char unknown[48];
    const char *found = unknown;
    snprintf(unknown, sizeof unknown, "Arm implementer 0x%02x part 0x%03x", (unsigned)implementer, (unsigned)part);
    for (size_t i = 0; i < sizeof arm64_parts / sizeof *arm64_parts; i++)
        if (arm64_parts[i].implementer == implementer && arm64_parts[i].part == part)
            found = arm64_parts[i].name;
    const size_t used = strlen(name);
    if (used + strlen(found) + 4 <= size)
        snprintf(name + used, size - used, "%s%s", used == 0 ? "" : " + ", found);
}

/* The value of a line "KEY : VALUE" of /proc/cpuinfo; NULL: another key. */
static const char *cpuinfo_value(const char *line, const char *key)
{
    const size_t length = strlen(key);
    const char *colon = strncmp(line, key, length) == 0 ? line + length + strspn(line + length, " \t") : "";
    return *colon == ':' ? colon + 1 + strspn(colon + 1, " \t") : NULL;
}

/* The first "model name" of /proc/cpuinfo. On arm64, which has none, the different parts; processors of one part follow each other. */
void rvit_cpu_name(const char *root, char *name, size_t size)
{
    char line[256];
    int implementer = 0, last = -1;
    FILE *file = rvit_proc_open(root, "/proc", "cpuinfo");
    *name = '\0';
    while (file != NULL && rvit_proc_line(file, line, sizeof line)) {
        const char *value = cpuinfo_value(line, "model name");
        if (value != NULL && *value != '\0') {
            snprintf(name, size, "%s", value);
            break;
        }
        if ((value = cpuinfo_value(line, "CPU implementer")) != NULL)
            implementer = (int)strtol(value, NULL, 0) & 0xff;
        if ((value = cpuinfo_value(line, "CPU part")) != NULL) {
            const int part = (int)strtol(value, NULL, 0) & 0xfff;
            if ((implementer << 12 | part) != last)
                add_arm64_part(implementer, part, name, size);
            last = implementer << 12 | part;
        }
    }
    if (file != NULL)
        fclose(file);
    if (*name == '\0')
        snprintf(name, size, "CPU");
}

int rvit_arm64_features(void)
{
#if defined(__aarch64__)
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
    return (first & HWCAP_ASIMDDP ? RVIT_ARM64_DOTPROD : 0) | (second & HWCAP2_I8MM ? RVIT_ARM64_I8MM : 0) |
           (second & HWCAP2_BF16 ? RVIT_ARM64_BF16 : 0);
#else
    return 0;
#endif
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
