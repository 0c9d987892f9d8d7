/* Fuzzes the pipeline cache that a caller loads: any blob, or a valid one with changed bytes. If the library accepts a blob, it must be
   equal to the one that the library writes for its payload, and the driver (two functions of this file) must get only the payload. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "backend_vulkan/vulkan.h"

static struct {
    rvit_vk_device device;
    const uint8_t *payload; /* the result of vkGetPipelineCacheData */
    size_t payload_size;
    const uint8_t *seen; /* the argument of vkCreatePipelineCache */
    size_t seen_size;
    int refuses, n_created;
} D;

static VkResult VKAPI_CALL create_cache(VkDevice device, const VkPipelineCacheCreateInfo *info, const VkAllocationCallbacks *alloc,
                                        VkPipelineCache *out_cache)
{
    (void)device;
    (void)alloc;
    (void)out_cache;
    if ((info->initialDataSize > 0) != (info->pInitialData != NULL))
        fuzz_fail("a size without data, or data without a size");
    D.n_created++;
    D.seen = info->pInitialData;
    D.seen_size = info->initialDataSize;
    return D.refuses && D.seen_size > 0 ? VK_ERROR_UNKNOWN : VK_SUCCESS;
}

static VkResult VKAPI_CALL get_cache_data(VkDevice device, VkPipelineCache cache, size_t *size, void *data)
{
    (void)device;
    (void)cache;
    if (data != NULL) {
        if (*size < D.payload_size)
            fuzz_fail("the buffer for the cache is too small");
        memcpy(data, D.payload, D.payload_size);
    }
    *size = D.payload_size;
    return VK_SUCCESS;
}

/* The library's blob of a payload, in memory of exactly its size. */
static uint8_t *make_blob(const uint8_t *payload, size_t payload_size, size_t *out_size)
{
    D.payload = payload;
    D.payload_size = payload_size;
    size_t size = 0, again = 0;
    if (rvit_vk_device_get_cache(&D.device.base, NULL, 0, &size) != RVIT_OK || size <= payload_size)
        fuzz_fail("the size of a cache is missing or too small");
    uint8_t *blob = malloc(size);
    if (blob == NULL)
        fuzz_fail("no memory");
    if (rvit_vk_device_get_cache(&D.device.base, blob, size - 1, &again) != RVIT_OK || again != size ||
        rvit_vk_device_get_cache(&D.device.base, blob, size, &again) != RVIT_OK || again != size)
        fuzz_fail("the size of a cache changes");
    *out_size = size;
    return blob;
}

/* Compares all except the checksums of the payload and of the shaders. */
static int is_own_blob(const uint8_t *expected, const uint8_t *blob, size_t size)
{
    return memcmp(expected, blob, 8) == 0 && memcmp(expected + 16, blob + 16, 40) == 0 && memcmp(expected + 72, blob + 72, size - 72) == 0;
}

/* Opens a device's cache with the blob; returns whether the driver got a payload. */
static int open_blob(const uint8_t *blob, size_t size)
{
    D.n_created = 0;
    D.refuses = 0;
    if (rvit_vk_cache_open(&D.device, blob, size) != RVIT_OK || D.n_created != 1)
        fuzz_fail("a blob made the device fail");
    if (D.seen_size == 0)
        return 0;
    if (D.seen < blob || D.seen + D.seen_size != blob + size)
        fuzz_fail("the driver got data that is not the payload");
    const size_t payload_size = D.seen_size;
    size_t again = 0;
    uint8_t *expected = make_blob(D.seen, payload_size, &again);
    if (again != size || !is_own_blob(expected, blob, size))
        fuzz_fail("a blob that this device did not write was accepted");
    free(expected);
    D.n_created = 0;
    D.refuses = 1;
    if (rvit_vk_cache_open(&D.device, blob, size) != RVIT_OK || D.n_created != 2 || D.seen_size != 0)
        fuzz_fail("no empty cache was created after the driver refused a payload");
    return 1;
}

static void use_driver(uint8_t which)
{
    rvit_vk_driver *driver = &D.device.physical.driver;
    *driver = (rvit_vk_driver){.vendor_id = 0x10005, .version = 0x01020304, .id = VK_DRIVER_ID_MESA_LLVMPIPE};
    for (size_t i = 0; i < VK_UUID_SIZE; i++)
        driver->cache_uuid[i] = (uint8_t)(0xa0 + i);
    D.device.proven_tier = RVIT_TIER_MATRIX;
    driver->vendor_id += which == 1;
    driver->device_id += which == 2;
    driver->version += which == 3;
    driver->id += which == 4;
    driver->cache_uuid[VK_UUID_SIZE - 1] += which == 5;
}

/* Opens a blob with changed bytes and another size, on its own driver or on another one. */
static void open_changed(choices *c, int32_t n_changes)
{
    struct {
        int32_t at;
        uint8_t bits;
    } changes[7];
    for (int32_t i = 0; i < n_changes; i++) {
        changes[i].at = choose_byte(c);
        changes[i].at = changes[i].at << 8 | choose_byte(c);
        changes[i].bits = choose_byte(c);
    }
    const uint8_t end = choose_byte(c), which = (uint8_t)choose(c, 6);
    size_t size = 0;
    uint8_t *blob = make_blob(c->data + c->at, c->size - c->at, &size);
    const size_t cut = end < 128 ? end : 0, added = end < 128 ? 0 : end - 127;
    const size_t changed_size = cut < size ? size - cut + added : 1;
    uint8_t *changed = calloc(changed_size, 1);
    if (changed == NULL)
        fuzz_fail("no memory");
    memcpy(changed, blob, changed_size < size ? changed_size : size);
    for (int32_t i = 0; i < n_changes; i++)
        changed[(size_t)changes[i].at % changed_size] ^= changes[i].bits;
    const int is_same = changed_size == size && memcmp(changed, blob, size) == 0 && which == 0 && c->size > c->at;
    use_driver(which);
    if (open_blob(changed, changed_size) != is_same)
        fuzz_fail(is_same ? "a valid blob was not accepted" : "a changed blob was accepted");
    free(changed);
    free(blob);
}

/* First byte: 0 if a blob follows, else one more than the number of changes to the blob of a payload. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    D.device.vk.vkCreatePipelineCache = create_cache;
    D.device.vk.vkGetPipelineCacheData = get_cache_data;
    use_driver(0);
    choices c = {data, size, 0};
    const int32_t n = choose(&c, 9);
    if (n > 0)
        open_changed(&c, n - 1);
    else
        (void)open_blob(data + c.at, size - c.at);
    return 0;
}
