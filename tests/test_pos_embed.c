/* Tests resampled position tables (weights computed by hand, and properties for every size) and tables of rotary positions. */
#include "temp_file.h"

#include <math.h>

#include "core/model/pos_embed.h"
#include "core/model/rope_table.h"

static const rvit_resample ways[] = {RVIT_RESAMPLE_TIMM, RVIT_RESAMPLE_BICUBIC, RVIT_RESAMPLE_BILINEAR, RVIT_RESAMPLE_BILINEAR_ANTIALIAS};

static void weight_vectors(void **state)
{
    (void)state;
    static const struct {
        rvit_resample how;
        int32_t n_in, n_out, row, n;
        double weights[3];
    } cases[] = {
        {.how = RVIT_RESAMPLE_BICUBIC, .n_in = 2, .n_out = 3, .n = 2, .weights = {1.086805556, -0.086805556}},
        {.how = RVIT_RESAMPLE_BICUBIC, .n_in = 2, .n_out = 3, .row = 1, .n = 2, .weights = {0.5, 0.5}},
        {.how = RVIT_RESAMPLE_TIMM, .n_in = 2, .n_out = 3, .n = 2, .weights = {1.065789474, -0.065789474}},
        {.how = RVIT_RESAMPLE_TIMM, .n_in = 2, .n_out = 3, .row = 1, .n = 2, .weights = {0.5, 0.5}},
        {.how = RVIT_RESAMPLE_BILINEAR, .n_in = 2, .n_out = 3, .n = 2, .weights = {1, 0}},
        {.how = RVIT_RESAMPLE_BILINEAR, .n_in = 2, .n_out = 3, .row = 1, .n = 2, .weights = {0.5, 0.5}},
        {.how = RVIT_RESAMPLE_BILINEAR, .n_in = 2, .n_out = 3, .row = 2, .n = 2, .weights = {0, 1}},
        {.how = RVIT_RESAMPLE_BILINEAR_ANTIALIAS, .n_in = 4, .n_out = 2, .n = 3, .weights = {3 / 7.0, 3 / 7.0, 1 / 7.0}},
        {.how = RVIT_RESAMPLE_BILINEAR_ANTIALIAS, .n_in = 4, .n_out = 3, .n = 2, .weights = {0.7, 0.3}},
        {.how = RVIT_RESAMPLE_ALIGN_CORNERS, .n_in = 4, .n_out = 6, .row = 1, .n = 2, .weights = {0.4, 0.6}},
        {.how = RVIT_RESAMPLE_ALIGN_CORNERS, .n_in = 4, .n_out = 1, .n = 1, .weights = {1}},
        {.how = RVIT_RESAMPLE_NEAREST, .n_in = 4, .n_out = 3, .row = 2, .n = 3, .weights = {0, 0, 1}},
        {.how = RVIT_RESAMPLE_BICUBIC, .n_in = 2, .n_out = 4, .n = 2, .weights = {1.10546875, -0.10546875}},
        {.how = RVIT_RESAMPLE_BICUBIC, .n_in = 2, .n_out = 4, .row = 1, .n = 2, .weights = {0.7734375, 0.2265625}},
        {.how = RVIT_RESAMPLE_TIMM, .n_in = 2, .n_out = 4, .n = 2, .weights = {1.088235294, -0.088235294}},
        {.how = RVIT_RESAMPLE_TIMM, .n_in = 2, .n_out = 4, .row = 1, .n = 2, .weights = {0.792857143, 0.207142857}},
        {.how = RVIT_RESAMPLE_BICUBIC, .n_in = 3, .n_out = 2, .n = 3, .weights = {0.7734375, 0.26171875, -0.03515625}},
        {.how = RVIT_RESAMPLE_TIMM, .n_in = 3, .n_out = 2, .n = 3, .weights = {0.650080257, 0.390048154, -0.040128411}},
        {.how = RVIT_RESAMPLE_BICUBIC, .n_in = 14, .n_out = 24, .n = 2, .weights = {1.0979275, -0.0979275}},
        {.how = RVIT_RESAMPLE_TIMM, .n_in = 14, .n_out = 24, .n = 2, .weights = {1.0777414, -0.0777414}},
        {.how = RVIT_RESAMPLE_BICUBIC, .n_in = 14, .n_out = 24, .row = 1, .n = 3, .weights = {0.6396484, 0.4262695, -0.0659180}},
        {.how = RVIT_RESAMPLE_TIMM, .n_in = 14, .n_out = 24, .row = 1, .n = 3, .weights = {0.6778890, 0.3630573, -0.0409463}},
        {.how = RVIT_RESAMPLE_BILINEAR_ANTIALIAS, .n_in = 4, .n_out = 2, .n = 3, .weights = {3.0 / 7, 3.0 / 7, 1.0 / 7}},
        {.how = RVIT_RESAMPLE_BILINEAR_ANTIALIAS, .n_in = 4, .n_out = 3, .n = 2, .weights = {0.7, 0.3}},
        {.how = RVIT_RESAMPLE_BILINEAR_ANTIALIAS, .n_in = 4, .n_out = 3, .row = 1, .n = 3, .weights = {0, 0.5, 0.5}},
        {.how = RVIT_RESAMPLE_BILINEAR_ANTIALIAS, .n_in = 3, .n_out = 2, .n = 2, .weights = {0.625, 0.375}},
        {.how = RVIT_RESAMPLE_BILINEAR_ANTIALIAS, .n_in = 2, .n_out = 3, .n = 2, .weights = {1, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double weights[14 * 24];
        rvit_resample_weights(cases[i].how, cases[i].n_in, cases[i].n_out, weights);
        for (int32_t j = 0; j < cases[i].n_in; j++) {
            const double wanted = j < cases[i].n ? cases[i].weights[j] : 0, got = weights[cases[i].row * cases[i].n_in + j];
            if (fabs(got - wanted) > 1e-7)
                fail_msg("way %d, %d to %d, row %d: weight %d is %.9f, should be %.9f", (int)cases[i].how, cases[i].n_in, cases[i].n_out,
                         cases[i].row, j, got, wanted);
        }
    }
}

static void grid_vectors(void **state)
{
    (void)state;
    static const float table[] = {0, 1, 2, 3};
    static const double corners[] = {0.197368421, 0.260416667, 0, 0};
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, NULL);
    for (int w = 0; w < 4; w++) {
        float out[9];
        assert_int_equal(rvit_resample_grid(&alloc, ways[w], table, 2, 3, 1, out), RVIT_OK);
        assert_true(fabs(out[0] + corners[w]) < 1e-6);
        assert_true(fabs(out[8] - 3 - corners[w]) < 1e-6);
        assert_true(fabs(out[4] - 1.5) < 1e-6);
        /* Rows of the grid come before its columns. */
        assert_true(fabs(out[1] - out[0] - (0.5 + corners[w] / 3)) < 1e-6);
        assert_true(fabs(out[3] - out[0] - (1 + corners[w] * 2 / 3)) < 1e-6);
    }
}

/* Rows sum to 1; a constant remains constant; a mirrored input gives a mirrored output; equal sizes copy the bits. */
static void properties(void **state)
{
    (void)state;
    enum { MOST = 40, DIM = 3 };
    static float table[MOST * MOST * DIM], mirrored[MOST * MOST * DIM], out[MOST * MOST * DIM], back[MOST * MOST * DIM];
    static const int32_t sizes[][2] = {{1, 1}, {1, 5}, {5, 1}, {2, 40}, {40, 2}, {14, 24}, {24, 14}, {37, 16}, {7, 14}, {14, 7}, {13, 14}};
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, NULL);
    for (int w = 0; w < 4; w++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const int32_t n = sizes[s][0], m = sizes[s][1];
            double weights[MOST * MOST];
            rvit_resample_weights(ways[w], n, m, weights);
            for (int32_t i = 0; i < m; i++) {
                double sum = 0;
                for (int32_t j = 0; j < n; j++)
                    sum += weights[i * n + j];
                assert_true(fabs(sum - 1) < 1e-12);
            }
            for (int32_t i = 0; i < n * n * DIM; i++)
                table[i] = (float)(i % DIM) - 0.7f;
            assert_int_equal(rvit_resample_grid(&alloc, ways[w], table, n, m, DIM, out), RVIT_OK);
            for (int32_t i = 0; i < m * m * DIM; i++)
                assert_true(fabs(out[i] - ((i % DIM) - 0.7)) < 1e-6);

            for (int32_t y = 0; y < n; y++)
                for (int32_t x = 0; x < n; x++)
                    for (int32_t c = 0; c < DIM; c++) {
                        table[(y * n + x) * DIM + c] = (float)((y * 7919 + x * 104729 + c * 31) % 1013) / 512;
                        mirrored[(y * n + n - 1 - x) * DIM + c] = table[(y * n + x) * DIM + c];
                    }
            assert_int_equal(rvit_resample_grid(&alloc, ways[w], table, n, m, DIM, out), RVIT_OK);
            assert_int_equal(rvit_resample_grid(&alloc, ways[w], mirrored, n, m, DIM, back), RVIT_OK);
            for (int32_t y = 0; y < m; y++)
                for (int32_t x = 0; x < m; x++)
                    for (int32_t c = 0; c < DIM; c++)
                        assert_true(fabs(out[(y * m + x) * DIM + c] - back[(y * m + m - 1 - x) * DIM + c]) < 1e-5);
        }
    table[0] = NAN;
    assert_int_equal(rvit_resample_grid(&alloc, RVIT_RESAMPLE_TIMM, table, 14, 14, DIM, out), RVIT_OK);
    assert_memory_equal(out, table, sizeof *out * 14 * 14 * DIM);
}

static void failed_allocations(void **state)
{
    (void)state;
    static const float table[] = {0, 1, 2, 3};
    for (int64_t i = 0; i < 2; i++) {
        counter memory = {0, 0, i};
        const rvit_allocator allocator = {&memory, counter_allocate, counter_release};
        rvit_alloc alloc;
        rvit_alloc_init(&alloc, &allocator);
        float out[9];
        assert_int_equal(rvit_resample_grid(&alloc, RVIT_RESAMPLE_TIMM, table, 2, 3, 1, out), RVIT_OUT_OF_HOST_MEMORY);
        assert_int_equal(memory.live, 0);
    }
}

/* DINOv3's angles, for heads of 8 and 2 x 3 patches. */
static void rotation_vectors(void **state)
{
    (void)state;
    static const double angles[2][4] = {{-3.14159265, -0.31415927, -4.18879020, -0.41887902}, {3.14159265, 0.31415927, 0, 0}};
    static const int32_t rows[2] = {1 + 0, 1 + 4}; /* patches (0, 0) and (1, 1), after a CLS token */
    const rvit_rope_config dinov3 = {.coordinates = RVIT_ROPE_CENTRED, .base = 100};
    float table[7 * 8];
    rvit_rope_fill_table(&dinov3, 2, 3, 1, 8, table);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++) {
            assert_true(fabs(table[rows[i] * 8 + j] - cos(angles[i][j])) < 1e-7);
            assert_true(fabs(table[rows[i] * 8 + 4 + j] - sin(angles[i][j])) < 1e-7);
        }
    for (int j = 0; j < 8; j++)
        assert_true(table[j] == (j < 4));
    /* The column first, scaled to a reference grid: the patch (1, 2) is at x 3 / 3 * 6 and y 2 / 2 * 4. */
    const rvit_rope_config other = {.coordinates = RVIT_ROPE_INDEX, .order = RVIT_ROPE_XY, .base = 16, .offset = 1, .reference = {4, 6}};
    static const double turned[4] = {6, 1.5, 4, 1};
    rvit_rope_fill_table(&other, 2, 3, 1, 8, table);
    for (int j = 0; j < 4; j++)
        assert_true(fabs(table[6 * 8 + 4 + j] - sin(turned[j])) < 1e-7);

    float from[2 * 8 * 3], to[2 * 8 * 3];
    static const int32_t order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    for (int i = 0; i < 2 * 8 * 3; i++)
        from[i] = (float)i;
    rvit_rope_to_half(from, 2, 8, 3, to);
    for (int i = 0; i < 2 * 8 * 3; i++)
        assert_true(to[i] == (float)((i / 24 * 8 + order[i / 3 % 8]) * 3 + i % 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_vectors),     cmocka_unit_test(grid_vectors),     cmocka_unit_test(properties),
        cmocka_unit_test(failed_allocations), cmocka_unit_test(rotation_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
