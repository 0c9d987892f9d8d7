/* The CPU as a device: its name, its kernels, what it supports; and the backend's function table. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__) && defined(__LP64__)
#include <cpuid.h>
#endif

#include "backend_cpu/cpu.h"
#include "core/system.h"

/* The widest kernels that this processor can run, with vectors of at most `bits` bits (0: no limit). */
static const rvit_cpu_kernels *widest_kernels(int32_t bits)
{
    (void)bits;
#if defined(__x86_64__) && defined(__LP64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    const int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
    __builtin_cpu_init();
    if (f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        if (bits != 256 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl"))
            return &rvit_cpu_kernels_avx512;
        return &rvit_cpu_kernels_avx2;
    }
#endif
    return &rvit_cpu_kernels_portable;
}

/* The value of the first "model name" line of /proc/cpuinfo. */
static void read_cpu_name(char *name, size_t size)
{
    snprintf(name, size, "CPU");
    char text[4096];
    const int file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        return;
    text[length] = '\0';
    const char *line = strstr(text, "model name");
    const char *value = line == NULL ? NULL : strchr(line, ':');
    if (value == NULL)
        return;
    value += 1 + strspn(value + 1, " \t");
    const size_t n = strcspn(value, "\n");
    if (n > 0)
        snprintf(name, size, "%.*s", (int)n, value);
}

/* A usable CBLAS serves the vector tier only. */
static int wants_cblas(rvit_tier tier, int oracle)
{
    return tier != RVIT_TIER_SCALAR && !oracle && rvit_cpu_cblas_is_usable();
}

static const rvit_cpu_kernels *choose_kernels(rvit_tier tier, int32_t vector_bits)
{
    return tier == RVIT_TIER_SCALAR ? &rvit_cpu_kernels_portable : widest_kernels(vector_bits);
}

static void describe(rvit_device_info *info, rvit_tier tier, int oracle, const rvit_cpu_kernels *kernels)
{
    char text[80];
    const char *cblas = rvit_cpu_cblas_name(text, sizeof text);
    info->backend = RVIT_BACKEND_CPU;
    info->index = 0;
    info->tier = tier;
    info->is_software = 0;
    const int64_t pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
    info->memory_size = pages > 0 && page_size > 0 ? pages * page_size : 0;
    read_cpu_name(info->name, sizeof info->name);
    if (oracle)
        snprintf(info->driver, sizeof info->driver, "float64 reference");
    else if (wants_cblas(tier, oracle))
        snprintf(info->driver, sizeof info->driver, "%s, %s", cblas, kernels->name);
    else
        snprintf(info->driver, sizeof info->driver, "built-in kernels, %s", kernels->name);
    if (cblas != NULL && !rvit_cpu_cblas_is_usable())
        snprintf(info->note, sizeof info->note, "%s passed over: its product of a row depends on the row's place", cblas);
}

static rvit_status device_describe(int32_t index, rvit_device_info *out_info)
{
    if (index != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "cpu: there is no device %d, only device 0", (int)index);
    describe(out_info, RVIT_TIER_SUBGROUP, 0, widest_kernels(0));
    return RVIT_OK;
}

static void device_destroy(rvit_device *base)
{
    rvit_cpu_device *device = (rvit_cpu_device *)base;
    rvit_alloc alloc;
    rvit_alloc_copy(&alloc, &base->alloc);
    rvit_cpu_pool_destroy(&alloc, device->pool);
    rvit_alloc_free(&alloc, device->scratch);
    pthread_mutex_destroy(&device->lock);
    rvit_alloc_free(&alloc, device);
}

static rvit_status open_device(rvit_cpu_device *device, const rvit_device_desc *desc, rvit_tier tier)
{
    const int usable = rvit_usable_processors("");
    RVIT_TRY(rvit_cpu_pool_create(&device->base.alloc, desc->n_threads > 0 ? desc->n_threads : usable, usable, &device->pool));
    device->scratch = rvit_alloc_array(&device->base.alloc, (size_t)rvit_cpu_pool_threads(device->pool),
                                       RVIT_CPU_SCRATCH_FLOATS * sizeof *device->scratch);
    if (device->scratch == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    device->oracle = desc->oracle != 0;
    device->base.takes_ops = 1;
    device->kernels = choose_kernels(tier, desc->vector_bits);
    device->use_cblas = wants_cblas(tier, device->oracle);
    if (device->use_cblas)
        rvit_cpu_cblas_open();
    device->base.info = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
    describe(&device->base.info, tier, device->oracle, device->kernels);
    return RVIT_OK;
}

static rvit_status device_create(const rvit_device_desc *desc, const rvit_alloc *alloc, rvit_device **out_device)
{
    if (desc->index != 0)
        return rvit_fail(RVIT_UNAVAILABLE, "cpu: there is no device %d, only device 0", (int)desc->index);
    const char *wanted = desc->vector_bits == 512 ? "avx512" : "avx2";
    if (desc->vector_bits != 0 && desc->tier != RVIT_TIER_SCALAR && strcmp(widest_kernels(desc->vector_bits)->name, wanted) != 0)
        return rvit_fail(RVIT_UNSUPPORTED, "cpu: this processor has no vectors of %d bits", (int)desc->vector_bits);
    if (desc->tier == RVIT_TIER_MATRIX)
        return rvit_fail(RVIT_UNSUPPORTED, "cpu: there is no tier above RVIT_TIER_SUBGROUP");
    rvit_alloc own;
    rvit_alloc_copy(&own, alloc);
    rvit_cpu_device *device = rvit_alloc_new(&own, sizeof *device);
    if (device == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    rvit_alloc_copy(&device->base.alloc, &own);
    pthread_mutex_init(&device->lock, NULL);
    const rvit_status status = open_device(device, desc, desc->tier == RVIT_TIER_AUTO ? RVIT_TIER_SUBGROUP : desc->tier);
    if (status != RVIT_OK) {
        device_destroy(&device->base);
        return status;
    }
    *out_device = &device->base;
    return RVIT_OK;
}

const rvit_backend_api rvit_backend_cpu = {
    .backend = RVIT_BACKEND_CPU,
    .device_describe = device_describe,
    .device_create = device_create,
    .device_destroy = device_destroy,
    .supports = rvit_cpu_supports,
    .buffer_create = rvit_cpu_buffer_create,
    .buffer_destroy = rvit_cpu_buffer_destroy,
    .buffer_wrap = rvit_cpu_buffer_wrap,
    .buffer_set = rvit_cpu_buffer_set,
    .stream_create = rvit_cpu_stream_create,
    .stream_destroy = rvit_cpu_stream_destroy,
    .stream_enqueue = rvit_cpu_stream_enqueue,
    .stream_synchronize = rvit_cpu_stream_synchronize,
    .program_create = rvit_cpu_program_create,
    .program_destroy = rvit_cpu_program_destroy,
    .program_launch = rvit_cpu_program_launch,
};
