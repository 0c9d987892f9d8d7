/* The kernel table of architectures without kernels of their own. */
#include "backend_cpu/table_rows.h"

rvit_cpu_features rvit_cpu_detect_features(int request_amx)
{
    (void)request_amx;
    return (rvit_cpu_features){0};
}

const rvit_cpu_table rvit_cpu_tables[] = {{"portable", 128, 0, 0, &rvit_cpu_kernels_portable, NULL}};
const int rvit_cpu_n_tables = 1;
