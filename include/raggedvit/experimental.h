/* EXPERIMENTAL: these values may change or disappear in any version. They are not part of the stable ABI, and
   raggedvit.h does not include this header.

   Intermediate values of a session and the select ops that it recorded: further results of rvit_session_get.
   `raggedvit verify` compares two devices with them. */
#ifndef RAGGEDVIT_EXPERIMENTAL_H
#define RAGGEDVIT_EXPERIMENTAL_H

#include <raggedvit/session.h>

/* Values of rvit_session_desc.trace. 1: keep the intermediate values of the last run; this costs memory and
   copies. */
#define RVIT_TRACE_VALUES 1
/* As RVIT_TRACE_VALUES, and each stage scores and decides by its policy, but the rows that stay are those of
   rvit_run_args.keep, as with RVIT_PRUNE_MASK, and no more than the policy could keep. Two devices can thus be
   compared stage by stage with the same earlier sets. UNSUPPORTED: a session without stages, or whose policy
   merges or fuses tokens, is mask, or reads pixels. */
#define RVIT_TRACE_GIVEN 2
/* As RVIT_TRACE_VALUES, and the inputs of the blocks' linear layers: RVIT_TRACE_INPUT. UNSUPPORTED:
   the session prunes, or its model is quantized. */
#define RVIT_TRACE_INPUTS 3
/* Results of rvit_session_get, of a session with rvit_session_desc.trace unless noted. UNSUPPORTED: the session
   has no trace. INVALID_ARGUMENT: the session has no such value. Rows of a model with windows of attention
   (rvit_model_info.window) are in the order of the windows. */
#define RVIT_TRACE_EMBEDDING ((rvit_result)1000) /* the input of block 0: [rows, dim] */
#define RVIT_TRACE_BLOCK ((rvit_result)1001)     /* the output of block `index`: [rows, dim] */
/* The scores of prune stage `index`: f32 [rows before the stage]. index = the number of stages: the scores that
   hiprune chose its anchors by. */
#define RVIT_TRACE_SCORES ((rvit_result)1002)
/* What stage `index` of tome compares, of length 1: f32 [rows before the stage, head_dim]. */
#define RVIT_TRACE_METRIC ((rvit_result)1003)
/* The input of a linear layer of a block, index 4 * block + rvit_block_layer: [rows, dim]; of fc2 [rows, mlp_dim
   rounded up to a multiple of 8], the rest being zeros. */
#define RVIT_TRACE_INPUT ((rvit_result)1004)
/* The counts table of the select op of stage `index`: int32 [max_len + 1]. Every session has it, also before a run.
   UNSUPPORTED: the op has none. */
#define RVIT_TRACE_COUNTS ((rvit_result)1005)
/* The select op of stage `index` as recorded, with all views empty, to repeat a selection: data is a rvit_select_args.
   Every session has it, also before a run. UNSUPPORTED: the policy merges tokens. */
#define RVIT_TRACE_SELECT ((rvit_result)1007)
/* With RVIT_TRACE_GIVEN: what stage `index` would have kept, uint8 [rows before the stage], nonzero = kept. index
   = the number of stages: the anchors that hiprune chose, uint8 [rows of the unpruned batch], for any trace. */
#define RVIT_TRACE_DECISIONS ((rvit_result)1006)

#endif
