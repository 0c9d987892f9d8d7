/* The pipeline cache, which the caller keeps between runs. Drivers have crashed on damaged or foreign blobs, so the driver's blob is
   wrapped in a header that is checked before the driver sees it. */
#include "backend_vulkan/vulkan.h"

#include <string.h>

/* In native byte order; the magic differs if the byte order does. The struct has no padding. */
typedef struct header {
    uint64_t magic;
    uint64_t checksum; /* of everything after it */
    uint64_t payload_size;
    uint32_t vendor_id, device_id, driver_version, driver_id;
    uint8_t cache_uuid[VK_UUID_SIZE];
    uint64_t shaders;     /* checksum of the library's shaders */
    uint64_t proven_tier; /* highest tier whose self-test passed; RVIT_TIER_AUTO: none */
} header;

#define MAGIC 0x3343505456495652u /* "RVIVTPC3" on little-endian machines */
#define SUMMED (2 * sizeof(uint64_t))

/* FNV-1a, 64 bits, over words instead of bytes for speed: a GPU's blob is half a megabyte. */
static uint64_t add(uint64_t sum, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t word;
    for (; size >= sizeof word; bytes += sizeof word, size -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        sum = (sum ^ word) * 0x100000001b3u;
    }
    word = 0;
    memcpy(&word, bytes, size);
    return (sum ^ word) * 0x100000001b3u;
}

static uint64_t checksum(const void *data, size_t size)
{
    return add(0xcbf29ce484222325u, data, size);
}

static uint64_t shaders_sum;

static void sum_shaders(void)
{
    uint64_t sum = checksum(NULL, 0);
    for (int i = 0; i < RVIT_VK_SHADER_COUNT; i++)
        sum = add(sum, rvit_vk_shader_codes[i].words, rvit_vk_shader_codes[i].size);
    shaders_sum = sum;
}

static uint64_t shaders_checksum(void)
{
    static rvit_once once = RVIT_ONCE_INIT;
    rvit_once_run(&once, sum_shaders);
    return shaders_sum;
}

const char *rvit_vk_cache_check(const rvit_vk_driver *driver, const void *blob, size_t size, const void **out_payload,
                                size_t *out_payload_size)
{
    header h;
    if (size < sizeof h)
        return "it is shorter than its header";
    memcpy(&h, blob, sizeof h);
    if (h.magic != MAGIC)
        return "this library did not make it";
    if (h.payload_size != size - sizeof h)
        return "it is truncated, or longer than its header says";
    if (h.checksum != checksum((const unsigned char *)blob + SUMMED, size - SUMMED))
        return "its checksum is wrong";
    if (h.vendor_id != driver->vendor_id || h.device_id != driver->device_id)
        return "it belongs to another device";
    if (h.driver_version != driver->version || h.driver_id != (uint32_t)driver->id ||
        memcmp(h.cache_uuid, driver->cache_uuid, sizeof h.cache_uuid) != 0)
        return "it belongs to another driver, or to another version of it";
    *out_payload = (const unsigned char *)blob + sizeof h;
    *out_payload_size = size - sizeof h;
    return NULL;
}

static VkResult create(rvit_vk_device *device, const void *payload, size_t size)
{
    const VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = size, .pInitialData = size > 0 ? payload : NULL};
    return device->vk.vkCreatePipelineCache(device->handle, &info, NULL, &device->pipeline_cache);
}

rvit_status rvit_vk_cache_open(rvit_vk_device *device, const void *blob, size_t size)
{
    const void *payload = NULL;
    size_t payload_size = 0;
    const char *why_not = size == 0 ? NULL : rvit_vk_cache_check(&device->physical.driver, blob, size, &payload, &payload_size);
    if (why_not != NULL)
        rvit_log(RVIT_LOG_WARNING, "vulkan: the pipeline cache is ignored: %s", why_not);
    if (payload != NULL) {
        header h;
        memcpy(&h, blob, sizeof h);
        device->proven_tier = h.shaders == shaders_checksum() ? (rvit_tier)h.proven_tier : RVIT_TIER_AUTO;
    }
    VkResult result = create(device, payload, payload_size);
    if (result != VK_SUCCESS && payload_size > 0) {
        rvit_log(RVIT_LOG_WARNING, "vulkan: the pipeline cache is ignored: the driver rejects it, VkResult %d", (int)result);
        result = create(device, NULL, 0);
    }
    return result == VK_SUCCESS ? RVIT_OK : rvit_vk_fail(result, "vkCreatePipelineCache");
}

rvit_status rvit_vk_device_get_cache(rvit_device *base, void *data, size_t capacity, size_t *out_size)
{
    rvit_vk_device *device = rvit_vk_device_of(base);
    header h = {.magic = MAGIC,
                .vendor_id = device->physical.driver.vendor_id,
                .device_id = device->physical.driver.device_id,
                .driver_version = device->physical.driver.version,
                .driver_id = (uint32_t)device->physical.driver.id,
                .shaders = shaders_checksum(),
                .proven_tier = (uint64_t)device->proven_tier};
    memcpy(h.cache_uuid, device->physical.driver.cache_uuid, sizeof h.cache_uuid);
    size_t size = 0;
    RVIT_VK_TRY(device->vk, vkGetPipelineCacheData, (device->handle, device->pipeline_cache, &size, NULL));
    if (capacity < sizeof h + size) {
        *out_size = sizeof h + size;
        return RVIT_OK;
    }
    unsigned char *bytes = data;
    size = capacity - sizeof h;
    VkResult result = device->vk.vkGetPipelineCacheData(device->handle, device->pipeline_cache, &size, bytes + sizeof h);
    if (result == VK_INCOMPLETE) { /* it grew in between; the part that was written is valid */
        rvit_log(RVIT_LOG_DEBUG, "vulkan: the pipeline cache grew while it was read");
        result = VK_SUCCESS;
    }
    if (result != VK_SUCCESS)
        return rvit_vk_fail(result, "vkGetPipelineCacheData");
    h.payload_size = size;
    memcpy(bytes, &h, sizeof h);
    h.checksum = checksum(bytes + SUMMED, sizeof h - SUMMED + size);
    memcpy(bytes, &h, sizeof h);
    *out_size = sizeof h + size;
    return RVIT_OK;
}
