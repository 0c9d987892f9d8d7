/* Drivers that are known to fail, among the systems that the library supports. */
#include "backend_vulkan/vulkan.h"

#include <stdio.h>
#include <string.h>

#define VENDOR_AMD 0x1002u

typedef struct denial {
    uint32_t vendor_id;   /* 0: any */
    VkDriverId driver_id; /* 0: any */
    uint32_t first, last; /* driver versions, in the driver's own encoding; last 0: no upper end */
    rvit_tier tier;       /* this tier and higher ones */
    const char *reason;
} denial;

static const denial denials[] = {
    /* ggml-org/llama.cpp 22750, seen on integrated GPUs under Windows; AMD's closed driver for Linux has the same identifier. */
    {VENDOR_AMD, VK_DRIVER_ID_AMD_PROPRIETARY, 0, 0, RVIT_TIER_MATRIX, "this driver crashes when asked for its cooperative matrices"},
};

static int applies_to(const denial *d, const rvit_vk_driver *driver, rvit_tier tier)
{
    return (d->vendor_id == 0 || d->vendor_id == driver->vendor_id) && (d->driver_id == 0 || d->driver_id == driver->id) &&
           driver->version >= d->first && (d->last == 0 || driver->version <= d->last) && tier >= d->tier;
}

const char *rvit_vk_denied(const rvit_vk_driver *driver, rvit_tier tier)
{
    for (size_t i = 0; i < sizeof denials / sizeof denials[0]; i++)
        if (applies_to(&denials[i], driver, tier))
            return denials[i].reason;
    return NULL;
}

void rvit_vk_apply_denied(rvit_vk_physical *physical)
{
    rvit_device_info *info = &physical->info;
    while (info->tier > RVIT_TIER_SCALAR) {
        const char *reason = rvit_vk_denied(&physical->driver, info->tier);
        if (reason == NULL)
            return;
        const size_t n = strlen(info->note);
        (void)snprintf(info->note + n, sizeof info->note - n, "%s%s tier: %s", n == 0 ? "" : "; ",
                       rvit_enum_name(RVIT_ENUM_TIER, info->tier), reason);
        info->tier = info->tier == RVIT_TIER_MATRIX && physical->has_subgroups ? RVIT_TIER_SUBGROUP : RVIT_TIER_SCALAR;
    }
}
