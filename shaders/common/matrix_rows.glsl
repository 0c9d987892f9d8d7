// Operands that are loaded from global memory straight into matrices, on drivers that lay them out as NVIDIA's instructions do: of the rows
// l / 4 and l / 4 + 8 of 16, lane l holds the elements 2 * (l % 4), the next one, and the two that are eight further on; the same for
// accumulators.
// In linear, weights are the first operand, so that each row of an accumulator is a column of the GEMM, and x is the second.
// A lane loads 16 bytes of a row of x, which serve as its elements of two matrices, so features are not processed in memory order. The
// weights are stored in that order (arrange.comp), a lane's elements of a matrix together, and the lanes of a subgroup in whole cache
// lines.
#ifndef MATRIX_ROWS_GLSL
#define MATRIX_ROWS_GLSL

#define FILL(matrix, w0, w1, w2, w3)             \
    {                                            \
        const f16vec2 p0 = unpackFloat2x16(w0);  \
        const f16vec2 p1 = unpackFloat2x16(w1);  \
        const f16vec2 p2 = unpackFloat2x16(w2);  \
        const f16vec2 p3 = unpackFloat2x16(w3);  \
        matrix[0] = p0.x;                        \
        matrix[1] = p0.y;                        \
        matrix[2] = p1.x;                        \
        matrix[3] = p1.y;                        \
        matrix[4] = p2.x;                        \
        matrix[5] = p2.y;                        \
        matrix[6] = p3.x;                        \
        matrix[7] = p3.y;                        \
    }

#endif
