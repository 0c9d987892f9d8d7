/* raggedvit devices: lists the devices of every backend. */
#include <stdio.h>
#include <stdlib.h>

#include "command_list.h"
#include "devices.h"
#include "options.h"
#include "printable.h"

int list_devices(rvit_device_info **out_infos, int32_t *out_n)
{
    int32_t capacity = 16;
    for (;;) {
        rvit_device_info *infos = allocate((size_t)capacity, sizeof *infos);
        if (!infos)
            return EXIT_FAULT;
        for (int32_t i = 0; i < capacity; i++)
            infos[i].struct_size = sizeof infos[i];
        const rvit_status status = rvit_device_list(infos, capacity, out_n);
        if (status != RVIT_OK) {
            free(infos);
            return complain_status(NULL, status);
        }
        if (*out_n <= capacity) {
            *out_infos = infos;
            return EXIT_OK;
        }
        capacity = *out_n;
        free(infos);
    }
}

/* The device that --backend auto selects. A listed device may still fail, so it is created to find out. */
static int32_t find_default(const rvit_device_info *infos, int32_t n)
{
    rvit_device *device = NULL;
    rvit_device_info taken = RVIT_DEVICE_INFO_INIT;
    int32_t i = -1;
    if (rvit_device_create(NULL, &device) == RVIT_OK && rvit_device_get_info(device, &taken) == RVIT_OK)
        for (i = n - 1; i >= 0 && (infos[i].backend != taken.backend || infos[i].index != taken.index);)
            i--;
    rvit_device_destroy(device);
    return i;
}

enum { N_DTYPES = RVIT_E4M3 + 1 };

static json_t *dtypes_to_json(const rvit_device_info *info)
{
    json_t *names = json_array();
    for (int dtype = 0; dtype < N_DTYPES; dtype++)
        if ((info->native_dtypes >> dtype & 1) != 0)
            json_array_append_new(names, json_string(rvit_enum_name(RVIT_ENUM_DTYPE, dtype)));
    return names;
}

void device_dtypes(const rvit_device_info *info, char *out, size_t out_size)
{
    out[0] = 0;
    for (int dtype = 0; dtype < N_DTYPES; dtype++)
        if ((info->native_dtypes >> dtype & 1) != 0)
            append_text(out, out_size, "%s%s", out[0] ? ", " : "", rvit_enum_name(RVIT_ENUM_DTYPE, dtype));
}

static void print_dtypes(const rvit_device_info *info)
{
    char names[64];
    device_dtypes(info, names, sizeof names);
    if (names[0])
        printf("             instructions for GEMMs of %s\n", names);
    else if (info->backend == RVIT_BACKEND_VULKAN)
        puts("             no instructions for GEMMs of int8");
}

json_t *device_to_json(const rvit_device_info *info, bool is_default)
{
    char uuid[33] = "";
    for (int i = 0; i < 16; i++)
        snprintf(uuid + 2 * i, 3, "%02x", info->uuid[i]);
    const bool usable = info->index >= 0;
    return json_pack("{s:s, s:i, s:o, s:b, s:b, s:b, s:s, s:I, s:s, s:o, s:o, s:o, s:s, s:I, s:s}", "backend",
                     rvit_enum_name(RVIT_ENUM_BACKEND, info->backend), "index", info->index, "name", json_text(info->name), "usable",
                     usable, "default", is_default, "software", info->is_software, "tier",
                     usable ? rvit_enum_name(RVIT_ENUM_TIER, info->tier) : "", "memory_size", (json_int_t)info->memory_size, "uuid", uuid,
                     "driver", json_text(info->driver), "note", json_text(info->note), "native_dtypes", dtypes_to_json(info), "kind",
                     rvit_enum_name(RVIT_ENUM_DEVICE_KIND, info->kind), "memory_free", (json_int_t)info->memory_free, "pci_address",
                     info->pci_address);
}

static void print_device(const rvit_device_info *info, bool is_default)
{
    if (info->index < 0) {
        printf("  %-6s  -  not usable\n", rvit_enum_name(RVIT_ENUM_BACKEND, info->backend));
    } else {
        printf("%c %-6s %2d  ", is_default ? '*' : ' ', rvit_enum_name(RVIT_ENUM_BACKEND, info->backend), info->index);
        printable_print(stdout, info->name);
        puts(info->is_software ? " (software: used only on request)" : "");
        printf("             %s tier, %s", rvit_enum_name(RVIT_ENUM_TIER, info->tier), rvit_enum_name(RVIT_ENUM_DEVICE_KIND, info->kind));
        if (info->pci_address[0])
            printf(" at %s", info->pci_address);
        if (info->memory_size > 0)
            printf(", %.1f GiB", (double)info->memory_size / (1 << 30));
        if (info->memory_free > 0)
            printf(" (%.1f free)", (double)info->memory_free / (1 << 30));
        print_line(info->driver[0] ? ", " : "", info->driver);
        print_dtypes(info);
    }
    if (info->note[0])
        print_line("             ", info->note);
}

static void print_absent(const rvit_device_info *infos, int32_t n)
{
    static const rvit_backend backends[] = {RVIT_BACKEND_CUDA, RVIT_BACKEND_VULKAN};
    for (int b = 0; b < 2; b++) {
        int32_t i = 0;
        while (i < n && infos[i].backend != backends[b])
            i++;
        if (i == n)
            printf("  %-6s  -  not in this build\n", rvit_enum_name(RVIT_ENUM_BACKEND, backends[b]));
    }
}

int run_devices(const struct options *options)
{
    rvit_device_info *infos = NULL;
    int32_t n;
    int code = list_devices(&infos, &n);
    if (code != EXIT_OK)
        return code;
    const int32_t chosen = find_default(infos, n);
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++)
        if (options->json)
            json_array_append_new(array, device_to_json(&infos[i], i == chosen));
        else
            print_device(&infos[i], i == chosen);
    if (!options->json)
        print_absent(infos, n);
    if (options->json) {
        json_print_line(json_pack("{s:s, s:O}", "version", rvit_version(), "devices", array));
    }
    json_decref(array);
    free(infos);
    return code;
}
