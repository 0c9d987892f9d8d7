// Operands that go from memory straight into matrices, where drivers are known to hold them as NVIDIA's instructions do: lane l holds of
// the rows l / 4 and l / 4 + 8 of 16 the elements 2 * (l % 4), the one after it, and the two that lie eight further on. Weights are the
// first operand, so that sums have a column of the product in each row, and x the second.
// A lane loads 16 bytes of a row of x, which count as its elements of two matrices: features are taken in another order than they lie. The
// weights lie in that order (arrange.comp), a lane's elements of a matrix together, and the lanes of a subgroup in whole lines of memory.
#ifndef MATRIX_ROWS_GLSL
#define MATRIX_ROWS_GLSL

const uint LINE = 8; // units of a row that weights are arranged in: four matrices

// Where the lane's units are: of x two rows a matrix, i counting them; of weights four rows of a matrix, one for each step.
uint lane_row(uint i)
{
    return i * 8 + gl_SubgroupInvocationID / 4;
}

// Loads half of a line of LINE units from unit `at` of each row on: of x for two steps, as of the weights.
#define LOAD_HALF(x_to, w_to, at, half)                                                                  \
    {                                                                                                    \
        [[unroll]] for (uint i = 0; i < 2 * ROWS; i++)                                                   \
            x_to[i] = x_units[x_from[i] + (at) + half * (LINE / 2)];                                     \
        [[unroll]] for (uint u = 0; u < 2; u++)                                                          \
            [[unroll]] for (uint c = 0; c < COLUMNS; c++)                                                \
                w_to[u * COLUMNS + c] = weight_units[w_from[c] + (half * 2 + u) * 4 * n_units + (at)];   \
    }

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

#define MULTIPLY_HALF(x_of, w_of)                                                                        \
    {                                                                                                    \
        [[unroll]] for (uint u = 0; u < 2; u++) {                                                        \
            MATRIX_B b[ROWS];                                                                            \
            [[unroll]] for (uint r = 0; r < ROWS; r++) {                                                 \
                const uvec2 low = u == 0 ? x_of[2 * r].xy : x_of[2 * r].zw;                              \
                const uvec2 high = u == 0 ? x_of[2 * r + 1].xy : x_of[2 * r + 1].zw;                     \
                FILL(b[r], low.x, low.y, high.x, high.y)                                                 \
            }                                                                                            \
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {                                              \
                const uvec4 words = w_of[u * COLUMNS + c];                                               \
                MATRIX_A a;                                                                              \
                FILL(a, words.x, words.z, words.y, words.w)                                              \
                [[unroll]] for (uint r = 0; r < ROWS; r++)                                               \
                    sums[r * COLUMNS + c] = coopMatMulAdd(a, b[r], sums[r * COLUMNS + c]);               \
            }                                                                                            \
        }                                                                                                \
    }

#endif
