/* The choice among the kernel tables of this architecture. */
#include "backend_cpu/tables.h"

#include <string.h>

const rvit_cpu_kernels *rvit_cpu_extra_kernels[RVIT_CPU_EXTRA_KERNELS];

const rvit_cpu_table *rvit_cpu_table_named(const char *name)
{
    for (int i = 0; i < rvit_cpu_n_tables; i++)
        if (strcmp(rvit_cpu_tables[i].name, name) == 0)
            return &rvit_cpu_tables[i];
    return NULL;
}

const char *rvit_cpu_table_lacks(const rvit_cpu_table *table, const rvit_cpu_features *features)
{
    static const struct {
        uint32_t feature;
        const char *name;
    } names[] = {
        {RVIT_CPU_AVX2, "AVX2, FMA or F16C"},
        {RVIT_CPU_AVX_VNNI, "AVX-VNNI"},
        {RVIT_CPU_AVX512, "AVX-512 (F, BW, DQ, VL)"},
        {RVIT_CPU_AVX512_VNNI, "AVX512-VNNI"},
        {RVIT_CPU_AVX512_BF16, "AVX512-BF16"},
        {RVIT_CPU_AMX, "AMX (TILE, BF16, INT8)"},
        {RVIT_CPU_AMX_ALLOWED, "AMX (the system does not allow it)"},
        {RVIT_CPU_DOTPROD, "the dot products of int8 (dotprod)"},
        {RVIT_CPU_I8MM, "the matrix multiplication of int8 (i8mm)"},
        {RVIT_CPU_BF16, "the arithmetic of bf16 (bf16)"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (table->needs & ~features->has & names[i].feature)
            return names[i].name;
    return NULL;
}

const rvit_cpu_table *rvit_cpu_best_table(const rvit_cpu_features *features, int32_t bits)
{
    int i = rvit_cpu_n_tables - 1;
    while (i > 0 && ((bits != 0 && rvit_cpu_tables[i].bits > bits) || rvit_cpu_table_lacks(&rvit_cpu_tables[i], features) != NULL ||
                     (rvit_cpu_tables[i].wants & ~features->has) != 0))
        i--;
    return &rvit_cpu_tables[i];
}

rvit_cpu_kernels rvit_cpu_kernels_of(const rvit_cpu_table *table)
{
    rvit_cpu_kernels kernels = *table->base;
    kernels.name = table->name;
    if (table->fill != NULL)
        table->fill(&kernels);
    return kernels;
}
