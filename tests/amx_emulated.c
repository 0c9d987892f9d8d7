#include "amx_emulated.h"

#include "backend_cpu/tables.h"

void rvit_cpu_linear_bf16_kernel_amx_emulated(const rvit_cpu_linear_tile *tile, float *scratch);
int rvit_cpu_arrange_panels_amx_emulated(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch);

void amx_emulated_register(void)
{
    static rvit_cpu_kernels kernels;
    kernels = rvit_cpu_kernels_of(RVIT_CPU_PORTABLE);
    kernels.name = "amx_emulated";
    kernels.linear_bf16 = rvit_cpu_linear_bf16_kernel_amx_emulated;
    kernels.arrange_bf16 = rvit_cpu_arrange_panels_amx_emulated;
    kernels.narrow_rows = RVIT_CPU_TILE_ROWS;
    kernels.native_dtypes = 1 << RVIT_BF16;
    rvit_cpu_extra_kernels = &kernels;
}
