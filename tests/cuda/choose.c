/* Tests the choice of a GEMM kernel for many devices and shapes. Needs no GPU. */
#include "cuda_tests.h"

#include "backend_cuda/linear_choose.h"

/* Device properties as device.c sets them. */
static const rvit_cu_machine
    ada = {.n_sms = 58, .max_shared = 100352, .sm_shared = 102400, .clusters = 1},
    h100 = {.n_sms = 132, .max_shared = 231424, .sm_shared = 233472, .wgmma = 1, .faster_mma = 1, .early = 1, .clusters = 1},
    old_driver = {.n_sms = 132, .max_shared = 231424, .sm_shared = 233472, .wgmma = 1, .faster_mma = 1};

#define QKV .has_bias = 1, .narrow_bias = 1
#define GELU .activation = RVIT_ACTIVATION_GELU, .has_bias = 1
#define PROJ .has_bias = 1, .has_residual = 1
#define LIVE .live = 1
#define PADDED .live = 1, .may_pad = 1

static const struct choice_case {
    const rvit_cu_machine *machine;
    rvit_cu_linear_facts facts; /* types; rows; in_features, out_features; ... */
    rvit_cu_linear_path path;
    rvit_cu_linear_why why;
} cases[] = {
#define CASE(machine, path, why, ...)                                     \
    {                                                                     \
        &(machine), {__VA_ARGS__}, RVIT_CU_PATH_##path, RVIT_CU_WHY_##why \
    }
    /* 1, 8, 16 and 64 images of DeiT-B. */
    CASE(h100, LT, LT_WHOLE, RVIT_F16, RVIT_F16, 197, 768, 2304, QKV),
    CASE(h100, LARGE_M, LARGE_M_TILES, RVIT_F16, RVIT_F16, 12608, 768, 2304, QKV),
    CASE(h100, LT, LT_WHOLE, RVIT_F16, RVIT_F16, 3152, 768, 2304, QKV),
    CASE(h100, NONPERSISTENT, EARLY, RVIT_F16, RVIT_F16, 99, 768, 2304, QKV),
    CASE(h100, NONPERSISTENT, EARLY, RVIT_F16, RVIT_F16, 197, 768, 3072, GELU),
    CASE(h100, SMALL_M, SMALL_M_ACTIVATED, RVIT_F16, RVIT_F16, 394, 768, 3072, GELU),
    CASE(h100, SMALL_M, SMALL_M_ACTIVATED, RVIT_BF16, RVIT_BF16, 1182, 768, 3072, GELU),
    CASE(h100, LT_EPILOGUE, LT_LARGE, RVIT_F16, RVIT_F16, 1576, 768, 3072, GELU),
    CASE(h100, LARGE_M, LARGE_M_TILES, RVIT_F16, RVIT_F16, 12608, 768, 3072, GELU),
    CASE(h100, LT, LT_WHOLE, RVIT_F16, RVIT_F32, 1576, 3072, 768, PROJ),
    CASE(h100, LARGE_M, LARGE_M_TILES, RVIT_F16, RVIT_F32, 12608, 768, 768, PROJ),
    CASE(h100, LT, LT_WHOLE, RVIT_F16, RVIT_F32, 12608, 3072, 768, PROJ),
    CASE(h100, LT, LT_WHOLE, RVIT_F16, RVIT_F32, 99, 1536, 384, PROJ),
    /* Devices without programmatic dependent launch and clusters. */
    CASE(old_driver, LT_EPILOGUE, LT_LARGE, RVIT_F16, RVIT_F16, 577, 768, 3072, GELU),
    CASE(old_driver, LT, LT_WHOLE, RVIT_F16, RVIT_F16, 99, 768, 2304, QKV),
    CASE(old_driver, NONPERSISTENT, ONE_PASS, RVIT_F16, RVIT_F16, 50, 768, 3072, GELU),
    /* The row count is only on the device. */
    CASE(h100, SMALL_M, SMALL_M_UNKNOWN, RVIT_F16, RVIT_F32, 1182, 3072, 768, PROJ, LIVE),
    CASE(h100, LARGE_M, LARGE_M_UNKNOWN, RVIT_F16, RVIT_F32, 1576, 3072, 768, PROJ, LIVE),
    CASE(h100, SMALL_M, SMALL_M_UNKNOWN, RVIT_F16, RVIT_F32, 394, 1536, 768, PROJ, LIVE),
    CASE(h100, NONPERSISTENT, UNKNOWN, RVIT_F16, RVIT_F32, 788, 768, 768, PROJ, LIVE),
    CASE(h100, NONPERSISTENT, UNKNOWN, RVIT_F16, RVIT_F32, 197, 192, 192, PROJ, LIVE),
    CASE(h100, LARGE_M, LARGE_M_UNKNOWN, RVIT_F16, RVIT_F16, 3152, 768, 2304, QKV, LIVE),
    CASE(h100, LT, LT_WHOLE, RVIT_F16, RVIT_F32, 1576, 3072, 768, PROJ, PADDED),
    CASE(h100, LARGE_M, LARGE_M_UNKNOWN, RVIT_F16, RVIT_F32, 3152, 3072, 768, PROJ, PADDED),
    CASE(h100, SMALL_M, SMALL_M_UNKNOWN, RVIT_F16, RVIT_F32, 394, 3072, 768, PROJ, PADDED),
    CASE(h100, LARGE_M, LARGE_M_UNKNOWN, RVIT_F16, RVIT_F32, 12608, 768, 768, .has_residual = 1, .repeats = 1),
    CASE(ada, TILES, UNKNOWN, RVIT_F16, RVIT_F16, 12608, 768, 3072, GELU, LIVE),
    /* e4m3 */
    CASE(h100, SMALL_M, SMALL_M_E4M3, RVIT_E4M3, RVIT_E4M3, 256, 1024, 4096, GELU),
    CASE(h100, LARGE_M, LARGE_M_E4M3, RVIT_E4M3, RVIT_E4M3, 512, 1024, 4096, GELU),
    CASE(h100, LARGE_M, LARGE_M_E4M3, RVIT_E4M3, RVIT_E4M3, 0, 1024, 4096, GELU),
    CASE(h100, LARGE_M, LARGE_M_TILES, RVIT_E4M3, RVIT_F16, 3152, 768, 2304, QKV),
    CASE(h100, LT, LT_WHOLE, RVIT_E4M3, RVIT_F16, 3152, 768, 2112, QKV),
    CASE(h100, LT_EPILOGUE, LT_E4M3, RVIT_E4M3, RVIT_F16, 50432, 768, 3072, GELU),
    CASE(h100, LT_EPILOGUE, LT_WIDE, RVIT_E4M3, RVIT_F32, 12608, 3072, 768, PROJ),
    CASE(h100, LT, LT_WHOLE, RVIT_E4M3, RVIT_F16, 1576, 768, 3072, QKV, PADDED),
    CASE(h100, LARGE_M, LARGE_M_UNKNOWN, RVIT_E4M3, RVIT_F16, 3152, 768, 3072, QKV, PADDED),
    CASE(ada, LT, LT_WHOLE, RVIT_E4M3, RVIT_F16, 50432, 768, 3072, QKV, PADDED),
    CASE(ada, E4M3, UNKNOWN, RVIT_E4M3, RVIT_F16, 197, 768, 2304, QKV, LIVE),
    /* Ada; float32; rare cases. */
    CASE(ada, LT, LT_WHOLE, RVIT_F16, RVIT_F16, 12608, 768, 2304, QKV),
    CASE(ada, TILES, ONE_PASS, RVIT_F16, RVIT_F16, 12608, 768, 3072, GELU),
    CASE(ada, LT, LT_WHOLE, RVIT_F16, RVIT_F16, 12608, 768, 3072, QKV, .activation = RVIT_ACTIVATION_GELU_TANH),
    CASE(ada, LT, LT_WHOLE, RVIT_F32, RVIT_F32, 197, 768, 2304, PROJ),
    CASE(ada, LT_EPILOGUE, LT_WIDE, RVIT_F32, RVIT_F32, 197, 768, 3072, GELU),
    CASE(ada, F32, RESIDUAL, RVIT_F32, RVIT_F32, 197, 768, 3072, GELU, .has_residual = 1),
    CASE(ada, F32, NO_LT, RVIT_F32, RVIT_F32, 197, 768, 3072, .no_lt = 1),
    CASE(ada, NONPERSISTENT, NARROW, RVIT_F16, RVIT_F16, 197, 768, 12, .has_bias = 1),
    CASE(ada, TILES, GATED, RVIT_F16, RVIT_F16, 12608, 1024, 2736, .activation = RVIT_ACTIVATION_SILU, .gated = 1),
    CASE(ada, NONPERSISTENT, REPEATS, RVIT_F16, RVIT_F16, 64, 768, 768, .has_residual = 1, .repeats = 1),
    CASE(ada, TILES, EMPTY, RVIT_F16, RVIT_F16, 0, 768, 768, QKV),
#undef CASE
};

static void choices(void **state)
{
    (void)state;
    unsigned paths = 0, reasons = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct choice_case *c = &cases[i];
        const rvit_cu_linear_choice got = rvit_cu_linear_choose(c->machine, &c->facts);
        if (got.path != c->path || got.why != c->why)
            fail_msg("case %d, [%lld, %d] x [%d]: %s: %s", (int)i, (long long)c->facts.rows, c->facts.in_features, c->facts.out_features,
                     rvit_cu_linear_path_name(got.path), rvit_cu_linear_why_text(got.why));
        paths |= 1u << got.path, reasons |= 1u << got.why;
    }
    assert_int_equal(paths, (1u << RVIT_CU_N_PATHS) - 1);
    assert_int_equal(reasons, (1u << RVIT_CU_N_REASONS) - 2); /* any choice except NOT */
}

/* GEMMs that the wgmma kernels do not support use other kernels, at any size. */
static void wgmma_refuses(void **state)
{
    (void)state;
    const rvit_cu_linear_facts good = {RVIT_F16, RVIT_F16, 12608, 768, 3072, GELU};
    rvit_cu_linear_facts bad[] = {good, good, good, good, good, good, good};
    bad[0].rows = 0;
    bad[1].in_features = 764;
    bad[2].out_features = 3088;
    bad[3].gated = 1;
    bad[4].has_residual = 1;
    bad[5].out_dtype = RVIT_F32;
    bad[6].is_unaligned = 1;
    assert_true(rvit_cu_linear_has_kernel(&h100, &good, RVIT_CU_PATH_LARGE_M) &&
                rvit_cu_linear_has_kernel(&h100, &good, RVIT_CU_PATH_SMALL_M));
    assert_false(rvit_cu_linear_has_kernel(&ada, &good, RVIT_CU_PATH_LARGE_M) ||
                 rvit_cu_linear_has_kernel(&ada, &good, RVIT_CU_PATH_SMALL_M));
    assert_false(rvit_cu_linear_has_kernel(&old_driver, &good, RVIT_CU_PATH_SMALL_M));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(rvit_cu_linear_has_kernel(&h100, &bad[i], RVIT_CU_PATH_LARGE_M) ||
                     rvit_cu_linear_has_kernel(&h100, &bad[i], RVIT_CU_PATH_SMALL_M));
}

/* cuBLASLt adds a bias only in the output type, and runs tanh GELU only with such a bias. */
static void lt_epilogues(void **state)
{
    (void)state;
    static const struct {
        rvit_cu_linear_facts facts;
        int32_t adds_bias, activates;
    } of[] = {
        {{RVIT_F16, RVIT_F16, 1576, 768, 2304, QKV}, 1, 0},
        {{RVIT_F16, RVIT_F16, 1576, 768, 2304, .has_bias = 1}, 0, 0},
        {{RVIT_F16, RVIT_F32, 1576, 3072, 768, PROJ}, 1, 0},
        {{RVIT_E4M3, RVIT_F32, 1576, 3072, 768, PROJ}, 0, 0},
        {{RVIT_E4M3, RVIT_F32, 1576, 3072, 768, PROJ, .narrow_bias = 1}, 1, 0},
        {{RVIT_F16, RVIT_F16, 1576, 768, 3072, GELU, .narrow_bias = 1}, 0, 0},
        {{RVIT_F16, RVIT_F16, 1576, 768, 3072, QKV, .activation = RVIT_ACTIVATION_GELU_TANH}, 1, 1},
        {{RVIT_F16, RVIT_F16, 1576, 768, 3072, .activation = RVIT_ACTIVATION_GELU_TANH}, 0, 1},
        {{RVIT_F16, RVIT_F16, 1576, 768, 3072, .has_bias = 1, .activation = RVIT_ACTIVATION_GELU_TANH}, 0, 0},
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        const rvit_cu_linear_choice c = rvit_cu_linear_choose(&h100, &of[i].facts);
        assert_true(c.path == RVIT_CU_PATH_LT || c.path == RVIT_CU_PATH_LT_EPILOGUE);
        assert_int_equal(c.lt_adds_bias, of[i].adds_bias);
        assert_int_equal(c.lt_activates, of[i].activates);
    }
}

SUITE(choose_suite, TEST(choices), TEST(wgmma_refuses), TEST(lt_epilogues));
