/* The kernel tables of x86-64, and the features of the processor. */
#include "backend_cpu/table_rows.h"

#include <cpuid.h>

#include "core/base/system.h"

/* The registers that the system saves for each thread, as bits of XCR0. */
enum { SAVED_AVX = 0x06, SAVED_AVX512 = 0xe6 };

static uint64_t saved_by_system(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Not by __builtin_cpu_supports: it reads a table of the compiler's run-time library, and that of Zig has other bits. */
rvit_cpu_features rvit_cpu_detect_features(int request_amx)
{
    rvit_cpu_features features = {0};
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid(0, &a, &b, &c, &d);
    if (!(b == signature_INTEL_ebx && c == signature_INTEL_ecx && d == signature_INTEL_edx))
        features.has |= RVIT_CPU_FAST_BF16;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA) || !(c & bit_F16C))
        return features;
    const uint64_t saved = saved_by_system();
    if ((saved & SAVED_AVX) != SAVED_AVX || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2))
        return features;
    features.has |= RVIT_CPU_AVX2;
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if ((b & avx512) == avx512 && (saved & SAVED_AVX512) == SAVED_AVX512)
        features.has |= RVIT_CPU_AVX512;
    const unsigned tiles = 1u << 22 | 1u << 24 | 1u << 25; /* BF16, TILE, INT8 */
    const int has_tiles = (d & tiles) == tiles && (saved >> 17 & 3) == 3;
    if ((features.has & RVIT_CPU_AVX512) && (c >> 11 & 1))
        features.has |= RVIT_CPU_AVX512_VNNI;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        if (a >> 4 & 1)
            features.has |= RVIT_CPU_AVX_VNNI;
        if ((features.has & RVIT_CPU_AVX512_VNNI) && (a >> 5 & 1))
            features.has |= RVIT_CPU_AVX512_BF16;
    }
    if (!(features.has & RVIT_CPU_AVX512_BF16) || !has_tiles)
        return features;
    features.has |= RVIT_CPU_AMX;
    features.amx_error = request_amx ? rvit_allow_amx() : 0;
    if (features.amx_error == 0)
        features.has |= RVIT_CPU_AMX_ALLOWED;
    return features;
}

extern const rvit_cpu_kernels rvit_cpu_kernels_avx2;
extern const rvit_cpu_kernels rvit_cpu_kernels_avx512;
RVIT_CPU_PANELS(avx2);
RVIT_CPU_PANELS(avx2_vnni);
RVIT_CPU_PANELS(avx512);
RVIT_CPU_PANELS(avx512_vnni);
RVIT_CPU_PANELS(avx512_bf16);
RVIT_CPU_PANELS(amx);

/* avx2 and avx512: the instructions for int8 are no faster than those for floats. */
#define FILL(isa, panel_rows_, native)                               \
    static void fill_##isa(rvit_cpu_kernels *kernels)                \
    {                                                                \
        kernels->arrange_panels = rvit_cpu_arrange_panels_##isa;     \
        kernels->linear_panels_i8 = rvit_cpu_linear_panels_i8_##isa; \
        kernels->panel_rows = panel_rows_;                           \
        kernels->native_dtypes = native;                             \
    }
#define FILL_BF16(isa, panel_rows_)                                      \
    static void fill_##isa(rvit_cpu_kernels *kernels)                    \
    {                                                                    \
        kernels->arrange_panels = rvit_cpu_arrange_panels_##isa;         \
        kernels->linear_panels_i8 = rvit_cpu_linear_panels_i8_##isa;     \
        kernels->linear_panels_bf16 = rvit_cpu_linear_panels_bf16_##isa; \
        kernels->attention_bf16 = rvit_cpu_attention_bf16_kernel_##isa;  \
        kernels->panel_rows = panel_rows_;                               \
        kernels->native_dtypes = 1 << RVIT_BF16 | 1 << RVIT_I8;          \
    }
FILL(avx2, kernels->rows, 0)
FILL(avx512, kernels->rows, 0)
FILL(avx2_vnni, kernels->rows, 1 << RVIT_I8)
FILL(avx512_vnni, kernels->rows, 1 << RVIT_I8)
FILL_BF16(avx512_bf16, kernels->rows)
FILL_BF16(amx, RVIT_CPU_TILE_ROWS)

#define AVX512_VNNI (RVIT_CPU_AVX2 | RVIT_CPU_AVX512 | RVIT_CPU_AVX512_VNNI)
#define AVX512_BF16 (AVX512_VNNI | RVIT_CPU_AVX512_BF16)
const rvit_cpu_table rvit_cpu_tables[] = {
    {"portable", 128, 0, 0, &rvit_cpu_kernels_portable, NULL},
    {"avx2", 256, RVIT_CPU_AVX2, 0, &rvit_cpu_kernels_avx2, fill_avx2},
    {"avx2_vnni", 256, RVIT_CPU_AVX2 | RVIT_CPU_AVX_VNNI, 0, &rvit_cpu_kernels_avx2, fill_avx2_vnni},
    {"avx512", 512, RVIT_CPU_AVX2 | RVIT_CPU_AVX512, 0, &rvit_cpu_kernels_avx512, fill_avx512},
    {"avx512_vnni", 512, AVX512_VNNI, 0, &rvit_cpu_kernels_avx512, fill_avx512_vnni},
    {"avx512_bf16", 512, AVX512_BF16, RVIT_CPU_FAST_BF16, &rvit_cpu_kernels_avx512, fill_avx512_bf16},
    {"amx", 512, AVX512_BF16 | RVIT_CPU_AMX | RVIT_CPU_AMX_ALLOWED, 0, &rvit_cpu_kernels_avx512, fill_amx},
};
const int rvit_cpu_n_tables = sizeof rvit_cpu_tables / sizeof *rvit_cpu_tables;
