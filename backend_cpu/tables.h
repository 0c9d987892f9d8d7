/* Chooses the kernels for a processor. Each table has all kernels. */
#ifndef RVIT_CPU_TABLES_H
#define RVIT_CPU_TABLES_H

#include "backend_cpu/table_rows.h"

/* NULL: the architecture has no table of this name. */
const rvit_cpu_table *rvit_cpu_table_named(const char *name);
/* The feature that is missing for a table, "AVX512-VNNI"; NULL: none. */
const char *rvit_cpu_table_lacks(const rvit_cpu_table *table, const rvit_cpu_features *features);
/* The fastest table whose vectors have at most `bits` bits (0: no limit). */
const rvit_cpu_table *rvit_cpu_best_table(const rvit_cpu_features *features, int32_t bits);
rvit_cpu_kernels rvit_cpu_kernels_of(const rvit_cpu_table *table);

/* Up to 4 additional tables that rvit_device_desc.kernels can name; tests set them before they create a device. */
#define RVIT_CPU_EXTRA_KERNELS 4
extern const rvit_cpu_kernels *rvit_cpu_extra_kernels[RVIT_CPU_EXTRA_KERNELS];

#endif
