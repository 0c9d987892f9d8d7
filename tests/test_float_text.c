/* Tests floats as text: the digits are those of printf. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/cli/float_text.h"

/* printf's text in jansson's format; the tested values have no exponents. */
static void expect(float value)
{
    char wanted[64], found[64] = {0};
    const int has_exponent = !(fabs((double)value) >= 1e-4 && fabs((double)value) < 1e9);
    char *end = float_text(found, value);
    assert_int_equal(end == NULL, has_exponent);
    if (has_exponent) {
        assert_int_equal(found[0], 0);
        return;
    }
    snprintf(wanted, sizeof wanted, "%.9g", (double)value);
    if (!strchr(wanted, '.'))
        strcat(wanted, ".0");
    *end = 0;
    assert_string_equal(found, wanted);
    assert_true(strlen(found) + 2 <= MAX_FLOAT_TEXT);
    assert_true(strtof(found, NULL) == value);
}

static void edge_cases(void **state)
{
    (void)state;
    static const float values[] = {
        0.0F, -0.0F,  NAN,     INFINITY,        -INFINITY,   1.0F,        -1.0F,       0.5F, 1e-4F,           9.99999975e-5F, 999999936.0F,
        1e9F, 1e-45F, 3.4e38F, 0.000100000005F, 99999999.5F, 16777216.0F, 16777217.0F, 0.1F, 1.17549435e-38F, -123.456F};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        expect(values[i]);
    for (float power = 1e-6F; power < 1e11F; power *= 10) {
        expect(power);
        expect(nextafterf(power, 0));
        expect(-nextafterf(power, INFINITY));
    }
}

static void all_kinds(void **state)
{
    (void)state;
    uint32_t bits = 1;
    for (int i = 0; i < 400000; i++) {
        float value;
        bits = bits * 1664525U + 1013904223U;
        memcpy(&value, &bits, sizeof value);
        expect(value);
        expect((float)(int32_t)bits / (float)(1 << 28));    /* logits */
        expect((float)(bits >> 16) / (float)(1 << i % 20)); /* midway between two digits */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(edge_cases), cmocka_unit_test(all_kinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
