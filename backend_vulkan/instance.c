/* Opens the Vulkan loader at run time through volk, and collects the properties of a device before it is used. Only functions that need
   no instance are kept in globals. */
#include <stdio.h>
#include <string.h>

#include "backend_vulkan/vulkan.h"
#include "core/base/os.h"

#define MAX_DEVICES 32
#define MAX_QUEUE_FAMILIES 32
#define ALL_FEATURES UINT32_MAX

#define LOADER RVIT_OS_LIBRARY("libvulkan.so.1", "libvulkan.1.dylib", "vulkan-1.dll")
#define LOADER_COMES_WITH \
    RVIT_OS_LIBRARY("the Vulkan loader (Debian: libvulkan1)", "the Vulkan SDK, and libMoltenVK.dylib with MoltenVK", "the GPU's driver")

static rvit_once loader_once = RVIT_ONCE_INIT;
static char why_no_loader[192]; /* empty: the loader is open */

static void load(void)
{
    /* Android's is the second; MoltenVK serves without a loader. */
    static const char *const files[] = {LOADER, RVIT_OS_LIBRARY("libvulkan.so", "libMoltenVK.dylib", NULL), NULL},
                             *const symbols[] = {"vkGetInstanceProcAddr"};
    void *function = NULL;
    if (rvit_library_open(files, symbols, 1, 1, &function, why_no_loader, sizeof why_no_loader) != NULL) {
        PFN_vkGetInstanceProcAddr get_proc;
        memcpy(&get_proc, &function, sizeof get_proc);
        volkInitializeCustom(get_proc);
    }
}

static rvit_status open_loader(void)
{
    rvit_once_run(&loader_once, load);
    if (why_no_loader[0] != '\0')
        return rvit_fail(RVIT_UNAVAILABLE, "Vulkan: %s; " LOADER " comes with " LOADER_COMES_WITH, why_no_loader);
    return RVIT_OK;
}

#define GET(member, name)                                                                                   \
    do {                                                                                                    \
        instance->member = (PFN_##name)instance->get_proc(instance->handle, #name);                         \
        if (instance->member == NULL)                                                                       \
            return rvit_fail(RVIT_UNAVAILABLE, "the Vulkan loader has no " #name ": Vulkan 1.1 is needed"); \
    } while (0)

/* Loads all functions except vkDestroyInstance. */
static rvit_status get_functions(rvit_vk_instance *instance)
{
    GET(enumerate_devices, vkEnumeratePhysicalDevices);
    GET(get_properties, vkGetPhysicalDeviceProperties);
    GET(get_properties2, vkGetPhysicalDeviceProperties2);
    GET(get_features2, vkGetPhysicalDeviceFeatures2);
    GET(enumerate_extensions, vkEnumerateDeviceExtensionProperties);
    GET(get_memory2, vkGetPhysicalDeviceMemoryProperties2);
    GET(get_queue_families, vkGetPhysicalDeviceQueueFamilyProperties);
    GET(get_external_buffer, vkGetPhysicalDeviceExternalBufferProperties);
    GET(get_external_semaphore, vkGetPhysicalDeviceExternalSemaphoreProperties);
    GET(create_device, vkCreateDevice);
    GET(get_device_proc, vkGetDeviceProcAddr);
    return RVIT_OK;
}

static rvit_status own_functions(rvit_vk_instance *instance)
{
    GET(destroy, vkDestroyInstance);
    return get_functions(instance);
}

/* Portability drivers, which do not implement all of Vulkan, are listed only on request, if the loader supports that. */
static rvit_status find_portability(rvit_alloc *alloc, int *out_offered)
{
    uint32_t n = 0;
    const PFN_vkEnumerateInstanceExtensionProperties enumerate =
        (PFN_vkEnumerateInstanceExtensionProperties)vkGetInstanceProcAddr(NULL, "vkEnumerateInstanceExtensionProperties");
    *out_offered = 0;
    if (enumerate == NULL || enumerate(NULL, &n, NULL) != VK_SUCCESS || n == 0)
        return RVIT_OK;
    VkExtensionProperties *extensions = rvit_alloc_array(alloc, n, sizeof *extensions);
    RVIT_TRY_MEMORY(extensions);
    if (enumerate(NULL, &n, extensions) == VK_SUCCESS)
        for (uint32_t i = 0; i < n; i++)
            *out_offered |= strcmp(extensions[i].extensionName, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME) == 0;
    rvit_alloc_free(alloc, extensions);
    return RVIT_OK;
}

rvit_status rvit_vk_instance_open(rvit_alloc *alloc, rvit_vk_instance *out_instance)
{
    RVIT_TRY(open_loader());
    const uint32_t version = volkGetInstanceVersion();
    if (version < VK_API_VERSION_1_1)
        return rvit_fail(RVIT_UNAVAILABLE, "Vulkan: the loader offers version 1.0, 1.1 is needed");
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pEngineName = "raggedvit",
        .apiVersion = version < VK_API_VERSION_1_3 ? version : VK_API_VERSION_1_3,
    };
    static const char *const extension = VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME;
    int portability;
    RVIT_TRY(find_portability(alloc, &portability));
    const VkInstanceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                         .flags = portability ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
                                         .pApplicationInfo = &application,
                                         .enabledExtensionCount = portability ? 1 : 0,
                                         .ppEnabledExtensionNames = &extension};
    const PFN_vkCreateInstance create_instance = (PFN_vkCreateInstance)vkGetInstanceProcAddr(NULL, "vkCreateInstance");
    if (create_instance == NULL)
        return rvit_fail(RVIT_UNAVAILABLE, "the Vulkan loader has no vkCreateInstance");
    rvit_vk_instance instance = {.get_proc = vkGetInstanceProcAddr, .api_version = application.apiVersion};
    const VkResult result = create_instance(&create, NULL, &instance.handle);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        return rvit_fail(RVIT_UNAVAILABLE, "Vulkan: no driver is installed" RVIT_OS_LIBRARY(
                                               " (Debian: mesa-vulkan-drivers, or the GPU vendor's)", "", ": install the GPU vendor's"));
    if (result != VK_SUCCESS)
        return rvit_vk_fail(result, "vkCreateInstance");
    const rvit_status status = own_functions(&instance);
    if (status != RVIT_OK) {
        rvit_vk_instance_close(&instance);
        return status;
    }
    *out_instance = instance;
    return RVIT_OK;
}

rvit_status rvit_vk_instance_import(VkInstance handle, PFN_vkGetInstanceProcAddr get_proc, uint32_t api_version,
                                    rvit_vk_instance *out_instance)
{
    if (get_proc == NULL) {
        RVIT_TRY(open_loader());
        get_proc = vkGetInstanceProcAddr;
    }
    *out_instance = (rvit_vk_instance){.handle = handle, .get_proc = get_proc, .api_version = api_version};
    return get_functions(out_instance);
}

void rvit_vk_instance_close(rvit_vk_instance *instance)
{
    if (instance->destroy != NULL)
        instance->destroy(instance->handle, NULL);
    *instance = (rvit_vk_instance){0};
}

#define LOAD(name) out_functions->name = (PFN_##name)instance->get_device_proc(device, #name)
#define LOAD_WIN32(name) out_functions->name = (rvit_PFN_##name)instance->get_device_proc(device, #name)
#define MISS(name)                   \
    if (out_functions->name == NULL) \
    missing = #name

const char *rvit_vk_load_functions(const rvit_vk_instance *instance, VkDevice device, rvit_vk_functions *out_functions)
{
    const char *missing = NULL;
    RVIT_VK_FUNCTIONS(LOAD);
    RVIT_VK_EXTENSION_FUNCTIONS(LOAD);
    RVIT_VK_WIN32_FUNCTIONS(LOAD_WIN32);
    RVIT_VK_FUNCTIONS(MISS);
    return missing;
}

/* Prefers a queue family without graphics: on an H200, workgroups of such a queue have more shared memory available to run concurrently. */
static int find_queue_family(const rvit_vk_instance *instance, rvit_vk_physical *physical)
{
    VkQueueFamilyProperties families[MAX_QUEUE_FAMILIES];
    uint32_t n = MAX_QUEUE_FAMILIES;
    instance->get_queue_families(physical->handle, &n, families);
    static const VkQueueFlags avoided[] = {VK_QUEUE_GRAPHICS_BIT, 0};
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t i = 0; i < n; i++)
            if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && (families[i].queueFlags & avoided[turn]) == 0 &&
                families[i].queueCount > 0) {
                physical->queue_family = i;
                return 1;
            }
    return 0;
}

static void describe_driver(rvit_device_info *info, const VkPhysicalDeviceProperties *properties,
                            const VkPhysicalDeviceDriverProperties *driver)
{
    if (driver->driverName[0] != '\0')
        (void)snprintf(info->driver, sizeof info->driver, "%.60s %.60s", driver->driverName, driver->driverInfo);
    else
        (void)snprintf(info->driver, sizeof info->driver, "driver %u.%u.%u", VK_API_VERSION_MAJOR(properties->driverVersion),
                       VK_API_VERSION_MINOR(properties->driverVersion), VK_API_VERSION_PATCH(properties->driverVersion));
}

/* Software devices gain nothing from cooperative matrices. */
static void choose_tier(rvit_vk_physical *physical)
{
    rvit_device_info *info = &physical->info;
    if (physical->why_no_matrix == NULL && !info->is_software) {
        info->tier = RVIT_TIER_MATRIX;
        if (!physical->matrix.has_bf16)
            (void)snprintf(info->note, sizeof info->note, "matrix tier: not for bf16: %s", physical->matrix.why_no_bf16);
        return;
    }
    info->tier = physical->has_subgroups ? RVIT_TIER_SUBGROUP : RVIT_TIER_SCALAR;
    (void)snprintf(info->note, sizeof info->note, "%smatrix tier: %s%s%s",
                   physical->has_subgroups ? "" : "subgroup tier: no subgroup arithmetic in compute shaders; ",
                   physical->why_no_matrix != NULL ? physical->why_no_matrix : "only on demand on a software device",
                   physical->why_no_matrix == NULL && !physical->matrix.has_bf16 ? ", and not for bf16: " : "",
                   physical->why_no_matrix == NULL && !physical->matrix.has_bf16 ? physical->matrix.why_no_bf16 : "");
}

static rvit_device_kind kind_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return RVIT_DEVICE_KIND_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return RVIT_DEVICE_KIND_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return RVIT_DEVICE_KIND_VIRTUAL;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        return RVIT_DEVICE_KIND_CPU;
    default:
        return RVIT_DEVICE_KIND_OTHER;
    }
}

static void find_pci_address(const rvit_vk_instance *instance, rvit_vk_physical *physical)
{
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &pci};
    if ((physical->features & RVIT_VK_EXT_PCI) == 0)
        return;
    instance->get_properties2(physical->handle, &properties);
    rvit_device_set_pci(&physical->info, pci.pciDomain, pci.pciBus, pci.pciDevice, pci.pciFunction);
}

/* Budgets cover the whole process, including what it already uses. */
int64_t rvit_vk_free_memory(const rvit_vk_instance *instance, VkPhysicalDevice handle)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
    int64_t sum = 0;
    instance->get_memory2(handle, &memory);
    for (uint32_t i = 0; i < memory.memoryProperties.memoryHeapCount; i++)
        if ((memory.memoryProperties.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0 &&
            budget.heapBudget[i] > budget.heapUsage[i])
            sum += (int64_t)(budget.heapBudget[i] - budget.heapUsage[i]);
    return sum;
}

static void find_memory(const rvit_vk_instance *instance, rvit_vk_physical *physical)
{
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    instance->get_memory2(physical->handle, &memory);
    physical->memory = memory.memoryProperties;
    for (uint32_t i = 0; i < physical->memory.memoryHeapCount; i++)
        if ((physical->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0)
            physical->info.memory_size += (int64_t)physical->memory.memoryHeaps[i].size;
    physical->has_budget = (physical->features & RVIT_VK_EXT_BUDGET) != 0;
    if (physical->has_budget)
        physical->info.memory_free = rvit_vk_free_memory(instance, physical->handle);
}

/* *out_why_not: NULL, or why the device cannot be used. named: the features that may be used; ALL_FEATURES: all that the device has. */
static rvit_status inspect(const rvit_vk_instance *instance, rvit_alloc *alloc, VkPhysicalDevice handle, uint32_t named,
                           rvit_vk_physical *physical, const char **out_why_not)
{
    *out_why_not = NULL;
    *physical = (rvit_vk_physical){.handle = handle, .info = RVIT_DEVICE_INFO_INIT};
    VkPhysicalDeviceProperties properties;
    instance->get_properties(handle, &properties);
    rvit_device_info *info = &physical->info;
    info->backend = RVIT_BACKEND_VULKAN;
    memcpy(info->name, properties.deviceName, sizeof info->name - 1);
    if (properties.apiVersion < VK_API_VERSION_1_1) {
        *out_why_not = "it offers Vulkan 1.0, 1.1 is needed";
        return RVIT_OK;
    }

    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceSubgroupProperties subgroup = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &id};
    VkPhysicalDeviceShaderIntegerDotProductProperties dot = {.sType =
                                                                 VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    if (properties.apiVersion >= VK_API_VERSION_1_2)
        id.pNext = &driver;
    if (properties.apiVersion >= VK_API_VERSION_1_3 && instance->api_version >= VK_API_VERSION_1_3)
        driver.pNext = &dot;
    VkPhysicalDeviceProperties2 properties2 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &subgroup};
    instance->get_properties2(handle, &properties2);
    physical->limits = properties.limits;
    physical->type = properties.deviceType;
    physical->driver = (rvit_vk_driver){
        .vendor_id = properties.vendorID, .device_id = properties.deviceID, .version = properties.driverVersion, .id = driver.driverID};
    memcpy(physical->driver.cache_uuid, properties.pipelineCacheUUID, sizeof physical->driver.cache_uuid);
    physical->subgroup_size = subgroup.subgroupSize;
    physical->has_subgroups = (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                              (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) != 0;
    physical->dot_is_fast = dot.integerDotProduct4x8BitPackedSignedAccelerated != 0;
    describe_driver(info, &properties, &driver);
    memcpy(info->uuid, id.deviceUUID, sizeof info->uuid);
    info->is_software = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    info->kind = kind_of(properties.deviceType);
    if (properties.apiVersion > instance->api_version)
        properties.apiVersion = instance->api_version;
    /* Some drivers crash when queried. */
    physical->why_no_matrix = rvit_vk_denied(&physical->driver, RVIT_TIER_MATRIX);
    RVIT_TRY(rvit_vk_find_features(instance, alloc, handle, properties.apiVersion, physical->why_no_matrix == NULL, &physical->features));
    find_pci_address(instance, physical);
    find_memory(instance, physical);
    const uint32_t lacking = RVIT_VK_MATRIX_FEATURES & physical->features & ~named;
    if (physical->why_no_matrix == NULL)
        physical->why_no_matrix =
            lacking != 0 ? rvit_vk_feature_missing(lacking)
                         : rvit_vk_find_matrix(instance, &properties, physical->features & named, &subgroup, handle, &physical->matrix);
    const rvit_vk_matrix *matrix = &physical->matrix;
    physical->matrix.in_rows = driver.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY && matrix->subgroup == 32 && matrix->m == 16 &&
                               matrix->n == 16 && matrix->k == 16;
    const uint32_t unlisted = RVIT_VK_BF16_FEATURES & physical->features & ~named;
    if (physical->why_no_matrix == NULL && unlisted != 0)
        physical->matrix.why_no_bf16 = rvit_vk_feature_missing(unlisted);
    choose_tier(physical);
    info->native_dtypes = rvit_vk_native_dtypes(physical, info->tier, physical->features & named);
    if (properties.limits.maxPerStageDescriptorStorageBuffers < RVIT_VK_MIN_STORAGE)
        *out_why_not = "it binds too few storage buffers at a time";
    return RVIT_OK;
}

rvit_status rvit_vk_instance_device(const rvit_vk_instance *instance, rvit_alloc *alloc, int32_t index, rvit_vk_physical *out_physical)
{
    VkPhysicalDevice handles[MAX_DEVICES];
    uint32_t n = MAX_DEVICES;
    const VkResult result = instance->enumerate_devices(instance->handle, &n, handles);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return rvit_vk_fail(result, "vkEnumeratePhysicalDevices");
    const char *reason = NULL;
    char name[128] = "";
    int32_t n_usable = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *why_not;
        rvit_vk_physical physical;
        RVIT_TRY(inspect(instance, alloc, handles[i], ALL_FEATURES, &physical, &why_not));
        if (why_not == NULL && !find_queue_family(instance, &physical))
            why_not = "it has no compute queue";
        if (why_not != NULL) {
            reason = why_not;
            memcpy(name, physical.info.name, sizeof name);
            rvit_log(RVIT_LOG_INFO, "vulkan: %s passed over: %s", name, reason);
            continue;
        }
        physical.info.index = n_usable;
        if (index < 0 ? n_usable == 0 || rvit_device_outranks(&physical.info, &out_physical->info) : n_usable == index)
            *out_physical = physical;
        if (n_usable++ == index)
            return RVIT_OK;
    }
    if (index < 0 && n_usable > 0)
        return RVIT_OK;
    if (n_usable > 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan: there is no device %d, the last is %d", (int)index, (int)n_usable - 1);
    if (reason != NULL)
        return rvit_fail(RVIT_UNAVAILABLE, "Vulkan: %s cannot be used: %s", name, reason);
    return rvit_fail(RVIT_UNAVAILABLE, "Vulkan: no driver offers a device");
}

static rvit_status check_family(const rvit_vk_instance *instance, VkPhysicalDevice handle, uint32_t family)
{
    VkQueueFamilyProperties families[MAX_QUEUE_FAMILIES];
    uint32_t n = MAX_QUEUE_FAMILIES;
    instance->get_queue_families(handle, &n, families);
    if (family >= n)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan device desc: queue_family is %u, the physical device has %u", family, n);
    if ((families[family].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan device desc: queue_family %u has no VK_QUEUE_COMPUTE_BIT", family);
    return RVIT_OK;
}

rvit_status rvit_vk_instance_import_device(const rvit_vk_instance *instance, rvit_alloc *alloc, VkPhysicalDevice handle,
                                           uint32_t queue_family, uint32_t features, rvit_vk_physical *out_physical)
{
    /* With the memory model enabled, the atomics of select and bipartite_match have device scope. */
    if ((features & RVIT_VK_MEMORY_MODEL) != 0 && (features & RVIT_VK_DEVICE_SCOPE) == 0)
        return rvit_fail(RVIT_UNSUPPORTED, "vulkan device desc: vulkanMemoryModel is enabled, and %s",
                         rvit_vk_feature_missing(RVIT_VK_DEVICE_SCOPE));
    if (instance->api_version < VK_API_VERSION_1_2)
        features &= ~(uint32_t)(RVIT_VK_EXT_MATRIX - 1); /* only extensions are left */
    if (instance->api_version < VK_API_VERSION_1_3)
        features &= ~(uint32_t)(RVIT_VK_SUBGROUP_SIZE | RVIT_VK_FULL_SUBGROUPS | RVIT_VK_DOT);
    const char *why_not;
    RVIT_TRY(inspect(instance, alloc, handle, features, out_physical, &why_not));
    if (why_not != NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "Vulkan: %s cannot be used: %s", out_physical->info.name, why_not);
    uint32_t lacking = features & ~out_physical->features;
    if (rvit_vk_denied(&out_physical->driver, RVIT_TIER_MATRIX) != NULL) /* it was not queried */
        lacking &= ~(uint32_t)RVIT_VK_COOPERATIVE_MATRIX;
    if (lacking != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "vulkan device desc: %s is listed as enabled, but %s lacks it",
                         rvit_vk_feature_name(lacking), out_physical->info.name);
    RVIT_TRY(check_family(instance, handle, queue_family));
    out_physical->queue_family = queue_family;
    out_physical->features = features;
    return RVIT_OK;
}
