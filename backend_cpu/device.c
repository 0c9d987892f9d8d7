/* CPU devices: name, kernels, supported ops; and the backend's function table. */
#include <stdio.h>
#include <string.h>

#include "backend_cpu/cpu.h"
#include "backend_cpu/tables.h"
#include "core/base/system.h"

/* CBLAS is used by the vector tier only. */
static int wants_cblas(rvit_tier tier, int oracle)
{
    return tier != RVIT_TIER_SCALAR && !oracle && rvit_cpu_cblas_is_usable();
}

static rvit_status unknown_kernels(const char *name)
{
    char names[128] = "";
    for (int i = 0; i < rvit_cpu_n_tables; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i == 0 ? "" : ", ", rvit_cpu_tables[i].name);
    return rvit_fail(RVIT_INVALID_ARGUMENT, "cpu: unknown kernels '%s'; the kernels for this architecture are %s", name, names);
}

static rvit_status kernels_named(const char *name, const rvit_cpu_features *features, rvit_cpu_kernels *out_kernels)
{
    for (int i = 0; i < RVIT_CPU_EXTRA_KERNELS && rvit_cpu_extra_kernels[i] != NULL; i++)
        if (strcmp(name, rvit_cpu_extra_kernels[i]->name) == 0) {
            *out_kernels = *rvit_cpu_extra_kernels[i];
            return RVIT_OK;
        }
    const rvit_cpu_table *table = rvit_cpu_table_named(name);
    if (table == NULL)
        return unknown_kernels(name);
    const char *lacks = rvit_cpu_table_lacks(table, features);
    if (lacks != NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "cpu: kernels '%s': this processor lacks %s", name, lacks);
    *out_kernels = rvit_cpu_kernels_of(table);
    return RVIT_OK;
}

/* Chooses the kernels by the desc. opening: the device will run them, so AMX must be requested from the system. */
static rvit_status choose_kernels(const rvit_device_desc *desc, int opening, rvit_cpu_features *out_features, rvit_cpu_kernels *out_kernels)
{
    const int may_be_amx = desc->kernels != NULL ? strcmp(desc->kernels, "amx") == 0
                                                 : desc->tier != RVIT_TIER_SCALAR && desc->vector_bits != 256 && !desc->oracle;
    const rvit_cpu_features features = *out_features = rvit_cpu_detect_features(opening && may_be_amx);
    if (desc->kernels != NULL)
        return kernels_named(desc->kernels, &features, out_kernels);
    const rvit_cpu_table *best = rvit_cpu_best_table(&features, desc->vector_bits);
    if (desc->tier == RVIT_TIER_SCALAR)
        best = &rvit_cpu_tables[0];
    else if (desc->vector_bits > best->bits)
        return rvit_fail(RVIT_UNSUPPORTED, "cpu: vector_bits is %d, but this processor has no such vectors", (int)desc->vector_bits);
    *out_kernels = rvit_cpu_kernels_of(best);
    return RVIT_OK;
}

static int64_t free_memory(const rvit_device *device)
{
    (void)device;
    const int64_t available = rvit_available_memory("");
    return available == INT64_MAX ? 0 : available;
}

static void describe(rvit_device_info *info, rvit_tier tier, int oracle, const rvit_cpu_kernels *kernels, const rvit_cpu_features *features)
{
    char text[80];
    const char *cblas = rvit_cpu_cblas_name(text, sizeof text);
    info->backend = RVIT_BACKEND_CPU;
    info->index = 0;
    info->tier = tier;
    info->is_software = 0;
    info->kind = RVIT_DEVICE_KIND_CPU;
    info->memory_free = free_memory(NULL);
    info->memory_size = rvit_total_memory();
    rvit_cpu_name("", info->name, sizeof info->name);
    if (oracle)
        snprintf(info->driver, sizeof info->driver, "float64 reference");
    else if (wants_cblas(tier, oracle))
        snprintf(info->driver, sizeof info->driver, "%s, %s", cblas, kernels->name);
    else
        snprintf(info->driver, sizeof info->driver, "built-in kernels, %s", kernels->name);
    if (cblas != NULL && !rvit_cpu_cblas_is_usable())
        snprintf(info->note, sizeof info->note, "%s not used: its result of a row depends on the row's position", cblas);
    else if (features->amx_error != 0)
        snprintf(info->note, sizeof info->note, "AMX not used: the system does not allow it (%s)", strerror(features->amx_error));
    if (!oracle && tier != RVIT_TIER_SCALAR)
        info->native_dtypes = kernels->native_dtypes;
}

static rvit_status device_describe(int32_t index, rvit_device_info *out_info)
{
    if (index > 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "cpu: there is no device %d, only device 0", (int)index);
    const rvit_device_desc any = RVIT_DEVICE_DESC_INIT;
    rvit_cpu_features features;
    rvit_cpu_kernels kernels;
    RVIT_TRY(choose_kernels(&any, 0, &features, &kernels));
    describe(out_info, RVIT_TIER_SUBGROUP, 0, &kernels, &features);
    return RVIT_OK;
}

static void device_destroy(rvit_device *base)
{
    rvit_cpu_device *device = (rvit_cpu_device *)base;
    rvit_alloc alloc;
    rvit_alloc_copy(&alloc, &base->alloc);
    rvit_cpu_pool_destroy(&alloc, device->pool);
    rvit_alloc_free(&alloc, device->scratch);
    rvit_mutex_destroy(&device->lock);
    rvit_alloc_free(&alloc, device);
}

static rvit_status open_device(rvit_cpu_device *device, const rvit_device_desc *desc, rvit_tier tier)
{
    rvit_cpu_features features;
    RVIT_TRY(choose_kernels(desc, 1, &features, &device->chosen));
    device->kernels = &device->chosen;
    const int usable = rvit_usable_processors("");
    RVIT_TRY(rvit_cpu_pool_create(&device->base.alloc, desc->n_threads > 0 ? desc->n_threads : usable, usable, &device->pool));
    device->scratch = rvit_alloc_array(&device->base.alloc, (size_t)rvit_cpu_pool_threads(device->pool),
                                       RVIT_CPU_SCRATCH_FLOATS * sizeof *device->scratch);
    RVIT_TRY_MEMORY(device->scratch);
    device->oracle = desc->oracle != 0;
    device->base.takes_ops = 1;
    device->use_cblas = wants_cblas(tier, device->oracle);
    if (device->use_cblas)
        rvit_cpu_cblas_open();
    device->base.info = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
    describe(&device->base.info, tier, device->oracle, device->kernels, &features);
    device->base.reads_mapped = device->base.fuses_rows = device->base.widens = 1;
    device->base.fast_8bit = RVIT_PRECISION_INT8;
    return RVIT_OK;
}

static rvit_status device_create(const rvit_device_desc *desc, const rvit_alloc *alloc, rvit_device **out_device)
{
    if (desc->index > 0)
        return rvit_fail(RVIT_UNAVAILABLE, "cpu: there is no device %d, only device 0", (int)desc->index);
    if (desc->tier == RVIT_TIER_MATRIX)
        return rvit_fail(RVIT_UNSUPPORTED, "cpu: there is no tier above RVIT_TIER_SUBGROUP");
    rvit_alloc own;
    rvit_alloc_copy(&own, alloc);
    rvit_cpu_device *device = rvit_alloc_new(&own, sizeof *device);
    RVIT_TRY_MEMORY(device);
    rvit_alloc_copy(&device->base.alloc, &own);
    rvit_mutex_init(&device->lock);
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
    .device_free_memory = free_memory,
    .supports = rvit_cpu_supports,
    .arrange_weight = rvit_cpu_arrange_weight,
    .buffer_create = rvit_cpu_buffer_create,
    .buffer_destroy = rvit_cpu_buffer_destroy,
    .memory_types = 1 << RVIT_MEMORY_HOST,
    .buffer_wrap = rvit_cpu_buffer_wrap,
    .stream_create = rvit_cpu_stream_create,
    .stream_destroy = rvit_cpu_stream_destroy,
    .stream_enqueue = rvit_cpu_stream_enqueue,
    .stream_synchronize = rvit_cpu_stream_synchronize,
    .program_create = rvit_cpu_program_create,
    .program_destroy = rvit_cpu_program_destroy,
    .program_launch = rvit_cpu_program_launch,
};
