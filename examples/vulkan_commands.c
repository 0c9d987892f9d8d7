/* Records attention into your own VkCommandBuffer, on your device and in your VkBuffer; you submit it with the rest of your work. This
   example opens the Vulkan loader at run time, so it needs only the headers.

   usage: vulkan_commands     exits with 77 and the reason if there is no Vulkan device */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <raggedvit/raggedvit.h>
#include <raggedvit/vulkan.h>

enum { HEADS = 3, HEAD_DIM = 64, DIM = HEADS * HEAD_DIM, ROWS = 40, QKV_SIZE = ROWS * 3 * DIM * 4, OUT_SIZE = ROWS * DIM * 4 };

static void need(int ok, const char *what, int exit_code)
{
    if (!ok)
        exit((fprintf(stderr, "%s failed: %s\n", what, rvit_status_detail()), exit_code));
}
#define RVIT(call) need((call) == RVIT_OK, #call, 1)

/* Your Vulkan objects. */
static PFN_vkGetInstanceProcAddr get_proc;
static VkInstance instance;
static VkPhysicalDevice physical; /* the first */
static VkDevice vk;
static VkQueue queue;
static VkCommandBuffer commands;
static VkBuffer vk_buffer;
enum { VK_SIZE = QKV_SIZE + OUT_SIZE + 16, VK_USAGE = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT };
static float *mapped;
#define CALL(name) ((PFN_##name)get_proc(instance, #name)) /* a real program would keep the pointers */
#define VK(name, ...) need(CALL(name)(__VA_ARGS__) == VK_SUCCESS, #name, 77)
#define TYPE(name) .sType = VK_STRUCTURE_TYPE_##name

static void set_up(void)
{
    void *loader = dlopen("libvulkan.so.1", RTLD_NOW);
    need(loader != NULL && (*(void **)&get_proc = dlsym(loader, "vkGetInstanceProcAddr")) != NULL, "opening the Vulkan loader", 77);
    const VkApplicationInfo app = {TYPE(APPLICATION_INFO), .apiVersion = VK_API_VERSION_1_1};
    VK(vkCreateInstance, &(VkInstanceCreateInfo){TYPE(INSTANCE_CREATE_INFO), .pApplicationInfo = &app}, NULL, &instance);
    uint32_t n = 1, type = 0;
    need(CALL(vkEnumeratePhysicalDevices)(instance, &n, &physical) >= 0 && n == 1, "looking for a Vulkan device", 77);
    const float priority = 1;
    const VkDeviceQueueCreateInfo one = {TYPE(DEVICE_QUEUE_CREATE_INFO), .queueCount = 1, .pQueuePriorities = &priority};
    const VkDeviceCreateInfo device = {TYPE(DEVICE_CREATE_INFO), .queueCreateInfoCount = 1, .pQueueCreateInfos = &one};
    VK(vkCreateDevice, physical, &device, NULL, &vk); /* queue family 0 supports compute on almost every device */
    CALL(vkGetDeviceQueue)(vk, 0, 0, &queue);

    VkCommandPool pool;
    VK(vkCreateCommandPool, vk, &(VkCommandPoolCreateInfo){TYPE(COMMAND_POOL_CREATE_INFO)}, NULL, &pool);
    VK(vkAllocateCommandBuffers, vk,
       &(VkCommandBufferAllocateInfo){TYPE(COMMAND_BUFFER_ALLOCATE_INFO), .commandPool = pool, .commandBufferCount = 1}, &commands);
    const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkMemoryRequirements needs;
    VkPhysicalDeviceMemoryProperties has;
    VkDeviceMemory memory;
    VK(vkCreateBuffer, vk, &(VkBufferCreateInfo){TYPE(BUFFER_CREATE_INFO), .size = VK_SIZE, .usage = VK_USAGE}, NULL, &vk_buffer);
    CALL(vkGetBufferMemoryRequirements)(vk, vk_buffer, &needs);
    CALL(vkGetPhysicalDeviceMemoryProperties)(physical, &has);
    while ((needs.memoryTypeBits >> type & 1) == 0 || (has.memoryTypes[type].propertyFlags & visible) != visible)
        type++;
    const VkMemoryAllocateInfo allocate = {TYPE(MEMORY_ALLOCATE_INFO), .allocationSize = needs.size, .memoryTypeIndex = type};
    VK(vkAllocateMemory, vk, &allocate, NULL, &memory);
    VK(vkBindBufferMemory, vk, vk_buffer, memory, 0);
    VK(vkMapMemory, vk, memory, 0, VK_WHOLE_SIZE, 0, (void **)&mapped);
}

int main(void)
{
    set_up();
    /* Two images of 30 and 10 rows. All keys are zero, so the softmax weights are equal and each result is the mean of v over its image.
       v is the row number, so the results are 14.5 and 34.5. */
    const float *out = mapped + QKV_SIZE / 4;
    int32_t *cu_seqlens = (int32_t *)(mapped + (QKV_SIZE + OUT_SIZE) / 4);
    for (int i = 0; i < ROWS * 3 * DIM; i++)
        mapped[i] = i / DIM % 3 == 0 ? 1 : i / DIM % 3 == 1 ? 0 : (float)(i / (3 * DIM));
    cu_seqlens[0] = 0, cu_seqlens[1] = 30, cu_seqlens[2] = ROWS;

    /* The library's objects for them. Wrapping neither copies nor takes ownership. List the features and extensions that you enabled on
       the device; here there are none. */
    rvit_vulkan_device_desc own = RVIT_VULKAN_DEVICE_DESC_INIT;
    own.instance = instance, own.physical_device = physical, own.device = vk, own.queue = queue;
    own.get_instance_proc_addr = (rvit_vulkan_function)get_proc;
    rvit_memory_desc part = RVIT_MEMORY_DESC_INIT;
    part.type = RVIT_MEMORY_VULKAN, part.vk_buffer = (uint64_t)vk_buffer, part.vk_buffer_size = VK_SIZE, part.vk_usage = VK_USAGE;
    rvit_device *device = NULL;
    rvit_buffer *buffer = NULL;
    rvit_stream *stream = NULL;
    need(rvit_vulkan_device_create(&own, NULL, &device) == RVIT_OK, "rvit_vulkan_device_create", 77);
    RVIT(rvit_buffer_wrap(device, &part, &buffer));

    VK(vkBeginCommandBuffer, commands, &(VkCommandBufferBeginInfo){TYPE(COMMAND_BUFFER_BEGIN_INFO)});
    RVIT(rvit_stream_wrap(device, commands, &stream));
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.n_images = 2, args.n_heads = HEADS, args.head_dim = HEAD_DIM;
    args.max_len = args.rows = ROWS; /* capacities; the lengths are read when the commands run */
    args.q.buffer = args.k.buffer = args.v.buffer = args.out.buffer = args.cu_seqlens.buffer = buffer;
    args.k.offset = DIM * 4, args.v.offset = 2 * DIM * 4, args.out.offset = QKV_SIZE, args.cu_seqlens.offset = QKV_SIZE + OUT_SIZE;
    args.q_stride = args.k_stride = args.v_stride = 3 * DIM;
    RVIT(rvit_attention(stream, &args)); /* records, does not run */
    /* The barrier to the reader of the results is yours. Here the host reads them. */
    const VkMemoryBarrier b = {TYPE(MEMORY_BARRIER), .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT, .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    CALL(vkCmdPipelineBarrier)(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &b, 0, NULL, 0, NULL);
    VK(vkEndCommandBuffer, commands);
    VK(vkQueueSubmit, queue, 1, &(VkSubmitInfo){TYPE(SUBMIT_INFO), .commandBufferCount = 1, .pCommandBuffers = &commands}, VK_NULL_HANDLE);
    VK(vkQueueWaitIdle, queue);

    double largest = 0;
    for (int i = 0; i < ROWS * DIM; i++)
        largest = fmax(largest, fabs(out[i] - (i < 30 * DIM ? 14.5 : 34.5)));
    printf("attention in the caller's command buffer, largest error %.2g\n", largest);
    rvit_stream_destroy(stream);
    rvit_buffer_destroy(buffer);
    rvit_device_destroy(device);
    return largest < 1e-3 ? 0 : 1;
}
