/* One call of each op that works, to be spoilt in one place. */
#ifndef RVIT_TESTS_GOOD_OPS_H
#define RVIT_TESTS_GOOD_OPS_H

#include "harness.h"

typedef union any_args {
    size_t struct_size;
    rvit_copy_args copy;
    rvit_patchify_args patchify;
    rvit_linear_args linear;
    rvit_layernorm_args layernorm;
    rvit_attention_args attention;
    rvit_select_args select;
    rvit_mean_args mean;
    rvit_match_args match;
    rvit_merge_args merge;
    rvit_pack_args pack;
    rvit_unpack_args unpack;
    rvit_head_args head;
} any_args;

typedef struct view_field {
    const char *name; /* as the detail must give it */
    size_t offset;    /* in the args */
    int alignment, optional;
} view_field;

#define MAX_VIEWS 12

typedef struct good_op {
    const char *name;
    rvit_status (*call)(rvit_stream *stream, const any_args *args);
    any_args args;
    view_field views[MAX_VIEWS]; /* a NULL name ends them */
} good_op;

typedef enum op_name {
    COPY,
    PATCHIFY,
    LINEAR,
    LAYERNORM,
    ATTENTION,
    SELECT_TOP_K,
    SELECT_THRESHOLD,
    SELECT_MASK,
    SELECT_L2,
    SELECT_FUSED,     /* by CLS_ATTENTION */
    SELECT_SAMPLE,    /* by CLS_NORM, of a part of wider rows */
    SELECT_MASS,      /* by POSITION */
    SELECT_PREDICTOR, /* by PREDICTOR, top k */
    MEAN,
    MATCH,
    MERGE,
    PACK,
    UNPACK,
    HEAD,
    N_GOOD_OPS
} op_name;

/* Makes the arrays of all ops and uploads them; out [N_GOOD_OPS]. */
void good_ops(good_op *out);
/* The view of a field. */
rvit_view *view_of(any_args *args, const view_field *field);

#endif
