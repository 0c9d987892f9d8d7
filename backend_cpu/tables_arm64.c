/* The kernel tables of arm64, and the features of the processor. */
#include "backend_cpu/table_rows.h"

#include "core/base/system.h"

rvit_cpu_features rvit_cpu_detect_features(int request_amx)
{
    (void)request_amx;
    const int found = rvit_arm64_features();
    rvit_cpu_features features = {0};
    features.has |= found & RVIT_ARM64_DOTPROD ? RVIT_CPU_DOTPROD : 0;
    features.has |= found & RVIT_ARM64_I8MM ? RVIT_CPU_I8MM : 0;
    features.has |= found & RVIT_ARM64_BF16 ? RVIT_CPU_BF16 : 0;
    return features;
}

RVIT_CPU_PANELS(neon_dotprod);
RVIT_CPU_PANELS(neon_i8mm);
RVIT_CPU_PANELS(neon_bf16);

static void fill_neon_dotprod(rvit_cpu_kernels *kernels)
{
    kernels->arrange_panels = rvit_cpu_arrange_panels_neon_dotprod;
    kernels->linear_panels_i8 = rvit_cpu_linear_panels_i8_neon_dotprod;
    kernels->panel_rows = 6;
    kernels->native_dtypes = 1 << RVIT_I8;
}

static void fill_neon_i8mm(rvit_cpu_kernels *kernels)
{
    kernels->arrange_panels = rvit_cpu_arrange_panels_neon_i8mm;
    kernels->linear_panels_i8 = rvit_cpu_linear_panels_i8_neon_i8mm;
    kernels->panel_rows = 12;
    kernels->native_dtypes = 1 << RVIT_I8;
}

static void fill_neon_bf16(rvit_cpu_kernels *kernels)
{
    kernels->arrange_panels = rvit_cpu_arrange_panels_neon_bf16;
    kernels->linear_panels_i8 = rvit_cpu_linear_panels_i8_neon_bf16;
    kernels->linear_panels_bf16 = rvit_cpu_linear_panels_bf16_neon_bf16;
    kernels->attention_bf16 = rvit_cpu_attention_bf16_kernel_neon_bf16;
    kernels->panel_rows = 12;
    kernels->native_dtypes = 1 << RVIT_BF16 | 1 << RVIT_I8;
}

const rvit_cpu_table rvit_cpu_tables[] = {
    {"portable", 128, 0, 0, &rvit_cpu_kernels_portable, NULL},
    {"neon_dotprod", 128, RVIT_CPU_DOTPROD, 0, &rvit_cpu_kernels_portable, fill_neon_dotprod},
    {"neon_i8mm", 128, RVIT_CPU_I8MM, 0, &rvit_cpu_kernels_portable, fill_neon_i8mm},
    {"neon_bf16", 128, RVIT_CPU_I8MM | RVIT_CPU_BF16, 0, &rvit_cpu_kernels_portable, fill_neon_bf16},
};
const int rvit_cpu_n_tables = sizeof rvit_cpu_tables / sizeof *rvit_cpu_tables;
