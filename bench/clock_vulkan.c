#include "clock.h"

#include <stdlib.h>

#ifdef RVIT_HAVE_VULKAN
#define VK_NO_PROTOTYPES
#define VOLK_IMPLEMENTATION
#include <volk.h>

typedef struct vulkan_floor {
    VkInstance instance;
    VkDevice device;
    struct VolkDeviceTable vk;
    VkQueue queue;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fences[CLOCK_CALLS];
    int n_pending;
} vulkan_floor;

static void submit_empty(void *user)
{
    vulkan_floor *f = user;
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &f->commands};
    (void)f->vk.vkQueueSubmit(f->queue, 1, &info, f->fences[f->n_pending++]);
}

static void drain(void *user)
{
    vulkan_floor *f = user;
    (void)f->vk.vkWaitForFences(f->device, (uint32_t)f->n_pending, f->fences, VK_TRUE, UINT64_MAX);
    (void)f->vk.vkResetFences(f->device, (uint32_t)f->n_pending, f->fences);
    f->n_pending = 0;
}

static int queue_family(VkPhysicalDevice device, uint32_t *out_family)
{
    VkQueueFamilyProperties families[16];
    uint32_t n = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(device, &n, families);
    for (uint32_t i = 0; i < n; i++)
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) {
            *out_family = i;
            return 1;
        }
    return 0;
}

static int open_floor(vulkan_floor *f)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    if (volkInitialize() != VK_SUCCESS || vkCreateInstance(&instance, NULL, &f->instance) != VK_SUCCESS)
        return 0;
    volkLoadInstanceOnly(f->instance);
    VkPhysicalDevice physical;
    uint32_t n = 1, family = 0;
    const VkResult found = vkEnumeratePhysicalDevices(f->instance, &n, &physical);
    if ((found != VK_SUCCESS && found != VK_INCOMPLETE) || n == 0 || !queue_family(physical, &family))
        return 0;
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = family, .queueCount = 1, .pQueuePriorities = &priority};
    const VkDeviceCreateInfo device = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
    if (vkCreateDevice(physical, &device, NULL, &f->device) != VK_SUCCESS)
        return 0;
    volkLoadDeviceTable(&f->vk, f->device);
    f->vk.vkGetDeviceQueue(f->device, family, 0, &f->queue);
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
    if (f->vk.vkCreateCommandPool(f->device, &pool, NULL, &f->pool) != VK_SUCCESS)
        return 0;
    const VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = f->pool, .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    if (f->vk.vkAllocateCommandBuffers(f->device, &commands, &f->commands) != VK_SUCCESS ||
        f->vk.vkBeginCommandBuffer(f->commands, &begin) != VK_SUCCESS || f->vk.vkEndCommandBuffer(f->commands) != VK_SUCCESS)
        return 0;
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    for (int i = 0; i < CLOCK_CALLS; i++)
        if (f->vk.vkCreateFence(f->device, &fence, NULL, &f->fences[i]) != VK_SUCCESS)
            return 0;
    return 1;
}

static void close_floor(vulkan_floor *f)
{
    if (f->device != VK_NULL_HANDLE) {
        for (int i = 0; i < CLOCK_CALLS; i++)
            f->vk.vkDestroyFence(f->device, f->fences[i], NULL);
        f->vk.vkDestroyCommandPool(f->device, f->pool, NULL);
        f->vk.vkDestroyDevice(f->device, NULL);
    }
    if (f->instance != VK_NULL_HANDLE)
        vkDestroyInstance(f->instance, NULL);
}

int vulkan_clock_floor(double samples[CLOCK_SAMPLES])
{
    vulkan_floor floor = {0};
    int n = 0;
    if (open_floor(&floor)) {
        const timed work = {submit_empty, drain, &floor};
        n = clock_host(&work, 0, samples);
    }
    close_floor(&floor);
    return n;
}
#else
int vulkan_clock_floor(double samples[CLOCK_SAMPLES])
{
    (void)samples;
    return 0;
}
#endif
