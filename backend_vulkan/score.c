/* The score op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_score(rvit_vk_recorder *recorder, const rvit_score_args *args)
{
    if (args->rows.capacity == 0)
        return RVIT_OK;
    const int l2 = args->type == RVIT_SCORE_L2;
    struct rvit_score_push push = {.rows = (int)args->rows.capacity, .width = l2 ? args->dim : args->n_heads};
    if (!l2)
        push.scale = 1.0f / (float)args->n_heads;
    rvit_vk_dispatch dispatch = {.shader = !l2                       ? RVIT_VK_SCORE_CLS_VK
                                           : args->dtype == RVIT_F16 ? RVIT_VK_SCORE_L2_F16_VK
                                                                     : RVIT_VK_SCORE_L2_F32_VK,
                                 .specs = {RVIT_MAX_THREADS},
                                 .n_specs = RVIT_SCORE_N_SPECS,
                                 .push = &push,
                                 .push_size = sizeof push,
                                 .groups = {.rows = args->rows.capacity,
                                            .multiply = 1,
                                            .divide = l2 ? RVIT_MAX_THREADS / RVIT_SCORE_LANES : RVIT_MAX_THREADS,
                                            .times = 1,
                                            .live = args->rows.live}};
    push.input_at = rvit_vk_bind(recorder, &dispatch, RVIT_SCORE_INPUT, l2 ? "x" : "cls_probs", 4);
    push.scores_at = rvit_vk_bind(recorder, &dispatch, RVIT_SCORE_SCORES, "scores", 4);
    push.live_at = rvit_vk_bind(recorder, &dispatch, RVIT_SCORE_LIVE, "rows.live", 4);
    return rvit_vk_record_dispatch(recorder, &dispatch);
}
