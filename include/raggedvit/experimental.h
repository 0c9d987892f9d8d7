/* EXPERIMENTAL: what is declared here may change or go in any version. It is not part of the ABI promise, and raggedvit.h does not
   include it.

   A session from the inside: the select ops it recorded and the values between its ops. `raggedvit verify` compares two devices by it. */
#ifndef RAGGEDVIT_EXPERIMENTAL_H
#define RAGGEDVIT_EXPERIMENTAL_H

#include <raggedvit/vit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The select op of a stage as recorded, every view empty: for a caller who wants to repeat a selection. INVALID_ARGUMENT if there is no
   such stage, UNSUPPORTED for tome, which merges. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_get_select(const rvit_session *session, int32_t stage, rvit_select_args *out_args);
/* The counts table of that op, host int32 [max_len + 1], borrowed; NULL if it has none. */
RVIT_API const int32_t *rvit_session_counts(const rvit_session *session, int32_t stage);

/* With rvit_session_desc.trace: intermediate values of the last run. */
typedef enum rvit_trace {
    RVIT_TRACE_EMBEDDING = 0, /* the input of block 0: [rows, dim] */
    RVIT_TRACE_BLOCK = 1,     /* the output of block `index`: [rows, dim] */
    RVIT_TRACE_SCORES = 2     /* the scores of prune stage `index`: f32 [rows before it] */
} rvit_trace;
/* Borrowed until the next enqueue. UNSUPPORTED without trace; INVALID_ARGUMENT if there is no such index. *out_rows is the live row
   count. */
RVIT_API RVIT_NODISCARD rvit_status rvit_session_trace(const rvit_session *session, rvit_trace what, int32_t index, const void **out_data,
                                                       rvit_dtype *out_dtype, int64_t *out_rows);

#ifdef __cplusplus
}
#endif
#endif
