/* The closed set of ops: everything the library computes is a list of these. An op's args are the public ones, checked and with
   defaults (strides, scale) filled in before a backend sees them. */
#ifndef RVIT_CORE_OP_H
#define RVIT_CORE_OP_H

#include <raggedvit/vit.h>

typedef enum rvit_op_type {
    RVIT_OP_COPY,
    RVIT_OP_PATCHIFY,
    RVIT_OP_LINEAR,
    RVIT_OP_LAYERNORM,
    RVIT_OP_ATTENTION,
    RVIT_OP_SELECT,
    RVIT_OP_MEAN,
    RVIT_OP_MATCH,
    RVIT_OP_MERGE,
    RVIT_OP_PACK,
    RVIT_OP_UNPACK,
    RVIT_OP_HEAD,
    RVIT_OP_COUNT
} rvit_op_type;

typedef struct rvit_op {
    rvit_op_type type;
    union {
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
    };
} rvit_op;

/* "attention"; the word that op names in logs and messages begin with. */
const char *rvit_op_name(rvit_op_type type);

/* One array an op touches: where, how many bytes at capacity, and how. */
typedef struct rvit_access {
    const char *name;  /* the args field: "cu_seqlens" */
    rvit_view view;    /* buffer NULL: absent */
    int64_t size;      /* bytes from view.offset, 0 where a capacity is 0 */
    int32_t alignment; /* that view.offset must have, bytes */
    uint8_t reads, writes, optional;
    int8_t in_place; /* index of the access this one may coincide with exactly though one is written; -1: none */
} rvit_access;

#define RVIT_OP_MAX_ACCESSES 16

/* Lists every array of an op in a fixed order (that of the args struct); absent optional ones have view.buffer NULL. Returns how many. */
int rvit_op_accesses(const rvit_op *op, rvit_access out[RVIT_OP_MAX_ACCESSES]);

/* Fills in defaults (strides, scale, x_rows) and checks every rule of the args that does not depend on the device. */
rvit_status rvit_op_prepare(rvit_op *op);

#endif
