/* Which kernels a processor runs: a ladder of tables, of which each has all kernels. */
#ifndef RVIT_CPU_TABLES_H
#define RVIT_CPU_TABLES_H

#include "backend_cpu/kernels.h"

/* What the processor has and the system allows. A set of instructions counts as there only if the ones before it, which its kernels use
   too, are there. */
typedef struct rvit_cpu_features {
    int avx2;                     /* with FMA and F16C */
    int avx_vnni;                 /* vpdpbusd on 256 bits, without AVX-512 */
    int avx512;                   /* F, BW, DQ, VL */
    int avx512_vnni, avx512_bf16; /* vpdpbusd on 512 bits; vdpbf16ps */
    int intel;                    /* there vdpbf16ps takes four times as long as a multiply-add of floats, and so twice as long a float */
    int amx;                      /* TILE, BF16, INT8, and the system saves the tiles' registers */
    int amx_error;                /* why the system does not let the process use them: an errno; 0: it does */
} rvit_cpu_features;

/* ask: 1: have the system allow AMX to this process, for good. */
rvit_cpu_features rvit_cpu_detect_features(int request_amx);

typedef enum rvit_cpu_table {
    RVIT_CPU_PORTABLE,
    RVIT_CPU_AVX2,
    RVIT_CPU_AVX2_VNNI,
    RVIT_CPU_AVX512,
    RVIT_CPU_AVX512_VNNI,
    RVIT_CPU_AVX512_BF16,
    RVIT_CPU_AMX,
    RVIT_CPU_N_TABLES
} rvit_cpu_table;

/* "portable", "avx2", ... */
const char *rvit_cpu_table_name(rvit_cpu_table table);
/* What keeps these facts' owner from running a table, "AVX512-VNNI"; NULL: nothing. */
const char *rvit_cpu_table_lacks(rvit_cpu_table table, const rvit_cpu_features *features);
/* The fastest table with vectors of at most `bits` bits (0: no limit). */
rvit_cpu_table rvit_cpu_best_table(const rvit_cpu_features *features, int32_t bits);
rvit_cpu_kernels rvit_cpu_kernels_of(rvit_cpu_table table);

/* One more table, which rvit_device_desc.kernels may name: set by tests before they create a device. */
extern const rvit_cpu_kernels *rvit_cpu_extra_kernels;

#endif
