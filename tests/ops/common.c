/* Shared by the op tests. */
#include "ops.h"

#include <math.h>

array *array_live(int32_t value)
{
    array *a = array_input("live", 4);
    memcpy(a->host, &value, 4);
    return a;
}

const char *type_feature(rvit_dtype dtype)
{
    return rvit_enum_name(RVIT_ENUM_DTYPE, dtype);
}

/* Half of what lies between a number of I8 or E4M3 of this size and the next one. */
static double half_step(rvit_dtype dtype, double value)
{
    int exponent;
    frexp(value, &exponent);
    return dtype == RVIT_I8 ? 0.5 : ldexp(0.5, exponent - 4 > -9 ? exponent - 4 : -9);
}

void check_quantized_rows(const char *what, rvit_dtype dtype, const uint8_t *bytes, const float *scales, const double *exact,
                          const float *plain, int64_t rows, int64_t columns)
{
    const double most = dtype == RVIT_I8 ? 127 : 448;
    double largest = 0, plain_error = 0;
    for (int64_t i = 0; i < rows * columns; i++) {
        largest = fmax(largest, fabs(exact[i]));
        plain_error = fmax(plain_error, fabs(plain[i] - exact[i]));
    }
    const double allowed = 2 * fmax(plain_error, 0x1p-25 * largest) + 0x1p-21 * largest;
    for (int64_t row = 0; row < rows; row++) {
        const double scale = scales[row];
        double row_largest = 0;
        for (int64_t i = 0; i < columns; i++)
            row_largest = fmax(row_largest, fabs(exact[row * columns + i]));
        if (!(fabs(scale * most - row_largest) <= allowed))
            fail_msg("%s: the scale of row %lld is %.9g, should be %.9g", what, (long long)row, scale, row_largest / most);
        for (int64_t i = 0; i < columns; i++) {
            const double wanted = exact[row * columns + i], got = scale * load(dtype, bytes, row * columns + i);
            if (!(fabs(got - wanted) <= scale * half_step(dtype, scale > 0 ? wanted / scale : 0) + allowed))
                fail_msg("%s: element %lld of row %lld is %.9g, should be %.9g (scale %.3g)", what, (long long)i, (long long)row, got,
                         wanted, scale);
        }
    }
}

int64_t check_static_bytes(const char *what, rvit_dtype dtype, const uint8_t *bytes, double scale, const double *exact, const float *plain,
                           int64_t n, int64_t counted)
{
    const double most = scale * (dtype == RVIT_I8 ? 127 : 448);
    double largest = 0, plain_error = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(exact[i]));
        plain_error = fmax(plain_error, fabs(plain[i] - exact[i]));
    }
    const double allowed = 2 * fmax(plain_error, 0x1p-25 * largest) + 0x1p-21 * largest;
    int64_t least_cut = 0, most_cut = 0;
    for (int64_t i = 0; i < n; i++) {
        const double wanted = fmax(-most, fmin(most, exact[i])), got = scale * load(dtype, bytes, i);
        least_cut += fabs(exact[i]) > most + allowed;
        most_cut += fabs(exact[i]) > most - allowed;
        if (!(fabs(got - wanted) <= scale * half_step(dtype, wanted / scale) + allowed))
            fail_msg("%s: element %lld is %.9g, should be %.9g (scale %.3g)", what, (long long)i, got, wanted, scale);
    }
    if (counted >= 0 && (counted < least_cut || counted > most_cut))
        fail_msg("%s: %lld values are said to be cut off, should be %lld to %lld", what, (long long)counted, (long long)least_cut,
                 (long long)most_cut);
    return most_cut;
}

void random_bytes(rvit_dtype dtype, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = dtype == RVIT_I8 ? (uint8_t)(random_below(255) - 127) : (uint8_t)(random_below(2) * 128 + random_below(127));
}
