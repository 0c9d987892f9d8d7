// Shared by the attention shaders: the arguments, the division of work, and storing of results.
#ifndef ATTENTION_GLSL
#define ATTENTION_GLSL

layout(constant_id = RVIT_ATTENTION_HEAD_DIM) const uint HEAD_DIM = 64;
layout(constant_id = RVIT_ATTENTION_QUERIES) const uint QUERIES = 32;
layout(constant_id = RVIT_ATTENTION_KEYS) const uint KEYS = 32;
layout(constant_id = RVIT_ATTENTION_FLAGS) const uint FLAGS = 0;
const uint D4 = HEAD_DIM / 4;

layout(binding = 3) readonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = 4) readonly buffer KeyBias { float key_bias[]; };
layout(binding = 5) writeonly buffer Out { IN_VEC4 out_words[]; };
layout(binding = 6) buffer ClsProbs { float cls_probs[]; };
layout(binding = 7) writeonly buffer Lse { float lse[]; };
layout(push_constant) uniform Push { rvit_attention_push push; };

// Queries first_query .. first_query + QUERIES - 1 of one head of one image.
struct attention_tile {
    rvit_sequence image;
    uint head;
    uint first_query;
};

// Finds the workgroup's tile; false if there is none.
bool find_tile(out attention_tile tile)
{
    const uint item = group_index() / uint(push.n_tiles);
    const uint image = item / uint(push.n_heads);
    tile.head = item % uint(push.n_heads);
    tile.first_query = group_index() % uint(push.n_tiles) * QUERIES;
    tile.image = rvit_sequence(0, 0);
    if (image >= uint(push.n_images))
        return false;
    const uint at = uint(push.cu_seqlens_at) + image;
    tile.image = clamp_sequence(cu_seqlens[at], cu_seqlens[at + 1], push.max_len, push.rows);
    return tile.first_query < tile.image.len;
}

// The factor of a query's sums. A single key has the total 1 and gives its value unchanged.
float inverse_total(float total)
{
    return total == 0.0 ? 0.0 : total == 1.0 ? 1.0 : 1.0 / total;
}

// Stores four elements of a query's result.
void store_out(attention_tile tile, uint query, uint d4, vec4 value)
{
    out_words[uint(push.out_at) + (tile.image.begin + query) * uint(push.out_stride4) + tile.head * D4 + d4] = in_encode(value);
}

void store_lse(attention_tile tile, uint query, float maximum, float total)
{
    lse[uint(push.lse_at) + (tile.image.begin + query) * uint(push.n_heads) + tile.head] =
        total == 0.0 ? negative_infinity() : maximum + log_accurate(total);
}

uint cls_probs_at(attention_tile tile, uint key)
{
    return uint(push.cls_probs_at) + (tile.image.begin + key) * uint(push.n_heads) + tile.head;
}

#endif
