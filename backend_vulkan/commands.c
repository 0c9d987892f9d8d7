/* Streams that record into the caller's command buffer and submit nothing. The descriptor sets and buffer views that the commands use
   are allocated in chunks, which are reused once the stream gets another command buffer. */
#include "backend_vulkan/vulkan.h"

#define CHUNK_SETS 32 /* minimum per chunk */

typedef struct chunk {
    struct chunk *next;
    VkDescriptorPool pool;
    VkBufferView *views;
    uint32_t n_sets, n_views;     /* in use */
    uint32_t max_sets, max_views; /* capacity */
} chunk;

typedef struct vk_commands {
    rvit_stream base;
    chunk *chunks;
    int has_begun;             /* something was recorded into the command buffer */
    rvit_vk_recorder recorder; /* keeps the touched ranges from one call to the next */
} vk_commands;

static rvit_vk_device *device_of(const vk_commands *c)
{
    return rvit_vk_device_of(c->base.device);
}

rvit_status rvit_vk_commands_create(rvit_device *device, void *commands, rvit_stream **out_stream)
{
    vk_commands *c = rvit_alloc_new(&device->alloc, sizeof *c);
    RVIT_TRY_MEMORY(c);
    c->base.deferred = 1;
    c->recorder.device = rvit_vk_device_of(device);
    c->recorder.commands = commands;
    *out_stream = &c->base;
    return RVIT_OK;
}

static void drop_views(rvit_vk_device *device, chunk *ch)
{
    while (ch->n_views > 0)
        device->vk.vkDestroyBufferView(device->handle, ch->views[--ch->n_views], NULL);
}

static void close_chunk(rvit_vk_device *device, chunk *ch)
{
    drop_views(device, ch);
    device->vk.vkDestroyDescriptorPool(device->handle, ch->pool, NULL);
    rvit_alloc_free(&device->base.alloc, ch->views);
    rvit_alloc_free(&device->base.alloc, ch);
}

void rvit_vk_commands_destroy(rvit_stream *base)
{
    vk_commands *c = (vk_commands *)base;
    while (c->chunks != NULL) {
        chunk *ch = c->chunks;
        c->chunks = ch->next;
        close_chunk(device_of(c), ch);
    }
    rvit_alloc_free(&base->device->alloc, c);
}

void rvit_vk_commands_set(rvit_stream *base, void *commands)
{
    vk_commands *c = (vk_commands *)base;
    rvit_vk_device *device = device_of(c);
    for (chunk *ch = c->chunks; ch != NULL; ch = ch->next) {
        drop_views(device, ch);
        (void)device->vk.vkResetDescriptorPool(device->handle, ch->pool, 0); /* always succeeds */
        ch->n_sets = 0;
    }
    c->has_begun = 0;
    c->recorder.commands = commands;
    c->recorder.n_ranges = 0;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static rvit_status open_chunk(rvit_vk_device *device, chunk *ch)
{
    const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, ch->max_sets * RVIT_VK_MAX_BINDINGS},
                                          {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, ch->max_views}};
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = ch->max_sets, .poolSizeCount = 2, .pPoolSizes = sizes};
    ch->views = rvit_alloc_array(&device->base.alloc, ch->max_views, sizeof *ch->views);
    RVIT_TRY_MEMORY(ch->views);
    RVIT_VK_TRY(device->vk, vkCreateDescriptorPool, (device->handle, &pool, NULL, &ch->pool));
    return RVIT_OK;
}

/* Finds or creates a chunk with room for the sets and views that a dry run counted. */
static rvit_status find_room(vk_commands *c, const rvit_vk_recorder *dry, chunk **out_chunk)
{
    rvit_vk_device *device = device_of(c);
    chunk *ch = c->chunks;
    while (ch != NULL && (ch->n_sets + dry->n_sets > ch->max_sets || ch->n_views + dry->n_views > ch->max_views))
        ch = ch->next;
    if (ch == NULL) {
        ch = rvit_alloc_new(&device->base.alloc, sizeof *ch);
        RVIT_TRY_MEMORY(ch);
        ch->max_sets = larger(dry->n_sets, CHUNK_SETS);
        ch->max_views = larger(dry->n_views, CHUNK_SETS * RVIT_VK_MAX_TEXELS);
        const rvit_status status = open_chunk(device, ch);
        if (status != RVIT_OK) {
            close_chunk(device, ch);
            return status;
        }
        ch->next = c->chunks;
        c->chunks = ch;
    }
    *out_chunk = ch;
    return RVIT_OK;
}

static rvit_status record_ops(rvit_vk_recorder *recorder, const rvit_op *ops, int32_t n_ops)
{
    if (recorder->indirect != NULL)
        RVIT_TRY(rvit_vk_record_dispatch_sizes(recorder, -1));
    for (int32_t i = 0; i < n_ops; i++) {
        RVIT_TRY(rvit_vk_record_op(recorder, &ops[i]));
        if (recorder->indirect != NULL)
            RVIT_TRY(rvit_vk_record_dispatch_sizes(recorder, i));
    }
    return RVIT_OK;
}

rvit_status rvit_vk_commands_record(rvit_stream *base, const rvit_op *ops, int32_t n_ops, rvit_vk_indirect *indirect)
{
    vk_commands *c = (vk_commands *)base;
    if (c->recorder.commands == VK_NULL_HANDLE)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "the stream has no command buffer: set one with rvit_stream_set");
    /* Everything that can fail, including pipeline creation, comes before the first command. */
    rvit_vk_recorder dry = {.device = device_of(c), .indirect = indirect};
    const rvit_status planned = record_ops(&dry, ops, n_ops);
    if (planned != RVIT_OK) {
        rvit_vk_drop_wanted(&dry);
        return planned;
    }
    RVIT_TRY(rvit_vk_compile_wanted(&dry));
    chunk *ch;
    RVIT_TRY(find_room(c, &dry, &ch));
    if (!c->has_begun)
        rvit_vk_record_barrier(&c->recorder);
    c->has_begun = 1;
    c->recorder.indirect = indirect;
    c->recorder.op_index = 0;
    c->recorder.descriptors = ch->pool;
    c->recorder.views = ch->views;
    c->recorder.n_views = ch->n_views;
    const rvit_status status = record_ops(&c->recorder, ops, n_ops);
    ch->n_views = c->recorder.n_views;
    ch->n_sets += dry.n_sets;
    RVIT_TRY(status);
    base->stats.launches += dry.launches;
    base->stats.copies += dry.copies;
    return RVIT_OK;
}
