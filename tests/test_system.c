/* Tests how much of the machine a process may use, on simulated machines and on this one, and the consequences: spinning threads and
   refused allocations. */
#include <ftw.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/stat.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include <cmocka.h>

#include <raggedvit/raggedvit.h>

#include "backend_cpu/spin.h"
#include "core/base/cgroup.h"
#include "core/base/proc_file.h"
#include "core/base/system.h"

static char root[64];

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/raggedvit-test-XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file of the simulated machine, and creates its folders. */
static void file(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *out = fopen(full, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, strlen(text), out), strlen(text));
    assert_int_equal(fclose(out), 0);
}

static void machine(const char *groups, const char *mounts)
{
    file("/proc/self/cgroup", groups);
    file("/proc/self/mountinfo", mounts);
}

#define MOUNTS_2 "25 1 0:22 / /proc rw - proc proc rw\n31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:9 - cgroup2 cgroup2 rw\n"

#define ASSERT_PROCESSORS(wanted) assert_true(rvit_cgroup_processors(root) == (wanted))
#define ASSERT_MEMORY(swap_free, wanted) assert_true(rvit_cgroup_memory(root, (swap_free)) == (wanted))

static void no_groups(void **state)
{
    (void)state;
    ASSERT_PROCESSORS(INT64_MAX);
    ASSERT_MEMORY(0, INT64_MAX);
    assert_true(rvit_available_memory(root) == INT64_MAX);
    assert_int_equal(rvit_usable_processors(root), rvit_usable_processors("/nonexistent"));
    /* The group exists but has no limits; the mount does not exist. */
    machine("0::/a\n", MOUNTS_2);
    file("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    file("/sys/fs/cgroup/a/memory.max", "max\n");
    file("/sys/fs/cgroup/a/memory.current", "4096\n");
    ASSERT_PROCESSORS(INT64_MAX);
    ASSERT_MEMORY(0, INT64_MAX);
    file("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    ASSERT_PROCESSORS(1);
    file("/proc/self/mountinfo", "");
    ASSERT_PROCESSORS(INT64_MAX);
}

static void quota_of_version_2(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t wanted;
    } cases[] = {
        {"50000 100000\n", 1},
        {"100000 100000\n", 1},
        {"100001 100000\n", 2},
        {"150000 100000\n", 2},
        {"1000 1000000\n", 1},
        {"6400000 100000\n", 64},
        {"max 100000\n", INT64_MAX},
        {"", INT64_MAX},
        {"50000\n", INT64_MAX},
        {"50000 0\n", INT64_MAX},
        {"-1 100000\n", INT64_MAX},
        {"0 100000\n", INT64_MAX},
        {"garbage\n", INT64_MAX},
        {"5.5 x\n", INT64_MAX},
        {"999999999999999999 1\n", 999999999999999999},
        {"99999999999999999999999999999999999999 1\n", INT64_MAX},
    };
    machine("0::/a/b\n", MOUNTS_2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file("/sys/fs/cgroup/a/b/cpu.max", cases[i].text);
        const int64_t got = rvit_cgroup_processors(root);
        if (got != cases[i].wanted)
            fail_msg("cpu.max \"%s\": %" PRId64 " processors", cases[i].text, got);
    }
    /* The smallest limit of the group and its ancestors applies. */
    file("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
    file("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    file("/sys/fs/cgroup/ab/cpu.max", "1 100000\n");
    ASSERT_PROCESSORS(3);
    file("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    ASSERT_PROCESSORS(2);
    assert_in_range(rvit_usable_processors(root), 1, 2);
    file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_int_equal(rvit_usable_processors(root), 1);
}

static void quota_of_version_1(void **state)
{
    (void)state;
    machine("9:name=systemd:/s\n4:memory,hugetlb:/m\n1:cpuacct,cpu:/outer/inner\n0::/\n",
            "32 31 0:29 / /sys/fs/cgroup/my\\040cpu rw - cgroup cgroup rw,cpuacct,cpu\n"
            "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
            "34 31 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory,hugetlb\n"
            "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    ASSERT_PROCESSORS(INT64_MAX);
    file("/sys/fs/cgroup/my cpu/outer/inner/cpu.cfs_quota_us", "-1\n");
    file("/sys/fs/cgroup/my cpu/outer/inner/cpu.cfs_period_us", "100000\n");
    ASSERT_PROCESSORS(INT64_MAX);
    file("/sys/fs/cgroup/my cpu/outer/cpu.cfs_quota_us", "650000\n");
    ASSERT_PROCESSORS(INT64_MAX);
    file("/sys/fs/cgroup/my cpu/outer/cpu.cfs_period_us", "100000\n");
    ASSERT_PROCESSORS(7);
    /* Another controller's group. */
    file("/sys/fs/cgroup/cpuset/outer/cpu.cfs_quota_us", "1\n");
    file("/sys/fs/cgroup/cpuset/outer/cpu.cfs_period_us", "100000\n");
    ASSERT_PROCESSORS(7);
    /* In a container the mount begins at the container's group and does not contain other groups. */
    machine("1:cpu:/docker/12\n", "32 31 0:29 /docker/1 /elsewhere rw - cgroup cgroup rw,cpu\n"
                                  "32 31 0:29 /docker/12 /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    file("/elsewhere/cpu.cfs_quota_us", "100000\n");
    file("/elsewhere/cpu.cfs_period_us", "100000\n");
    file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "500000\n");
    file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    ASSERT_PROCESSORS(5);
    /* Outside the namespace. */
    file("/proc/self/cgroup", "1:cpu:/../12\n");
    ASSERT_PROCESSORS(INT64_MAX);
}

/* Invalid files give no limit and no crash. */
static void garbage(void **state)
{
    (void)state;
    char *text = malloc(100001);
    assert_non_null(text);
    static const char *const fills[] = {"a", "/", ":", " ", " - ", "0::/\n", "\\0", "\n", "1:cpu:/", "1 1 1 / / rw - cgroup c cpu\n"};
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        for (size_t j = 0; j < sizeof fills / sizeof *fills; j++) {
            const size_t n = strlen(fills[i]), m = strlen(fills[j]);
            for (size_t c = 0; c < 100000; c++)
                text[c] = fills[i][c % n];
            text[strchr(fills[i], '\n') ? 600 : 9000] = '\0'; /* lines, or one that is too long */
            file("/proc/self/cgroup", text);
            for (size_t c = 0; c < 100000; c++)
                text[c] = fills[j][c % m];
            text[strchr(fills[j], '\n') ? 3000 : 20000] = '\0';
            file("/proc/self/mountinfo", text);
            file("/proc/meminfo", text);
            ASSERT_PROCESSORS(INT64_MAX);
            ASSERT_MEMORY(0, INT64_MAX);
            assert_true(rvit_available_memory(root) == INT64_MAX);
        }
    free(text);
    /* A line that is too long does not hide others. */
    machine("0::/a\n", MOUNTS_2);
    FILE *out = NULL;
    char path[128];
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "24 1 0:1 / / rw - overlay overlay lowerdir=%0100000d\n%s", 0, MOUNTS_2);
    assert_int_equal(fclose(out), 0);
    file("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
    ASSERT_PROCESSORS(3);
}

static void memory_of_version_2(void **state)
{
    (void)state;
    machine("0::/a/b\n", MOUNTS_2);
    file("/sys/fs/cgroup/a/b/memory.max", "1000000\n");
    ASSERT_MEMORY(0, INT64_MAX); /* the usage is unknown */
    file("/sys/fs/cgroup/a/b/memory.current", "900000\n");
    ASSERT_MEMORY(0, 100000);
    /* The page cache counts as available. */
    file("/sys/fs/cgroup/a/b/memory.stat", "anon 1\nfile 500000\ninactive_file 300000\nactive_file 200000\n");
    ASSERT_MEMORY(0, 600000);
    file("/sys/fs/cgroup/a/b/memory.stat", "inactive_file 999999999\n");
    ASSERT_MEMORY(0, 1000000);
    /* Swap counts up to the group's limit. */
    file("/sys/fs/cgroup/a/b/memory.stat", "");
    ASSERT_MEMORY(5000, 105000);
    file("/sys/fs/cgroup/a/b/memory.swap.max", "3000\n");
    file("/sys/fs/cgroup/a/b/memory.swap.current", "1000\n");
    ASSERT_MEMORY(5000, 102000);
    file("/sys/fs/cgroup/a/b/memory.swap.max", "max\n");
    ASSERT_MEMORY(5000, 105000);
    /* An ancestor's. */
    file("/sys/fs/cgroup/a/memory.max", "2000000\n");
    file("/sys/fs/cgroup/a/memory.current", "1990000\n");
    ASSERT_MEMORY(0, 10000);
    file("/sys/fs/cgroup/a/memory.current", "2990000\n");
    ASSERT_MEMORY(0, 0);
}

static void memory_of_version_1(void **state)
{
    (void)state;
    machine("4:memory:/g\n", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000\n");
    file("/sys/fs/cgroup/memory/g/memory.limit_in_bytes", "18446744073709551615\n");
    file("/sys/fs/cgroup/memory/g/memory.usage_in_bytes", "1\n");
    assert_true(rvit_cgroup_memory(root, INT64_MAX / 4) > (int64_t)1 << 60);
    file("/sys/fs/cgroup/memory/g/memory.limit_in_bytes", "1000000\n");
    file("/sys/fs/cgroup/memory/g/memory.usage_in_bytes", "900000\n");
    file("/sys/fs/cgroup/memory/g/memory.stat", "inactive_file 7\ntotal_inactive_file 100000\ntotal_active_file 50000\n");
    ASSERT_MEMORY(0, 250000);
    ASSERT_MEMORY(100000, 350000);
    /* Memory and swap together. */
    file("/sys/fs/cgroup/memory/g/memory.memsw.limit_in_bytes", "1050000\n");
    file("/sys/fs/cgroup/memory/g/memory.memsw.usage_in_bytes", "900000\n");
    ASSERT_MEMORY(100000, 300000);
}

static void memory_of_a_machine(void **state)
{
    (void)state;
    file("/proc/meminfo", "MemTotal:       24684092 kB\nMemFree:         1000 kB\nMemAvailable:   2000 kB\nSwapFree:        30 kB\n");
    assert_true(rvit_available_memory(root) == 2030 * 1024);
    machine("0::/a\n", MOUNTS_2);
    file("/sys/fs/cgroup/a/memory.max", "65536\n");
    file("/sys/fs/cgroup/a/memory.current", "1024\n");
    assert_true(rvit_available_memory(root) == 64512 + 30 * 1024);
    file("/proc/meminfo", "MemAvailable:   99999999999999999999999999 kB\nSwapFree: 99999999999999999999999999 kB\n");
    file("/sys/fs/cgroup/a/memory.max", "max\n");
    assert_true(rvit_available_memory(root) > (int64_t)1 << 60);
    file("/proc/meminfo", "MemTotal:       24684092 kB\n"); /* Linux before 3.14 */
    assert_true(rvit_available_memory(root) == INT64_MAX);
}

/* Processors in the thread's affinity mask. */
static void affinity(void **state)
{
    (void)state;
#if defined(__linux__)
    cpu_set_t before, one;
    if (sched_getaffinity(0, sizeof before, &before) != 0)
        skip();
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    const int usable = rvit_usable_processors(root);
    assert_in_range(usable, 1, CPU_COUNT(&before));
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const int pinned = rvit_usable_processors(root);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(pinned, 1);
#else
    skip();
#endif
}

/* Spins without success until it must sleep, and returns the time. */
static int64_t spin_until_sleep(rvit_cpu_spin *spin, int64_t *now)
{
    const int64_t begin = *now;
    while (rvit_cpu_spin_goes_on(spin, *now))
        *now += 100;
    return *now - begin;
}

#if defined(__linux__)
static void expect_cpu_name(const char *cpuinfo, const char *wanted)
{
    char name[64];
    file("/proc/cpuinfo", cpuinfo);
    rvit_cpu_name(root, name, sizeof name);
    assert_string_equal(name, wanted);
}

/* x86-64 has names; arm64 has numbers, and often two sorts of cores. */
static void cpu_names(void **state)
{
    (void)state;
    expect_cpu_name("processor\t: 0\nmodel name\t: AMD EPYC 9354\n\nprocessor\t: 1\nmodel name\t: AMD EPYC 9354\n", "AMD EPYC 9354");
    expect_cpu_name("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "Neoverse N1");
    expect_cpu_name("CPU implementer\t: 0x41\nCPU part\t: 0xd05\nCPU implementer\t: 0x41\nCPU part\t: 0xd41\n", "Cortex-A55 + Cortex-A78");
    expect_cpu_name("CPU implementer\t: 0x99\nCPU part\t: 0xd0c\n", "Arm implementer 0x99 part 0xd0c");
    expect_cpu_name("processor\t: 0\nCPU partner\t: 1\nmodel name\t:\n", "CPU");
}
#else
static void cpu_names(void **state)
{
    (void)state;
    skip();
}
#endif

static void spinning(void **state)
{
    (void)state;
    rvit_cpu_spin spin;
    int64_t now = 1000000;
    /* More threads than processors. */
    rvit_cpu_spin_init(&spin, 2, 1);
    assert_true(spin_until_sleep(&spin, &now) == 0);
    now = INT64_MAX / 2;
    assert_true(spin_until_sleep(&spin, &now) == 0);

    /* A hundred successful waits for each unsuccessful one, as in forwards with pauses between them: each spins. */
    now = 0;
    rvit_cpu_spin_init(&spin, 2, 2);
    for (int forward = 0; forward < 50; forward++) {
        for (int wait = 0; wait < 100; wait++) {
            for (int i = 0; i < 300; i++, now += 100)
                assert_true(rvit_cpu_spin_goes_on(&spin, now));
            rvit_cpu_spin_found(&spin);
        }
        assert_true(spin_until_sleep(&spin, &now) == RVIT_CPU_SPIN_TIME);
        now += 10 * 1000 * 1000;
    }

    /* Only unsuccessful waits: they soon take nearly no time, and the pauses without spinning grow to the longest. */
    int64_t begin = now, spent = 0;
    while (now - begin < INT64_C(10000000000)) {
        spent += spin_until_sleep(&spin, &now);
        now += 1000 * 1000;
    }
    assert_true(spent < 60 * RVIT_CPU_SPIN_TIME);
    assert_true(spin.rest == RVIT_CPU_SPIN_LONGEST_REST);

    /* Work that is available immediately is no reason to spin. */
    now = spin.resume;
    for (int i = 0; i < 100; i++)
        rvit_cpu_spin_found(&spin);
    assert_true(spin_until_sleep(&spin, &now) == RVIT_CPU_SPIN_TIME);
    assert_true(spin_until_sleep(&spin, &now) == 0);

    /* Waits succeed again: it spins, and the next pause is short. */
    now = spin.resume;
    begin = now;
    while (now - begin <= 2 * (int64_t)RVIT_CPU_SPIN_LONGEST_REST) {
        for (int i = 0; i < 1000; i++, now += 100)
            assert_true(rvit_cpu_spin_goes_on(&spin, now));
        rvit_cpu_spin_found(&spin);
    }
    while (spin_until_sleep(&spin, &now) > 0)
        ;
    assert_true(spin.rest == RVIT_CPU_SPIN_REST);
}

/* The size of the process's address space in bytes. */
static int64_t address_space(void)
{
    int64_t pages = 0;
    assert_true(rvit_proc_number("", "/proc/self", "statm", "", &pages));
    return pages * sysconf(_SC_PAGESIZE);
}

/* A buffer as large as the machine's memory, which a system with overcommit would grant, is refused with numbers. If the refusal fails, the
   limit on address space keeps the test from using all memory. */
static void buffer_as_large_as_the_machine(void **state)
{
    (void)state;
    int64_t total = 0, swap = 0;
    if (!rvit_proc_number("", "/proc", "meminfo", "MemTotal:", &total))
        skip();
    (void)rvit_proc_number("", "/proc", "meminfo", "SwapFree:", &swap);
    const int64_t size = (total + swap) * 1024;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    desc.n_threads = 1;
    rvit_device *device = NULL;
    rvit_buffer *buffer = NULL;
    assert_int_equal(rvit_device_create(&desc, &device), RVIT_OK);
    struct rlimit before, less;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    less = before;
    const rlim_t most = (rlim_t)(address_space() + size / 2);
    if (less.rlim_cur == RLIM_INFINITY || less.rlim_cur > most)
        less.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
    const rvit_status status = rvit_buffer_create(device, size, RVIT_BUFFER_DEVICE, &buffer);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(status, RVIT_OUT_OF_DEVICE_MEMORY);
    assert_null(buffer);
    print_message("%s\n", rvit_status_detail());
    assert_non_null(strstr(rvit_status_detail(), "iB: only "));
    assert_non_null(strstr(rvit_status_detail(), "iB are available"));
    assert_int_equal(rvit_buffer_create(device, 8 << 20, RVIT_BUFFER_UPLOAD, &buffer), RVIT_OK);
    memset(rvit_buffer_host(buffer), 1, 8 << 20);
    rvit_buffer_destroy(buffer);
    rvit_device_destroy(device);
}

int main(void)
{
#define IN_ROOT(function) cmocka_unit_test_setup_teardown(function, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        IN_ROOT(no_groups),
        IN_ROOT(quota_of_version_2),
        IN_ROOT(quota_of_version_1),
        IN_ROOT(garbage),
        IN_ROOT(memory_of_version_2),
        IN_ROOT(memory_of_version_1),
        IN_ROOT(memory_of_a_machine),
        IN_ROOT(affinity),
        IN_ROOT(cpu_names),
        cmocka_unit_test(spinning),
        cmocka_unit_test(buffer_as_large_as_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
