/* The ops: everything the library computes is a list of these. The args of an op are the public ones, checked and with defaults (strides,
   scale) filled in before a backend sees them. */
#ifndef RVIT_CORE_CONTRACT_OP_H
#define RVIT_CORE_CONTRACT_OP_H

#include <raggedvit/session.h>

#include "core/base/half.h"

typedef enum rvit_op_type {
#define RVIT_OP(TYPE, name) RVIT_OP_##TYPE,
#include "core/contract/ops.def"
    RVIT_OP_COUNT
} rvit_op_type;

/* What a session knows of an op, a linear one but for fixed_images, and its args do not say. A backend may ignore it; what it makes of it
   changes results by no more than rounding. */
typedef struct rvit_op_hints {
    rvit_view narrow_bias; /* the bias rounded to out_dtype, if that has 16 bits, or of E4M3 with F32 to BF16; it holds what it holds as
                              long as the op's program lives */
    rvit_view one_scale;   /* E4M3: f32 [1]. All rows of x have this scale, and all of weight the same one; it lives as narrow_bias does */
    int32_t padding_rows;  /* 1: the rows between live and capacity may be read and written: a product of all of them may be made */
    int32_t arranged;      /* what the backend's arrange_weight left here; 0: the weight is row-major */
    int32_t fixed_images;  /* attention. 1: n_images is the session's capacity in every run, so that a kernel chosen by it, with bits of its
                              own, gives an image the same bits in each */
} rvit_op_hints;

typedef struct rvit_op {
    rvit_op_type type;
    rvit_op_hints hints;
    int32_t by_launch; /* patchify and head, where rvit_device.takes_ops: each launch of the program brings the op anew, and the recorded
                          one may lack arrays */
    int32_t passes_on; /* only the next op reads what this one writes to out: no need to keep it */
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

/* One array that an op accesses: where it is, its size at capacity, and how it is used. */
typedef struct rvit_access {
    const char *name;  /* the args field: "rows.live" */
    rvit_view view;    /* buffer NULL: absent, or not used with these args */
    int64_t size;      /* bytes from view.offset; 0 where a capacity is 0, or absent */
    int32_t alignment; /* required alignment of view.offset, bytes */
    uint8_t reads, writes, optional;
    uint8_t live;    /* holds a count of live rows or images */
    int8_t in_place; /* slot of the array that this one may be identical to although one of them is written; -1: none */
} rvit_access;

#define RVIT_OP_MAX_ACCESSES 16

#define RVIT_MATCH_MAX_UNIT 4 /* rows that match takes as one */

/* Whether two byte ranges overlap. */
static inline int rvit_ranges_overlap(int64_t a, int64_t a_size, int64_t b, int64_t b_size)
{
    return a_size > 0 && b_size > 0 && a < b + b_size && b < a + a_size;
}

/* Rows of linear's weight, and so columns of its product: a gated output has two. */
static inline int64_t rvit_linear_columns(const rvit_linear_args *a)
{
    return a->gated ? 2 * (int64_t)a->out_features : a->out_features;
}

/* Whether rows of this dtype have scales: I8 and E4M3. */
static inline int rvit_is_quantized(rvit_dtype dtype)
{
    return dtype == RVIT_I8 || dtype == RVIT_E4M3;
}

/* The longest row with a scale. The sum of so many products of two int8 fits in 32 bits. */
#define RVIT_MAX_QUANTIZED_COLUMNS 65536

/* Elements of a row of quantize's x. */
static inline int64_t rvit_quantize_width(const rvit_quantize_args *a)
{
    return a->gated ? 2 * (int64_t)a->columns : a->columns;
}

/* Unpack's fill value as 32 bits of the destination: one element, or two of 16 bits. */
static inline uint32_t rvit_unpack_fill(const rvit_unpack_args *a)
{
    if (a->dtype == RVIT_F32)
        return rvit_float_bits(a->fill);
    return (a->dtype == RVIT_F16 ? rvit_f32_to_f16(a->fill) : rvit_f32_to_bf16(a->fill)) * 0x10001u;
}

/* Whether cells are predicted from reconstructions: a copy of equal pixels is the pixels themselves. */
static inline int rvit_pixelprune_reconstructs(const rvit_pixelprune_args *a)
{
    return a->limits[0] > 0.0f || a->limits[1] > 0.0f || a->limits[2] > 0.0f || a->limits[3] > 0.0f;
}

/* Activations of the form x sigmoid(x (slope + cubic x^2)); neither factor: one of another form. The tanh GELU is of it, because
   (1 + tanh u) / 2 = sigmoid(2 u). A backend takes x^2 as RVIT_SIGMOID_SQUARE at most: the sigmoid is 0 or 1 by then, and 0 times a square
   that has overflown would be NaN. */
typedef struct rvit_sigmoid {
    float slope, cubic;
} rvit_sigmoid;
#define RVIT_SIGMOID_SQUARE 16384.0f

static inline rvit_sigmoid rvit_sigmoid_of(rvit_activation activation)
{
    switch (activation) {
    case RVIT_ACTIVATION_GELU_TANH:
        return (rvit_sigmoid){1.595769122f, 0.0713548163f}; /* 2 sqrt(2 / pi), and 0.044715 times it */
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

/* The two parts of attention_backward's workspace, in bytes: two numbers for each row and head, [n_heads, rows]; and, behind them, one for
   each row and head, its share of d_key_bias. */
static inline int64_t rvit_backward_numbers_size(const rvit_attention_backward_args *a)
{
    return (8 * a->rows * a->n_heads + 15) / 16 * 16;
}

static inline int64_t rvit_backward_shares_size(const rvit_attention_backward_args *a)
{
    return (4 * a->rows * a->n_heads + 15) / 16 * 16;
}

/* Lists the arrays of an op: out[RVIT_SLOT(op, ...)]. Returns the number of slots. */
int rvit_op_accesses(const rvit_op *op, rvit_access out[RVIT_OP_MAX_ACCESSES]);

/* Whether a dtype that the op uses is this one. */
int rvit_op_has_dtype(const rvit_op *op, rvit_dtype dtype);

/* Fills in defaults (strides, scale, x_rows) and checks every rule of the args that does not depend on the device. */
rvit_status rvit_op_prepare(rvit_op *op);

#endif
