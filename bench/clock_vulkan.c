#include "clock.h"

#include "report.h"

#include <stdlib.h>

#ifdef RVIT_HAVE_VULKAN
#define VK_NO_PROTOTYPES
#define VOLK_IMPLEMENTATION
#include <volk.h>

struct vulkan_clock {
    VkInstance instance;
    VkDevice device;
    struct VolkDeviceTable vk;
    VkQueue queue;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fences[CLOCK_CALLS];
    int n_pending;
};

static void submit_empty(void *user)
{
    vulkan_clock *c = user;
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &c->commands};
    (void)c->vk.vkQueueSubmit(c->queue, 1, &info, c->fences[c->n_pending++]);
}

static void drain(void *user)
{
    vulkan_clock *c = user;
    (void)c->vk.vkWaitForFences(c->device, (uint32_t)c->n_pending, c->fences, VK_TRUE, UINT64_MAX);
    (void)c->vk.vkResetFences(c->device, (uint32_t)c->n_pending, c->fences);
    c->n_pending = 0;
}

/* Prefers a queue family without graphics, like the library. */
static int queue_family(VkPhysicalDevice device, uint32_t *out_family)
{
    VkQueueFamilyProperties families[16];
    uint32_t n = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(device, &n, families);
    int found = 0;
    for (uint32_t i = n; i-- > 0;) {
        const VkQueueFlags flags = families[i].queueFlags;
        if ((flags & VK_QUEUE_COMPUTE_BIT) == 0 || (found && (flags & VK_QUEUE_GRAPHICS_BIT) != 0))
            continue;
        *out_family = i;
        found = 1;
    }
    return found;
}

static int open_clock(vulkan_clock *c)
{
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    if (volkInitialize() != VK_SUCCESS || vkCreateInstance(&instance, NULL, &c->instance) != VK_SUCCESS)
        return 0;
    volkLoadInstanceOnly(c->instance);
    VkPhysicalDevice physical;
    uint32_t n = 1, family = 0;
    const VkResult found = vkEnumeratePhysicalDevices(c->instance, &n, &physical);
    if ((found != VK_SUCCESS && found != VK_INCOMPLETE) || n == 0 || !queue_family(physical, &family))
        return 0;
    const float priority = 1.0f;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = family, .queueCount = 1, .pQueuePriorities = &priority};
    const VkDeviceCreateInfo device = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
    if (vkCreateDevice(physical, &device, NULL, &c->device) != VK_SUCCESS)
        return 0;
    volkLoadDeviceTable(&c->vk, c->device);
    c->vk.vkGetDeviceQueue(c->device, family, 0, &c->queue);
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
    if (c->vk.vkCreateCommandPool(c->device, &pool, NULL, &c->pool) != VK_SUCCESS)
        return 0;
    const VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = c->pool, .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    if (c->vk.vkAllocateCommandBuffers(c->device, &commands, &c->commands) != VK_SUCCESS ||
        c->vk.vkBeginCommandBuffer(c->commands, &begin) != VK_SUCCESS || c->vk.vkEndCommandBuffer(c->commands) != VK_SUCCESS)
        return 0;
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    for (int i = 0; i < CLOCK_CALLS; i++)
        if (c->vk.vkCreateFence(c->device, &fence, NULL, &c->fences[i]) != VK_SUCCESS)
            return 0;
    return 1;
}

vulkan_clock *vulkan_clock_open(void)
{
    vulkan_clock *clock = calloc(1, sizeof *clock);
    if (open_clock(clock))
        return clock;
    vulkan_clock_close(clock);
    return NULL;
}

void vulkan_clock_close(vulkan_clock *c)
{
    if (c == NULL)
        return;
    if (c->device != VK_NULL_HANDLE) {
        for (int i = 0; i < CLOCK_CALLS; i++)
            c->vk.vkDestroyFence(c->device, c->fences[i], NULL);
        c->vk.vkDestroyCommandPool(c->device, c->pool, NULL);
        c->vk.vkDestroyDevice(c->device, NULL);
    }
    if (c->instance != VK_NULL_HANDLE)
        vkDestroyInstance(c->instance, NULL);
    free(c);
}

double vulkan_clock_submit(vulkan_clock *c)
{
    const double begin = report_seconds();
    submit_empty(c);
    const double took = report_seconds() - begin;
    drain(c);
    return took;
}

int vulkan_clock_floor(vulkan_clock *c, double samples[CLOCK_SAMPLES])
{
    const timed work = {submit_empty, drain, c};
    return clock_host(&work, 0, samples);
}
#else
vulkan_clock *vulkan_clock_open(void)
{
    return NULL;
}

void vulkan_clock_close(vulkan_clock *clock)
{
    (void)clock;
}

double vulkan_clock_submit(vulkan_clock *clock)
{
    (void)clock;
    return 0;
}

int vulkan_clock_floor(vulkan_clock *clock, double samples[CLOCK_SAMPLES])
{
    (void)clock;
    (void)samples;
    return 0;
}
#endif
