/* Descs of sessions with every policy. */
#include "model.h"

rvit_session_desc session_desc(int32_t max_images, rvit_prune_type type, double keep, const int32_t *blocks, int32_t n_blocks)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = max_images;
    desc.prune.type = type;
    desc.prune.keep = keep;
    desc.prune.n_blocks = n_blocks;
    for (int32_t i = 0; i < n_blocks; i++)
        desc.prune.blocks[i] = blocks[i];
    return desc;
}

rvit_session_desc policy_desc(int policy, int32_t max_images)
{
    static const int32_t blocks[] = {0, 2};
    rvit_session_desc desc = session_desc(max_images, (rvit_prune_type)policy, -1.0, blocks, policy == RVIT_PRUNE_NONE ? 0 : 2);
    switch (policy) {
    case RVIT_PRUNE_HIPRUNE:
        desc.prune.n_blocks = 1;
        desc.prune.blocks[0] = blocks[1];
        desc.prune.keep = 0.4;
        desc.prune.alpha = 0.5;
        break;
    case RVIT_PRUNE_NONE:
    case RVIT_PRUNE_MASK:
    case RVIT_PRUNE_ATS:
        break;
    case RVIT_PRUNE_L2_THRESHOLD:
        desc.prune.threshold = 13.0;
        break;
    case RVIT_PRUNE_DYNAMICVIT_GATE:
        desc.prune.threshold = 0.6;
        break;
    case RVIT_PRUNE_ATS_PAPER:
        desc.prune.mass = 0.5;
        break;
    case RVIT_PRUNE_TOME:
        desc.prune.merges = 5;
        break;
    default:
        desc.prune.keep = 0.4;
    }
    return desc;
}
