/* The application: main function of test_vulkan_app, and its helpers. */
#define VOLK_IMPLEMENTATION
#include "app.h"

#define MATRIX_EXTENSION "VK_KHR_cooperative_matrix"
#define MATRIX_FEATURES ((VkStructureType)1000506000)

app *APP;
static app fixture;
static rvit_device *harness_device;
static rvit_stream *harness_stream;

static void expect_success(VkResult result)
{
    assert_int_equal(result, VK_SUCCESS);
}

int app_has_extension(const app *a, const char *name)
{
    static VkExtensionProperties found[1024];
    uint32_t n = 1024;
    expect_success(vkEnumerateDeviceExtensionProperties(a->physical, NULL, &n, found));
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(found[i].extensionName, name) == 0)
            return 1;
    return 0;
}

static void take_lock(void *user)
{
    app *a = user;
    pthread_mutex_lock(&a->lock);
    assert_false(a->is_locked);
    a->is_locked = 1;
    a->n_locks++;
}

static void give_lock(void *user)
{
    app *a = user;
    assert_true(a->is_locked);
    a->is_locked = 0;
    pthread_mutex_unlock(&a->lock);
}

/* The device under test: the one with the name of the harness's device. */
static void find_physical(app *a)
{
    VkPhysicalDevice all[32];
    uint32_t n = 32;
    expect_success(vkEnumeratePhysicalDevices(a->instance, &n, all));
    for (uint32_t i = 0; i < n && a->physical == NULL; i++) {
        vkGetPhysicalDeviceProperties(all[i], &a->properties);
        if (strcmp(a->properties.deviceName, H.info.name) == 0)
            a->physical = all[i];
    }
    assert_non_null(a->physical);
}

static void find_family(app *a)
{
    VkQueueFamilyProperties families[32];
    uint32_t n = 32;
    vkGetPhysicalDeviceQueueFamilyProperties(a->physical, &n, families);
    while (a->family < n && (families[a->family].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0)
        a->family++;
    assert_true(a->family < n);
}

static void want_extension(app *a, const char *name)
{
    if (app_has_extension(a, name))
        a->extensions[a->n_extensions++] = name;
}

static void choose_features(app *a)
{
    want_extension(a, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
    want_extension(a, VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME);
    a->vulkan12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    a->vulkan12.timelineSemaphore = VK_TRUE;
    if (H.desc.tier == RVIT_TIER_MATRIX) {
        want_extension(a, MATRIX_EXTENSION);
        a->vulkan12.shaderFloat16 = a->vulkan12.vulkanMemoryModel = a->vulkan12.vulkanMemoryModelDeviceScope = VK_TRUE;
        a->vulkan12.pNext = &a->size;
        a->size.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
        a->size.subgroupSizeControl = a->size.computeFullSubgroups = VK_TRUE;
        a->size.pNext = &a->matrix;
        a->matrix.type = MATRIX_FEATURES;
        a->matrix.matrix = VK_TRUE;
    }
}

void app_open(app *a, int bare)
{
    memset(a, 0, sizeof *a);
    expect_success(volkInitialize());
    const uint32_t version = volkGetInstanceVersion() < VK_API_VERSION_1_3 ? volkGetInstanceVersion() : VK_API_VERSION_1_3;
    const VkApplicationInfo info = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = version};
    const VkInstanceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &info};
    expect_success(vkCreateInstance(&create, NULL, &a->instance));
    volkLoadInstance(a->instance);
    find_physical(a);
    find_family(a);
    if (!bare && version >= VK_API_VERSION_1_2 && a->properties.apiVersion >= VK_API_VERSION_1_2)
        choose_features(a);
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = a->family, .queueCount = 1, .pQueuePriorities = &priority};
    const VkDeviceCreateInfo device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                       .pNext = a->vulkan12.sType != 0 ? &a->vulkan12 : NULL,
                                       .queueCreateInfoCount = 1,
                                       .pQueueCreateInfos = &queue,
                                       .enabledExtensionCount = a->n_extensions,
                                       .ppEnabledExtensionNames = a->extensions};
    expect_success(vkCreateDevice(a->physical, &device, NULL, &a->device));
    volkLoadDeviceTable(&a->vk, a->device);
    a->vk.vkGetDeviceQueue(a->device, a->family, 0, &a->queue);
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = a->family};
    expect_success(a->vk.vkCreateCommandPool(a->device, &pool, NULL, &a->pool));
    pthread_mutex_init(&a->lock, NULL);
    a->desc = (rvit_vulkan_device_desc)RVIT_VULKAN_DEVICE_DESC_INIT;
    a->desc.instance = a->instance;
    a->desc.physical_device = a->physical;
    a->desc.device = a->device;
    a->desc.queue = a->queue;
    a->desc.queue_family = a->family;
    a->desc.api_version = version;
    a->desc.get_instance_proc_addr = (rvit_vulkan_function)vkGetInstanceProcAddr;
    a->desc.features = device.pNext;
    a->desc.extensions = a->extensions;
    a->desc.n_extensions = a->n_extensions;
    a->desc.lock_queue = take_lock;
    a->desc.unlock_queue = give_lock;
    a->desc.user = a;
}

void app_close(app *a)
{
    if (a->device != NULL) {
        a->vk.vkDestroyCommandPool(a->device, a->pool, NULL);
        a->vk.vkDestroyDevice(a->device, NULL);
        pthread_mutex_destroy(&a->lock);
    }
    if (a->instance != NULL) {
        volkLoadInstance(a->instance);
        vkDestroyInstance(a->instance, NULL);
    }
    memset(a, 0, sizeof *a);
}

rvit_status app_create(const app *a, rvit_device **out_device)
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.tier = H.desc.tier;
    desc.skip_self_test = 1;
    return rvit_vulkan_device_create(&a->desc, &desc, out_device);
}

app_buffer app_buffer_open(const app *a, int64_t size, VkBufferUsageFlags usage)
{
    app_buffer b = {.size = size, .usage = usage};
    const VkBufferCreateInfo create = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = (VkDeviceSize)size, .usage = usage};
    expect_success(a->vk.vkCreateBuffer(a->device, &create, NULL, &b.handle));
    VkMemoryRequirements needs;
    VkPhysicalDeviceMemoryProperties memory;
    a->vk.vkGetBufferMemoryRequirements(a->device, b.handle, &needs);
    vkGetPhysicalDeviceMemoryProperties(a->physical, &memory);
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t type = 0;
    while ((needs.memoryTypeBits >> type & 1) == 0 || (memory.memoryTypes[type].propertyFlags & wanted) != wanted)
        type++;
    const VkMemoryAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size, .memoryTypeIndex = type};
    expect_success(a->vk.vkAllocateMemory(a->device, &allocate, NULL, &b.memory));
    expect_success(a->vk.vkBindBufferMemory(a->device, b.handle, b.memory, 0));
    expect_success(a->vk.vkMapMemory(a->device, b.memory, 0, VK_WHOLE_SIZE, 0, &b.host));
    memset(b.host, SENTINEL, (size_t)size);
    return b;
}

void app_buffer_close(const app *a, app_buffer *b)
{
    a->vk.vkDestroyBuffer(a->device, b->handle, NULL);
    a->vk.vkFreeMemory(a->device, b->memory, NULL);
    *b = (app_buffer){0};
}

rvit_memory_desc app_buffer_desc(const app_buffer *b)
{
    rvit_memory_desc desc = RVIT_MEMORY_DESC_INIT;
    desc.type = RVIT_MEMORY_VULKAN;
    desc.vk_buffer = (uint64_t)b->handle;
    desc.vk_buffer_size = b->size;
    desc.vk_usage = b->usage;
    return desc;
}

VkCommandBuffer app_begin(const app *a)
{
    VkCommandBuffer commands = NULL;
    const VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                  .commandPool = a->pool,
                                                  .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                  .commandBufferCount = 1};
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    expect_success(a->vk.vkAllocateCommandBuffers(a->device, &allocate, &commands));
    expect_success(a->vk.vkBeginCommandBuffer(commands, &begin));
    return commands;
}

void app_end(const app *a, VkCommandBuffer commands)
{
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    a->vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                               0, 1, &barrier, 0, NULL, 0, NULL);
    expect_success(a->vk.vkEndCommandBuffer(commands));
}

void app_run(app *a, VkCommandBuffer commands)
{
    VkFence fence;
    const VkFenceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    expect_success(a->vk.vkCreateFence(a->device, &create, NULL, &fence));
    pthread_mutex_lock(&a->lock);
    const VkResult result = a->vk.vkQueueSubmit(a->queue, 1, &info, fence);
    pthread_mutex_unlock(&a->lock);
    expect_success(result);
    expect_success(a->vk.vkWaitForFences(a->device, 1, &fence, VK_TRUE, UINT64_MAX));
    a->vk.vkDestroyFence(a->device, fence, NULL);
}

int app_setup(void **state)
{
    APP = &fixture;
    app_open(APP, 0);
    expect_ok(app_create(APP, &APP->rvit));
    harness_device = H.device[DEVICE];
    harness_stream = H.stream[DEVICE];
    H.device[DEVICE] = APP->rvit;
    expect_ok(rvit_stream_create(APP->rvit, &H.stream[DEVICE]));
    return harness_setup(state);
}

int app_teardown(void **state)
{
    const int failed = harness_teardown(state);
    rvit_stream_destroy(H.stream[DEVICE]);
    rvit_device_destroy(APP->rvit);
    H.device[DEVICE] = harness_device;
    H.stream[DEVICE] = harness_stream;
    app_close(APP);
    return failed;
}

int main(int argc, char **argv)
{
    const suite *const suites[] = {&app_device_suite, &app_record_suite, &app_buffer_suite, &app_share_suite};
    return harness_main(argc, argv, 0, suites, sizeof suites / sizeof suites[0]);
}
