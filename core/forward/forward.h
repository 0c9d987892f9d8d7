/* The forward while it is recorded: the state that its parts share, and what each calls of the others. Its parts alone include this. */
#ifndef RVIT_CORE_FORWARD_FORWARD_H
#define RVIT_CORE_FORWARD_FORWARD_H

#include "core/plan/state.h"

/* The state that travels from op to op. */
typedef struct forward {
    rvit_session *session;
    const rvit_session_plan *plan;
    const rvit_model *model;
    rvit_stream *stream;
    rvit_view normed, wide; /* arrays of the plan, which say what they hold */
    rvit_view hidden;       /* of the MLP: in wide */
    rvit_view quantized, scales, saturated;
    rvit_view hidden_quantized; /* what fc2 takes: behind the others, as a backend may compute some rows of both at a time */
    rvit_view x, other_x;       /* the residual stream, and the other array it moves to when rows are gathered */
    int32_t stage;              /* the next; also the number of the segment that rows, max_len and cu_seqlens are of */
    rvit_rows rows;
    int32_t padding_rows; /* of the segment */
    int32_t max_len;
    rvit_view cu_seqlens;
    int32_t block;       /* the one being recorded */
    int32_t gathers;     /* 1: the last stage has selected, but x still holds the rows before it; the next layernorm gathers */
    rvit_view cls_probs; /* of this block's attention, where they are asked for */
    rvit_view lse;       /* the same, of what received attention is made from */
    rvit_view key_bias;  /* of merged tokens; absent until some are */
    rvit_view unit_cu_seqlens, window_cu_seqlens, unit_rows; /* of towers that merge squares of patches: of the rows as they are */
    rvit_view positions; /* of the rows, where queries and keys are rotated; absent before the first stage */
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

/* Norms without a beta are RMS norms: others are refused. */
static inline rvit_norm norm_of(rvit_view beta)
{
    return beta.buffer == NULL ? RVIT_NORM_RMS : RVIT_NORM_LAYER;
}

/* A linear layer over all rows: its args without where it goes; the layer, with or without an activation. */
rvit_linear_args rvit_forward_linear_of(const forward *f, rvit_view x, int32_t in_features, rvit_view weight, rvit_view bias,
                                        int32_t out_features);
rvit_status rvit_forward_add_linear(const forward *f, const rvit_linear_args *args);
rvit_status rvit_forward_linear(const forward *f, rvit_activation activation, rvit_view x, rvit_view weight, rvit_view bias, rvit_view out,
                                int32_t in_features, int32_t out_features);
/* x += input weight^T + bias */
rvit_status rvit_forward_add_to_x(const forward *f, rvit_view input, rvit_view weight, rvit_view bias, int32_t in_features);
/* Normalises x; if rows are to be gathered, does that in the same pass. args: what out is. */
rvit_status rvit_forward_norm_x(forward *f, rvit_view gamma, rvit_view beta, float eps, rvit_layernorm_args args);
rvit_status rvit_forward_layernorm(forward *f, rvit_view gamma, rvit_view beta, float eps, rvit_dtype out_dtype, rvit_view out);
/* A stage after the last block has no layernorm to gather for it. */
rvit_status rvit_forward_finish_gather(forward *f);
/* Normalises rows of x's type from one array to another. */
rvit_status rvit_forward_norm(const forward *f, rvit_rows rows, int32_t dim, rvit_view x, rvit_view gamma, rvit_view beta,
                              rvit_dtype out_dtype, rvit_view out);
/* The run's pictures as rows of patches, in wide. */
rvit_status rvit_forward_preprocess(const forward *f, rvit_view cu_seqlens);
/* The embedding of images of any grids, to x. */
rvit_status rvit_forward_embed_variable(forward *f);
/* The op that reads the images, or writes the logits. */
rvit_status rvit_forward_add_outer(const forward *f, rvit_op *op);
rvit_status rvit_forward_copy(const forward *f, rvit_view source, int64_t size, rvit_view destination);
/* Copies to the trace, if the session has one. */
rvit_status rvit_forward_trace(const forward *f, rvit_view source, int64_t size, rvit_view destination);
/* The rows are those of this segment from here on. */
void rvit_forward_enter_segment(forward *f, int32_t index);
/* The next stage: scores and selects, the rows being gathered later, or merges. */
rvit_status rvit_forward_prune(forward *f);
/* Marks the anchors of the next stage, by the attention received in this block. */
rvit_status rvit_forward_find_anchors(forward *f);
/* One row of each image: the args without type and place of what it becomes, and without a norm. */
rvit_pool_args rvit_forward_pool_of(const forward *f, rvit_pool_mode mode);
/* What the head reads, unless that is the CLS row. */
rvit_status rvit_forward_pool_rows(forward *f);
/* Normalised rows of each image, attended to by the one query of attention pooling: to the wide array. probs: optional, as rvit_probe. */
rvit_status rvit_forward_probe(const forward *f, rvit_view probs);
static inline int rvit_forward_gives(const forward *f, rvit_output output, int here)
{
    return here && (f->plan->desc.outputs & (int32_t)output) != 0;
}
/* The attention that each row receives, to out; right after it, while qkv are in the wide array. */
rvit_status rvit_forward_received(const forward *f, rvit_view out);
/* x, as a block has left it. */
rvit_status rvit_forward_block_features(const forward *f);
/* Rows of f->rows, row_size bytes each, to an array that the host reads, in the order that it is told of. */
rvit_status rvit_forward_give_rows(const forward *f, rvit_view rows, int64_t row_size, rvit_session_array destination);
/* The squares of patches of f->x as one row each; deepstack: of which merger, -1: the last. */
rvit_status rvit_forward_merge_groups(forward *f, int32_t deepstack);
/* After the last block: features, pooling, head. */
rvit_status rvit_forward_outputs(forward *f);

#endif
