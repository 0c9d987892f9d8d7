/* A Vulkan layer for tests that simulates small devices, other drivers, wrong results and lost devices. The loader inserts it between the
   library and the driver according to VK_LAYER_PATH and VK_INSTANCE_LAYERS. The environment variable RVIT_TEST_LAYER selects the behaviour;
   it is read at each call, so that a test can change it:
     minimum         the limits of the smallest supported devices
     no_texels       texel buffers too small to be used, so that a software device runs the shaders of hardware
     other_driver    the driver reports another version
     wrong_subgroup  float additions of shaders that use subgroup arithmetic become subtractions
     wrong           the same in all shaders
     lost            the next submit loses its device
     lost_subgroup   the same for the next shader that uses subgroup arithmetic
     no_shaders      creating a shader fails for lack of memory
     no_memory       the same for buffers of 1 MiB and more
     no_function     the driver lacks vkCmdDispatchIndirect
     kinds:2,1       the listed devices have these VkPhysicalDeviceTypes, in order
     pci_and_memory  a device reports a PCI address, and a quarter of its memory as free
     crash           the next submit crashes
     late            wrong, lost and crash begin with the first buffer of 1 MiB, which the library's self-test of a device does not need
     personal        the names of device and driver hold a user's name, a path and an address
     portable        a device has VK_KHR_portability_subset, which must then be enabled */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_OBJECTS 64
#define OP_CAPABILITY 17
#define OP_FADD 129
#define OP_FSUB 131
#define CAPABILITY_GROUP_ARITHMETIC 63

typedef struct instance {
    VkInstance handle;
    PFN_vkGetInstanceProcAddr get;
    /* The loader passes the next function only while the instance is created. */
    PFN_vkDestroyInstance destroy;
    PFN_vkGetPhysicalDeviceProperties get_properties;
    PFN_vkGetPhysicalDeviceProperties2 get_properties2;
    PFN_vkGetPhysicalDeviceFeatures2 get_features2;
    PFN_vkGetPhysicalDeviceMemoryProperties2 get_memory2;
    PFN_vkEnumeratePhysicalDevices enumerate_physicals;
    PFN_vkEnumerateDeviceExtensionProperties enumerate_extensions;
} instance;

typedef struct device {
    VkDevice handle;
    PFN_vkGetDeviceProcAddr get;
    int is_lost, is_used; /* used: has a buffer of 1 MiB */
} device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static instance instances[MAX_OBJECTS];
static device devices[MAX_OBJECTS];
static VkPhysicalDevice physicals[MAX_OBJECTS]; /* of the most recent list */

static int asked(const char *word)
{
    const char *words = getenv("RVIT_TEST_LAYER");
    const size_t n = strlen(word);
    for (const char *at = words; at != NULL && (at = strstr(at, word)) != NULL; at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == '\0' || at[n] == ' '))
            return 1;
    return 0;
}

/* Dispatchable handles begin with their dispatch table, the same for a device, its queues and command buffers. */
static const void *table_of(const void *handle)
{
    const void *table;
    memcpy(&table, handle, sizeof table);
    return table;
}

static instance *find_instance(const void *handle)
{
    instance *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_OBJECTS && found == NULL; i++)
        if (instances[i].handle != NULL && table_of(instances[i].handle) == table_of(handle))
            found = &instances[i];
    pthread_mutex_unlock(&lock);
    return found;
}

static device *find_device(const void *handle)
{
    device *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_OBJECTS && found == NULL; i++)
        if (devices[i].handle != NULL && table_of(devices[i].handle) == table_of(handle))
            found = &devices[i];
    pthread_mutex_unlock(&lock);
    return found;
}

#define NEXT_DEVICE(d, name) ((PFN_##name)(d)->get((d)->handle, #name))

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                                      VkInstance *out)
{
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
    while (link != NULL && (link->sType != VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerInstanceCreateInfo *)link->pNext;
    if (link == NULL)
        return VK_ERROR_INITIALIZATION_FAILED;
    const PFN_vkGetInstanceProcAddr get = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const VkResult result = ((PFN_vkCreateInstance)get(NULL, "vkCreateInstance"))(info, allocator, out);
    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (instances[i].handle == NULL) {
            instances[i] = (instance){
                .handle = *out,
                .get = get,
                .destroy = (PFN_vkDestroyInstance)get(*out, "vkDestroyInstance"),
                .get_properties = (PFN_vkGetPhysicalDeviceProperties)get(*out, "vkGetPhysicalDeviceProperties"),
                .get_properties2 = (PFN_vkGetPhysicalDeviceProperties2)get(*out, "vkGetPhysicalDeviceProperties2"),
                .get_features2 = (PFN_vkGetPhysicalDeviceFeatures2)get(*out, "vkGetPhysicalDeviceFeatures2"),
                .get_memory2 = (PFN_vkGetPhysicalDeviceMemoryProperties2)get(*out, "vkGetPhysicalDeviceMemoryProperties2"),
                .enumerate_physicals = (PFN_vkEnumeratePhysicalDevices)get(*out, "vkEnumeratePhysicalDevices"),
                .enumerate_extensions = (PFN_vkEnumerateDeviceExtensionProperties)get(*out, "vkEnumerateDeviceExtensionProperties")};
            break;
        }
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_instance(VkInstance handle, const VkAllocationCallbacks *allocator)
{
    if (handle == NULL)
        return;
    instance *found = find_instance(handle);
    const PFN_vkDestroyInstance next = found->destroy;
    pthread_mutex_lock(&lock);
    found->handle = NULL;
    pthread_mutex_unlock(&lock);
    next(handle, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_physicals(VkInstance handle, uint32_t *n, VkPhysicalDevice *out)
{
    const VkResult result = find_instance(handle)->enumerate_physicals(handle, n, out);
    for (uint32_t i = 0; out != NULL && i < *n && i < MAX_OBJECTS; i++)
        physicals[i] = out[i];
    return result;
}

#define PORTABLE "VK_KHR_portability_subset"

static VKAPI_ATTR VkResult VKAPI_CALL enumerate_extensions(VkPhysicalDevice physical, const char *layer, uint32_t *n,
                                                           VkExtensionProperties *out)
{
    const struct {
        const char *word, *name;
    } added[] = {{"portable", PORTABLE},
                 {"pci_and_memory", VK_EXT_PCI_BUS_INFO_EXTENSION_NAME},
                 {"pci_and_memory", VK_EXT_MEMORY_BUDGET_EXTENSION_NAME}};
    const uint32_t capacity = *n;
    const VkResult result = find_instance(physical)->enumerate_extensions(physical, layer, n, out);
    for (size_t i = 0; i < sizeof added / sizeof *added && result == VK_SUCCESS; i++) {
        if (!asked(added[i].word))
            continue;
        if (out != NULL && *n >= capacity)
            return VK_INCOMPLETE;
        if (out != NULL) {
            out[*n] = (VkExtensionProperties){.specVersion = 1};
            snprintf(out[*n].extensionName, sizeof out[*n].extensionName, "%s", added[i].name);
        }
        ++*n;
    }
    return result;
}

static int enables(const VkDeviceCreateInfo *info, const char *name)
{
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
        if (strcmp(info->ppEnabledExtensionNames[i], name) == 0)
            return 1;
    return 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkDevice *out)
{
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
    while (link != NULL && (link->sType != VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO || link->function != VK_LAYER_LINK_INFO))
        link = (VkLayerDeviceCreateInfo *)link->pNext;
    if (link == NULL)
        return VK_ERROR_INITIALIZATION_FAILED;
    const PFN_vkGetInstanceProcAddr get_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    const PFN_vkGetDeviceProcAddr get = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    if (asked("portable") && !enables(info, PORTABLE))
        return VK_ERROR_EXTENSION_NOT_PRESENT;
    const PFN_vkCreateDevice next = (PFN_vkCreateDevice)get_instance(find_instance(physical)->handle, "vkCreateDevice");
    const VkResult result = next(physical, info, allocator, out);
    if (result != VK_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (devices[i].handle == NULL) {
            devices[i] = (device){*out, get, 0, 0};
            break;
        }
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice handle, const VkAllocationCallbacks *allocator)
{
    if (handle == NULL)
        return;
    device *d = find_device(handle);
    const PFN_vkDestroyDevice next = NEXT_DEVICE(d, vkDestroyDevice);
    pthread_mutex_lock(&lock);
    d->handle = NULL;
    pthread_mutex_unlock(&lock);
    next(handle, allocator);
}

static void change_kind(VkPhysicalDevice physical, VkPhysicalDeviceProperties *properties)
{
    const char *words = getenv("RVIT_TEST_LAYER"), *kinds = words != NULL ? strstr(words, "kinds:") : NULL;
    for (int i = 0; kinds != NULL && i < MAX_OBJECTS; i++)
        if (physicals[i] == physical) /* a digit and a comma per device */
            properties->deviceType = (VkPhysicalDeviceType)(kinds[strlen("kinds:") + 2 * (size_t)i] - '0');
}

static void change_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *properties)
{
    change_kind(physical, properties);
    VkPhysicalDeviceLimits *limits = &properties->limits;
    if (asked("minimum")) {
        limits->maxComputeSharedMemorySize = 16384;
        limits->maxComputeWorkGroupInvocations = 128;
        limits->maxComputeWorkGroupSize[0] = limits->maxComputeWorkGroupSize[1] = 128;
        limits->maxComputeWorkGroupSize[2] = 64;
        limits->maxPerStageDescriptorStorageBuffers = 8;
        limits->maxPerStageDescriptorUniformBuffers = 12;
        limits->maxPerStageResources = 128;
        limits->maxPushConstantsSize = 128;
        limits->maxTexelBufferElements = 65536;
        limits->maxStorageBufferRange = 1 << 27;
        limits->minStorageBufferOffsetAlignment = limits->minTexelBufferOffsetAlignment = 256;
        for (int i = 0; i < 3; i++)
            limits->maxComputeWorkGroupCount[i] = 65535;
        properties->apiVersion = VK_MAKE_API_VERSION(0, 1, 1, VK_API_VERSION_PATCH(properties->apiVersion));
    }
    if (asked("no_texels"))
        limits->maxTexelBufferElements = 0;
    if (asked("other_driver"))
        properties->driverVersion++;
    if (asked("personal"))
        snprintf(properties->deviceName, sizeof properties->deviceName, "GTX 1650/PCIe/SSE2 of jane");
}

static VKAPI_ATTR void VKAPI_CALL get_properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *properties)
{
    find_instance(physical)->get_properties(physical, properties);
    change_properties(physical, properties);
}

static VKAPI_ATTR void VKAPI_CALL get_properties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties)
{
    find_instance(physical)->get_properties2(physical, properties);
    change_properties(physical, &properties->properties);
    for (VkBaseOutStructure *next = properties->pNext; next != NULL; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES && asked("personal")) {
            VkPhysicalDeviceDriverProperties *driver = (void *)next;
            snprintf(driver->driverInfo, sizeof driver->driverInfo, "of '/srv/Jane Doe/lib.so' at 0000:65:00.0");
        }
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT && asked("pci_and_memory")) {
            VkPhysicalDevicePCIBusInfoPropertiesEXT *pci = (void *)next;
            pci->pciDomain = 0x10000, pci->pciBus = 0xa, pci->pciDevice = 0x1f, pci->pciFunction = 7;
        }
    }
}

static VKAPI_ATTR void VKAPI_CALL get_memory2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *memory)
{
    find_instance(physical)->get_memory2(physical, memory);
    for (VkBaseOutStructure *next = memory->pNext; next != NULL; next = next->pNext)
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT && asked("pci_and_memory"))
            for (uint32_t i = 0; i < memory->memoryProperties.memoryHeapCount; i++) {
                VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = (void *)next;
                budget->heapBudget[i] = memory->memoryProperties.memoryHeaps[i].size / 2;
                budget->heapUsage[i] = memory->memoryProperties.memoryHeaps[i].size / 4;
            }
}

/* Removes 16-bit and 8-bit types, in memory and arithmetic, which the smallest devices lack. */
static VKAPI_ATTR void VKAPI_CALL get_features2(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2 *features)
{
    find_instance(physical)->get_features2(physical, features);
    if (!asked("minimum"))
        return;
    memset(&features->features, 0, sizeof features->features);
    for (VkBaseOutStructure *next = features->pNext; next != NULL; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES)
            ((VkPhysicalDevice16BitStorageFeatures *)(void *)next)->storageBuffer16BitAccess = VK_FALSE;
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES)
            ((VkPhysicalDeviceShaderFloat16Int8Features *)(void *)next)->shaderFloat16 = VK_FALSE;
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES)
            ((VkPhysicalDeviceVulkan11Features *)(void *)next)->storageBuffer16BitAccess = VK_FALSE;
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)
            ((VkPhysicalDeviceVulkan12Features *)(void *)next)->shaderFloat16 = VK_FALSE;
    }
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice handle, const VkMemoryAllocateInfo *info,
                                                      const VkAllocationCallbacks *allocator, VkDeviceMemory *out)
{
    device *d = find_device(handle);
    const int is_large = info->allocationSize >= 1 << 20;
    if (asked("no_memory") && is_large)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    d->is_used |= is_large;
    return NEXT_DEVICE(d, vkAllocateMemory)(handle, info, allocator, out);
}

static int begins(const device *d, const char *word)
{
    return asked(word) && (d->is_used || !asked("late"));
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *infos, VkFence fence)
{
    device *d = find_device(queue);
    if (begins(d, "crash"))
        (void)raise(SIGSEGV);
    if (begins(d, "lost"))
        d->is_lost = 1;
    return d->is_lost ? VK_ERROR_DEVICE_LOST : NEXT_DEVICE(d, vkQueueSubmit)(queue, n, infos, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_for_fences(VkDevice handle, uint32_t n, const VkFence *fences, VkBool32 all, uint64_t timeout)
{
    device *d = find_device(handle);
    return d->is_lost ? VK_ERROR_DEVICE_LOST : NEXT_DEVICE(d, vkWaitForFences)(handle, n, fences, all, timeout);
}

static VKAPI_ATTR VkResult VKAPI_CALL get_fence_status(VkDevice handle, VkFence fence)
{
    device *d = find_device(handle);
    return d->is_lost ? VK_ERROR_DEVICE_LOST : NEXT_DEVICE(d, vkGetFenceStatus)(handle, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_wait_idle(VkQueue queue)
{
    device *d = find_device(queue);
    const VkResult result = NEXT_DEVICE(d, vkQueueWaitIdle)(queue);
    return d->is_lost ? VK_ERROR_DEVICE_LOST : result;
}

/* Turns float additions into subtractions; the module stays valid. Returns whether it uses subgroup arithmetic. */
static int spoil(uint32_t *words, size_t n_words)
{
    int has_arithmetic = 0;
    for (size_t i = 5; i < n_words && words[i] >> 16 > 0; i += words[i] >> 16) {
        if ((words[i] & 0xffff) == OP_CAPABILITY && words[i + 1] == CAPABILITY_GROUP_ARITHMETIC)
            has_arithmetic = 1;
        if ((words[i] & 0xffff) == OP_FADD)
            words[i] = (words[i] & 0xffff0000u) | OP_FSUB;
    }
    return has_arithmetic;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice handle, const VkShaderModuleCreateInfo *info,
                                                           const VkAllocationCallbacks *allocator, VkShaderModule *out)
{
    device *d = find_device(handle);
    const PFN_vkCreateShaderModule next = NEXT_DEVICE(d, vkCreateShaderModule);
    if (asked("no_shaders"))
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    uint32_t *words = malloc(info->codeSize);
    if (words == NULL)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(words, info->pCode, info->codeSize);
    const int has_arithmetic = spoil(words, info->codeSize / 4);
    VkShaderModuleCreateInfo changed = *info;
    if (begins(d, "wrong") || (asked("wrong_subgroup") && has_arithmetic))
        changed.pCode = words;
    if (asked("lost_subgroup") && has_arithmetic)
        d->is_lost = 1;
    const VkResult result = next(handle, &changed, allocator, out);
    free(words);
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_address(VkDevice handle, const char *name);

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL rvit_test_layer_get(VkInstance handle, const char *name);

typedef struct entry {
    const char *name;
    PFN_vkVoidFunction function;
} entry;

#define ENTRY(name, function)                      \
    {                                              \
        "vk" #name, (PFN_vkVoidFunction)(function) \
    }

static const entry instance_entries[] = {
    ENTRY(GetInstanceProcAddr, rvit_test_layer_get),
    ENTRY(CreateInstance, create_instance),
    ENTRY(DestroyInstance, destroy_instance),
    ENTRY(CreateDevice, create_device),
    ENTRY(GetPhysicalDeviceProperties, get_properties),
    ENTRY(GetPhysicalDeviceProperties2, get_properties2),
    ENTRY(GetPhysicalDeviceFeatures2, get_features2),
    ENTRY(EnumeratePhysicalDevices, enumerate_physicals),
    ENTRY(GetPhysicalDeviceMemoryProperties2, get_memory2),
    ENTRY(EnumerateDeviceExtensionProperties, enumerate_extensions),
};

static const entry device_entries[] = {
    ENTRY(GetDeviceProcAddr, get_device_address),    ENTRY(DestroyDevice, destroy_device),    ENTRY(QueueSubmit, queue_submit),
    ENTRY(WaitForFences, wait_for_fences),           ENTRY(GetFenceStatus, get_fence_status), ENTRY(QueueWaitIdle, queue_wait_idle),
    ENTRY(CreateShaderModule, create_shader_module), ENTRY(AllocateMemory, allocate_memory),
};

static PFN_vkVoidFunction find(const entry *entries, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(entries[i].name, name) == 0)
            return entries[i].function;
    return NULL;
}

#define FIND(entries, name) find(entries, sizeof(entries) / sizeof(entries)[0], name)

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_address(VkDevice handle, const char *name)
{
    if (asked("no_function") && strcmp(name, "vkCmdDispatchIndirect") == 0)
        return NULL;
    const PFN_vkVoidFunction own = FIND(device_entries, name);
    return own != NULL ? own : find_device(handle)->get(handle, name);
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL rvit_test_layer_get(VkInstance handle, const char *name)
{
    PFN_vkVoidFunction own = FIND(instance_entries, name);
    if (own == NULL)
        own = FIND(device_entries, name);
    if (own != NULL || handle == NULL)
        return own;
    const instance *found = find_instance(handle);
    return found == NULL ? NULL : found->get(handle, name);
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *interface)
{
    interface->loaderLayerInterfaceVersion = 2;
    interface->pfnGetInstanceProcAddr = rvit_test_layer_get;
    interface->pfnGetDeviceProcAddr = get_device_address;
    interface->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
