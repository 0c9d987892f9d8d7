/* Tests the CPU's linear kernels: every table that this processor can run, and the one with emulated AMX tiles. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "emulated_kernels.h"
#include "backend_cpu/tables.h"
#include "core/base/half.h"

enum { ROWS = 53, COLUMNS = 96, MOST = 4096 };

static float *scratch;
static rvit_cpu_features features;
static uint32_t state_of_random = 7;

static float random_value(void)
{
    state_of_random = state_of_random * 1664525u + 1013904223u;
    return (float)(state_of_random >> 8) * 0x1p-23f - 1.0f;
}

/* Table i, or an emulated one after the last; returns 0 after these. */
static int table_of(int i, rvit_cpu_kernels *out)
{
    if (i < rvit_cpu_n_tables) {
        *out = rvit_cpu_kernels_of(&rvit_cpu_tables[i]);
        return 1;
    }
    const rvit_cpu_kernels *extra = i - rvit_cpu_n_tables < RVIT_CPU_EXTRA_KERNELS ? rvit_cpu_extra_kernels[i - rvit_cpu_n_tables] : NULL;
    if (extra != NULL)
        *out = *extra;
    return extra != NULL;
}

/* Whether the processor can run them. */
static int runs(const rvit_cpu_kernels *kernels)
{
    const rvit_cpu_table *table = rvit_cpu_table_named(kernels->name);
    return table == NULL || rvit_cpu_table_lacks(table, &features) == NULL;
}

static void fill(void *data, int64_t n, rvit_dtype dtype, float scale)
{
    for (int64_t i = 0; i < n; i++) {
        const float value = scale * random_value();
        if (dtype == RVIT_F32)
            ((float *)data)[i] = value;
        else if (dtype == RVIT_I8)
            ((int8_t *)data)[i] = (int8_t)(127.0f * value);
        else
            ((uint16_t *)data)[i] = dtype == RVIT_F16 ? rvit_f32_to_f16(value) : rvit_f32_to_bf16(value);
    }
}

typedef void (*linear_fn)(const rvit_cpu_linear_tile *tile, float *scratch);
static linear_fn panels_of(const rvit_cpu_kernels *kernels, rvit_dtype dtype)
{
    return dtype == RVIT_BF16 ? kernels->linear_panels_bf16 : dtype == RVIT_I8 ? kernels->linear_panels_i8 : NULL;
}

static linear_fn linear_of(const rvit_cpu_kernels *kernels, rvit_dtype dtype)
{
    const linear_fn panels = panels_of(kernels, dtype);
    return panels != NULL ? panels : dtype == RVIT_I8 ? kernels->linear_i8 : kernels->linear;
}

static int arrange(const rvit_cpu_kernels *kernels, void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype)
{
    const int panels = panels_of(kernels, dtype) != NULL;
    if (dtype == RVIT_I8 && !panels)
        return 0;
    return (panels ? kernels->arrange_panels : kernels->arrange)(weight, columns, in_features, dtype, scratch);
}

/* Neither the layout of the weights nor the split of rows and columns changes any bit. */
static void check_arranged(const rvit_cpu_kernels *kernels, rvit_dtype dtype, int in_features)
{
    static float x[ROWS * MOST], weight[COLUMNS * MOST], bias[COLUMNS], residual[ROWS * COLUMNS], out[2][ROWS * COLUMNS];
    static float x_scales[ROWS], weight_scales[COLUMNS];
    const int64_t size = rvit_cpu_size(dtype);
    fill(x, (int64_t)ROWS * in_features, dtype, 1.0f);
    fill(weight, (int64_t)COLUMNS * in_features, dtype, 0.2f);
    fill(bias, COLUMNS, RVIT_F32, 1.0f);
    fill(residual, ROWS * COLUMNS, RVIT_F32, 1.0f);
    fill(x_scales, ROWS, RVIT_F32, 0.01f);
    fill(weight_scales, COLUMNS, RVIT_F32, 0.01f);
    rvit_cpu_linear_tile t = {.x = x,
                              .weight = weight,
                              .x_scales = dtype == RVIT_I8 ? x_scales : NULL,
                              .weight_scales = dtype == RVIT_I8 ? weight_scales : NULL,
                              .bias = bias,
                              .residual = residual,
                              .out = out[0],
                              .in_features = in_features,
                              .out_features = COLUMNS,
                              .rows = ROWS,
                              .columns = COLUMNS,
                              .dtype = dtype,
                              .out_dtype = RVIT_F32};
    linear_of(kernels, dtype)(&t, scratch);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_true(isfinite(out[0][i]));
    t.arranged = arrange(kernels, weight, COLUMNS, in_features, dtype);
    if (panels_of(kernels, dtype) != NULL)
        assert_int_equal(t.arranged, in_features * size % 64 == 0);
    else
        assert_int_equal(t.arranged, dtype != RVIT_I8);
    memset(out[1], 0xff, sizeof out[1]);
    const struct {
        int row, rows, column, columns;
    } parts[] = {{0, 48, 0, 64}, {48, ROWS - 48, 0, 64}, {0, 16, 64, 32}, {16, ROWS - 16, 64, 32}};
    for (int i = 0; i < 4; i++) {
        rvit_cpu_linear_tile part = t;
        part.first_row = parts[i].row;
        part.rows = parts[i].rows;
        part.columns = parts[i].columns;
        part.x = (const char *)x + parts[i].row * in_features * size;
        part.weight = (const char *)weight + parts[i].column * in_features * size;
        part.bias = bias + parts[i].column;
        if (dtype == RVIT_I8) {
            part.x_scales = x_scales + parts[i].row;
            part.weight_scales = weight_scales + parts[i].column;
        }
        part.residual = residual + parts[i].column;
        part.out = out[1] + parts[i].row * COLUMNS + parts[i].column;
        linear_of(kernels, dtype)(&part, scratch);
    }
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (memcmp(&out[0][i], &out[1][i], sizeof(float)) != 0)
            fail_msg("%s, %s, %d channels: element %d is %a row-major and whole, %a arranged and in parts", kernels->name,
                     rvit_enum_name(RVIT_ENUM_DTYPE, dtype), in_features, i, (double)out[0][i], (double)out[1][i]);
}

static void arranged_equals_row_major(void **state)
{
    (void)state;
    static const int sizes[] = {64, 96, 272, 1088};
    static const rvit_dtype dtypes[] = {RVIT_F32, RVIT_F16, RVIT_BF16, RVIT_I8};
    rvit_cpu_kernels kernels;
    for (int i = 0; table_of(i, &kernels); i++)
        for (int t = 0; t < 4 && runs(&kernels); t++)
            for (int k = 0; k < 4; k++)
                check_arranged(&kernels, dtypes[t], sizes[k]);
}

/* Computes an element in the order of AMX tiles: of every 32 channels, the even ones are summed, then the odd ones, then both are added. */
static float tile_sum(const uint16_t *x, const uint16_t *weight, int in_features)
{
    float sum = 0.0f;
    for (int first = 0; first < in_features; first += 32) {
        float parts[2] = {0.0f, 0.0f};
        for (int k = first; k < first + 32 && k < in_features; k++)
            parts[k % 2] = fmaf(rvit_bf16_to_f32(x[k]), rvit_bf16_to_f32(weight[k]), parts[k % 2]);
        sum += parts[0] + parts[1];
    }
    return sum;
}

/* The emulated tiles, and AMX if the processor has it, match plain arithmetic bit for bit. */
static void tiles_sum_in_documented_order(void **state)
{
    (void)state;
    static uint16_t x[ROWS * MOST], weight[COLUMNS * MOST];
    static float out[ROWS * COLUMNS];
    static const int sizes[] = {4, 64, 300, 3072};
    rvit_cpu_kernels kernels;
    for (int i = 0; table_of(i, &kernels); i++)
        for (int k = 0; k < 4 && strncmp(kernels.name, "amx", 3) == 0 && runs(&kernels); k++) {
            const int in_features = sizes[k];
            fill(x, (int64_t)ROWS * in_features, RVIT_BF16, 1.0f);
            fill(weight, (int64_t)COLUMNS * in_features, RVIT_BF16, 0.2f);
            /* Subnormal numbers count as zero; otherwise the factor 2^126 would make them visible. */
            x[0] = 0x0001;
            weight[in_features] = 0x8003;
            weight[0] = x[in_features] = 0x7e80;
            const rvit_cpu_linear_tile t = {.x = x,
                                            .weight = weight,
                                            .out = out,
                                            .in_features = in_features,
                                            .out_features = COLUMNS,
                                            .rows = ROWS,
                                            .columns = COLUMNS,
                                            .dtype = RVIT_BF16,
                                            .out_dtype = RVIT_F32};
            kernels.linear_panels_bf16(&t, scratch);
            x[0] = weight[in_features] = 0;
            for (int row = 0; row < ROWS; row++)
                for (int column = 0; column < COLUMNS; column++) {
                    const float wanted = tile_sum(x + row * in_features, weight + column * in_features, in_features);
                    const float found = out[row * COLUMNS + column];
                    if (memcmp(&wanted, &found, sizeof wanted) != 0)
                        fail_msg("%s, %d channels, row %d, column %d: %a, expected %a", kernels.name, in_features, row, column,
                                 (double)found, (double)wanted);
                }
        }
}

/* Sums of int8 are exact and the same with all tables, also for extreme values and lengths. */
static void int8_is_exact(void **state)
{
    (void)state;
    static int8_t x[ROWS * MOST], weight[COLUMNS * MOST];
    static float out[ROWS * COLUMNS], x_scales[ROWS], weight_scales[COLUMNS];
    static const int sizes[] = {16, 64, 592, 3072};
    rvit_cpu_kernels kernels;
    for (int i = 0; i < ROWS; i++)
        x_scales[i] = 1.0f;
    for (int j = 0; j < COLUMNS; j++)
        weight_scales[j] = 1.0f;
    for (int i = 0; table_of(i, &kernels); i++)
        for (int k = 0; k < 4 && runs(&kernels); k++) {
            const int in_features = sizes[k];
            for (int n = 0; n < ROWS * in_features; n++)
                x[n] = n / in_features == 1 ? -128 : n / in_features == 2 ? 127 : (int8_t)(128.0f * random_value());
            for (int n = 0; n < COLUMNS * in_features; n++)
                weight[n] = n / in_features == 1 ? 127 : n / in_features == 2 ? -128 : (int8_t)(128.0f * random_value());
            const rvit_cpu_linear_tile t = {.x = x,
                                            .weight = weight,
                                            .x_scales = x_scales,
                                            .weight_scales = weight_scales,
                                            .out = out,
                                            .in_features = in_features,
                                            .out_features = COLUMNS,
                                            .rows = ROWS,
                                            .columns = COLUMNS - 20,
                                            .dtype = RVIT_I8,
                                            .out_dtype = RVIT_F32};
            linear_of(&kernels, RVIT_I8)(&t, scratch);
            for (int row = 0; row < ROWS; row++)
                for (int column = 0; column < t.columns; column++) {
                    int32_t sum = 0;
                    for (int n = 0; n < in_features; n++)
                        sum += x[row * in_features + n] * weight[column * in_features + n];
                    if (out[row * COLUMNS + column] != (float)sum)
                        fail_msg("%s, %d channels, row %d, column %d: %.0f, expected %d", kernels.name, in_features, row, column,
                                 (double)out[row * COLUMNS + column], (int)sum);
                }
        }
}

int main(void)
{
    emulated_kernels_register();
    features = rvit_cpu_detect_features(1);
    scratch = aligned_alloc(64, RVIT_CPU_SCRATCH_FLOATS * sizeof *scratch);
    if (scratch == NULL)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(arranged_equals_row_major), cmocka_unit_test(tiles_sum_in_documented_order),
                                       cmocka_unit_test(int8_is_exact)};
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    free(scratch);
    return result;
}
