/* EXPERIMENTAL: these declarations may change or go in any version. They are not part of the ABI
   promise, and raggedvit.h does not include this header.

   Access to the inside of a session: the select ops that it recorded and the values between its
   ops. `raggedvit verify` uses it to compare two devices. */
#ifndef RAGGEDVIT_EXPERIMENTAL_H
#define RAGGEDVIT_EXPERIMENTAL_H

#include <raggedvit/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the select op of a stage as recorded, with every view empty: for callers that repeat a
   selection. INVALID_ARGUMENT: no such stage. UNSUPPORTED: the stage is tome, which merges
   instead. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_get_select(const rvit_session *session, int32_t stage, rvit_select_args *out_args);
/* The counts table of that op: host int32 [max_len + 1], borrowed. NULL if the op has none. */
RVIT_API const int32_t *rvit_session_counts(const rvit_session *session, int32_t stage);

/* rvit_session_desc.trace 2: as 1, and the stages are judged apart. Each scores and decides as its policy
   says, of the rows that the stages before it left; but what stays is what rvit_run_args.keep names, as
   with the policy mask, and no more than the policy could leave. So a device's decisions can be compared
   with those of another one from the same earlier sets. UNSUPPORTED: a session without stages, or of a
   policy that merges or fuses tokens, of mask, or by pixels. */
#define RVIT_TRACE_GIVEN 2
/* rvit_session_desc.trace 3: as 1, and the inputs of the blocks' linear layers are kept, RVIT_TRACE_INPUT.
   UNSUPPORTED: the session prunes, or its model is quantised. */
#define RVIT_TRACE_INPUTS 3
/* What a stage of such a session would have kept in the last run: uint8 [rows before it], nonzero =
   kept; borrowed until the next enqueue. The number of stages stands for the anchors that hiprune chose
   in the object block, which any traced session tells: uint8 [rows of the unpruned batch]. NULL: there is
   no such stage, no finished run, or the session is another. */
RVIT_API const uint8_t *rvit_session_decided(const rvit_session *session, int32_t stage);

/* With rvit_session_desc.trace: intermediate values of the last run. */
typedef enum rvit_trace {
    RVIT_TRACE_EMBEDDING = 0, /* the input of block 0: [rows, dim] */
    RVIT_TRACE_BLOCK = 1,     /* the output of block `index`: [rows, dim] */
    RVIT_TRACE_SCORES = 2,    /* the scores of prune stage `index`: f32 [rows before it]; the number of stages
                                 stands for those of hiprune's anchors */
    RVIT_TRACE_METRIC = 3,    /* what stage `index` of tome compares, of length 1: f32 [rows before it, head_dim] */
    RVIT_TRACE_INPUT = 4      /* the input of a linear layer of a block, index 4 * block + rvit_block_layer: [rows, dim], of fc2 [rows,
                                 mlp_dim rounded up to a multiple of 8, the rest being zeros] */
} rvit_trace;
/* Rows of a tower with windows of attention (rvit_model_info.window) are in the order of the windows.
   *out_data is borrowed until the next enqueue; *out_rows is the live row count. UNSUPPORTED: the
   session has no trace. INVALID_ARGUMENT: no such index. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_trace(const rvit_session *session, rvit_trace what, int32_t index, const void **out_data,
                                                       rvit_dtype *out_dtype, int64_t *out_rows);

/* The linear layers of a block. */
typedef enum rvit_block_layer { RVIT_LAYER_QKV = 0, RVIT_LAYER_PROJ = 1, RVIT_LAYER_FC1 = 2, RVIT_LAYER_FC2 = 3 } rvit_block_layer;
/* Whether tensor `index` of a checkpoint (rvit_checkpoint_tensor) is the weight of such a layer, or of a
   part of it (queries, keys, values; a gate), and of which. 0: it is not. */
RVIT_API int32_t rvit_checkpoint_layer_of(const rvit_checkpoint *checkpoint, int32_t index, int32_t *out_block,
                                          rvit_block_layer *out_layer);

#ifdef __cplusplus
}
#endif
#endif
