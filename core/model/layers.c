#include "core/model/layers.h"

/* The weights of a layer. Queries, keys and values may be separate, as may an MLP's gate and values. */
static const struct {
    int n;
    rvit_role roles[RVIT_LAYER_PARTS];
} layers[RVIT_N_BLOCK_LINEARS] = {[RVIT_BLOCK_QKV] = {3, {RVIT_ROLE_Q_WEIGHT, RVIT_ROLE_K_WEIGHT, RVIT_ROLE_V_WEIGHT}},
                                  [RVIT_BLOCK_PROJ] = {1, {RVIT_ROLE_PROJ_WEIGHT}},
                                  [RVIT_BLOCK_FC1] = {2, {RVIT_ROLE_GATE_WEIGHT, RVIT_ROLE_FC1_WEIGHT}},
                                  [RVIT_BLOCK_FC2] = {1, {RVIT_ROLE_FC2_WEIGHT}}};

int rvit_role_may_be_quantized(rvit_role role)
{
    for (int i = 0; i < RVIT_N_BLOCK_LINEARS; i++)
        for (int part = 0; part < layers[i].n; part++)
            if (layers[i].roles[part] == role)
                return 1;
    return role == RVIT_ROLE_QKV_WEIGHT;
}

int rvit_layer_parts(const rvit_family *family, rvit_block_linear linear, rvit_role parts[RVIT_LAYER_PARTS])
{
    int n = 0;
    parts[n] = RVIT_ROLE_QKV_WEIGHT;
    if (linear == RVIT_BLOCK_QKV && family->names[RVIT_ROLE_QKV_WEIGHT] != NULL)
        return 1;
    for (int i = 0; i < layers[linear].n; i++)
        if (family->names[layers[linear].roles[i]] != NULL)
            parts[n++] = layers[linear].roles[i];
    return n;
}
