/* Tests the caller's pipeline cache and the list of drivers with known failures. */
#include "vulkan_tests.h"

#include "backend_vulkan/vulkan.h"

static void *blob_of(rvit_device *device, size_t *size)
{
    size_t again = 0;
    expect_ok(rvit_device_get_cache(device, NULL, 0, size));
    assert_true(*size > 0);
    uint8_t *blob = test_malloc(*size);
    memset(blob, SENTINEL, *size);
    expect_ok(rvit_device_get_cache(device, blob, *size - 1, &again));
    assert_int_equal(again, *size);
    for (size_t i = 0; i < *size; i++)
        assert_int_equal(blob[i], SENTINEL);
    expect_ok(rvit_device_get_cache(device, blob, *size, &again));
    assert_int_equal(again, *size);
    return blob;
}

/* Opens a device with the blob; returns whether the blob was accepted. */
static int is_accepted(const void *blob, size_t size)
{
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    desc.skip_self_test = 1;
    desc.cache_data = blob;
    desc.cache_size = size;
    log_restart();
    expect_ok(rvit_device_create(&desc, &device));
    const int ignored = logged("pipeline cache is ignored: ");
    rvit_device_destroy(device);
    return !ignored;
}

static void cache_round_trip(void **state)
{
    (void)state;
    set_layer("");
    rvit_device *device = NULL;
    rvit_device_desc desc = auto_desc();
    expect_ok(rvit_device_create(&desc, &device));
    size_t size = 0;
    uint8_t *blob = blob_of(device, &size);
    rvit_device_destroy(device);
    assert_true(is_accepted(blob, size));
    assert_true(is_accepted(blob, 0));
    desc.cache_data = blob;
    desc.cache_size = size;
    expect_ok(rvit_device_create(&desc, &device));
    assert_true(error_of(device) < 1e-5);
    rvit_device_destroy(device);
    set_layer("other_driver");
    assert_false(is_accepted(blob, size));
    assert_true(logged("another version"));
    set_layer("");
    assert_false(is_accepted(blob, size - 1));
    assert_false(is_accepted(blob, 5));
    blob[size / 2] ^= 0x10;
    assert_false(is_accepted(blob, size));
    blob[size / 2] ^= 0x10;
    test_free(blob);
}

static void damaged(void **state)
{
    (void)state;
    const rvit_vk_device *device = (const rvit_vk_device *)H.device[DEVICE];
    const rvit_vk_driver *driver = &device->physical.driver;
    size_t size = 0, payload_size = 0;
    const void *payload = NULL;
    uint8_t *blob = blob_of(H.device[DEVICE], &size);
    assert_null(rvit_vk_cache_check(driver, blob, size, &payload, &payload_size));
    assert_ptr_equal((const uint8_t *)payload + payload_size, blob + size);
    payload = NULL;
    /* Changes each byte of the header and a sample of the rest. A GPU's blob is too large to change every byte. */
    for (size_t i = 0; i < size; i += i < 256 ? 1 : 1 + size / 256)
        for (int bit = 0; bit < 8; bit += i < 256 ? 1 : 7) {
            blob[i] ^= (uint8_t)(1 << bit);
            assert_non_null(rvit_vk_cache_check(driver, blob, size, &payload, &payload_size));
            blob[i] ^= (uint8_t)(1 << bit);
        }
    for (size_t shorter = 0; shorter < size && shorter < 1024; shorter++)
        assert_non_null(rvit_vk_cache_check(driver, blob, shorter, &payload, &payload_size));
    rvit_vk_driver other[5] = {*driver, *driver, *driver, *driver, *driver};
    other[0].vendor_id++;
    other[1].device_id++;
    other[2].version++;
    other[3].id++;
    other[4].cache_uuid[15] ^= 1;
    for (int i = 0; i < 5; i++)
        assert_non_null(rvit_vk_cache_check(&other[i], blob, size, &payload, &payload_size));
    assert_null(payload);
    test_free(blob);
}

static void misuse(void **state)
{
    (void)state;
    size_t size = 1;
    rvit_device *device = NULL;
    expect_status(rvit_device_get_cache(NULL, NULL, 0, &size), RVIT_INVALID_ARGUMENT, "device");
    expect_status(rvit_device_get_cache(H.device[DEVICE], NULL, 1, &size), RVIT_INVALID_ARGUMENT, "data");
    expect_status(rvit_device_get_cache(H.device[DEVICE], NULL, 0, NULL), RVIT_INVALID_ARGUMENT, "out_size");
    rvit_device_desc desc = auto_desc();
    desc.cache_size = 1;
    expect_status(rvit_device_create(&desc, &device), RVIT_INVALID_ARGUMENT, "cache_data");
    desc = (rvit_device_desc)RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    expect_ok(rvit_device_create(&desc, &device));
    expect_ok(rvit_device_get_cache(device, NULL, 0, &size));
    assert_int_equal(size, 0);
    rvit_device_destroy(device);
}

/* Each entry of the list matches only the driver that it names. */
static void denied_drivers(void **state)
{
    (void)state;
    const rvit_vk_driver amd = {.vendor_id = 0x1002, .id = VK_DRIVER_ID_AMD_PROPRIETARY, .version = 1};
    const rvit_vk_driver fine[] = {
        {.vendor_id = 0x1002, .id = VK_DRIVER_ID_MESA_RADV},
        {.vendor_id = 0x8086, .id = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA},
        {.vendor_id = 0x10de, .id = VK_DRIVER_ID_NVIDIA_PROPRIETARY},
        {.vendor_id = 0x10005, .id = VK_DRIVER_ID_MESA_LLVMPIPE},
        {.vendor_id = 0x1002},
    };
    assert_non_null(rvit_vk_denied(&amd, RVIT_TIER_MATRIX));
    assert_null(rvit_vk_denied(&amd, RVIT_TIER_SUBGROUP));
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        assert_null(rvit_vk_denied(&fine[i], RVIT_TIER_MATRIX));

    rvit_vk_physical physical = {.driver = amd, .has_subgroups = 1};
    physical.info.tier = RVIT_TIER_MATRIX;
    rvit_vk_apply_denied(&physical);
    assert_int_equal(physical.info.tier, RVIT_TIER_SUBGROUP);
    assert_string_equal(physical.info.note, "matrix tier: this driver crashes when asked for its cooperative matrices");
    physical.info.tier = RVIT_TIER_MATRIX;
    physical.has_subgroups = 0;
    rvit_vk_apply_denied(&physical);
    assert_int_equal(physical.info.tier, RVIT_TIER_SCALAR);
    physical.driver = fine[0];
    physical.info.tier = RVIT_TIER_MATRIX;
    rvit_vk_apply_denied(&physical);
    assert_int_equal(physical.info.tier, RVIT_TIER_MATRIX);
}

SUITE(cache_suite, TEST(cache_round_trip), TEST(damaged), TEST(misuse), TEST(denied_drivers));
