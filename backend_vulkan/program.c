/* Programs: one command buffer that is recorded once, or several if the MACs exceed the device's limit per submit. A dry run comes
   first: it counts descriptors and finds the dispatches whose workgroup counts the device must compute, and the op after which it can.
   The ops are kept because a program may also be recorded into the caller's command buffers. */
#include "backend_vulkan/vulkan.h"

#include <string.h>

typedef struct vk_program {
    rvit_program base;
    VkCommandPool pool;
    VkCommandBuffer *commands;
    int32_t n_commands;
    VkDescriptorPool descriptors;
    VkBufferView *views;
    uint32_t n_views;
    rvit_vk_indirect indirect;
    int64_t working_size; /* bytes of the dispatch sizes, once allocated */
    rvit_op *ops;
    int32_t n_ops;
    int64_t launches, copies;
} vk_program;

static rvit_status record_ops(rvit_vk_recorder *recorder, const rvit_op *ops, int32_t n_ops)
{
    for (int32_t i = 0; i < n_ops; i++)
        RVIT_TRY(rvit_vk_record_op(recorder, &ops[i]));
    return RVIT_OK;
}

/* Whether a new command buffer begins before the op. *work holds the MACs of the current one. */
static int starts_submit(const rvit_vk_device *device, const rvit_op *op, double *work)
{
    const double own = rvit_vk_macs(op);
    const int starts = device->submit_work > 0.0 && *work > 0.0 && *work + own > device->submit_work;
    *work = starts ? own : *work + own;
    return starts;
}

static int32_t count_commands(const rvit_vk_device *device, const rvit_op *ops, int32_t n_ops)
{
    int32_t n = 1;
    double work = 0.0;
    for (int32_t i = 0; i < n_ops; i++)
        n += starts_submit(device, &ops[i], &work);
    return n;
}

static rvit_status open_program(rvit_vk_device *device, const rvit_vk_recorder *dry, vk_program *program)
{
    rvit_vk_indirect *indirect = &program->indirect;
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = device->physical.queue_family};
    RVIT_VK_TRY(device->vk, vkCreateCommandPool, (device->handle, &pool, NULL, &program->pool));
    const VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                  .commandPool = program->pool,
                                                  .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                  .commandBufferCount = (uint32_t)program->n_commands};
    program->commands = rvit_alloc_array(&device->base.alloc, (size_t)program->n_commands, sizeof *program->commands);
    RVIT_TRY_MEMORY(program->commands);
    RVIT_VK_TRY(device->vk, vkAllocateCommandBuffers, (device->handle, &commands, program->commands));
    /* A descriptor pool must not be empty, even for a program of copies only. */
    const uint32_t n_sets = dry->n_sets + 1;
    const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n_sets * RVIT_VK_MAX_BINDINGS},
                                          {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, dry->n_views + 1}};
    const VkDescriptorPoolCreateInfo descriptors = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = n_sets, .poolSizeCount = 2, .pPoolSizes = sizes};
    RVIT_VK_TRY(device->vk, vkCreateDescriptorPool, (device->handle, &descriptors, NULL, &program->descriptors));
    program->views = rvit_alloc_array(&device->base.alloc, dry->n_views, sizeof *program->views);
    RVIT_TRY_MEMORY(program->views);
    if (indirect->n_slots == 0)
        return RVIT_OK;
    RVIT_TRY(rvit_vk_dispatch_sizes_open(device, indirect, &indirect->memory));
    atomic_fetch_add(&device->base.device_allocations, 1);
    atomic_fetch_add(&device->base.working_size, indirect->memory.base.size);
    program->working_size = indirect->memory.base.size;
    return RVIT_OK;
}

static rvit_status record_program(rvit_vk_recorder *recorder, const vk_program *program)
{
    int32_t at = 0;
    double work = 0.0;
    recorder->commands = program->commands[at];
    RVIT_TRY(rvit_vk_record_begin(recorder, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT));
    RVIT_TRY(rvit_vk_record_dispatch_sizes(recorder, -1));
    for (int32_t i = 0; i < program->n_ops; i++) {
        if (starts_submit(recorder->device, &program->ops[i], &work)) {
            RVIT_TRY(rvit_vk_record_end(recorder));
            recorder->commands = program->commands[++at];
            RVIT_TRY(rvit_vk_record_begin(recorder, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT));
        }
        RVIT_TRY(rvit_vk_record_op(recorder, &program->ops[i]));
        RVIT_TRY(rvit_vk_record_dispatch_sizes(recorder, i));
    }
    return rvit_vk_record_end(recorder);
}

/* The dry run, with room for the maximum number of dispatch sizes; keeps those that it found. */
static rvit_status dry_run(rvit_vk_device *device, vk_program *program, rvit_vk_recorder *dry)
{
    rvit_alloc *alloc = &device->base.alloc;
    rvit_vk_indirect *indirect = &program->indirect;
    rvit_vk_dispatch_size *room = rvit_alloc_array(alloc, (size_t)program->n_ops * RVIT_VK_OP_MAX_DISPATCH, sizeof *room);
    RVIT_TRY_MEMORY(room);
    *indirect = (rvit_vk_indirect){.sizes = room, .ops = program->ops};
    rvit_status status = record_ops(dry, program->ops, program->n_ops);
    indirect->sizes = status != RVIT_OK ? NULL : rvit_alloc_array(alloc, (size_t)indirect->n_sizes, sizeof *indirect->sizes);
    if (indirect->sizes != NULL)
        memcpy(indirect->sizes, room, (size_t)indirect->n_sizes * sizeof *room);
    else if (status == RVIT_OK)
        status = RVIT_OUT_OF_HOST_MEMORY;
    rvit_alloc_free(alloc, room);
    RVIT_TRY(status);
    rvit_vk_number_dispatch_sizes(indirect);
    for (int32_t i = -1; i < program->n_ops; i++)
        RVIT_TRY(rvit_vk_record_dispatch_sizes(dry, i));
    return RVIT_OK;
}

static rvit_status build(rvit_vk_device *device, const rvit_op *ops, int32_t n_ops, vk_program *program)
{
    program->ops = rvit_alloc_array(&device->base.alloc, (size_t)n_ops, sizeof *ops);
    RVIT_TRY_MEMORY(program->ops);
    memcpy(program->ops, ops, (size_t)n_ops * sizeof *ops);
    program->n_ops = n_ops;
    rvit_vk_recorder dry = {.device = device, .indirect = &program->indirect};
    const rvit_status counted = dry_run(device, program, &dry);
    if (counted != RVIT_OK) {
        rvit_vk_drop_wanted(&dry);
        return counted;
    }
    RVIT_TRY(rvit_vk_compile_wanted(&dry));
    program->n_commands = count_commands(device, ops, n_ops);
    RVIT_TRY(open_program(device, &dry, program));
    rvit_vk_recorder recorder = {
        .device = device, .descriptors = program->descriptors, .views = program->views, .indirect = &program->indirect};
    const rvit_status status = record_program(&recorder, program);
    program->n_views = recorder.n_views;
    program->launches = recorder.launches;
    program->copies = recorder.copies;
    return status;
}

static void close_program(rvit_vk_device *device, vk_program *program)
{
    device->vk.vkDestroyDescriptorPool(device->handle, program->descriptors, NULL);
    device->vk.vkDestroyCommandPool(device->handle, program->pool, NULL);
    for (uint32_t i = 0; i < program->n_views; i++)
        device->vk.vkDestroyBufferView(device->handle, program->views[i], NULL);
    atomic_fetch_sub(&device->base.working_size, program->working_size);
    rvit_vk_buffer_close(device, &program->indirect.memory);
    rvit_alloc_free(&device->base.alloc, program->indirect.sizes);
    rvit_alloc_free(&device->base.alloc, program->ops);
    rvit_alloc_free(&device->base.alloc, program->views);
    rvit_alloc_free(&device->base.alloc, program->commands);
    rvit_alloc_free(&device->base.alloc, program);
}

rvit_status rvit_vk_program_create(rvit_device *base, const rvit_op *ops, int32_t n_ops, rvit_program **out_program)
{
    rvit_vk_device *device = rvit_vk_device_of(base);
    vk_program *program = rvit_alloc_new(&base->alloc, sizeof *program);
    RVIT_TRY_MEMORY(program);
    const rvit_status status = build(device, ops, n_ops, program);
    if (status != RVIT_OK) {
        close_program(device, program);
        return status;
    }
    *out_program = &program->base;
    return RVIT_OK;
}

void rvit_vk_program_destroy(rvit_program *base)
{
    rvit_vk_device *device = rvit_vk_device_of(base->device);
    /* The queue of the caller's device may be waiting for work that another thread has yet to submit. */
    if (!device->is_external) {
        rvit_vk_queue_lock(device);
        const VkResult result = device->vk.vkQueueWaitIdle(device->queue);
        rvit_vk_queue_unlock(device);
        if (result != VK_SUCCESS)
            rvit_log(RVIT_LOG_ERROR, "vulkan: a program was destroyed on a failed device: VkResult %d", (int)result);
    }
    close_program(device, (vk_program *)base);
}

rvit_status rvit_vk_program_launch(rvit_program *base, rvit_stream *stream, const rvit_op *ops)
{
    (void)ops; /* there are none: rvit_device.takes_ops is 0 */
    vk_program *program = (vk_program *)base;
    if (stream->deferred)
        return rvit_vk_commands_record(stream, program->ops, program->n_ops, &program->indirect);
    RVIT_TRY(rvit_vk_stream_submit(stream, program->commands, program->n_commands));
    stream->stats.launches += program->launches;
    stream->stats.copies += program->copies;
    return RVIT_OK;
}
