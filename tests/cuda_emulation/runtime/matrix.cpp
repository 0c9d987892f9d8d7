/* ldmatrix, movmatrix and mma.sync in the lane layout of the PTX manual. */
#include <math.h>
#include <string.h>

#include "half.h"
#include "machine.h"

namespace emu
{
namespace
{
typedef float row8 __attribute__((vector_size(32)));

void load_execute(warp &w)
{
    const bool transposed = w.lanes[0].argument != 0;
    for (int m = 0; m < 4; m++) {
        uint16_t rows[8][8];
        for (int r = 0; r < 8; r++)
            memcpy(rows[r], w.lanes[m * 8 + r].address, 16);
        for (int lane = 0; lane < WARP; lane++) {
            const int i = lane / 4, j = lane % 4 * 2;
            const uint32_t low = transposed ? rows[j][i] : rows[i][j], high = transposed ? rows[j + 1][i] : rows[i][j + 1];
            static_cast<uint32_t *>(w.lanes[lane].d)[m] = low | high << 16;
        }
    }
}

void transpose_execute(warp &w)
{
    uint16_t rows[8][8];
    for (int lane = 0; lane < WARP; lane++)
        memcpy(&rows[lane / 4][lane % 4 * 2], &w.lanes[lane].value, 4);
    for (int lane = 0; lane < WARP; lane++) {
        const int i = lane / 4, j = lane % 4 * 2;
        w.lanes[lane].result = rows[j][i] | (uint32_t)rows[j + 1][i] << 16;
    }
}

void convert_f16(row8 &to, const uint16_t *from)
{
#if defined(__F16C__)
    to = (row8)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
#else
    for (int i = 0; i < 8; i++)
        to[i] = f16_to_f32(from[i]);
#endif
}

void convert_bf16(row8 &to, const uint16_t *from)
{
    for (int i = 0; i < 8; i++)
        to[i] = bf16_to_f32(from[i]);
}

/* The product of two 16-bit elements is exact in float32. Sums are in ascending k, rounded at each step. (The device adds several
   terms at once and truncates low bits; no order of float32 additions gives exactly its result.) */
template <void convert(row8 &, const uint16_t *)> void multiply_execute(warp &w)
{
    uint16_t a_bits[16][16], b_bits[16][8];
    row8 a[16][2], b[16], d[16];
    for (int lane = 0; lane < WARP; lane++) {
        const fiber &f = w.lanes[lane];
        const float *own = static_cast<const float *>(f.d);
        const int g = lane / 4, t = lane % 4 * 2;
        memcpy(&a_bits[g][t], &f.a[0], 4);
        memcpy(&a_bits[g + 8][t], &f.a[1], 4);
        memcpy(&a_bits[g][t + 8], &f.a[2], 4);
        memcpy(&a_bits[g + 8][t + 8], &f.a[3], 4);
        for (int i = 0; i < 2; i++) {
            b_bits[t + i * 8][g] = (uint16_t)f.b[i];
            b_bits[t + i * 8 + 1][g] = (uint16_t)(f.b[i] >> 16);
            d[g + i * 8][t] = own[i * 2];
            d[g + i * 8][t + 1] = own[i * 2 + 1];
        }
    }
    for (int k = 0; k < 16; k++) {
        convert(a[k][0], a_bits[k]);
        convert(a[k][1], a_bits[k] + 8);
        convert(b[k], b_bits[k]);
    }
    const float *const a_element = reinterpret_cast<const float *>(a);
    for (int first = 0; first < 16; first += 8) { /* eight sums at a time, in registers */
        row8 sum[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            sum[i] = d[first + i];
        for (int k = 0; k < 16; k++)
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++)
                sum[i] += a_element[(first + i) * 16 + k] * b[k];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            d[first + i] = sum[i];
    }
    for (int lane = 0; lane < WARP; lane++) {
        float *own = static_cast<float *>(w.lanes[lane].d);
        const int g = lane / 4, t = lane % 4 * 2;
        for (int i = 0; i < 2; i++) {
            own[i * 2] = d[g + i * 8][t];
            own[i * 2 + 1] = d[g + i * 8][t + 1];
        }
    }
}

/* The bytes of A's rows and B's columns in the lanes' registers. */
struct u8_operands {
    uint8_t a[16][32], b[8][32];
    explicit u8_operands(const warp &w)
    {
        for (int lane = 0; lane < WARP; lane++) {
            const fiber &f = w.lanes[lane];
            const int g = lane / 4, t = lane % 4 * 4;
            memcpy(&a[g][t], &f.a[0], 4);
            memcpy(&a[g + 8][t], &f.a[1], 4);
            memcpy(&a[g][t + 16], &f.a[2], 4);
            memcpy(&a[g + 8][t + 16], &f.a[3], 4);
            memcpy(&b[g][t], &f.b[0], 4);
            memcpy(&b[g][t + 16], &f.b[1], 4);
        }
    }
};

/* The product of two e4m3 values is exact in float32; the sum of the truncated terms is exact in float64. */
float sum_e4m3(const float *a, const float *b, float d)
{
    enum { BITS = 13 };
    float terms[32], largest = fabsf(d);
    for (int k = 0; k < 32; k++) {
        terms[k] = a[k] * b[k];
        largest = fmaxf(largest, fabsf(terms[k]));
    }
    float plain = d;
    for (int k = 0; k < 32; k++)
        plain += terms[k];
    if (largest == 0.0f || !isfinite(plain))
        return plain;
    const double unit = ldexp(1.0, ilogbf(largest) - BITS), per_unit = 1.0 / unit;
    long long units = (long long)((double)d * per_unit);
    for (int k = 0; k < 32; k++)
        units += (long long)((double)terms[k] * per_unit);
    return (float)((double)units * unit);
}

void multiply_e4m3_execute(warp &w)
{
    const u8_operands bytes(w);
    float a[16][32], b[8][32];
    for (int k = 0; k < 32; k++) {
        for (int row = 0; row < 16; row++)
            a[row][k] = e4m3_to_f32(bytes.a[row][k]);
        for (int column = 0; column < 8; column++)
            b[column][k] = e4m3_to_f32(bytes.b[column][k]);
    }
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < 4; i++) {
            float &d = static_cast<float *>(w.lanes[lane].d)[i];
            d = sum_e4m3(a[lane / 4 + i / 2 * 8], b[lane % 4 * 2 + i % 2], d);
        }
}

/* Sums wrap as on the device. */
template <typename element> void multiply_u8_execute(warp &w)
{
    const u8_operands operands(w);
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            uint32_t sum = static_cast<uint32_t *>(w.lanes[lane].d)[i];
            for (int k = 0; k < 32; k++)
                sum += (uint32_t)((int)operands.a[row][k] * (int)(element)operands.b[column][k]);
            static_cast<uint32_t *>(w.lanes[lane].d)[i] = sum;
        }
}
} // namespace

void matrix_execute(warp &w, collective kind)
{
    if (kind == collective::transpose)
        transpose_execute(w);
    else if (kind == collective::load_matrix)
        load_execute(w);
    else if (kind == collective::multiply_f16)
        multiply_execute<convert_f16>(w);
    else if (kind == collective::multiply_bf16)
        multiply_execute<convert_bf16>(w);
    else if (kind == collective::multiply_e4m3)
        multiply_e4m3_execute(w);
    else if (kind == collective::multiply_u8)
        multiply_u8_execute<uint8_t>(w);
    else
        multiply_u8_execute<int8_t>(w);
}
} // namespace emu
