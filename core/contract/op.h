/* The ops: everything the library computes is a list of these. An op has the public args, checked and with defaults (strides, scale) filled
   in before a backend sees them. */
#ifndef RVIT_CORE_CONTRACT_OP_H
#define RVIT_CORE_CONTRACT_OP_H

#include <raggedvit/session.h>

#include "core/base/half.h"

typedef enum rvit_op_type {
#define RVIT_OP(TYPE, name) RVIT_OP_##TYPE,
#include "core/contract/ops.def"
    RVIT_OP_COUNT
} rvit_op_type;

/* Facts about an op that a session knows and the args lack: for linear ops, and fixed_images for attention. A backend may ignore a hint;
   using it changes results at most by rounding. */
typedef struct rvit_op_hints {
    rvit_view narrow_bias; /* the bias rounded to out_dtype if that has 16 bits, and to BF16 for E4M3 with F32 output; its contents do not
                              change while the program exists */
    rvit_view one_scale;   /* E4M3: f32 [1], the one scale of all rows of x and of weight; as constant as narrow_bias */
    int32_t padding_rows;  /* 1: the GEMM may process all `capacity` rows, including padding rows */
    int32_t arranged;      /* set by the backend's arrange_weight; 0: the weight is row-major */
    int32_t fixed_images;  /* attention. 1: n_images is the session's capacity in every run, so choosing a kernel by it gives an image the
                              same bits in each run */
} rvit_op_hints;

typedef struct rvit_op {
    rvit_op_type type;
    rvit_op_hints hints;
    int32_t by_launch; /* patchify and head, with rvit_device.takes_ops: each launch supplies the op, so the recorded one may lack arrays */
    int32_t passes_on; /* only the next op reads this op's out, so it need not be kept */
    union {
#define RVIT_OP(TYPE, name) rvit_##name##_args name;
#include "core/contract/ops.def"
    };
} rvit_op;

/* The arrays of each op, numbered: RVIT_SLOT(pack, source). */
#define RVIT_SLOT(op, slot) RVIT_SLOT_##op##_##slot
/* clang-format off */
#define RVIT_OP(TYPE, name) enum {
#define RVIT_ARRAY(op, slot, field, use, alignment, size, in_place) RVIT_SLOT_##op##_##slot,
#define RVIT_OP_END(TYPE, name) RVIT_N_SLOTS_##name };
#include "core/contract/ops.def"
/* clang-format on */

/* "attention": the op's name in logs and at the start of messages. */
const char *rvit_op_name(rvit_op_type type);

/* One array that an op accesses. */
typedef struct rvit_access {
    const char *name;  /* the args field: "rows.live" */
    rvit_view view;    /* buffer NULL: absent, or not used with these args */
    int64_t size;      /* bytes from view.offset, at capacity; 0 if a capacity is 0 or the array is absent */
    int32_t alignment; /* required alignment of view.offset, bytes */
    uint8_t reads, writes, optional;
    uint8_t live;    /* holds a count of live rows or images */
    int8_t in_place; /* the slot whose array may be identical to this one although one of them is written; -1: none */
} rvit_access;

#define RVIT_OP_MAX_ACCESSES 16

#define RVIT_BIPARTITE_MATCH_MAX_GROUP 4 /* the largest group_size of bipartite_match */

/* Whether two byte ranges overlap. */
static inline int rvit_ranges_overlap(int64_t a, int64_t a_size, int64_t b, int64_t b_size)
{
    return a_size > 0 && b_size > 0 && a < b + b_size && b < a + a_size;
}

/* Rows of linear's weight: two for each column of a gated output. */
static inline int64_t rvit_linear_columns(const rvit_linear_args *a)
{
    return a->gated ? 2 * (int64_t)a->out_features : a->out_features;
}

/* Ops take these dtypes; results of a session may have others. */
static inline int rvit_op_takes(rvit_dtype dtype)
{
    return (int)dtype >= 0 && (int)dtype <= RVIT_E4M3;
}

/* Rows of these dtypes have scales. */
static inline int rvit_is_quantized(rvit_dtype dtype)
{
    return dtype == RVIT_I8 || dtype == RVIT_E4M3;
}

/* The longest quantized row: a dot product of that many int8 values fits in 32 bits. */
#define RVIT_MAX_QUANTIZED_COLUMNS 65536

/* Elements of a row of quantize's x. */
static inline int64_t rvit_quantize_width(const rvit_quantize_args *a)
{
    return a->gated ? 2 * (int64_t)a->columns : a->columns;
}

/* Unpack's fill value as 32 bits of the destination: one element, or two 16-bit elements. */
static inline uint32_t rvit_unpack_fill(const rvit_unpack_args *a)
{
    if (a->dtype == RVIT_F32)
        return rvit_float_bits(a->fill);
    return (a->dtype == RVIT_F16 ? rvit_f32_to_f16(a->fill) : rvit_f32_to_bf16(a->fill)) * 0x10001u;
}

/* Whether patches are predicted from reconstructions. With limits of 0 the reconstruction equals the pixels. */
static inline int rvit_pixelprune_reconstructs(const rvit_pixelprune_args *a)
{
    return a->limits[0] > 0.0f || a->limits[1] > 0.0f || a->limits[2] > 0.0f || a->limits[3] > 0.0f;
}

/* Activations of the form x * sigmoid(x * (slope + cubic * x^2)), such as the tanh GELU: (1 + tanh u) / 2 = sigmoid(2 u). Both 0: another
   form. A backend clamps x^2 to RVIT_SIGMOID_SQUARE: the sigmoid is 0 or 1 there, and 0 times an overflown square would be NaN. */
typedef struct rvit_sigmoid {
    float slope, cubic;
} rvit_sigmoid;
#define RVIT_SIGMOID_SQUARE 16384.0f

static inline rvit_sigmoid rvit_sigmoid_of(rvit_activation activation)
{
    switch (activation) {
    case RVIT_ACTIVATION_GELU_TANH:
        return (rvit_sigmoid){1.595769122f, 0.0713548163f}; /* 2 sqrt(2 / pi), and 0.044715 times that */
    case RVIT_ACTIVATION_QUICK_GELU:
        return (rvit_sigmoid){1.702f, 0.0f};
    case RVIT_ACTIVATION_SILU:
        return (rvit_sigmoid){1.0f, 0.0f};
    case RVIT_ACTIVATION_NONE:
    case RVIT_ACTIVATION_GELU:
        break;
    }
    return (rvit_sigmoid){0.0f, 0.0f};
}

/* The two parts of attention_backward's workspace, in bytes: two numbers per row and head, [n_heads, rows], then one per row and head, its
   share of d_key_bias. */
static inline int64_t rvit_backward_numbers_size(const rvit_attention_backward_args *a)
{
    return (8 * a->rows * a->n_heads + 15) / 16 * 16;
}

static inline int64_t rvit_backward_shares_size(const rvit_attention_backward_args *a)
{
    return (4 * a->rows * a->n_heads + 15) / 16 * 16;
}

/* Lists the arrays of an op in out[RVIT_SLOT(op, ...)]. Returns the number of slots. */
int rvit_op_accesses(const rvit_op *op, rvit_access out[RVIT_OP_MAX_ACCESSES]);

int rvit_op_has_dtype(const rvit_op *op, rvit_dtype dtype);

/* Fills in defaults (strides, scale, x_rows) and checks every device-independent rule of the args. */
rvit_status rvit_op_prepare(rvit_op *op);

#endif
