#include "emulated_kernels.h"

#include "backend_cpu/tables.h"

RVIT_CPU_PANELS(amx_emulated);
RVIT_CPU_PANELS(neon_dotprod_emulated);
RVIT_CPU_PANELS(neon_bf16_emulated);

void emulated_kernels_register(void)
{
    static rvit_cpu_kernels amx, neon_dotprod, neon_bf16;
    amx = neon_dotprod = neon_bf16 = rvit_cpu_kernels_portable;
    amx.name = "amx_emulated";
    amx.attention_bf16 = rvit_cpu_attention_bf16_kernel_amx_emulated;
    amx.linear_panels_bf16 = rvit_cpu_linear_panels_bf16_amx_emulated;
    amx.arrange_panels = rvit_cpu_arrange_panels_amx_emulated;
    amx.panel_rows = RVIT_CPU_TILE_ROWS;
    amx.linear_panels_i8 = rvit_cpu_linear_panels_i8_amx_emulated;
    amx.native_dtypes = 1 << RVIT_BF16 | 1 << RVIT_I8;
    neon_dotprod.name = "neon_dotprod_emulated";
    neon_dotprod.arrange_panels = rvit_cpu_arrange_panels_neon_dotprod_emulated;
    neon_dotprod.panel_rows = 6;
    neon_dotprod.linear_panels_i8 = rvit_cpu_linear_panels_i8_neon_dotprod_emulated;
    neon_dotprod.native_dtypes = 1 << RVIT_I8;
    neon_bf16.name = "neon_bf16_emulated";
    neon_bf16.attention_bf16 = rvit_cpu_attention_bf16_kernel_neon_bf16_emulated;
    neon_bf16.linear_panels_bf16 = rvit_cpu_linear_panels_bf16_neon_bf16_emulated;
    neon_bf16.arrange_panels = rvit_cpu_arrange_panels_neon_bf16_emulated;
    neon_bf16.panel_rows = 12;
    neon_bf16.linear_panels_i8 = rvit_cpu_linear_panels_i8_neon_bf16_emulated;
    neon_bf16.native_dtypes = 1 << RVIT_BF16 | 1 << RVIT_I8;
    rvit_cpu_extra_kernels[0] = &amx;
    rvit_cpu_extra_kernels[1] = &neon_dotprod;
    rvit_cpu_extra_kernels[2] = &neon_bf16;
}
