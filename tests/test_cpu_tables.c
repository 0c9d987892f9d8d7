/* Tests the choice of kernels for given processor features, independently of the machine. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <raggedvit/raggedvit.h>

#include "backend_cpu/tables.h"

static const rvit_cpu_features haswell = {.avx2 = 1, .intel = 1}, alder_lake = {.avx2 = 1, .avx_vnni = 1, .intel = 1},
                               skylake = {.avx2 = 1, .avx512 = 1, .intel = 1},
                               ice_lake = {.avx2 = 1, .avx512 = 1, .avx512_vnni = 1, .intel = 1},
                               cooper_lake = {.avx2 = 1, .avx512 = 1, .avx512_vnni = 1, .avx512_bf16 = 1, .intel = 1},
                               zen4 = {.avx2 = 1, .avx512 = 1, .avx512_vnni = 1, .avx512_bf16 = 1},
                               rapids = {.avx2 = 1, .avx_vnni = 1, .avx512 = 1, .avx512_vnni = 1, .avx512_bf16 = 1, .intel = 1, .amx = 1};

static void expect_table(const rvit_cpu_features *features, int32_t bits, const char *name)
{
    assert_string_equal(rvit_cpu_table_name(rvit_cpu_best_table(features, bits)), name);
}

static void best_tables(void **state)
{
    (void)state;
    const rvit_cpu_features nothing = {0};
    expect_table(&nothing, 0, "portable");
    expect_table(&haswell, 0, "avx2");
    expect_table(&alder_lake, 0, "avx2_vnni");
    expect_table(&skylake, 0, "avx512");
    expect_table(&ice_lake, 0, "avx512_vnni");
    expect_table(&cooper_lake, 0, "avx512_vnni");
    expect_table(&zen4, 0, "avx512_bf16");
    expect_table(&rapids, 0, "amx");
    expect_table(&rapids, 512, "amx");
    expect_table(&rapids, 256, "avx2_vnni");
    expect_table(&zen4, 256, "avx2");
}

/* If the system refuses AMX, the next best table is used, and a request for AMX by name reports the refusal. */
static void tiles_refused(void **state)
{
    (void)state;
    rvit_cpu_features refused = rapids;
    refused.amx_error = EPERM;
    expect_table(&refused, 0, "avx512_vnni");
    assert_null(rvit_cpu_table_lacks(RVIT_CPU_AMX, &rapids));
    assert_non_null(strstr(rvit_cpu_table_lacks(RVIT_CPU_AMX, &refused), "system"));
}

/* Every table can be requested by name: the device runs it, or the error names the missing feature. */
static void tables_by_name(void **state)
{
    (void)state;
    const rvit_cpu_features features = rvit_cpu_detect_features(1);
    for (rvit_cpu_table table = RVIT_CPU_PORTABLE; table < RVIT_CPU_N_TABLES; table++) {
        rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
        desc.backend = RVIT_BACKEND_CPU;
        desc.n_threads = 1;
        desc.kernels = rvit_cpu_table_name(table);
        rvit_device *device = NULL;
        const char *lacks = rvit_cpu_table_lacks(table, &features);
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(best_tables), cmocka_unit_test(tiles_refused), cmocka_unit_test(tables_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
