/* The CPU's linear kernels by themselves: every table that this processor runs, and the one with emulated tiles. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "amx_emulated.h"
#include "backend_cpu/tables.h"
#include "core/half.h"

enum { ROWS = 53, COLUMNS = 96, MOST = 4096 };

static float *scratch;
static rvit_cpu_facts facts;
static uint32_t state_of_random = 7;

static float random_value(void)
{
    state_of_random = state_of_random * 1664525u + 1013904223u;
    return (float)(state_of_random >> 8) * 0x1p-23f - 1.0f;
}

/* Table number i, and past them the emulated one; 0: the processor does not run it. */
static int table_of(int i, rvit_cpu_kernels *out)
{
    if (i < RVIT_CPU_N_TABLES && rvit_cpu_table_lacks((rvit_cpu_table)i, &facts) != NULL)
        return 0;
    *out = i < RVIT_CPU_N_TABLES ? rvit_cpu_kernels_of((rvit_cpu_table)i) : *rvit_cpu_extra_kernels;
    return 1;
}

static void fill(void *data, int64_t n, rvit_dtype dtype, float scale)
{
    for (int64_t i = 0; i < n; i++) {
        const float value = scale * random_value();
        if (dtype == RVIT_F32)
            ((float *)data)[i] = value;
        else
            ((uint16_t *)data)[i] = dtype == RVIT_F16 ? rvit_f32_to_f16(value) : rvit_f32_to_bf16(value);
    }
}

typedef void (*linear_fn)(const rvit_cpu_linear_tile *tile, float *scratch);
static linear_fn linear_of(const rvit_cpu_kernels *kernels, rvit_dtype dtype)
{
    return dtype == RVIT_BF16 && kernels->linear_bf16 != NULL ? kernels->linear_bf16 : kernels->linear;
}

static int arrange(const rvit_cpu_kernels *kernels, void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype)
{
    const int narrow = dtype == RVIT_BF16 && kernels->linear_bf16 != NULL;
    return (narrow ? kernels->arrange_bf16 : kernels->arrange)(weight, columns, in_features, dtype, scratch);
}

/* The order that weights lie in, and how rows and columns are split, change no bit. */
static void check_arranged(const rvit_cpu_kernels *kernels, rvit_dtype dtype, int in_features)
{
    static float x[ROWS * MOST], weight[COLUMNS * MOST], bias[COLUMNS], residual[ROWS * COLUMNS], out[2][ROWS * COLUMNS];
    const int64_t size = rvit_cpu_size(dtype);
    fill(x, (int64_t)ROWS * in_features, dtype, 1.0f);
    fill(weight, (int64_t)COLUMNS * in_features, dtype, 0.2f);
    fill(bias, COLUMNS, RVIT_F32, 1.0f);
    fill(residual, ROWS * COLUMNS, RVIT_F32, 1.0f);
    rvit_cpu_linear_tile t = {.x = x,
                              .weight = weight,
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
    assert_int_equal(t.arranged, in_features % 32 == 0 || !(dtype == RVIT_BF16 && kernels->linear_bf16 != NULL));
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
        part.residual = residual + parts[i].column;
        part.out = out[1] + parts[i].row * COLUMNS + parts[i].column;
        linear_of(kernels, dtype)(&part, scratch);
    }
    for (int i = 0; i < ROWS * COLUMNS; i++)
        if (memcmp(&out[0][i], &out[1][i], sizeof(float)) != 0)
            fail_msg("%s, %s, %d channels: element %d is %a row-major and whole, %a arranged and in parts", kernels->name,
                     rvit_dtype_name(dtype), in_features, i, (double)out[0][i], (double)out[1][i]);
}

static void arranged_equals_row_major(void **state)
{
    (void)state;
    static const int sizes[] = {32, 96, 260, 1056};
    rvit_cpu_kernels kernels;
    for (int i = 0; i <= RVIT_CPU_N_TABLES; i++)
        for (int t = 0; t < 3 && table_of(i, &kernels); t++)
            for (int k = 0; k < 4; k++)
                check_arranged(&kernels, (rvit_dtype)t, sizes[k]);
}

/* One row of one column as tiles make it: of each 32 channels the even ones are added up, the odd ones too, then both to the sum. */
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

/* The emulation, and on a processor with tiles these, against plain arithmetic, bit for bit. */
static void tiles_add_as_written(void **state)
{
    (void)state;
    static uint16_t x[ROWS * MOST], weight[COLUMNS * MOST];
    static float out[ROWS * COLUMNS];
    static const int sizes[] = {4, 64, 300, 3072};
    static const int tables[] = {RVIT_CPU_AMX, RVIT_CPU_N_TABLES};
    rvit_cpu_kernels kernels;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4 && table_of(tables[i], &kernels); k++) {
            const int in_features = sizes[k];
            fill(x, (int64_t)ROWS * in_features, RVIT_BF16, 1.0f);
            fill(weight, (int64_t)COLUMNS * in_features, RVIT_BF16, 0.2f);
            /* Subnormal numbers, which count as zero: their products with 2^126 would show. */
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
            kernels.linear_bf16(&t, scratch);
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

int main(void)
{
    amx_emulated_register();
    facts = rvit_cpu_read_facts(1);
    scratch = aligned_alloc(64, RVIT_CPU_SCRATCH_FLOATS * sizeof *scratch);
    if (scratch == NULL)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(arranged_equals_row_major), cmocka_unit_test(tiles_add_as_written)};
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    free(scratch);
    return result;
}
