/* Rotary positions: the table for rvit_rope, and the layout of weights that it expects. */
#ifndef RVIT_CORE_MODEL_ROPE_TABLE_H
#define RVIT_CORE_MODEL_ROPE_TABLE_H

#include <raggedvit/ops.h>

/* Which elements of a head are rotated as a pair: i and i + head_dim / 2, or 2 i and 2 i + 1. */
typedef enum rvit_rope_layout { RVIT_ROPE_HALF, RVIT_ROPE_INTERLEAVED } rvit_rope_layout;

typedef struct rvit_rope_config {
    rvit_rope_coordinates coordinates;
    rvit_rope_order order;
    rvit_rope_layout layout;
    double base, offset;
    double reference[2]; /* height and width of the reference grid; 0: none */
} rvit_rope_config;

/* out [n_prefix + height * width, head_dim]: cosines, then sines, as rvit_rope takes them; prefix rows do not rotate. Computed in float64
   and rounded once. A coordinate c has the angles c * base^(-4 j / head_dim), j = 0 .. head_dim / 4 - 1. */
void rvit_rope_fill_table(const rvit_rope_config *rope, int32_t height, int32_t width, int32_t n_prefix, int32_t head_dim, float *out);
/* Reorders the rows of a weight or bias, [n_heads, head_dim, row], from RVIT_ROPE_INTERLEAVED to RVIT_ROPE_HALF. */
void rvit_rope_to_half(const float *from, int32_t n_heads, int32_t head_dim, int64_t row, float *to);

#endif
