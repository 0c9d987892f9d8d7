/* The kernel tables: detects the processor's features and puts each table together. */
#include "backend_cpu/tables.h"

#include <string.h>
#if defined(__x86_64__) && !defined(__ILP32__)
#include <cpuid.h>
#define X86 1
#else
#define X86 0
#endif

#include "core/base/system.h"

const rvit_cpu_kernels *rvit_cpu_extra_kernels;

#if X86
static uint64_t saved_by_system(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
#endif

rvit_cpu_features rvit_cpu_detect_features(int request_amx)
{
    rvit_cpu_features features = {0};
    (void)request_amx;
#if X86
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid(0, &a, &b, &c, &d);
    features.intel = b == signature_INTEL_ebx && c == signature_INTEL_ecx && d == signature_INTEL_edx;
    const int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
    const uint64_t saved = c & bit_OSXSAVE ? saved_by_system() : 0;
    __builtin_cpu_init();
    features.avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    features.avx512 = features.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!features.avx2 || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return features;
    const unsigned tiles = 1u << 22 | 1u << 24 | 1u << 25; /* BF16, TILE, INT8 */
    const int has_tiles = (d & tiles) == tiles && (saved >> 17 & 3) == 3;
    features.avx512_vnni = features.avx512 && (c >> 11 & 1);
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        features.avx_vnni = a >> 4 & 1;
        features.avx512_bf16 = features.avx512_vnni && (a >> 5 & 1);
    }
    features.amx = features.avx512_bf16 && has_tiles;
    if (features.amx && request_amx)
        features.amx_error = rvit_allow_amx();
#endif
    return features;
}

const char *rvit_cpu_table_name(rvit_cpu_table table)
{
    static const char *const names[] = {"portable", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx"};
    return names[table];
}

const char *rvit_cpu_table_lacks(rvit_cpu_table table, const rvit_cpu_features *features)
{
    if (table >= RVIT_CPU_AVX2 && !features->avx2)
        return "AVX2, FMA or F16C";
    if (table == RVIT_CPU_AVX2_VNNI && !features->avx_vnni)
        return "AVX-VNNI";
    if (table >= RVIT_CPU_AVX512 && !features->avx512)
        return "AVX-512 (F, BW, DQ, VL)";
    if (table >= RVIT_CPU_AVX512_VNNI && !features->avx512_vnni)
        return "AVX512-VNNI";
    if (table >= RVIT_CPU_AVX512_BF16 && !features->avx512_bf16)
        return "AVX512-BF16";
    if (table == RVIT_CPU_AMX && !features->amx)
        return "AMX (TILE, BF16, INT8)";
    if (table == RVIT_CPU_AMX && features->amx_error != 0)
        return "AMX (the system does not allow it)";
    return NULL;
}

rvit_cpu_table rvit_cpu_best_table(const rvit_cpu_features *features, int32_t bits)
{
    rvit_cpu_table table = bits == 256 ? RVIT_CPU_AVX2_VNNI : RVIT_CPU_AMX;
    while (rvit_cpu_table_lacks(table, features) != NULL || (table == RVIT_CPU_AVX512_BF16 && features->intel))
        table--;
    return table;
}

#if X86
#define PANELS(isa, rows)                                           \
    do {                                                            \
        kernels.arrange_panels = rvit_cpu_arrange_panels_##isa;     \
        kernels.linear_panels_i8 = rvit_cpu_linear_panels_i8_##isa; \
        kernels.panel_rows = rows;                                  \
    } while (0)

rvit_cpu_kernels rvit_cpu_kernels_of(rvit_cpu_table table)
{
    rvit_cpu_kernels kernels = table >= RVIT_CPU_AVX512 ? rvit_cpu_kernels_avx512
                               : table >= RVIT_CPU_AVX2 ? rvit_cpu_kernels_avx2
                                                        : rvit_cpu_kernels_portable;
    kernels.name = rvit_cpu_table_name(table);
    switch (table) {
    case RVIT_CPU_AVX2:
        PANELS(avx2, kernels.rows);
        break;
    case RVIT_CPU_AVX512:
        PANELS(avx512, kernels.rows);
        break;
    case RVIT_CPU_AVX2_VNNI:
        PANELS(avx2_vnni, kernels.rows);
        kernels.native_dtypes = 1 << RVIT_I8;
        break;
    case RVIT_CPU_AVX512_VNNI:
        PANELS(avx512_vnni, kernels.rows);
        kernels.native_dtypes = 1 << RVIT_I8;
        break;
    case RVIT_CPU_AVX512_BF16:
        PANELS(avx512_bf16, kernels.rows);
        kernels.linear_panels_bf16 = rvit_cpu_linear_panels_bf16_avx512_bf16;
        kernels.attention_bf16 = rvit_cpu_attention_bf16_kernel_avx512_bf16;
        kernels.native_dtypes = 1 << RVIT_BF16 | 1 << RVIT_I8;
        break;
    case RVIT_CPU_AMX:
        PANELS(amx, RVIT_CPU_TILE_ROWS);
        kernels.linear_panels_bf16 = rvit_cpu_linear_panels_bf16_amx;
        kernels.attention_bf16 = rvit_cpu_attention_bf16_kernel_amx;
        kernels.native_dtypes = 1 << RVIT_BF16 | 1 << RVIT_I8;
        break;
    case RVIT_CPU_PORTABLE:
    case RVIT_CPU_N_TABLES:
        break;
    }
    return kernels;
}
#else
rvit_cpu_kernels rvit_cpu_kernels_of(rvit_cpu_table table)
{
    rvit_cpu_kernels kernels = rvit_cpu_kernels_portable;
    kernels.name = rvit_cpu_table_name(table);
    return kernels;
}
#endif
