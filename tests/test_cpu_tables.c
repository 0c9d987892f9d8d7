/* Tests the choice of kernels for given processor features, independently of the machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <raggedvit/raggedvit.h>

#include "backend_cpu/tables.h"

static void expect_table(uint32_t has, int32_t bits, const char *name)
{
    const rvit_cpu_features features = {.has = has};
    assert_string_equal(rvit_cpu_best_table(&features, bits)->name, name);
}

#if defined(__x86_64__)
enum {
    HASWELL = RVIT_CPU_AVX2,
    ALDER_LAKE = HASWELL | RVIT_CPU_AVX_VNNI,
    SKYLAKE = HASWELL | RVIT_CPU_AVX512,
    ICE_LAKE = SKYLAKE | RVIT_CPU_AVX512_VNNI,
    COOPER_LAKE = ICE_LAKE | RVIT_CPU_AVX512_BF16,
    ZEN_4 = COOPER_LAKE | RVIT_CPU_FAST_BF16,
    RAPIDS_REFUSED = COOPER_LAKE | RVIT_CPU_AVX_VNNI | RVIT_CPU_AMX,
    RAPIDS = RAPIDS_REFUSED | RVIT_CPU_AMX_ALLOWED
};

static void best_tables(void **state)
{
    (void)state;
    expect_table(0, 0, "portable");
    expect_table(HASWELL, 0, "avx2");
    expect_table(ALDER_LAKE, 0, "avx2_vnni");
    expect_table(SKYLAKE, 0, "avx512");
    expect_table(ICE_LAKE, 0, "avx512_vnni");
    expect_table(COOPER_LAKE, 0, "avx512_vnni");
    expect_table(ZEN_4, 0, "avx512_bf16");
    expect_table(RAPIDS, 0, "amx");
    expect_table(RAPIDS, 512, "amx");
    expect_table(RAPIDS, 256, "avx2_vnni");
    expect_table(ZEN_4, 256, "avx2");
}

/* If the system refuses AMX, the next best table is used, and a request for AMX by name reports the refusal. */
static void tiles_refused(void **state)
{
    (void)state;
    const rvit_cpu_table *amx = rvit_cpu_table_named("amx");
    expect_table(RAPIDS_REFUSED, 0, "avx512_vnni");
    assert_null(rvit_cpu_table_lacks(amx, &(rvit_cpu_features){.has = RAPIDS}));
    assert_non_null(strstr(rvit_cpu_table_lacks(amx, &(rvit_cpu_features){.has = RAPIDS_REFUSED}), "system"));
}
#define TESTS_OF_ARCHITECTURE cmocka_unit_test(best_tables), cmocka_unit_test(tiles_refused),
#elif defined(__aarch64__)
static void best_tables(void **state)
{
    (void)state;
    expect_table(0, 0, "portable");
    expect_table(RVIT_CPU_DOTPROD, 0, "neon_dotprod");
    expect_table(RVIT_CPU_DOTPROD | RVIT_CPU_BF16, 0, "neon_dotprod");
    expect_table(RVIT_CPU_DOTPROD | RVIT_CPU_I8MM, 0, "neon_i8mm");
    expect_table(RVIT_CPU_DOTPROD | RVIT_CPU_I8MM | RVIT_CPU_BF16, 0, "neon_bf16");
    expect_table(RVIT_CPU_I8MM | RVIT_CPU_BF16, 256, "neon_bf16");
}
#define TESTS_OF_ARCHITECTURE cmocka_unit_test(best_tables),
#else
#define TESTS_OF_ARCHITECTURE
#endif

/* Every table can be requested by name: the device runs it, or the error names the missing feature. */
static void tables_by_name(void **state)
{
    (void)state;
    const rvit_cpu_features features = rvit_cpu_detect_features(1);
    assert_int_equal(rvit_cpu_tables[0].needs, 0);
    for (int i = 0; i < rvit_cpu_n_tables; i++) {
        rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
        desc.backend = RVIT_BACKEND_CPU;
        desc.n_threads = 1;
        desc.kernels = rvit_cpu_tables[i].name;
        rvit_device *device = NULL;
        const char *lacks = rvit_cpu_table_lacks(&rvit_cpu_tables[i], &features);
        const rvit_status status = rvit_device_create(&desc, &device);
        if (lacks != NULL) {
            assert_int_equal(status, RVIT_UNSUPPORTED);
            assert_non_null(strstr(rvit_status_detail(), lacks));
            continue;
        }
        assert_int_equal(status, RVIT_OK);
        rvit_device_info info = RVIT_DEVICE_INFO_INIT;
        assert_int_equal(rvit_device_get_info(device, &info), RVIT_OK);
        assert_non_null(strstr(info.driver, desc.kernels));
        rvit_device_destroy(device);
    }
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    desc.kernels = "avx1024";
    rvit_device *device = NULL;
    assert_int_equal(rvit_device_create(&desc, &device), RVIT_INVALID_ARGUMENT);
    assert_non_null(strstr(rvit_status_detail(), "avx1024"));
    assert_non_null(strstr(rvit_status_detail(), rvit_cpu_tables[rvit_cpu_n_tables - 1].name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {TESTS_OF_ARCHITECTURE cmocka_unit_test(tables_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
