/* Records ops: descriptor sets, barriers between dependent ops, and dispatches (indirect if the row count is known only on the device). */
#include <string.h>

#include "backend_vulkan/vulkan.h"

#define STAGES (VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT)
#define WRITES (VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT)
#define READS (VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_INDIRECT_COMMAND_READ_BIT)

static void barrier(const rvit_vk_recorder *recorder, VkPipelineStageFlags from, VkAccessFlags source, VkPipelineStageFlags to,
                    VkAccessFlags destination)
{
    const VkMemoryBarrier memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = source, .dstAccessMask = destination};
    if (recorder->commands != VK_NULL_HANDLE)
        recorder->device->vk.vkCmdPipelineBarrier(recorder->commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

void rvit_vk_record_barrier(rvit_vk_recorder *recorder)
{
    recorder->n_ranges = 0;
    recorder->since_full = 0;
    barrier(recorder, STAGES | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT, WRITES, STAGES | VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT, READS | WRITES);
}

/* Orders compute shaders only; costs a GPU less than half as much as a full barrier. */
static void record_compute_barrier(rvit_vk_recorder *recorder)
{
    recorder->n_ranges = 0;
    recorder->since_full |= RVIT_VK_COMPUTE_BARRIER;
    barrier(recorder, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
}

rvit_status rvit_vk_record_begin(rvit_vk_recorder *recorder, VkCommandBufferUsageFlags usage)
{
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = usage};
    RVIT_VK_TRY(recorder->device->vk, vkBeginCommandBuffer, (recorder->commands, &begin));
    rvit_vk_record_barrier(recorder);
    return RVIT_OK;
}

rvit_status rvit_vk_record_end(rvit_vk_recorder *recorder)
{
    barrier(recorder, STAGES, WRITES, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    RVIT_VK_TRY(recorder->device->vk, vkEndCommandBuffer, (recorder->commands));
    return RVIT_OK;
}

/* Bindings begin at aligned offsets, so a binding may begin before its array. */
static int64_t alignment_of(const rvit_vk_device *device)
{
    const VkPhysicalDeviceLimits *limits = &device->physical.limits;
    return (int64_t)(limits->minStorageBufferOffsetAlignment > limits->minTexelBufferOffsetAlignment
                         ? limits->minStorageBufferOffsetAlignment
                         : limits->minTexelBufferOffsetAlignment);
}

static rvit_vk_range range_of(const rvit_vk_device *device, const rvit_access *access)
{
    const int64_t alignment = alignment_of(device), at = rvit_vk_at(access->view);
    return (rvit_vk_range){.buffer = ((const rvit_vk_buffer *)access->view.buffer)->handle,
                           .begin = at / alignment * alignment,
                           .end = (at + access->size + 3) / 4 * 4,
                           .writes = access->writes};
}

/* Whether the op writes memory that an earlier op touched since the last barrier, or touches memory that one wrote. */
static int conflicts(const rvit_vk_recorder *recorder)
{
    for (int a = 0; a < recorder->n_accesses; a++) {
        if (recorder->accesses[a].view.buffer == NULL)
            continue;
        const rvit_vk_range now = range_of(recorder->device, &recorder->accesses[a]);
        for (int r = 0; r < recorder->n_ranges; r++) {
            const rvit_vk_range *before = &recorder->ranges[r];
            if (before->buffer == now.buffer && (before->writes || now.writes) &&
                rvit_ranges_overlap(before->begin, before->end - before->begin, now.begin, now.end - now.begin))
                return 1;
        }
    }
    return 0;
}

/* Compute-only barriers do not cover copies or indirect dispatches, which need a full barrier. It is recorded before such an op if a
   compute-only barrier came since the last full one, and before the first op that depends on such an op. */
void rvit_vk_record_order(rvit_vk_recorder *recorder, int needs_full)
{
    const int is_full = recorder->n_ranges + recorder->n_accesses > RVIT_VK_MAX_RANGES;
    if (needs_full) {
        if (is_full || (recorder->since_full & RVIT_VK_COMPUTE_BARRIER) != 0 || conflicts(recorder))
            rvit_vk_record_barrier(recorder);
    } else if (is_full || conflicts(recorder)) {
        if ((recorder->since_full & RVIT_VK_NEEDS_FULL) != 0)
            rvit_vk_record_barrier(recorder);
        else
            record_compute_barrier(recorder);
    }
}

void rvit_vk_record_remember(rvit_vk_recorder *recorder, int needs_full)
{
    for (int a = 0; a < recorder->n_accesses; a++)
        if (recorder->accesses[a].view.buffer != NULL)
            recorder->ranges[recorder->n_ranges++] = range_of(recorder->device, &recorder->accesses[a]);
    if (needs_full)
        recorder->since_full |= RVIT_VK_NEEDS_FULL;
}

/* An array of the op to bind in place of an absent one, preferably one with the same access (read or write). */
static const rvit_access *substitute(const rvit_vk_recorder *recorder, int writes)
{
    const rvit_access *found = NULL;
    for (int a = 0; a < recorder->n_accesses; a++) {
        const rvit_access *access = &recorder->accesses[a];
        if (access->view.buffer != NULL && access->size > 0 && (found == NULL || (access->writes == writes && found->writes != writes)))
            found = access;
    }
    return found;
}

static int bind(const rvit_vk_recorder *recorder, rvit_vk_dispatch *dispatch, int slot, int unit, int absent)
{
    const rvit_access *access = &recorder->accesses[slot];
    const int present = access->view.buffer != NULL && access->size > 0;
    if (!present)
        access = substitute(recorder, access->writes);

    const VkPhysicalDeviceLimits *limits = &recorder->device->physical.limits;
    const int texel = dispatch->n_bindings < dispatch->n_texels;
    const int64_t alignment = (int64_t)(texel ? limits->minTexelBufferOffsetAlignment : limits->minStorageBufferOffsetAlignment);
    const int64_t at = rvit_vk_at(access->view), begin = at / alignment * alignment;
    const int64_t round = texel ? unit : 4;
    const int64_t end = (at + access->size - begin + round - 1) / round * round;
    dispatch->bindings[dispatch->n_bindings++] =
        (VkDescriptorBufferInfo){((const rvit_vk_buffer *)access->view.buffer)->handle, (VkDeviceSize)begin, (VkDeviceSize)end};
    return present ? (int)((at - begin) / unit) : absent;
}

int rvit_vk_bind(const rvit_vk_recorder *recorder, rvit_vk_dispatch *dispatch, int slot, int unit)
{
    return bind(recorder, dispatch, slot, unit, 0);
}

void rvit_vk_bind_all(const rvit_vk_recorder *recorder, rvit_vk_dispatch *dispatch, const rvit_vk_array *arrays, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *arrays[i].at = bind(recorder, dispatch, arrays[i].slot, arrays[i].unit, arrays[i].absent);
}

/* Computing a dispatch size on the device costs as much as the barrier before it. Where nearly all rows are live, capacities are used
   instead: the few workgroups past the live rows exit early. */
rvit_view rvit_vk_dispatch_live(rvit_rows rows)
{
    return rows.padded == RVIT_ROWS_PADDED ? (rvit_view){NULL, 0} : rows.live;
}

static rvit_vk_groups with_defaults(rvit_vk_groups groups)
{
    groups.multiply = groups.multiply == 0 ? 1 : groups.multiply;
    groups.divide = groups.divide == 0 ? 1 : groups.divide;
    groups.times = groups.times == 0 ? 1 : groups.times;
    return groups;
}

static int64_t n_groups(const rvit_vk_groups *groups)
{
    return (groups->rows * groups->multiply + groups->divide - 1) / groups->divide * groups->times;
}

static rvit_status make_view(rvit_vk_recorder *recorder, const VkDescriptorBufferInfo *info, VkFormat format, VkBufferView *out_view)
{
    const VkBufferViewCreateInfo create = {.sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
                                           .buffer = info->buffer,
                                           .format = format,
                                           .offset = info->offset,
                                           .range = info->range};
    RVIT_VK_TRY(recorder->device->vk, vkCreateBufferView, (recorder->device->handle, &create, NULL, out_view));
    recorder->views[recorder->n_views++] = *out_view;
    return RVIT_OK;
}

static rvit_status bind_descriptors(rvit_vk_recorder *recorder, const rvit_vk_dispatch *dispatch, const rvit_vk_layout *layout)
{
    rvit_vk_device *device = recorder->device;
    if (dispatch->n_bindings > rvit_vk_max_bindings(device))
        return rvit_fail(RVIT_INTERNAL, "a shader binds %u arrays, the device's layouts have %u", dispatch->n_bindings,
                         rvit_vk_max_bindings(device));
    const VkDescriptorSetAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                  .descriptorPool = recorder->descriptors,
                                                  .descriptorSetCount = 1,
                                                  .pSetLayouts = &layout->set};
    VkDescriptorSet set;
    RVIT_VK_TRY(device->vk, vkAllocateDescriptorSets, (device->handle, &allocate, &set));
    VkWriteDescriptorSet writes[RVIT_VK_MAX_BINDINGS];
    VkBufferView views[RVIT_VK_MAX_TEXELS];
    for (uint32_t i = 0; i < dispatch->n_bindings; i++) {
        const int texel = i < dispatch->n_texels;
        writes[i] =
            (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                   .dstSet = set,
                                   .dstBinding = i,
                                   .descriptorCount = 1,
                                   .descriptorType = texel ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                   .pBufferInfo = &dispatch->bindings[i]};
        if (texel) {
            RVIT_TRY(make_view(recorder, &dispatch->bindings[i], dispatch->texel_format, &views[i]));
            writes[i].pTexelBufferView = &views[i];
        }
    }
    device->vk.vkUpdateDescriptorSets(device->handle, dispatch->n_bindings, writes, 0, NULL);
    device->vk.vkCmdBindDescriptorSets(recorder->commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout->pipeline, 0, 1, &set, 0, NULL);
    return RVIT_OK;
}

static rvit_status dispatch_groups(const rvit_vk_recorder *recorder, const rvit_vk_groups *groups)
{
    rvit_vk_device *device = recorder->device;
    if (groups->live.buffer != NULL && recorder->indirect != NULL) {
        const rvit_vk_dispatch_size *size = rvit_vk_find_dispatch_size(recorder, groups);
        device->vk.vkCmdDispatchIndirect(recorder->commands, recorder->indirect->memory.handle,
                                         (VkDeviceSize)rvit_vk_dispatch_size_offset(size->slot));
        return RVIT_OK;
    }
    const uint32_t *max_groups = device->physical.limits.maxComputeWorkGroupCount;
    const int64_t n = n_groups(groups);
    const int64_t width = n < (int64_t)max_groups[0] ? n : (int64_t)max_groups[0];
    const int64_t height = (n + width - 1) / width;
    if (height > (int64_t)max_groups[1] || width * height > (int64_t)UINT32_MAX)
        return rvit_fail(RVIT_UNSUPPORTED, "vulkan: the device cannot dispatch %lld workgroups", (long long)n);
    device->vk.vkCmdDispatch(recorder->commands, (uint32_t)width, (uint32_t)height, 1);
    return RVIT_OK;
}

rvit_status rvit_vk_record_dispatch(rvit_vk_recorder *recorder, const rvit_vk_dispatch *dispatch, const void *push, uint32_t push_size)
{
    rvit_vk_device *device = recorder->device;
    const rvit_vk_groups groups = with_defaults(dispatch->groups);
    if (n_groups(&groups) == 0)
        return RVIT_OK;
    rvit_vk_pipeline wanted = {.shader = dispatch->shader};
    memcpy(wanted.specs, dispatch->specs, sizeof wanted.specs);
    if (wanted.specs[RVIT_SPEC_THREADS] == 0)
        wanted.specs[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS;
    RVIT_TRY(rvit_vk_get_layout(device, dispatch->n_texels, &wanted.layout));
    recorder->launches++;
    recorder->n_sets++;
    if (recorder->commands == VK_NULL_HANDLE) {
        recorder->n_views += dispatch->n_texels;
        if (groups.live.buffer != NULL && recorder->indirect != NULL)
            (void)rvit_vk_find_dispatch_size(recorder, &groups);
        return rvit_vk_want_pipeline(recorder, &wanted);
    }
    VkPipeline pipeline;
    RVIT_TRY(rvit_vk_get_pipeline(device, &wanted, &pipeline));
    device->vk.vkCmdBindPipeline(recorder->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    RVIT_TRY(bind_descriptors(recorder, dispatch, wanted.layout));
    device->vk.vkCmdPushConstants(recorder->commands, wanted.layout->pipeline, VK_SHADER_STAGE_COMPUTE_BIT, 0, push_size, push);
    return dispatch_groups(recorder, &groups);
}

/* Computes all dispatch sizes that depend on one live count. */
static rvit_status record_sizes(rvit_vk_recorder *recorder, rvit_view live, const rvit_vk_dispatch_size_list *list)
{
    struct rvit_indirect_push push = {.n_dispatch_sizes = list->n, .dispatch_sizes_at = list->sizes_at, .rules_at = list->rules_at};
    rvit_vk_dispatch dispatch = {.shader = RVIT_VK_INDIRECT_VK, .groups = {.rows = 1}};
    enum { LIVE, SIZES, N };
    recorder->accesses[LIVE] = (rvit_access){.name = "live", .view = live, .size = 4, .reads = 1, .live = 1};
    recorder->accesses[SIZES] = rvit_vk_dispatch_sizes_access(recorder);
    recorder->n_accesses = N;
    (void)rvit_vk_bind(recorder, &dispatch, SIZES, 4);
    push.live_at = rvit_vk_bind(recorder, &dispatch, LIVE, 4);
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

rvit_status rvit_vk_record_dispatch_sizes(rvit_vk_recorder *recorder, int32_t producer)
{
    const rvit_vk_indirect *indirect = recorder->indirect;
    rvit_vk_dispatch_size_list list;
    int recorded = 0;
    for (int32_t i = -1; (i = rvit_vk_next_dispatch_sizes(indirect, producer, i + 1, &list)) >= 0;) {
        rvit_vk_record_barrier(recorder);
        recorded = 1;
        RVIT_TRY(record_sizes(recorder, indirect->sizes[i].groups.live, &list));
    }
    if (recorded)
        rvit_vk_record_barrier(recorder);
    return RVIT_OK;
}
