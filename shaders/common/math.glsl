// Functions that GLSL lacks, or whose accuracy it does not guarantee.
#ifndef MATH_GLSL
#define MATH_GLSL

const uint NEGATIVE_INFINITY_BITS = 0xff800000u;

float negative_infinity()
{
    return uintBitsToFloat(NEGATIVE_INFINITY_BITS);
}

// Compared as bits, because a driver may assume that floats are finite.
bool is_negative_infinity(float x)
{
    return floatBitsToUint(x) == NEGATIVE_INFINITY_BITS;
}

// 0.5 x (1 + erf(x / sqrt 2)). The tail 0.5 erfc(z / sqrt 2) is exp(-z^2 / 2) times a polynomial in 1 / (1 + 0.33 z), fitted for the
// least absolute error of the product with z: 2e-9 before rounding.
float gelu(float x)
{
    const float z = abs(x);
    const float t = 1.0 / (1.0 + 0.33 * z);
    float p = 0.04615951;
    p = p * t - 0.22329572;
    p = p * t + 0.33616611;
    p = p * t - 0.094021015;
    p = p * t + 0.18354642;
    p = p * t + 0.11874533;
    p = p * t + 0.13269937;
    const float tail = exp(-0.5 * z * z) * p * t;
    return x > 0.0 ? x - x * tail : x * tail;
}

// x sigmoid(z), z = x (slope + cubic x^2). For negative z it is computed as x exp(z) sigmoid(-z), which does not overflow. Where x^2 is
// clamped, the sigmoid is 0 or 1.
float sigmoid_product(float x, float slope, float cubic)
{
    const float power = exp(-abs(x) * (slope + cubic * min(x * x, 16384.0)));
    return (x < 0.0 ? x * power : x) / (1.0 + power);
}

// ln x for normal x > 0, to about an ulp: 2 atanh((m - 1) / (m + 1)) of the significand by its series.
float log_accurate(float x)
{
    const uint bits = floatBitsToUint(x) - 0x3f3504f3u;
    const float exponent = float(int(bits) >> 23);
    const float m = uintBitsToFloat((bits & 0x7fffffu) + 0x3f3504f3u);
    const float s = (m - 1.0) / (m + 1.0);
    const float s2 = s * s;
    const float series = s2 * (0.666666667 + s2 * (0.4 + s2 * (0.285714286 + s2 * (0.222222222 + s2 * 0.181818182))));
    return exponent * 0.69314718 + (2.0 * s + s * series);
}

#endif
