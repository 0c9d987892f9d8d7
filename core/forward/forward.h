/* The state and functions that the files of core/forward share while they record a forward. Only they include this. */
#ifndef RVIT_CORE_FORWARD_FORWARD_H
#define RVIT_CORE_FORWARD_FORWARD_H

#include "core/plan/state.h"

typedef struct forward {
    rvit_session *session;
    const rvit_session_plan *plan;
    const rvit_model *model;
    rvit_stream *stream;
    rvit_view normed, wide; /* arrays of the plan: see core/plan/arrays.def */
    rvit_view hidden;       /* the MLP's hidden layer, in wide */
    rvit_view quantized, scales, saturated;
    rvit_view hidden_quantized; /* fc2's input, after the others, because a backend may interleave rows of both */
    rvit_view x, other_x;       /* the residual stream, and the array to which gathered rows move */
    int32_t stage;              /* the next stage, and the segment of rows, max_len and cu_seqlens */
    rvit_rows rows;
    int32_t padding_rows; /* of the segment */
    int32_t max_len;
    rvit_view cu_seqlens;
    int32_t block;       /* being recorded */
    int32_t gathers;     /* 1: the last stage has selected, but x still holds the rows before it; the next layernorm gathers */
    rvit_view cls_probs; /* output of this block's attention, if requested */
    rvit_view lse;       /* the same, from which the received attention is computed */
    rvit_view key_bias;  /* of merged tokens; absent before the first merge */
    rvit_view group_cu_seqlens, window_cu_seqlens, group_rows; /* current merge groups and windows, in models that merge patches */
    rvit_view positions; /* of the rows, if queries and keys are rotated; absent before the first stage */
} forward;

static const rvit_view absent = {NULL, 0};

static inline rvit_view at(rvit_view view, int64_t bytes)
{
    view.offset += bytes;
    return view;
}

static inline rvit_view view(const forward *f, rvit_session_array array)
{
    return rvit_session_view(f->session, array);
}

/* A norm without beta is an RMS norm; LayerNorms without beta are refused. */
static inline rvit_norm norm_of(rvit_view beta)
{
    return beta.buffer == NULL ? RVIT_NORM_RMS : RVIT_NORM_LAYER;
}

/* The args of a linear layer over all rows, without its output. */
rvit_linear_args rvit_forward_linear_of(const forward *f, rvit_view x, int32_t in_features, rvit_view weight, rvit_view bias,
                                        int32_t out_features);
rvit_status rvit_forward_add_linear(const forward *f, const rvit_linear_args *args);
/* A linear layer over all rows. */
rvit_status rvit_forward_linear(const forward *f, rvit_activation activation, rvit_view x, rvit_view weight, rvit_view bias, rvit_view out,
                                int32_t in_features, int32_t out_features);
/* x += input weight^T + bias */
rvit_status rvit_forward_add_to_x(const forward *f, rvit_view input, rvit_view weight, rvit_view bias, int32_t in_features);
/* Normalises x, and gathers its rows in the same pass if f->gathers. args: describes the output. */
rvit_status rvit_forward_norm_x(forward *f, rvit_view gamma, rvit_view beta, float eps, rvit_layernorm_args args);
rvit_status rvit_forward_layernorm(forward *f, rvit_view gamma, rvit_view beta, float eps, rvit_dtype out_dtype, rvit_view out);
/* Gathers rows after the last stage if no layernorm follows. */
rvit_status rvit_forward_finish_gather(forward *f);
/* Normalises rows of x's type from one array to another. */
rvit_status rvit_forward_norm(const forward *f, rvit_rows rows, int32_t dim, rvit_view x, rvit_view gamma, rvit_view beta,
                              rvit_dtype out_dtype, rvit_view out);
/* Preprocesses the run's images to rows of patches, in wide. */
rvit_status rvit_forward_preprocess(const forward *f, rvit_view cu_seqlens);
/* Embeds images at variable resolution, to x. */
rvit_status rvit_forward_embed_variable(forward *f);
/* Adds the op that reads the images or writes the logits; each launch may supply it. */
rvit_status rvit_forward_add_outer(const forward *f, rvit_op *op);
rvit_status rvit_forward_copy(const forward *f, rvit_view source, int64_t size, rvit_view destination);
/* Copies to the trace, if the session has one. */
rvit_status rvit_forward_trace(const forward *f, rvit_view source, int64_t size, rvit_view destination);
/* Continues with the rows of this segment. */
void rvit_forward_enter_segment(forward *f, int32_t index);
/* Records the next stage: scores and selects, leaving the gather for later, or merges. */
rvit_status rvit_forward_prune(forward *f);
/* Marks the anchors of the next stage by the attention received in this block. */
rvit_status rvit_forward_find_anchors(forward *f);
/* The args that pool each image to one row, without the output and without a norm. */
rvit_pool_args rvit_forward_pool_of(const forward *f, rvit_pool_mode mode);
/* Pools the rows for the head, unless it reads the CLS row. */
rvit_status rvit_forward_pool_rows(forward *f);
/* Attends to the normalised rows of each image with the query of attention pooling, to the wide array. probs: as rvit_attention_pool. */
rvit_status rvit_forward_attention_pool(const forward *f, rvit_view probs);
static inline int rvit_forward_wants(const forward *f, rvit_output output, int here)
{
    return here && (f->plan->desc.outputs & (int32_t)output) != 0;
}
/* The attention that each row receives, to out. Call it right after attention, while qkv is in the wide array. */
rvit_status rvit_forward_attention_received(const forward *f, rvit_view out);
/* Outputs x after a block. */
rvit_status rvit_forward_block_features(const forward *f);
/* Copies f->rows, row_size bytes each, to an array that the host reads, in the order that the session reports. */
rvit_status rvit_forward_output_rows(const forward *f, rvit_view rows, int64_t row_size, rvit_session_array destination);
/* Merges each group of rows of x to one row. deepstack: the number of the deepstack merger; -1: the last merger. */
rvit_status rvit_forward_merge_groups(forward *f, int32_t deepstack);
/* After the last block: features, pooling, head. */
rvit_status rvit_forward_outputs(forward *f);

#endif
