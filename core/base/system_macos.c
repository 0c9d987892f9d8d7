#include "core/base/system.h"

#include <errno.h>
#include <mach/mach.h>
#include <stdio.h>
#include <sys/sysctl.h>
#include <unistd.h>

int rvit_online_processors(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > INT32_MAX ? INT32_MAX : (int)n;
}

/* macOS has no affinity masks. */
int rvit_usable_processors(const char *root)
{
    (void)root;
    const int n = rvit_online_processors();
    return n > 1024 ? 1024 : n;
}

/* Free pages, and those that the kernel can reclaim at once. */
int64_t rvit_available_memory(const char *root)
{
    (void)root;
    vm_statistics64_data_t pages;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&pages, &n) != KERN_SUCCESS)
        return INT64_MAX;
    return ((int64_t)pages.free_count + pages.inactive_count + pages.purgeable_count) * (int64_t)vm_kernel_page_size;
}

int64_t rvit_total_memory(void)
{
    uint64_t bytes = 0;
    size_t size = sizeof bytes;
    return sysctlbyname("hw.memsize", &bytes, &size, NULL, 0) == 0 ? (int64_t)bytes : 0;
}

void rvit_cpu_name(const char *root, char *name, size_t size)
{
    (void)root;
    size_t length = size;
    if (sysctlbyname("machdep.cpu.brand_string", name, &length, NULL, 0) != 0)
        snprintf(name, size, "CPU");
}

static int has(const char *name, int feature)
{
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 && value != 0 ? feature : 0;
}

int rvit_arm64_features(void)
{
    return has("hw.optional.arm.FEAT_DotProd", RVIT_ARM64_DOTPROD) | has("hw.optional.arm.FEAT_I8MM", RVIT_ARM64_I8MM) |
           has("hw.optional.arm.FEAT_BF16", RVIT_ARM64_BF16);
}

int rvit_allow_amx(void)
{
    return ENOSYS;
}
