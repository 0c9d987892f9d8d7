// Operands that go from memory straight into matrices, where drivers are known to hold them as NVIDIA's instructions do: lane l holds of
// the rows l / 4 and l / 4 + 8 of 16 the elements 2 * (l % 4), the one after it, and the two that lie eight further on; of sums too.
// Of linear, weights are the first operand, so that sums have a column of the product in each row, and x the second.
// A lane loads 16 bytes of a row of x, which count as its elements of two matrices: features are taken in another order than they lie. The
// weights lie in that order (arrange.comp), a lane's elements of a matrix together, and the lanes of a subgroup in whole lines of memory.
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
