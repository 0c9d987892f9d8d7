/* Features and extensions: of a physical device, of a device that the caller created, and for creating the library's own device. */
#include <string.h>

#include "backend_vulkan/cooperative_matrix.h"
#include "backend_vulkan/handles.h"

typedef struct feature {
    uint32_t bit;
    const char *name, *lacking, *missing;
} feature;

#define FEATURE(bit, name)                            \
    {                                                 \
        bit, name, "no " name, name " is not enabled" \
    }

static const feature features[] = {
    FEATURE(RVIT_VK_COOPERATIVE_MATRIX, "cooperativeMatrix"),
    FEATURE(RVIT_VK_FLOAT16, "shaderFloat16"),
    FEATURE(RVIT_VK_MEMORY_MODEL, "vulkanMemoryModel"),
    FEATURE(RVIT_VK_SUBGROUP_SIZE, "subgroupSizeControl"),
    FEATURE(RVIT_VK_FULL_SUBGROUPS, "computeFullSubgroups"),
    FEATURE(RVIT_VK_DEVICE_SCOPE, "vulkanMemoryModelDeviceScope"),
    FEATURE(RVIT_VK_TIMELINE, "timelineSemaphore"),
    FEATURE(RVIT_VK_BF16_TYPE, "shaderBFloat16Type"),
    FEATURE(RVIT_VK_BF16_MATRIX, "shaderBFloat16CooperativeMatrix"),
    FEATURE(RVIT_VK_INT8, "shaderInt8"),
    FEATURE(RVIT_VK_DOT, "shaderIntegerDotProduct"),
    FEATURE(RVIT_VK_EXT_MATRIX, RVIT_VK_MATRIX_EXTENSION),
    FEATURE(RVIT_VK_EXT_BF16, RVIT_VK_BF16_EXTENSION),
    FEATURE(RVIT_VK_EXT_MEMORY_HANDLE, RVIT_VK_MEMORY_HANDLE_EXTENSION),
    FEATURE(RVIT_VK_EXT_SEMAPHORE_HANDLE, RVIT_VK_SEMAPHORE_HANDLE_EXTENSION),
    FEATURE(RVIT_VK_EXT_PORTABLE, "VK_KHR_portability_subset"),
    FEATURE(RVIT_VK_EXT_PCI, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME),
    FEATURE(RVIT_VK_EXT_BUDGET, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME),
};
enum { N_FEATURES = sizeof features / sizeof features[0] };

static const feature *first(uint32_t set)
{
    for (int i = 0; i < N_FEATURES; i++)
        if ((set & features[i].bit) != 0)
            return &features[i];
    return &features[0];
}

const char *rvit_vk_feature_name(uint32_t set)
{
    return first(set)->name;
}

const char *rvit_vk_feature_lacking(uint32_t set)
{
    return first(set)->lacking;
}

const char *rvit_vk_feature_missing(uint32_t set)
{
    return first(set)->missing;
}

/* The bit of an extension; 0: the library does not use it. */
static uint32_t extension_bit(const char *name)
{
    for (int i = 0; i < N_FEATURES; i++)
        if (features[i].bit >= RVIT_VK_EXT_MATRIX && strcmp(features[i].name, name) == 0)
            return features[i].bit;
    return 0;
}

static rvit_status find_extensions(const rvit_vk_instance *instance, rvit_alloc *alloc, VkPhysicalDevice device, uint32_t *out_bits)
{
    uint32_t n = 0;
    *out_bits = 0;
    if (instance->enumerate_extensions(device, NULL, &n, NULL) != VK_SUCCESS || n == 0)
        return RVIT_OK;
    VkExtensionProperties *extensions = rvit_alloc_array(alloc, n, sizeof *extensions);
    RVIT_TRY_MEMORY(extensions);
    if (instance->enumerate_extensions(device, NULL, &n, extensions) == VK_SUCCESS)
        for (uint32_t i = 0; i < n; i++)
            *out_bits |= extension_bit(extensions[i].extensionName);
    rvit_alloc_free(alloc, extensions);
    return RVIT_OK;
}

static uint32_t bit_if(VkBool32 value, uint32_t bit)
{
    return value ? bit : 0;
}

uint32_t rvit_vk_named_features(const void *chain, const char *const *extensions, uint32_t n_extensions)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < n_extensions; i++)
        bits |= extension_bit(extensions[i]);
    for (const VkBaseInStructure *at = chain; at != NULL; at = at->pNext) {
        const void *structure = at;
        switch ((int64_t)at->sType) {
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: {
            const VkPhysicalDeviceVulkan12Features *f = structure;
            bits |= bit_if(f->shaderFloat16, RVIT_VK_FLOAT16) | bit_if(f->vulkanMemoryModel, RVIT_VK_MEMORY_MODEL) |
                    bit_if(f->vulkanMemoryModelDeviceScope, RVIT_VK_DEVICE_SCOPE) | bit_if(f->timelineSemaphore, RVIT_VK_TIMELINE) |
                    bit_if(f->shaderInt8, RVIT_VK_INT8);
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES: {
            const VkPhysicalDeviceVulkan13Features *f = structure;
            bits |= bit_if(f->subgroupSizeControl, RVIT_VK_SUBGROUP_SIZE) | bit_if(f->computeFullSubgroups, RVIT_VK_FULL_SUBGROUPS) |
                    bit_if(f->shaderIntegerDotProduct, RVIT_VK_DOT);
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES:
            bits |= bit_if(((const VkPhysicalDeviceShaderIntegerDotProductFeatures *)structure)->shaderIntegerDotProduct, RVIT_VK_DOT);
            break;
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES: {
            const VkPhysicalDeviceSubgroupSizeControlFeatures *f = structure;
            bits |= bit_if(f->subgroupSizeControl, RVIT_VK_SUBGROUP_SIZE) | bit_if(f->computeFullSubgroups, RVIT_VK_FULL_SUBGROUPS);
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES: {
            const VkPhysicalDeviceShaderFloat16Int8Features *f = structure;
            bits |= bit_if(f->shaderFloat16, RVIT_VK_FLOAT16) | bit_if(f->shaderInt8, RVIT_VK_INT8);
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES: {
            const VkPhysicalDeviceVulkanMemoryModelFeatures *f = structure;
            bits |= bit_if(f->vulkanMemoryModel, RVIT_VK_MEMORY_MODEL) | bit_if(f->vulkanMemoryModelDeviceScope, RVIT_VK_DEVICE_SCOPE);
            break;
        }
        case VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES:
            bits |= bit_if(((const VkPhysicalDeviceTimelineSemaphoreFeatures *)structure)->timelineSemaphore, RVIT_VK_TIMELINE);
            break;
        case RVIT_VK_MATRIX_FEATURES_TYPE:
            bits |= bit_if(((const rvit_vk_matrix_features *)structure)->cooperativeMatrix, RVIT_VK_COOPERATIVE_MATRIX);
            break;
        case RVIT_VK_BF16_FEATURES_TYPE: {
            const rvit_vk_bf16_features *f = structure;
            bits |= bit_if(f->shaderBFloat16Type, RVIT_VK_BF16_TYPE) | bit_if(f->shaderBFloat16CooperativeMatrix, RVIT_VK_BF16_MATRIX);
            break;
        }
        default:
            break;
        }
    }
    return bits;
}

/* The structures that query and enable features, chained as far as the Vulkan version knows them. */
typedef struct feature_chain {
    rvit_vk_bf16_features bf16;
    rvit_vk_matrix_features matrix;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot;
    VkPhysicalDeviceSubgroupSizeControlFeatures size;
    VkPhysicalDeviceVulkan12Features vulkan12;
} feature_chain;

/* extensions: those whose structures the driver knows. */
static void *link_chain(feature_chain *chain, uint32_t version, uint32_t extensions)
{
    *chain = (feature_chain){.bf16 = {.sType = RVIT_VK_BF16_FEATURES_TYPE},
                             .matrix = {.sType = RVIT_VK_MATRIX_FEATURES_TYPE},
                             .dot = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES},
                             .size = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES},
                             .vulkan12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES}};
    void *bf16 = (extensions & RVIT_VK_EXT_BF16) != 0 ? &chain->bf16 : NULL;
    chain->matrix.pNext = bf16;
    chain->dot.pNext = (extensions & RVIT_VK_EXT_MATRIX) != 0 ? &chain->matrix : bf16;
    chain->size.pNext = &chain->dot;
    chain->vulkan12.pNext = version >= VK_API_VERSION_1_3 ? &chain->size : NULL;
    return &chain->vulkan12;
}

rvit_status rvit_vk_find_features(const rvit_vk_instance *instance, rvit_alloc *alloc, VkPhysicalDevice device, uint32_t version,
                                  int query_matrices, uint32_t *out_bits)
{
    RVIT_TRY(find_extensions(instance, alloc, device, out_bits));
    if (version < VK_API_VERSION_1_2)
        return RVIT_OK;
    feature_chain chain;
    VkPhysicalDeviceFeatures2 query = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    query.pNext = link_chain(&chain, version, query_matrices ? *out_bits : *out_bits & ~(uint32_t)RVIT_VK_EXT_MATRIX);
    instance->get_features2(device, &query);
    *out_bits |= rvit_vk_named_features(query.pNext, NULL, 0);
    return RVIT_OK;
}

rvit_status rvit_vk_check_enabled(const rvit_vk_device *device, uint32_t bit)
{
    if ((device->enabled & bit) == 0)
        return rvit_fail(RVIT_UNSUPPORTED, "vulkan: %s on %s", rvit_vk_feature_missing(bit), device->base.info.name);
    return RVIT_OK;
}

VkResult rvit_vk_create_handle(rvit_vk_device *device)
{
    const uint32_t enabled = device->enabled;
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = device->physical.queue_family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const char *extensions[N_FEATURES];
    uint32_t n_extensions = 0;
    for (int i = 0; i < N_FEATURES; i++)
        if (features[i].bit >= RVIT_VK_EXT_MATRIX && (enabled & features[i].bit) != 0)
            extensions[n_extensions++] = features[i].name;
    const int matrix = (enabled & RVIT_VK_COOPERATIVE_MATRIX) != 0;
    feature_chain chain;
    const uint32_t version = matrix || (enabled & RVIT_VK_DOT) != 0 ? VK_API_VERSION_1_3 : VK_API_VERSION_1_2;
    void *linked = link_chain(&chain, version, enabled);
    chain.bf16.shaderBFloat16Type = (enabled & RVIT_VK_BF16_TYPE) != 0;
    chain.bf16.shaderBFloat16CooperativeMatrix = (enabled & RVIT_VK_BF16_MATRIX) != 0;
    chain.matrix.cooperativeMatrix = matrix;
    chain.dot.shaderIntegerDotProduct = (enabled & RVIT_VK_DOT) != 0;
    chain.size.subgroupSizeControl = (enabled & RVIT_VK_SUBGROUP_SIZE) != 0;
    chain.size.computeFullSubgroups = (enabled & RVIT_VK_FULL_SUBGROUPS) != 0;
    chain.vulkan12.shaderInt8 = (enabled & RVIT_VK_INT8) != 0;
    chain.vulkan12.shaderFloat16 = (enabled & RVIT_VK_FLOAT16) != 0;
    chain.vulkan12.vulkanMemoryModel = (enabled & RVIT_VK_MEMORY_MODEL) != 0;
    chain.vulkan12.vulkanMemoryModelDeviceScope = (enabled & RVIT_VK_DEVICE_SCOPE) != 0;
    chain.vulkan12.timelineSemaphore = (enabled & RVIT_VK_TIMELINE) != 0;
    /* Robust buffer access is left off because it costs time. */
    const VkDeviceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                       .pNext = (enabled & (RVIT_VK_EXT_MATRIX - 1)) != 0 ? linked : NULL,
                                       .queueCreateInfoCount = 1,
                                       .pQueueCreateInfos = &queue,
                                       .enabledExtensionCount = n_extensions,
                                       .ppEnabledExtensionNames = extensions};
    return device->instance.create_device(device->physical.handle, &create, NULL, &device->handle);
}
