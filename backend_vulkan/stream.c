/* Streams. A stream has slots; each holds the objects of one submit in flight. A slot is opened when more submits are in flight than
   ever before. All streams share the device's queue. */
#include "backend_vulkan/vulkan.h"

typedef struct slot {
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkDescriptorPool descriptors;
    VkFence fence;
    VkBufferView views[RVIT_VK_MAX_TEXELS * RVIT_VK_SLOT_OPS];
    uint32_t n_views;
    int pending;
    int64_t submit; /* number of the slot's last submit */
} slot;

typedef struct vk_stream {
    rvit_stream base;
    slot slots[RVIT_VK_SLOTS];
    int n_slots; /* number of open slots */
} vk_stream;

static rvit_status open_slot(rvit_vk_device *device, slot *s)
{
    const uint32_t n_sets = RVIT_VK_SLOT_OPS * RVIT_VK_OP_MAX_DISPATCH;
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
                                          .queueFamilyIndex = device->physical.queue_family};
    RVIT_VK_TRY(device->vk, vkCreateCommandPool, (device->handle, &pool, NULL, &s->pool));
    const VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                  .commandPool = s->pool,
                                                  .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                  .commandBufferCount = 1};
    RVIT_VK_TRY(device->vk, vkAllocateCommandBuffers, (device->handle, &commands, &s->commands));
    const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n_sets * RVIT_VK_MAX_BINDINGS},
                                          {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, RVIT_VK_MAX_TEXELS * RVIT_VK_SLOT_OPS}};
    const VkDescriptorPoolCreateInfo descriptors = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = n_sets, .poolSizeCount = 2, .pPoolSizes = sizes};
    RVIT_VK_TRY(device->vk, vkCreateDescriptorPool, (device->handle, &descriptors, NULL, &s->descriptors));
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    RVIT_VK_TRY(device->vk, vkCreateFence, (device->handle, &fence, NULL, &s->fence));
    return RVIT_OK;
}

static void drop_views(const rvit_vk_device *device, slot *s)
{
    while (s->n_views > 0)
        device->vk.vkDestroyBufferView(device->handle, s->views[--s->n_views], NULL);
}

static void close_slot(const rvit_vk_device *device, slot *s)
{
    drop_views(device, s);
    device->vk.vkDestroyFence(device->handle, s->fence, NULL);
    device->vk.vkDestroyDescriptorPool(device->handle, s->descriptors, NULL);
    device->vk.vkDestroyCommandPool(device->handle, s->pool, NULL);
    *s = (slot){0};
}

rvit_status rvit_vk_stream_create(rvit_device *base, rvit_stream **out_stream)
{
    vk_stream *stream = rvit_alloc_new(&base->alloc, sizeof *stream);
    RVIT_TRY_MEMORY(stream);
    stream->base.device = base;
    *out_stream = &stream->base;
    return RVIT_OK;
}

void rvit_vk_stream_destroy(rvit_stream *base)
{
    if (base->deferred) {
        rvit_vk_commands_destroy(base);
        return;
    }
    vk_stream *stream = (vk_stream *)base;
    for (int i = 0; i < stream->n_slots; i++)
        close_slot(rvit_vk_device_of(base->device), &stream->slots[i]);
    rvit_alloc_free(&base->device->alloc, stream);
}

/* Polls before it sleeps: an interrupt wakes a sleeping thread about 30 us late. */
static rvit_status wait_slot(vk_stream *stream, slot *s)
{
    rvit_vk_device *device = rvit_vk_device_of(stream->base.device);
    const int64_t end = device->poll_ns > 0 ? rvit_nanoseconds() + device->poll_ns : 0;
    while (end != 0 && device->vk.vkGetFenceStatus(device->handle, s->fence) == VK_NOT_READY && rvit_nanoseconds() < end)
        continue;
    RVIT_VK_TRY(device->vk, vkWaitForFences, (device->handle, 1, &s->fence, VK_TRUE, UINT64_MAX));
    s->pending = 0;
    return RVIT_OK;
}

static rvit_status add_slot(vk_stream *stream, slot **out_slot)
{
    rvit_vk_device *device = rvit_vk_device_of(stream->base.device);
    slot *s = &stream->slots[stream->n_slots];
    const rvit_status status = open_slot(device, s);
    if (status != RVIT_OK) {
        close_slot(device, s);
        return status;
    }
    stream->n_slots++;
    *out_slot = s;
    return RVIT_OK;
}

/* Returns a free slot. Waits only if the maximum number of submits is in flight. */
static rvit_status take_slot(vk_stream *stream, slot **out_slot)
{
    rvit_vk_device *device = rvit_vk_device_of(stream->base.device);
    slot *oldest = NULL;
    for (int i = 0; i < stream->n_slots; i++) {
        slot *s = &stream->slots[i];
        if (!s->pending) {
            *out_slot = s;
            return RVIT_OK;
        }
        if (oldest == NULL || s->submit < oldest->submit)
            oldest = s;
    }
    if (oldest == NULL)
        return add_slot(stream, out_slot);
    /* Submits complete in order: if the oldest is pending, all are. */
    const VkResult result = device->vk.vkGetFenceStatus(device->handle, oldest->fence);
    if (result != VK_SUCCESS && result != VK_NOT_READY)
        return rvit_vk_fail(result, "vkGetFenceStatus");
    if (result == VK_NOT_READY && stream->n_slots < RVIT_VK_SLOTS)
        return add_slot(stream, out_slot);
    if (result == VK_NOT_READY)
        stream->base.stats.synchronizations++;
    *out_slot = oldest;
    return wait_slot(stream, oldest);
}

void rvit_vk_queue_lock(rvit_vk_device *device)
{
    if (device->lock_queue != NULL)
        device->lock_queue(device->user);
    else
        rvit_mutex_lock(&device->queue_lock);
}

void rvit_vk_queue_unlock(rvit_vk_device *device)
{
    if (device->unlock_queue != NULL)
        device->unlock_queue(device->user);
    else
        rvit_mutex_unlock(&device->queue_lock);
}

/* The last submit signals the slot's fence, and the submits of a queue complete in order. */
static VkResult submit_each(rvit_vk_device *device, const VkCommandBuffer *commands, int32_t n_commands, VkFence fence)
{
    VkResult result = VK_SUCCESS;
    int32_t i = 0;
    rvit_vk_queue_lock(device);
    for (; i < n_commands && result == VK_SUCCESS; i++) {
        const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands[i]};
        result = device->vk.vkQueueSubmit(device->queue, 1, &info, i + 1 == n_commands ? fence : VK_NULL_HANDLE);
    }
    if (result != VK_SUCCESS && i > 1) /* no fence covers the earlier submits */
        (void)device->vk.vkQueueWaitIdle(device->queue);
    rvit_vk_queue_unlock(device);
    return result;
}

static rvit_status submit(vk_stream *stream, slot *s, const VkCommandBuffer *commands, int32_t n_commands)
{
    rvit_vk_device *device = rvit_vk_device_of(stream->base.device);
    RVIT_VK_TRY(device->vk, vkResetFences, (device->handle, 1, &s->fence));
    const VkResult result = submit_each(device, commands, n_commands, s->fence);
    if (result != VK_SUCCESS)
        return rvit_vk_fail(result, "vkQueueSubmit");
    s->pending = 1;
    s->submit = stream->base.stats.submits;
    stream->base.stats.submits += n_commands;
    return RVIT_OK;
}

rvit_status rvit_vk_stream_submit(rvit_stream *base, const VkCommandBuffer *commands, int32_t n_commands)
{
    vk_stream *stream = (vk_stream *)base;
    slot *s;
    RVIT_TRY(take_slot(stream, &s));
    return submit(stream, s, commands, n_commands);
}

rvit_status rvit_vk_stream_semaphore(rvit_stream *base, const rvit_semaphore *semaphore, int signals, uint64_t value)
{
    const VkSemaphore handle = RVIT_VK_HANDLE(VkSemaphore, semaphore->native);
    vk_stream *stream = (vk_stream *)base;
    rvit_vk_device *device = rvit_vk_device_of(base->device);
    slot *s;
    RVIT_TRY(take_slot(stream, &s));
    RVIT_VK_TRY(device->vk, vkResetFences, (device->handle, 1, &s->fence));
    const uint32_t n_waits = signals ? 0 : 1, n_signals = signals ? 1 : 0;
    const VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                  .waitSemaphoreValueCount = n_waits,
                                                  .pWaitSemaphoreValues = &value,
                                                  .signalSemaphoreValueCount = n_signals,
                                                  .pSignalSemaphoreValues = &value};
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    /* A wait also delays later submits; a signal also waits for earlier ones. */
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = semaphore->timeline ? &values : NULL,
                               .waitSemaphoreCount = n_waits,
                               .pWaitSemaphores = &handle,
                               .pWaitDstStageMask = &stages,
                               .signalSemaphoreCount = n_signals,
                               .pSignalSemaphores = &handle};
    rvit_vk_queue_lock(device);
    const VkResult result = device->vk.vkQueueSubmit(device->queue, 1, &info, s->fence);
    rvit_vk_queue_unlock(device);
    if (result != VK_SUCCESS)
        return rvit_vk_fail(result, "vkQueueSubmit");
    s->pending = 1;
    s->submit = base->stats.submits++;
    return RVIT_OK;
}

static rvit_status record_ops(rvit_vk_recorder *recorder, const rvit_op *ops, int32_t n_ops)
{
    RVIT_TRY(rvit_vk_record_begin(recorder, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT));
    for (int32_t i = 0; i < n_ops; i++)
        RVIT_TRY(rvit_vk_record_op(recorder, &ops[i]));
    return rvit_vk_record_end(recorder);
}

static rvit_status enqueue(vk_stream *stream, const rvit_op *ops, int32_t n_ops)
{
    rvit_vk_device *device = rvit_vk_device_of(stream->base.device);
    slot *s;
    RVIT_TRY(take_slot(stream, &s));
    drop_views(device, s); /* NOLINT(clang-analyzer-core.CallAndMessage): rvit_vk_fail never gives RVIT_OK */
    RVIT_VK_TRY(device->vk, vkResetCommandPool, (device->handle, s->pool, 0));
    RVIT_VK_TRY(device->vk, vkResetDescriptorPool, (device->handle, s->descriptors, 0));
    rvit_vk_recorder recorder = {.device = device, .commands = s->commands, .descriptors = s->descriptors, .views = s->views};
    const rvit_status status = record_ops(&recorder, ops, n_ops);
    s->n_views = recorder.n_views;
    RVIT_TRY(status);
    RVIT_TRY(submit(stream, s, &s->commands, 1));
    stream->base.stats.launches += recorder.launches;
    stream->base.stats.copies += recorder.copies;
    return RVIT_OK;
}

rvit_status rvit_vk_stream_enqueue(rvit_stream *base, const rvit_op *ops, int32_t n_ops)
{
    if (base->deferred)
        return rvit_vk_commands_record(base, ops, n_ops, NULL);
    for (int32_t i = 0; i < n_ops; i += RVIT_VK_SLOT_OPS)
        RVIT_TRY(enqueue((vk_stream *)base, ops + i, n_ops - i < RVIT_VK_SLOT_OPS ? n_ops - i : RVIT_VK_SLOT_OPS));
    return RVIT_OK;
}

rvit_status rvit_vk_stream_synchronize(rvit_stream *base)
{
    if (base->deferred) /* the caller waits for its own command buffer */
        return RVIT_OK;
    vk_stream *stream = (vk_stream *)base;
    int waited = 0;
    for (int i = 0; i < stream->n_slots; i++) {
        if (!stream->slots[i].pending)
            continue;
        waited = 1;
        RVIT_TRY(wait_slot(stream, &stream->slots[i]));
    }
    base->stats.synchronizations += waited;
    return RVIT_OK;
}
