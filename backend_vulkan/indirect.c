/* The indirect dispatches of a program: which dispatch sizes they need, where these are in memory, and which of them the select or
   bipartite_match that writes the live rows computes itself. record.c records the dispatches that compute the others. */
#include <string.h>

#include "backend_vulkan/vulkan.h"

/* Whether op writes the live count. */
static int writes_live(const rvit_op *op, rvit_view live)
{
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    const int n = rvit_op_accesses(op, accesses);
    for (int a = 0; a < n; a++)
        if (accesses[a].writes && accesses[a].view.buffer == live.buffer &&
            rvit_ranges_overlap(accesses[a].view.offset, accesses[a].size, live.offset, 4))
            return 1;
    return 0;
}

static int same_live(const rvit_vk_dispatch_size *a, const rvit_vk_dispatch_size *b)
{
    return a->producer == b->producer && a->groups.live.buffer == b->groups.live.buffer && a->groups.live.offset == b->groups.live.offset;
}

const rvit_vk_dispatch_size *rvit_vk_find_dispatch_size(const rvit_vk_recorder *recorder, const rvit_vk_groups *groups)
{
    rvit_vk_indirect *indirect = recorder->indirect;
    rvit_vk_dispatch_size size = {.groups = *groups, .producer = recorder->op_index - 1, .slot = -1};
    while (size.producer >= 0 && !writes_live(&indirect->ops[size.producer], groups->live))
        size.producer--;
    for (int32_t i = 0; i < indirect->n_sizes; i++) {
        const rvit_vk_groups *other = &indirect->sizes[i].groups;
        if (same_live(&indirect->sizes[i], &size) && other->rows == groups->rows && other->multiply == groups->multiply &&
            other->divide == groups->divide && other->times == groups->times)
            return &indirect->sizes[i];
    }
    indirect->sizes[indirect->n_sizes] = size;
    return &indirect->sizes[indirect->n_sizes++];
}

/* Dispatch sizes that depend on the same live count get consecutive slots. */
void rvit_vk_number_dispatch_sizes(rvit_vk_indirect *indirect)
{
    for (int32_t i = 0; i < indirect->n_sizes; i++) {
        if (indirect->sizes[i].slot >= 0)
            continue;
        for (int32_t j = i; j < indirect->n_sizes; j++)
            if (same_live(&indirect->sizes[i], &indirect->sizes[j]))
                indirect->sizes[j].slot = indirect->n_slots++;
    }
}

/* In words, after the state. */
static int size_at(int32_t slot)
{
    return slot * RVIT_DISPATCH_SIZE_WORDS;
}

static int rule_at(const rvit_vk_indirect *indirect, int32_t slot)
{
    return size_at(indirect->n_slots) + slot * RVIT_DISPATCH_RULE_WORDS;
}

int64_t rvit_vk_dispatch_size_offset(int32_t slot)
{
    return (RVIT_DISPATCH_STATE_WORDS + size_at(slot)) * (int64_t)sizeof(uint32_t);
}

static void fill_words(const rvit_vk_device *device, const rvit_vk_indirect *indirect, uint32_t *words)
{
    for (int32_t i = 0; i < indirect->n_sizes; i++) {
        const rvit_vk_groups *groups = &indirect->sizes[i].groups;
        uint32_t *rule = words + RVIT_DISPATCH_STATE_WORDS + rule_at(indirect, indirect->sizes[i].slot);
        rule[RVIT_DISPATCH_MULTIPLY] = (uint32_t)groups->multiply;
        rule[RVIT_DISPATCH_DIVIDE] = (uint32_t)groups->divide;
        rule[RVIT_DISPATCH_TIMES] = (uint32_t)groups->times;
        rule[RVIT_DISPATCH_CAPACITY] = (uint32_t)groups->rows;
        rule[RVIT_DISPATCH_MAX_GROUPS] = device->physical.limits.maxComputeWorkGroupCount[0];
    }
}

rvit_status rvit_vk_dispatch_sizes_open(rvit_vk_device *device, const rvit_vk_indirect *indirect, rvit_vk_buffer *out_sizes)
{
    const int32_t n_words = RVIT_DISPATCH_STATE_WORDS + (indirect == NULL ? 0 : rule_at(indirect, indirect->n_slots));
    const int64_t size = n_words * (int64_t)sizeof(uint32_t);
    RVIT_TRY(rvit_vk_buffer_open(device, size, RVIT_VK_BUFFER_WORDS, out_sizes));
    out_sizes->base.size = size;
    memset(out_sizes->base.host, 0, (size_t)size);
    if (indirect != NULL)
        fill_words(device, indirect, out_sizes->base.host);
    return RVIT_OK;
}

/* Programs without indirect dispatches use the device's memory. */
rvit_access rvit_vk_dispatch_sizes_access(const rvit_vk_recorder *recorder)
{
    const rvit_vk_indirect *indirect = recorder->indirect;
    rvit_buffer *buffer =
        indirect != NULL && indirect->n_slots > 0 ? &recorder->indirect->memory.base : &recorder->device->dispatch_sizes.base;
    return (rvit_access){.name = "dispatch sizes", .view = {buffer, 0}, .size = buffer->size, .reads = 1, .writes = 1};
}

/* Whether the op that writes the live rows also computes the dispatch size: it does if live is the last entry of its layout. */
static int is_own(const rvit_vk_indirect *indirect, const rvit_vk_dispatch_size *size)
{
    if (size->producer < 0)
        return 0;
    const rvit_op *op = &indirect->ops[size->producer];
    const int is_select = op->type == RVIT_OP_SELECT;
    if (!is_select && op->type != RVIT_OP_BIPARTITE_MATCH)
        return 0;
    const rvit_view layout = is_select ? op->select.out_cu_seqlens : op->bipartite_match.out_cu_seqlens;
    const int64_t n_images = is_select ? op->select.n_images : op->bipartite_match.n_images;
    return size->groups.live.buffer == layout.buffer && size->groups.live.offset == layout.offset + n_images * 4;
}

rvit_vk_dispatch_size_list rvit_vk_find_own_dispatch_sizes(const rvit_vk_recorder *recorder)
{
    const rvit_vk_indirect *indirect = recorder->indirect;
    rvit_vk_dispatch_size_list own = {0};
    for (int32_t i = 0; indirect != NULL && indirect->n_slots > 0 && i < indirect->n_sizes; i++) {
        const rvit_vk_dispatch_size *size = &indirect->sizes[i];
        if (size->producer != recorder->op_index || !is_own(indirect, size))
            continue;
        if (own.n == 0 || size_at(size->slot) < own.sizes_at) {
            own.sizes_at = size_at(size->slot);
            own.rules_at = rule_at(indirect, size->slot);
        }
        own.n++;
    }
    return own;
}

int32_t rvit_vk_next_dispatch_sizes(const rvit_vk_indirect *indirect, int32_t producer, int32_t from, rvit_vk_dispatch_size_list *out_list)
{
    for (int32_t i = from; i < indirect->n_sizes; i++) {
        const rvit_vk_dispatch_size *size = &indirect->sizes[i];
        if (size->producer != producer || is_own(indirect, size))
            continue;
        int is_first = 1; /* with this live count */
        for (int32_t j = 0; j < i; j++)
            is_first = is_first && !same_live(size, &indirect->sizes[j]);
        if (!is_first)
            continue;
        *out_list = (rvit_vk_dispatch_size_list){0, size_at(size->slot), rule_at(indirect, size->slot)};
        for (int32_t j = i; j < indirect->n_sizes; j++)
            out_list->n += same_live(size, &indirect->sizes[j]);
        return i;
    }
    return -1;
}
