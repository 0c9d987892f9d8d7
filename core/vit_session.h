/* A session's memory plan and results; the forward that is recorded over it. */
#ifndef RVIT_CORE_VIT_SESSION_H
#define RVIT_CORE_VIT_SESSION_H

#include "core/policy.h"
#include "core/vit_model.h"

/* One prune stage: capacities before and after it, its arrays on the device, and where its results land on the host. */
typedef struct rvit_stage {
    int32_t max_len, max_len_after; /* tokens of an image at most */
    int64_t rows, rows_after;       /* max_images times that */
    int32_t exact;                  /* 1: every image has exactly max_len_after tokens afterwards */
    rvit_view counts, position_scores, scores, src_rows, keep_in;
    rvit_view sizes, key_bias;             /* of the rows after it, where tokens are merged */
    rvit_view keep, cu_seqlens, next_rows; /* in the session's results, which one copy takes to the host */
    rvit_view error;                       /* on the host; select's, of all runs since the last wait */
    const uint8_t *host_keep;
    const int32_t *host_cu_seqlens, *host_next_rows;
    int32_t *host_error;
    int32_t *host_counts;    /* what counts holds */
    int32_t *kept;           /* [rows_after], token numbers; filled when first asked for, as is the next */
    float *kept_sizes;       /* [rows_after], where tokens are merged */
    rvit_select_args select; /* as recorded */
} rvit_stage;

struct rvit_session {
    rvit_model *model;
    rvit_stream *stream;
    rvit_program *program;
    rvit_session_desc desc;
    rvit_session_info info;
    rvit_prune_schedule schedule;
    int32_t max_images;
    int32_t n_images; /* of the last run */
    int32_t pending;  /* enqueued, not waited for */
    int32_t has_results, has_kept;

    rvit_buffer *upload;   /* live image count, given masks, images */
    rvit_buffer *arena;    /* everything that lives on the device only */
    rvit_buffer *readback; /* logits, outputs and the stages' results */
    rvit_buffer *traced;   /* with trace */

    rvit_view live_images, images, logits, features, cls_attention;
    rvit_view cu_seqlens;                            /* of the unpruned batch */
    rvit_view x[2], normed, wide, cls_probs, metric; /* activations: see plan_activations */
    rvit_view results, host_results;                 /* of all stages, on the device and where they are copied to */
    rvit_view tables, host_tables;                   /* the stages' counts and position scores, and where they are copied from */
    int64_t results_size, tables_size;
    int32_t *counts;          /* host: the stages' tables of counts */
    uint8_t *host;            /* host: the arrays below and those of the stages */
    int32_t *host_cu_seqlens; /* [max_images + 1], of the unpruned batch */
    int32_t *token_row;       /* [2 * tokens], scratch of rvit_session_grid */
    rvit_stage stages[RVIT_PRUNE_MAX_STAGES];
    rvit_view trace_blocks; /* [depth + 1] arrays trace_stride bytes apart: embedding, then each block's output */
    int64_t trace_stride;
    rvit_view trace_scores[RVIT_PRUNE_MAX_STAGES];
};

/* Whether the policy looks at the CLS row of a stage's attention. */
int rvit_session_scores_cls(const rvit_session *session);

/* What the plan will allocate, and nothing allocated; model, desc, schedule and max_images are set. */
rvit_status rvit_session_measure(rvit_session *session, rvit_memory_info *out_memory);
/* Plans and allocates a session's memory and fills what the device needs before the first run. model, stream, desc and schedule are set. */
rvit_status rvit_session_plan_memory(rvit_session *session);
void rvit_session_free_memory(rvit_session *session);

/* Calls the ops of one forward over the session's memory on its stream, which is recording. */
rvit_status rvit_forward_record(rvit_session *session);

#endif
