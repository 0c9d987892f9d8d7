/* Breaks two rules of Vulkan on purpose, which the validation layer must report: a buffer of size 0, and two writes of one buffer without a
   barrier between them. tests/validation.sh checks for both reports before it trusts a run without any.

   Exits with 77 if there is no Vulkan device or no validation layer, 0 if both rules were broken, 1 on other failures. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr get_instance_proc;
static VkInstance instance;

#define INSTANCE(name) ((PFN_##name)get_instance_proc(instance, #name))

static int skip(const char *why)
{
    printf("skipped: %s\n", why);
    return 77;
}

static int has_layer(void)
{
    VkLayerProperties layers[64];
    uint32_t n = 64;
    if (((PFN_vkEnumerateInstanceLayerProperties)get_instance_proc(NULL, "vkEnumerateInstanceLayerProperties"))(&n, layers) < 0)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(layers[i].layerName, "VK_LAYER_KHRONOS_validation"))
            return 1;
    return 0;
}

static int make_instance(void)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    return ((PFN_vkCreateInstance)get_instance_proc(NULL, "vkCreateInstance"))(&info, NULL, &instance) == VK_SUCCESS;
}

typedef struct gpu {
    VkPhysicalDevice physical;
    VkDevice device;
    PFN_vkGetDeviceProcAddr proc;
} gpu;
#define DEVICE(name) ((PFN_##name)g->proc(g->device, #name))

static int make_device(gpu *g)
{
    uint32_t n = 1;
    if (INSTANCE(vkEnumeratePhysicalDevices)(instance, &n, &g->physical) < 0 || n == 0)
        return 0;
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = 0, .queueCount = 1, .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
    g->proc = INSTANCE(vkGetDeviceProcAddr);
    return INSTANCE(vkCreateDevice)(g->physical, &info, NULL, &g->device) == VK_SUCCESS;
}

static VkBuffer make_buffer(const gpu *g, VkDeviceSize size)
{
    VkBuffer buffer = VK_NULL_HANDLE;
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size, .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    return DEVICE(vkCreateBuffer)(g->device, &info, NULL, &buffer) == VK_SUCCESS ? buffer : VK_NULL_HANDLE;
}

static int break_synchronisation(const gpu *g)
{
    VkBuffer buffer = make_buffer(g, 256);
    VkMemoryRequirements needs;
    VkDeviceMemory memory;
    VkCommandPool pool;
    VkCommandBuffer commands;
    DEVICE(vkGetBufferMemoryRequirements)(g->device, buffer, &needs);
    uint32_t type = 0;
    while (!(needs.memoryTypeBits >> type & 1))
        type++;
    const VkMemoryAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size, .memoryTypeIndex = type};
    if (DEVICE(vkAllocateMemory)(g->device, &allocate, NULL, &memory) != VK_SUCCESS ||
        DEVICE(vkBindBufferMemory)(g->device, buffer, memory, 0) != VK_SUCCESS)
        return 0;
    const VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    if (DEVICE(vkCreateCommandPool)(g->device, &pool_info, NULL, &pool) != VK_SUCCESS)
        return 0;
    const VkCommandBufferAllocateInfo command_info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool, .commandBufferCount = 1};
    if (DEVICE(vkAllocateCommandBuffers)(g->device, &command_info, &commands) != VK_SUCCESS)
        return 0;
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    DEVICE(vkBeginCommandBuffer)(commands, &begin);
    DEVICE(vkCmdFillBuffer)(commands, buffer, 0, 256, 1);
    DEVICE(vkCmdFillBuffer)(commands, buffer, 0, 256, 2);
    DEVICE(vkEndCommandBuffer)(commands);
    DEVICE(vkDestroyCommandPool)(g->device, pool, NULL);
    DEVICE(vkDestroyBuffer)(g->device, buffer, NULL);
    DEVICE(vkFreeMemory)(g->device, memory, NULL);
    return 1;
}

int main(void)
{
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW);
    void *symbol = loader ? dlsym(loader, "vkGetInstanceProcAddr") : NULL;
    if (!symbol)
        return skip("there is no Vulkan loader (libvulkan.so.1)");
    memcpy(&get_instance_proc, &symbol, sizeof symbol);
    if (!has_layer())
        return skip("VK_LAYER_KHRONOS_validation is not installed");
    gpu g = {NULL, NULL, NULL};
    if (!make_instance())
        return skip("cannot create a Vulkan instance");
    if (!make_device(&g))
        return skip("there is no Vulkan device");
    const VkBuffer empty = make_buffer(&g, 0);
    if (empty)
        ((PFN_vkDestroyBuffer)g.proc(g.device, "vkDestroyBuffer"))(g.device, empty, NULL);
    if (!break_synchronisation(&g)) {
        fprintf(stderr, "the probe could not record its commands\n");
        return 1;
    }
    ((PFN_vkDestroyDevice)g.proc(g.device, "vkDestroyDevice"))(g.device, NULL);
    INSTANCE(vkDestroyInstance)(instance, NULL);
    return 0;
}
