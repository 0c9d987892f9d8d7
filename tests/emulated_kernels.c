#include "amx_emulated.h"

#include "backend_cpu/tables.h"

void rvit_cpu_attention_bf16_kernel_amx_emulated(const rvit_cpu_attention_tile *tile, float *scratch);
int rvit_cpu_arrange_panels_amx_emulated(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch);
void rvit_cpu_linear_panels_i8_amx_emulated(const rvit_cpu_linear_tile *tile, float *scratch);
void rvit_cpu_linear_panels_bf16_amx_emulated(const rvit_cpu_linear_tile *tile, float *scratch);

void amx_emulated_register(void)
{
    static rvit_cpu_kernels kernels;
    kernels = rvit_cpu_kernels_portable;
    kernels.name = "amx_emulated";
    kernels.attention_bf16 = rvit_cpu_attention_bf16_kernel_amx_emulated;
    kernels.linear_panels_bf16 = rvit_cpu_linear_panels_bf16_amx_emulated;
    kernels.arrange_panels = rvit_cpu_arrange_panels_amx_emulated;
    kernels.panel_rows = RVIT_CPU_TILE_ROWS;
    kernels.linear_panels_i8 = rvit_cpu_linear_panels_i8_amx_emulated;
    kernels.native_dtypes = 1 << RVIT_BF16 | 1 << RVIT_I8;
    rvit_cpu_extra_kernels[0] = &kernels;
}
