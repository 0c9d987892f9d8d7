/* Chooses the kernels for a processor. Each table has all kernels; later tables need more features. */
#ifndef RVIT_CPU_TABLES_H
#define RVIT_CPU_TABLES_H

#include "backend_cpu/kernels.h"

/* Features that the processor has and the system allows. A feature is set only if all earlier features that its kernels use are set. */
typedef struct rvit_cpu_features {
    int avx2;                     /* with FMA and F16C */
    int avx_vnni;                 /* vpdpbusd on 256 bits, without AVX-512 */
    int avx512;                   /* F, BW, DQ, VL */
    int avx512_vnni, avx512_bf16; /* vpdpbusd on 512 bits; vdpbf16ps */
    int intel;                    /* its vdpbf16ps takes four times as long as a float multiply-add, and so twice as long per float */
    int amx;                      /* TILE, BF16, INT8, and the system saves the tiles' registers */
    int amx_error;                /* an errno if the system does not let the process use AMX; else 0 */
} rvit_cpu_features;

/* request_amx 1: asks the system to allow AMX to this process; this cannot be undone. */
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
/* The feature that is missing for a table, "AVX512-VNNI"; NULL: none. */
const char *rvit_cpu_table_lacks(rvit_cpu_table table, const rvit_cpu_features *features);
/* The fastest table whose vectors have at most `bits` bits (0: no limit). */
rvit_cpu_table rvit_cpu_best_table(const rvit_cpu_features *features, int32_t bits);
rvit_cpu_kernels rvit_cpu_kernels_of(rvit_cpu_table table);

/* An additional table that rvit_device_desc.kernels can name; tests set it before they create a device. */
extern const rvit_cpu_kernels *rvit_cpu_extra_kernels;

#endif
