/* Random numbers, stored types, comparisons, layouts. */
#include "harness.h"

#include <math.h>

#include "core/base/half.h"

static uint64_t random_state;

void random_seed(uint64_t seed)
{
    random_state = seed ? seed : 1;
}

uint32_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)(random_state * 0x2545f4914f6cdd1du >> 32);
}

int32_t random_below(int32_t n)
{
    return (int32_t)((uint64_t)random_bits() * (uint32_t)n >> 32);
}

/* The sum of four uniform numbers, scaled to variance 1. */
float random_normal(void)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += random_bits() * 0x1p-32;
    return (float)((sum - 2) * 1.7320508075688772);
}

void random_shuffle(int32_t *values, int32_t n)
{
    for (int32_t i = n - 1; i > 0; i--) {
        const int32_t j = random_below(i + 1);
        const int32_t t = values[i];
        values[i] = values[j];
        values[j] = t;
    }
}

/* Follows the definition of e4m3fn and does not use core/base/e4m3.h, so that tests are independent of it. */
static float of_e4m3(uint8_t byte)
{
    const int exponent = byte >> 3 & 15, fraction = byte & 7;
    const double value = exponent == 0 ? ldexp(fraction, -9) : ldexp(8 + fraction, exponent - 10);
    return (byte & 127) == 127 ? NAN : (float)(byte & 128 ? -value : value);
}

float load(rvit_dtype dtype, const void *data, int64_t index)
{
    if (dtype == RVIT_I8)
        return ((const int8_t *)data)[index];
    if (dtype == RVIT_E4M3)
        return of_e4m3(((const uint8_t *)data)[index]);
    if (dtype == RVIT_F32) {
        float value;
        memcpy(&value, (const uint8_t *)data + index * 4, 4);
        return value;
    }
    uint16_t half;
    memcpy(&half, (const uint8_t *)data + index * 2, 2);
    return dtype == RVIT_F16 ? rvit_f16_to_f32(half) : rvit_bf16_to_f32(half);
}

void store(rvit_dtype dtype, void *data, int64_t index, float value)
{
    if (dtype == RVIT_F32) {
        memcpy((uint8_t *)data + index * 4, &value, 4);
        return;
    }
    const uint16_t half = dtype == RVIT_F16 ? rvit_f32_to_f16(value) : rvit_f32_to_bf16(value);
    memcpy((uint8_t *)data + index * 2, &half, 2);
}

float rounded(rvit_dtype dtype, float value)
{
    uint8_t element[4];
    store(dtype, element, 0, value);
    return load(dtype, element, 0);
}

void store_normal(rvit_dtype dtype, void *data, int64_t begin, int64_t n, float scale)
{
    for (int64_t i = begin; i < begin + n; i++)
        store(dtype, data, i, scale * random_normal());
}

float *loaded(rvit_dtype dtype, const void *data, int64_t begin, int64_t n)
{
    float *values = scratch((size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        values[i] = load(dtype, data, begin + i);
    return values;
}

static double unit_in_the_last_place(rvit_dtype dtype, double value)
{
    const int digits = dtype == RVIT_F32 ? 24 : dtype == RVIT_F16 ? 11 : 8;
    const int smallest = dtype == RVIT_F16 ? -24 : -149;
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, exponent - digits > smallest ? exponent - digits : smallest);
}

void check_close(const char *what, rvit_dtype stored, const float *got, const double *exact, const float *plain, int64_t n)
{
    check_close_sums(what, stored, got, exact, plain, exact, n);
}

void check_close_sums(const char *what, rvit_dtype stored, const float *got, const double *exact, const float *plain, const double *terms,
                      int64_t n)
{
    double largest = 0, plain_error = 0, error = -1;
    int64_t worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double e = isnan(got[i]) ? INFINITY : fabs(got[i] - exact[i]);
        largest = fmax(largest, fabs(terms[i]));
        plain_error = fmax(plain_error, fabs(rounded(stored, plain[i]) - exact[i]));
        if (e > error) {
            error = e;
            worst = i;
        }
    }
    plain_error = fmax(plain_error, unit_in_the_last_place(stored, largest) / 2);
    const double limit = 2 * plain_error + 0x1p-21 * largest;
    if (n > 0 && !(error <= limit))
        fail_msg("%s: element %lld of %lld is %.9g, should be %.9g: the error is %.3g, the limit is %.3g", what, (long long)worst,
                 (long long)n, (double)got[worst], exact[worst], error, limit);
}

void check_oracle(const char *what, rvit_dtype stored, const float *got, const double *exact, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(exact[i]));
    for (int64_t i = 0; i < n; i++) {
        const double limit = 0.51 * unit_in_the_last_place(stored, exact[i]) + 1e-12 * largest;
        if (!(fabs(got[i] - exact[i]) <= limit))
            fail_msg("%s: the oracle's element %lld of %lld is %.17g, should be %.17g", what, (long long)i, (long long)n, (double)got[i],
                     exact[i]);
    }
}

double largest_difference(const float *a, const float *b, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        if (isnan(d))
            return INFINITY;
        largest = fmax(largest, d);
    }
    return largest;
}

batch batch_of(const int32_t *lengths, int32_t n_images, int64_t padding_rows)
{
    batch b = {.n_images = n_images, .max_len = 1, .cu = scratch((size_t)(n_images + 1) * 4)};
    for (int32_t i = 0; i < n_images; i++) {
        b.cu[i] = (int32_t)b.live;
        b.live += lengths[i];
        if (lengths[i] > b.max_len)
            b.max_len = lengths[i];
    }
    b.cu[n_images] = (int32_t)b.live;
    b.rows = b.live + padding_rows;
    return b;
}

int32_t every_length(int32_t *out_lengths)
{
    static const int32_t ranges[][2] = {{0, 80}, {127, 129}, {191, 198}, {255, 257}, {576, 577}};
    int32_t n = 0;
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++)
        for (int32_t length = ranges[r][0]; length <= ranges[r][1]; length++)
            out_lengths[n++] = length;
    random_shuffle(out_lengths, n);
    return n;
}
