/* Grids of indirect dispatches: which ones a program needs, the memory they lie in, and who makes them: the select or match that leaves the
   rows they depend on, or a dispatch of its own. */
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

static int same_live(const rvit_vk_need *a, const rvit_vk_need *b)
{
    return a->producer == b->producer && a->groups.live.buffer == b->groups.live.buffer && a->groups.live.offset == b->groups.live.offset;
}

const rvit_vk_need *rvit_vk_find_need(const rvit_vk_recorder *recorder, const rvit_vk_groups *groups)
{
    rvit_vk_plan *plan = recorder->plan;
    rvit_vk_need need = {.groups = *groups, .producer = recorder->op_index - 1, .slot = -1};
    while (need.producer >= 0 && !writes_live(&plan->ops[need.producer], groups->live))
        need.producer--;
    for (int32_t i = 0; i < plan->n_needs; i++) {
        const rvit_vk_groups *other = &plan->needs[i].groups;
        if (same_live(&plan->needs[i], &need) && other->rows == groups->rows && other->multiply == groups->multiply &&
            other->divide == groups->divide && other->times == groups->times)
            return &plan->needs[i];
    }
    plan->needs[plan->n_needs] = need;
    return &plan->needs[plan->n_needs++];
}

/* Those of one live count are neighbours. */
void rvit_vk_plan_grids(rvit_vk_plan *plan)
{
    for (int32_t i = 0; i < plan->n_needs; i++) {
        if (plan->needs[i].slot >= 0)
            continue;
        for (int32_t j = i; j < plan->n_needs; j++)
            if (same_live(&plan->needs[i], &plan->needs[j]))
                plan->needs[j].slot = plan->n_grids++;
    }
}

/* In words past the state. */
static int grid_at(int32_t slot)
{
    return slot * RVIT_GRIDS_WORDS;
}

static int rule_at(const rvit_vk_plan *plan, int32_t slot)
{
    return grid_at(plan->n_grids) + slot * RVIT_GRIDS_RULE_WORDS;
}

int64_t rvit_vk_grid_offset(int32_t slot)
{
    return (RVIT_GRIDS_STATE_WORDS + grid_at(slot)) * (int64_t)sizeof(uint32_t);
}

static void fill_words(const rvit_vk_device *device, const rvit_vk_plan *plan, uint32_t *words)
{
    for (int32_t i = 0; i < plan->n_needs; i++) {
        const rvit_vk_groups *groups = &plan->needs[i].groups;
        uint32_t *rule = words + RVIT_GRIDS_STATE_WORDS + rule_at(plan, plan->needs[i].slot);
        rule[RVIT_GRIDS_MULTIPLY] = (uint32_t)groups->multiply;
        rule[RVIT_GRIDS_DIVIDE] = (uint32_t)groups->divide;
        rule[RVIT_GRIDS_TIMES] = (uint32_t)groups->times;
        rule[RVIT_GRIDS_CAPACITY] = (uint32_t)groups->rows;
        rule[RVIT_GRIDS_MAX_GROUPS] = device->physical.limits.maxComputeWorkGroupCount[0];
    }
}

rvit_status rvit_vk_grids_open(rvit_vk_device *device, const rvit_vk_plan *plan, rvit_vk_buffer *out_grids)
{
    const int32_t n_words = RVIT_GRIDS_STATE_WORDS + (plan == NULL ? 0 : rule_at(plan, plan->n_grids));
    const int64_t size = n_words * (int64_t)sizeof(uint32_t);
    RVIT_TRY(rvit_vk_buffer_open(device, size, RVIT_VK_BUFFER_WORDS, out_grids));
    out_grids->base.size = size;
    memset(out_grids->base.host, 0, (size_t)size);
    if (plan != NULL)
        fill_words(device, plan, out_grids->base.host);
    return RVIT_OK;
}

/* A program without grids uses the device's memory. */
rvit_access rvit_vk_grids_access(const rvit_vk_recorder *recorder)
{
    const rvit_vk_plan *plan = recorder->plan;
    rvit_buffer *buffer = plan != NULL && plan->n_grids > 0 ? &recorder->plan->grids.base : &recorder->device->grids.base;
    return (rvit_access){.name = "grids", .view = {buffer, 0}, .size = buffer->size, .reads = 1, .writes = 1};
}

/* Whether the op that leaves the rows makes the grids itself: if live is the end of its layout. */
static int is_own(const rvit_vk_plan *plan, const rvit_vk_need *need)
{
    if (need->producer < 0)
        return 0;
    const rvit_op *op = &plan->ops[need->producer];
    const int is_select = op->type == RVIT_OP_SELECT;
    if (!is_select && op->type != RVIT_OP_MATCH)
        return 0;
    const rvit_view layout = is_select ? op->select.out_cu_seqlens : op->match.out_cu_seqlens;
    const int64_t n_images = is_select ? op->select.n_images : op->match.n_images;
    return need->groups.live.buffer == layout.buffer && need->groups.live.offset == layout.offset + n_images * 4;
}

rvit_vk_own_grids rvit_vk_find_own_grids(const rvit_vk_recorder *recorder)
{
    const rvit_vk_plan *plan = recorder->plan;
    rvit_vk_own_grids own = {0};
    for (int32_t i = 0; plan != NULL && plan->n_grids > 0 && i < plan->n_needs; i++) {
        const rvit_vk_need *need = &plan->needs[i];
        if (need->producer != recorder->op_index || !is_own(plan, need))
            continue;
        if (own.n == 0 || grid_at(need->slot) < own.grids_at) {
            own.grids_at = grid_at(need->slot);
            own.rules_at = rule_at(plan, need->slot);
        }
        own.n++;
    }
    return own;
}

/* The grids of one live count, from the need at `first` on. */
static rvit_status record_grids(rvit_vk_recorder *recorder, int32_t first)
{
    const rvit_vk_plan *plan = recorder->plan;
    const rvit_vk_need *lead = &plan->needs[first];
    struct rvit_indirect_push push = {.grids_at = grid_at(lead->slot), .rules_at = rule_at(plan, lead->slot)};
    for (int32_t i = first; i < plan->n_needs; i++)
        push.n_grids += same_live(&plan->needs[i], lead);
    rvit_vk_dispatch dispatch = {.shader = RVIT_VK_INDIRECT_VK,
                                 .specs = {RVIT_MAX_THREADS},
                                 .n_specs = 1,
                                 .push = &push,
                                 .push_size = sizeof push,
                                 .groups = {.rows = 1, .multiply = 1, .divide = 1, .times = 1}};
    enum { LIVE, GRIDS, N };
    recorder->accesses[LIVE] = (rvit_access){.name = "live", .view = lead->groups.live, .size = 4, .reads = 1, .live = 1};
    recorder->accesses[GRIDS] = rvit_vk_grids_access(recorder);
    recorder->n_accesses = N;
    (void)rvit_vk_bind(recorder, &dispatch, RVIT_INDIRECT_GRIDS, GRIDS, 4);
    push.live_at = rvit_vk_bind(recorder, &dispatch, RVIT_INDIRECT_LIVE, LIVE, 4);
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

rvit_status rvit_vk_record_grids(rvit_vk_recorder *recorder, int32_t producer)
{
    const rvit_vk_plan *plan = recorder->plan;
    int recorded = 0;
    for (int32_t i = 0; i < plan->n_needs; i++) {
        if (plan->needs[i].producer != producer || is_own(plan, &plan->needs[i]))
            continue;
        int is_first = 1; /* of its live count */
        for (int32_t j = 0; j < i; j++)
            is_first = is_first && !same_live(&plan->needs[i], &plan->needs[j]);
        if (!is_first)
            continue;
        rvit_vk_record_barrier(recorder);
        recorded = 1;
        RVIT_TRY(record_grids(recorder, i));
    }
    if (recorded)
        rvit_vk_record_barrier(recorder);
    return RVIT_OK;
}
