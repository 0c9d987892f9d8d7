/* A valid call of each op, for tests that change one argument. tests/ops/NAME.c prepares the arguments of rvit_NAME. */
#ifndef RVIT_TESTS_GOOD_OPS_H
#define RVIT_TESTS_GOOD_OPS_H

#include "core/contract/op.h"
#include "harness.h"

typedef union any_args {
    size_t struct_size;
#define RVIT_OP(TYPE, name) rvit_##name##_args name;
#include "core/contract/ops.def"
} any_args;

typedef struct view_field {
    const char *name; /* as in the error's detail */
    size_t offset;    /* in the args */
    int alignment, optional;
} view_field;

typedef struct good_op {
    const char *name;
    rvit_op_type type;
    rvit_status (*call)(rvit_stream *stream, const any_args *args);
    any_args args;
    view_field views[RVIT_OP_MAX_ACCESSES + 1]; /* views in use; a NULL name ends the list */
} good_op;

/* The ops, named by type, and more variants of select. */
typedef enum op_name {
#define RVIT_OP(TYPE, name) TYPE,
#include "core/contract/ops.def"
    SELECT_THRESHOLD,
    SELECT_MASK,
    SELECT_L2,
    SELECT_FUSED,     /* by CLS_ATTENTION */
    SELECT_SAMPLE,    /* by CLS_NORM, of a part of wider rows */
    SELECT_MASS,      /* by POSITION */
    SELECT_PREDICTOR, /* by PREDICTOR, top k */
    SELECT_ANCHORS,   /* by CLS_ATTENTION, near anchors */
    N_GOOD_OPS,
    SELECT_TOP_K = SELECT
} op_name;

/* Creates the arrays of all ops and uploads them; out [N_GOOD_OPS]. */
void good_ops(good_op *out);
/* Whether the device supports the op: a valid call must succeed or be listed as unsupported. */
int good_op_works(const good_op *op);
/* The view of a field. */
rvit_view *view_of(any_args *args, const view_field *field);

/* good_pack(rvit_pack_args *a), ...: a is RVIT_PACK_ARGS_INIT on entry. */
#define RVIT_OP(TYPE, name) void good_##name(rvit_##name##_args *a);
#include "core/contract/ops.def"
void good_select_by(rvit_select_args *a, rvit_select_mode mode, rvit_score_type score, int fused);

/* Three images of at most six tokens, 10 live rows of 12. */
enum { GOOD_ROWS = 12, GOOD_IMAGES = 3, GOOD_MAX_LEN = 6, GOOD_DIM = 16 };
rvit_view good_input(const char *name, int64_t size);
rvit_view good_output(const char *name, int64_t size);
rvit_view good_ints(const char *name, const int32_t *values, int n);
rvit_view good_lengths(void);
rvit_view good_row_numbers(void);
rvit_rows good_rows(void);

#endif
