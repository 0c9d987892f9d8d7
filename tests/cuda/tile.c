/* Checks that the chosen tiles cover the work and fit the device. Needs no GPU. */
#include "cuda_tests.h"

#include "backend_cuda/params.h"
#include "backend_cuda/tile.h"

static const rvit_cu_machine machines[] = {
    {.n_sms = 58, .max_shared = 101376, .sm_shared = 102400},  /* architecture 89 */
    {.n_sms = 132, .max_shared = 232448, .sm_shared = 233472}, /* 90 */
    {.n_sms = 108, .max_shared = 166912, .sm_shared = 167936}, /* 80 */
    {.n_sms = 1, .max_shared = 101376, .sm_shared = 102400},
};
enum { N_MACHINES = sizeof machines / sizeof machines[0] };

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static void check_attention(const rvit_cu_machine *m, int32_t element_size, int32_t head_dim, int64_t n_images, int32_t n_heads,
                            int32_t len, int32_t bias_stats)
{
    const rvit_cu_attention_size size = {.element_size = element_size,
                                         .head_dim = head_dim,
                                         .n_heads = n_heads,
                                         .n_images = n_images,
                                         .rows = n_images * len,
                                         .len = len,
                                         .bias_stats = bias_stats};
    const rvit_cu_attention_tile t = rvit_cu_tile_attention(m, &size);
    const int is_direct = t.shape == RVIT_CU_ATTENTION_d64_direct_32 || t.shape == RVIT_CU_ATTENTION_d64_direct_48;
    const int prefers_32_rows = t.shape == RVIT_CU_ATTENTION_d64_32_rows || t.shape == RVIT_CU_ATTENTION_d80_32_rows;
    const int32_t warp_rows = prefers_32_rows ? 32 : is_direct ? 8 : 16;
    const int32_t rows = element_size == 4 ? 32 : t.threads / 32 * warp_rows;
    assert_true(t.threads >= 32 && t.threads % 32 == 0 && t.threads <= 128);
    assert_true(t.shape != RVIT_CU_ATTENTION_d64_direct_32 || len <= 32);
    assert_true(t.shape != RVIT_CU_ATTENTION_d64_direct_48 || len <= 48);
    assert_true(!is_direct || t.threads <= 96);
    assert_true((int64_t)t.row_blocks * rows >= len);
    assert_true(t.row_blocks == 1 || (int64_t)(t.row_blocks - 1) * rows < len);
    assert_true((t.shared > 0 || is_direct) && t.shared + 1024 <= m->max_shared);
    if (element_size == 4)
        return;
    static const struct {
        int32_t dim, has_bias_stats;
    } shapes[] = {
#define SHAPE(name, dim, row_tiles, warps, ctas, large_smem_ctas, bias_stats) [RVIT_CU_ATTENTION_##name] = {dim, bias_stats},
#define DIRECT(name, keys) [RVIT_CU_ATTENTION_##name] = {64, 0},
        RVIT_CU_ATTENTION_SHAPES(SHAPE) RVIT_CU_ATTENTION_DIRECT(DIRECT)};
    static const int32_t dims[] = {32, 64, 80, 96, 128};
    int least = 0;
    while (dims[least] < head_dim)
        least++;
    assert_int_equal(shapes[t.shape].dim, dims[least]);
    assert_int_equal(shapes[t.shape].has_bias_stats, bias_stats || (dims[least] != 64 && dims[least] != 80));
}

static void check_backward(const rvit_cu_machine *m, const rvit_cu_attention_size *size)
{
    static const struct {
        int32_t dim, row_tiles, stage_rows, threads, bias_stats;
    } shapes[] = {
#undef SHAPE
#define SHAPE(name, dim, row_tiles, rows, threads, ctas, bias_stats) \
    [RVIT_CU_BACKWARD_##name] = {dim, row_tiles, rows, threads, bias_stats},
        RVIT_CU_BACKWARD_SHAPES(SHAPE)
#undef SHAPE
    };
    const rvit_cu_backward_tile t = rvit_cu_tile_backward(m, size);
    assert_true(t.threads >= 32 && t.threads % 32 == 0 && t.shared > 0 && t.shared <= m->max_shared);
    if (size->element_size == 4) {
        assert_true((int64_t)t.row_blocks * 32 >= size->len && (int64_t)(t.row_blocks - 1) * 32 < size->len);
        return;
    }
    const int32_t rows = t.threads / 32 * 16 * shapes[t.shape].row_tiles;
    assert_true(t.threads <= shapes[t.shape].threads && shapes[t.shape].dim >= size->head_dim);
    assert_true(shapes[t.shape].bias_stats || !size->bias_stats);
    assert_int_equal(t.row_blocks == 0, shapes[t.shape].stage_rows == 0);
    if (t.row_blocks > 0)
        assert_true((int64_t)t.row_blocks * rows >= size->len && (int64_t)(t.row_blocks - 1) * rows < size->len);
    else
        assert_true(t.held_rows >= size->len && t.held_rows % 16 == 0 && t.held_rows < size->len + 16);
}

static void check_received(const rvit_cu_machine *m, const rvit_cu_attention_size *size)
{
    static const struct {
        int32_t dim, row_tiles, threads;
    } shapes[] = {
#define SHAPE(name, dim, row_tiles, rows, threads, ctas) [RVIT_CU_ATTENTION_RECEIVED_##name] = {dim, row_tiles, threads},
        RVIT_CU_ATTENTION_RECEIVED_SHAPES(SHAPE)
#undef SHAPE
    };
    const rvit_cu_attention_received_tile t = rvit_cu_tile_attention_received(m, size);
    const int32_t rows = size->element_size == 4 ? 32 : t.threads / 32 * 16 * shapes[t.shape].row_tiles;
    assert_true(t.threads >= 32 && t.threads % 32 == 0 && t.threads <= shapes[t.shape].threads);
    assert_true(t.shared > 0 && t.shared + 1024 <= m->max_shared);
    assert_true(size->element_size == 4 || shapes[t.shape].dim >= size->head_dim);
    assert_true((int64_t)t.row_blocks * rows >= size->len && (int64_t)(t.row_blocks - 1) * rows < size->len);
}

static void backward_and_received_cover_and_fit(void **state)
{
    (void)state;
    static const int32_t lens[] = {1, 15, 16, 17, 48, 64, 65, 96, 97, 197, 208, 209, 400, 432, 433, 577, 5000, 1 << 20};
    for (int m = 0; m < N_MACHINES; m++)
        for (size_t l = 0; l < sizeof lens / sizeof lens[0]; l++)
            for (int32_t dim = 8; dim <= 128; dim += 8)
                for (int i = 0; i < 8; i++) {
                    const rvit_cu_attention_size size = {.element_size = i & 1 ? 4 : 2,
                                                         .head_dim = dim,
                                                         .n_heads = 3,
                                                         .n_images = i & 2 ? 256 : 1,
                                                         .rows = lens[l],
                                                         .len = lens[l],
                                                         .bias_stats = i >> 2};
                    check_backward(&machines[m], &size);
                    check_received(&machines[m], &size);
                }
}

static void attention_covers_and_fits(void **state)
{
    (void)state;
    static const int32_t lens[] = {1,  2,   15,  16,  17,  21,  32,  33,  41,  48,  63,  64,  65,
                                   99, 127, 128, 129, 192, 193, 197, 208, 256, 257, 577, 4097};
    static const int64_t images[] = {0, 1, 2, 4, 16, 64, 256, 70000};
    for (int m = 0; m < N_MACHINES; m++)
        for (int32_t dim = 8; dim <= 128; dim += 8)
            for (size_t l = 0; l < sizeof lens / sizeof lens[0]; l++)
                for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
                    for (int size = 2; size <= 4; size += 2)
                        check_attention(&machines[m], size, dim, images[i], i % 2 ? 12 : 3, lens[l], (int32_t)(l % 2));
}

/* The cases that the kernels are tuned for. */
static void attention_choices(void **state)
{
    (void)state;
    const rvit_cu_machine *ada = &machines[0], *hopper = &machines[1];
    /* Large batches of similar images: 32 rows per warp, two CTAs on an SM with 100 KiB. */
    rvit_cu_attention_size size = {.element_size = 2, .head_dim = 64, .n_heads = 12, .n_images = 64, .rows = 64 * 197, .len = 197};
    rvit_cu_attention_tile t = rvit_cu_tile_attention(ada, &size);
    assert_int_equal(t.shape, RVIT_CU_ATTENTION_d64_32_rows);
    assert_int_equal(t.row_blocks, 2);
    assert_true(2 * (t.shared + 1024) <= ada->sm_shared);
    t = rvit_cu_tile_attention(hopper, &size);
    assert_int_equal(t.shape, RVIT_CU_ATTENTION_d64_32_rows);
    /* 32-row warps are not used if most images are short or if other results than the output are needed. */
    size.rows = 64 * 100;
    t = rvit_cu_tile_attention(hopper, &size);
    assert_int_equal(t.shape, RVIT_CU_ATTENTION_d64);
    assert_int_equal(t.row_blocks, 4);
    size.rows = 64 * 318, size.len = 577;
    t = rvit_cu_tile_attention(hopper, &size);
    assert_int_equal(t.shape, RVIT_CU_ATTENTION_d64_32_rows);
    size.rows = 64 * 197, size.len = 197, size.bias_stats = 1;
    t = rvit_cu_tile_attention(hopper, &size);
    assert_int_equal(t.shape, RVIT_CU_ATTENTION_d64_bias_stats);
    /* One image leaves most of the device idle, so more CTAs help more. */
    size = (rvit_cu_attention_size){.element_size = 2, .head_dim = 64, .n_heads = 12, .n_images = 1, .rows = 197, .len = 197};
    t = rvit_cu_tile_attention(hopper, &size);
    assert_int_equal(t.shape, RVIT_CU_ATTENTION_d64_2_warps);
    assert_int_equal(t.row_blocks, 7);
    /* Heads of 72 channels: 32 rows per warp once there is a CTA for each SM. */
    size = (rvit_cu_attention_size){.element_size = 2, .head_dim = 72, .n_heads = 16, .n_images = 1, .rows = 365, .len = 365};
    assert_int_equal(rvit_cu_tile_attention(hopper, &size).shape, RVIT_CU_ATTENTION_d80_plain);
    size.rows = size.len = 729;
    assert_int_equal(rvit_cu_tile_attention(hopper, &size).shape, RVIT_CU_ATTENTION_d80_32_rows);
    size.bias_stats = 1;
    assert_int_equal(rvit_cu_tile_attention(hopper, &size).shape, RVIT_CU_ATTENTION_d80);
    /* A short image needs only one CTA with few warps, and one pipeline stage. */
    size = (rvit_cu_attention_size){.element_size = 2, .head_dim = 64, .n_heads = 12, .n_images = 64, .rows = 64 * 41, .len = 41};
    t = rvit_cu_tile_attention(hopper, &size);
    assert_int_equal(t.shape, RVIT_CU_ATTENTION_d64_3_warps);
    assert_int_equal(t.row_blocks, 1);
    assert_int_equal(t.shared, 2 * 64 * 128);
    size.len = 21;
    assert_int_equal(rvit_cu_tile_attention(hopper, &size).shape, RVIT_CU_ATTENTION_d64_2_warps);
    /* A few short images use warps of 8 rows, which all run at once. */
    size.n_images = 16;
    t = rvit_cu_tile_attention(hopper, &size);
    assert_int_equal(t.shape, RVIT_CU_ATTENTION_d64_direct_32);
    assert_int_equal(t.threads, 96);
    size.n_images = 4, size.len = 41;
    assert_int_equal(rvit_cu_tile_attention(hopper, &size).shape, RVIT_CU_ATTENTION_d64_direct_48);
    size.n_images = 8;
    assert_int_equal(rvit_cu_tile_attention(hopper, &size).shape, RVIT_CU_ATTENTION_d64_3_warps);
}

/* The choice of the kernel for long images depends on max_len, the head and the outputs. Only with fixed_images may it also depend on the
   number of images (split-KV). */
static void hopper_attention_choices(void **state)
{
    (void)state;
    rvit_cu_machine hopper = machines[1];
    hopper.wgmma = 1;
    static const int32_t lens[] = {1, 511, 512, 577, 1023, 1024, 1535, 1536, 2047, 2048, 4097};
    int n_split = 0;
    for (int32_t dim = 8; dim <= 128; dim += 8)
        for (size_t l = 0; l < sizeof lens / sizeof lens[0]; l++)
            for (int64_t images = 1; images <= 256; images *= 16) {
                rvit_cu_attention_size size = {2, dim, 12, images, images * lens[l], lens[l], 0, 1};
                const rvit_cu_attention_hopper_tile t = rvit_cu_tile_attention_hopper(&hopper, &size);
                rvit_cu_attention_hopper_shape expected = RVIT_CU_N_ATTENTION_HOPPER;
                const int is_split = lens[l] >= 512 && dim > 32 && dim <= 64 && images * 12 * divide_up(lens[l], 64) <= hopper.n_sms;
                if (is_split)
                    expected = RVIT_CU_ATTENTION_hopper_d64_split_kv;
                else if (lens[l] >= 512 && dim > 32 && dim <= 64)
                    expected = lens[l] < 1536 ? RVIT_CU_ATTENTION_hopper_d64 : RVIT_CU_ATTENTION_hopper_d64_persistent;
                else if (lens[l] >= 512 && dim > 64 && dim <= 80)
                    expected = RVIT_CU_ATTENTION_hopper_d80;
                else if (lens[l] >= 512 && dim > 96)
                    expected = lens[l] < 1024 ? RVIT_CU_ATTENTION_hopper_d128 : RVIT_CU_ATTENTION_hopper_d128_persistent;
                assert_int_equal(t.shape, expected);
                if (expected == RVIT_CU_N_ATTENTION_HOPPER)
                    continue;
                n_split += is_split;
                const int32_t rows = is_split ? 64 : t.threads == 512 ? 192 : 128;
                assert_int_equal(t.row_blocks, divide_up(lens[l], rows));
                assert_true(t.shared <= hopper.max_shared - 1024);
                assert_true(t.persistent || is_split || 2 * (t.shared + 1024) <= hopper.sm_shared); /* two per SM */
                size.fixed_images = 0; /* an image's bits must not depend on the batch */
                const rvit_cu_attention_hopper_shape anywhere = rvit_cu_tile_attention_hopper(&hopper, &size).shape;
                assert_int_equal(anywhere, !is_split        ? t.shape
                                           : lens[l] < 1536 ? RVIT_CU_ATTENTION_hopper_d64
                                                            : RVIT_CU_ATTENTION_hopper_d64_persistent);
                size.fixed_images = 1;
                size.bias_stats = 1;
                assert_int_equal(rvit_cu_tile_attention_hopper(&hopper, &size).shape, RVIT_CU_N_ATTENTION_HOPPER);
                size.bias_stats = 0, size.element_size = 4;
                assert_int_equal(rvit_cu_tile_attention_hopper(&hopper, &size).shape, RVIT_CU_N_ATTENTION_HOPPER);
                size.element_size = 2;
                assert_int_equal(rvit_cu_tile_attention_hopper(&machines[1], &size).shape, RVIT_CU_N_ATTENTION_HOPPER);
            }
    assert_int_equal(n_split, 2 * 4); /* including DeiT-B with one image of 577 rows */
}

static void linear_covers_and_fits(void **state)
{
    (void)state;
    static const int64_t rows[] = {0, 1, 63, 64, 65, 128, 197, 788, 12608, 50432, 1000000};
    static const int32_t features[] = {4, 64, 100, 192, 768, 2304, 3072};
    static const struct {
        int32_t rows, columns, threads, is_nonpersistent;
    } shapes[] = {
        [RVIT_CU_LINEAR_general] = {64, 64, 128, 0}, [RVIT_CU_LINEAR_64x64] = {64, 64, 128, 0},
        [RVIT_CU_LINEAR_64x128] = {64, 128, 128, 0}, [RVIT_CU_LINEAR_128x128] = {128, 128, 128, 0},
        [RVIT_CU_LINEAR_32x32] = {32, 32, 256, 1},   [RVIT_CU_LINEAR_64x32] = {64, 32, 256, 1},
        [RVIT_CU_LINEAR_64x48] = {64, 48, 256, 1},   [RVIT_CU_LINEAR_64x96] = {64, 96, 256, 1},
    };
    for (int m = 0; m < N_MACHINES; m++)
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
            for (size_t f = 0; f < sizeof features / sizeof features[0]; f++)
                for (int size = 2; size <= 4; size += 2) {
                    const rvit_cu_linear_tile t =
                        rvit_cu_tile_linear(&machines[m], size, rows[r], size == 2 && f % 2 ? 588 : 768, features[f], 0);
                    const int64_t tiles = divide_up(rows[r], shapes[t.shape].rows) * divide_up(features[f], shapes[t.shape].columns);
                    assert_true(t.ctas >= 1 && (t.ctas <= tiles || tiles == 0));
                    assert_true(t.ctas <= 4 * (int64_t)machines[m].n_sms);
                    assert_true(t.shared <= machines[m].max_shared);
                    assert_int_equal(t.threads, size == 4 ? 256 : shapes[t.shape].threads);
                    /* Non-persistent kernels compute one tile per CTA. */
                    assert_true(!shapes[t.shape].is_nonpersistent || tiles == 0 || t.ctas == tiles);
                    assert_true(size == 2 || t.shape == RVIT_CU_LINEAR_64x64);
                    assert_int_equal(t.shape == RVIT_CU_LINEAR_general, size == 2 && f % 2);
                }
}

static void linear_choices(void **state)
{
    (void)state;
    const rvit_cu_machine *ada = &machines[0], *hopper = &machines[1];
    assert_int_equal(rvit_cu_tile_linear(hopper, 2, 99, 768, 768, 0).shape, RVIT_CU_LINEAR_32x32);
    assert_int_equal(rvit_cu_tile_linear(hopper, 2, 99, 384, 1536, 0).shape, RVIT_CU_LINEAR_64x32);
    assert_int_equal(rvit_cu_tile_linear(hopper, 2, 99, 768, 3072, 0).shape, RVIT_CU_LINEAR_64x48);
    assert_int_equal(rvit_cu_tile_linear(hopper, 2, 197, 768, 3072, 0).shape, RVIT_CU_LINEAR_64x96);
    assert_int_equal(rvit_cu_tile_linear(hopper, 2, 12608, 768, 3072, 0).shape, RVIT_CU_LINEAR_128x128);
    /* One kernel supports rare cases. */
    assert_int_equal(rvit_cu_tile_linear(hopper, 2, 197, 768, 3072, 1).shape, RVIT_CU_LINEAR_general);
    assert_int_equal(rvit_cu_tile_linear(hopper, 4, 197, 768, 3072, 1).shape, RVIT_CU_LINEAR_64x64);
    /* Two CTAs of the large tile per SM. */
    assert_int_equal(rvit_cu_tile_linear(hopper, 2, 12608, 768, 3072, 0).ctas, 2 * 132);
    assert_int_equal(rvit_cu_tile_linear(ada, 2, 12608, 768, 3072, 0).ctas, 2 * 58);
}

/* The large-M GEMM: clusters of two. */
static void hopper_choices(void **state)
{
    (void)state;
    for (int32_t n_sms = 1; n_sms < 200; n_sms += 11)
        for (int64_t rows = 1; rows < 100000; rows = rows * 3 + 1)
            for (int32_t out_size = 2; out_size <= 4; out_size += 2) {
                const rvit_cu_machine machine = {.n_sms = n_sms};
                const int32_t ctas = rvit_cu_tile_hopper(&machine, rows, 1152, out_size);
                assert_in_range(ctas, 2, n_sms < 2 ? 2 : n_sms);
                assert_int_equal(ctas % RVIT_CU_HOPPER_CLUSTER, 0);
            }
}

/* The small-M GEMM: supported configurations of whole clusters that fit. */
static void small_m_choices(void **state)
{
    (void)state;
    rvit_cu_machine h100 = machines[1];
    assert_int_equal(rvit_cu_tile_small_m(&h100, 197, 3072, 768, 1).config.split_k, 1);
    for (int32_t n_sms = 1; n_sms < 200; n_sms += 33)
        for (int64_t rows = 1; rows < 100000; rows = rows * 3 + 1)
            for (int32_t in = 8; in < 6000; in = in * 3 + 8)
                for (int32_t out_size = 1; out_size <= 4; out_size *= 2) {
                    h100.n_sms = n_sms;
                    const rvit_cu_small_m_tile t = rvit_cu_tile_small_m(&h100, rows, in, 1152, out_size);
                    assert_true(t.ctas > 0 && t.ctas % t.cluster == 0 && t.shared <= h100.max_shared);
                    assert_true(t.ctas >= (rows + t.rows - 1) / t.rows * ((1152 + t.columns - 1) / t.columns) * t.config.split_k);
                }
    /* Splits or boxes that do not divide evenly are refused. */
    const rvit_cu_small_m_config good = {RVIT_CU_SMALL_M_64x96, 4, 2, 1, 1},
                                 bad[] = {{RVIT_CU_SMALL_M_64x96, 4, 4, 1, 1},  {RVIT_CU_SMALL_M_64x96, 4, 1, 1, 2},
                                          {RVIT_CU_SMALL_M_64x96, 1, 2, 1, 1},  {RVIT_CU_SMALL_M_64x96, 4, 3, 1, 1},
                                          {RVIT_CU_SMALL_M_64x128, 4, 4, 2, 2}, {RVIT_CU_N_SMALL_M_SHAPES, 4, 1, 1, 1},
                                          {RVIT_CU_SMALL_M_128x192, 6, 1, 1, 1}};
    assert_true(rvit_cu_tile_small_m_of(&h100, &good, 197, 768, 768, 2).ctas > 0);
    assert_int_equal(rvit_cu_tile_small_m_of(&h100, &good, 197, 64, 768, 2).ctas, 0);
    for (int i = 0; i < (int)(sizeof bad / sizeof bad[0]); i++)
        assert_int_equal(rvit_cu_tile_small_m_of(&h100, &bad[i], 197, 768, 768, 2).ctas, 0);
}

static void small_choices(void **state)
{
    (void)state;
    const rvit_cu_machine *m = &machines[0];
    assert_int_equal(rvit_cu_tile_ctas(m, 0, 8, 8), 1);
    assert_int_equal(rvit_cu_tile_ctas(m, 17, 8, 8), 3);
    assert_int_equal(rvit_cu_tile_ctas(m, 1000000, 8, 8), 58 * 8);
    static const int32_t dims[] = {4, 192, 256, 260, 384, 768, 1024, 1028, 1280, 1408, 1540},
                         shapes[] = {RVIT_CU_NORM_256,  RVIT_CU_NORM_256,  RVIT_CU_NORM_256,  RVIT_CU_NORM_384,
                                     RVIT_CU_NORM_384,  RVIT_CU_NORM_768,  RVIT_CU_NORM_1024, RVIT_CU_NORM_1152,
                                     RVIT_CU_NORM_1280, RVIT_CU_NORM_1536, RVIT_CU_NORM_any};
    for (int i = 0; i < 11; i++)
        assert_int_equal(rvit_cu_tile_layernorm(m, 197, dims[i]).shape, shapes[i]);
    assert_int_equal(rvit_cu_tile_layernorm(m, 197, 768).ctas, 99);
    assert_int_equal(rvit_cu_tile_layernorm(m, 12608, 768).ctas, 58 * 4);
    assert_int_equal(rvit_cu_tile_layernorm(m, 197, 768).prefetch_ctas, 58 / 4);
    assert_int_equal(rvit_cu_tile_layernorm(m, 12608, 768).prefetch_ctas, 0);
    assert_int_equal(rvit_cu_tile_layernorm(m, 197, 1024).prefetch_ctas, 0); /* too wide to pay off */
    assert_int_equal(rvit_cu_tile_head(m, 1, 1000), 1);
    assert_int_equal(rvit_cu_tile_head(m, 64, 1000), RVIT_CU_HEAD_IMAGES);
}

static void quantize_tiles(void **state)
{
    (void)state;
    for (int i = 0; i < N_MACHINES; i++)
        for (int64_t rows = 0; rows < (int64_t)1 << 31; rows = 3 * rows + 1)
            for (int32_t columns = 16; columns <= 65536; columns += 16 * 7) {
                const rvit_cu_quantize_tile t = rvit_cu_tile_quantize(&machines[i], rows, columns);
                assert_true(t.threads >= 32 && t.threads % 32 == 0 && t.threads <= RVIT_CU_QUANTIZE_THREADS);
                assert_true(t.ctas >= 1 && (t.ctas == 1 || t.ctas <= rows));
                assert_int_equal(t.held, columns <= RVIT_CU_QUANTIZE_THREADS * RVIT_CU_QUANTIZE_CHUNKS * 8);
                assert_true(!t.held || t.threads * RVIT_CU_QUANTIZE_CHUNKS * 8 >= columns);
            }
}

static void preprocess_tiles(void **state)
{
    (void)state;
    for (int i = 0; i < N_MACHINES; i++)
        for (int64_t pixels = 0; pixels < (int64_t)1 << 40; pixels = 3 * pixels + 1)
            for (int64_t bytes = 1; bytes < (int64_t)1 << 40; bytes *= 512) {
                const rvit_cu_preprocess_tile t = rvit_cu_tile_preprocess(&machines[i], pixels, bytes);
                const int32_t height = 1 << (t.slot_bits - RVIT_CU_PREPROCESS_WIDTH_BITS);
                assert_true(height >= 8 && height <= RVIT_CU_PREPROCESS_HEIGHT);
                assert_true(t.raw_size >= 16 * 1024 && t.raw_size % 16 == 0);
                assert_true(RVIT_CU_PREPROCESS_SHARED + t.raw_size <= machines[i].max_shared);
            }
    const rvit_cu_machine *hopper = &machines[1];
    const int64_t image = 224 * 224, bytes = 640 * 480 * 3;
    assert_int_equal(rvit_cu_tile_preprocess(hopper, image, bytes).slot_bits, 8);
    assert_int_equal(rvit_cu_tile_preprocess(hopper, 16 * image, 16 * bytes).slot_bits, 10);
    assert_int_equal(rvit_cu_tile_preprocess(hopper, 64 * image, 64 * bytes).slot_bits, 11);
    assert_int_equal(rvit_cu_tile_preprocess(hopper, 64 * image, 64 * bytes).raw_size, 60000);
    assert_int_equal(rvit_cu_tile_preprocess(hopper, 64 * image, 64 * 40 * bytes).slot_bits, 10);
}

static void images_are_shared(void **state)
{
    (void)state;
    static const int64_t images[] = {0, 1, 4, 64, 256, 70000};
    for (int m = 0; m < N_MACHINES; m++)
        for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
            for (int32_t len = 0; len < 1500; len += 1 + len / 8) {
                for (int32_t reads = 0; reads < 2; reads++) {
                    const rvit_cu_image_tile t = rvit_cu_tile_select(&machines[m], images[i], len, reads);
                    assert_true(t.threads % 32 == 0 && t.threads >= 32 && t.threads <= 256);
                    assert_true(t.threads >= len || t.threads == 256);
                    assert_true(t.parts == 1 || (reads && (int64_t)t.parts * images[i] <= 4 * (int64_t)machines[m].n_sms));
                    assert_true(t.parts >= 1 && (t.parts == 1 || (t.parts - 1) * 8 < len));
                }
                for (int32_t dim = 8; dim <= 128; dim += 24) {
                    const rvit_cu_image_tile t = rvit_cu_tile_bipartite_match(&machines[m], images[i], len, dim, 1);
                    assert_int_equal(t.threads, RVIT_CU_BIPARTITE_MATCH_THREADS);
                    assert_true(t.shared >= RVIT_CU_BIPARTITE_MATCH_FIXED + t.held_rows * (dim + 4) * 4 &&
                                t.shared <= machines[m].max_shared);
                    assert_true(t.held_rows == len || len * (dim + 4) * 4 > machines[m].max_shared - RVIT_CU_BIPARTITE_MATCH_FIXED);
                    assert_true(t.parts >= 1 && (t.parts == 1 || (int64_t)t.parts * images[i] <= machines[m].n_sms));
                }
            }
    /* One image of 197 rows: select has a CTA of 8 warps per 8 rows, match one of 16 per 16. */
    assert_int_equal(rvit_cu_tile_select(&machines[1], 1, 197, 1).parts, 25);
    assert_int_equal(rvit_cu_tile_bipartite_match(&machines[1], 1, 197, 64, 1).parts, 13);
    assert_int_equal(rvit_cu_tile_bipartite_match(&machines[0], 1, 197, 64, 1).held_rows, 197);
    assert_int_equal(rvit_cu_tile_bipartite_match(&machines[0], 1, 577, 64, 1).held_rows, 0);
    assert_int_equal(rvit_cu_tile_bipartite_match(&machines[0], 1, 160, 80, 4).held_rows, 40);
}

SUITE(tile_suite, TEST(attention_covers_and_fits), TEST(backward_and_received_cover_and_fit), TEST(attention_choices),
      TEST(hopper_attention_choices), TEST(linear_covers_and_fits), TEST(linear_choices), TEST(hopper_choices), TEST(small_m_choices),
      TEST(images_are_shared), TEST(small_choices), TEST(quantize_tiles), TEST(preprocess_tiles));

int main(int argc, char **argv)
{
    const suite *const suites[] = {&choose_suite, &tile_suite};
    return harness_main(argc, argv, 0, suites, 2);
}
