/* Session descs for every policy. */
#include "model.h"

rvit_session_desc session_desc(int32_t max_images, rvit_prune_type type, double keep, const int32_t *blocks, int32_t n_blocks)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = max_images;
    prune_in(&desc)->type = type;
    prune_in(&desc)->keep = keep;
    prune_in(&desc)->n_blocks = n_blocks;
    for (int32_t i = 0; i < n_blocks; i++)
        prune_in(&desc)->blocks[i] = blocks[i];
    return desc;
}

rvit_session_desc policy_desc(int policy, int32_t max_images)
{
    static const int32_t blocks[] = {0, 2};
    rvit_session_desc desc = session_desc(max_images, (rvit_prune_type)policy, -1.0, blocks, policy == RVIT_PRUNE_NONE ? 0 : 2);
    switch (policy) {
    case RVIT_PRUNE_HIPRUNE:
        prune_in(&desc)->n_blocks = 1;
        prune_in(&desc)->blocks[0] = blocks[1];
        prune_in(&desc)->keep = 0.4;
        prune_in(&desc)->alpha = 0.5;
        break;
    case RVIT_PRUNE_NONE:
    case RVIT_PRUNE_MASK:
    case RVIT_PRUNE_ATS:
        break;
    case RVIT_PRUNE_L2_THRESHOLD:
        prune_in(&desc)->threshold = 13.0;
        break;
    case RVIT_PRUNE_DYNAMICVIT_GATE:
        prune_in(&desc)->threshold = 0.6;
        break;
    case RVIT_PRUNE_ATS_PAPER:
        prune_in(&desc)->mass = 0.5;
        break;
    case RVIT_PRUNE_TOME:
        prune_in(&desc)->merges = 5;
        break;
    default:
        prune_in(&desc)->keep = 0.4;
    }
    return desc;
}
