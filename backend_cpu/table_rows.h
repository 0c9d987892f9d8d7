/* The kernel tables of the architecture that is built: tables_x86_64.c, tables_arm64.c or tables_other.c. */
#ifndef RVIT_CPU_TABLE_ROWS_H
#define RVIT_CPU_TABLE_ROWS_H

#include "backend_cpu/kernels.h"

/* Features that the processor has and the system allows. */
enum {
    /* x86-64 */
    RVIT_CPU_AVX2 = 1 << 0,        /* with FMA and F16C */
    RVIT_CPU_AVX_VNNI = 1 << 1,    /* vpdpbusd on 256 bits, without AVX-512 */
    RVIT_CPU_AVX512 = 1 << 2,      /* F, BW, DQ, VL */
    RVIT_CPU_AVX512_VNNI = 1 << 3, /* vpdpbusd on 512 bits */
    RVIT_CPU_AVX512_BF16 = 1 << 4, /* vdpbf16ps */
    RVIT_CPU_FAST_BF16 =
        1 << 5,            /* not Intel's vdpbf16ps: it takes four times as long as a float multiply-add, and so twice as long per float */
    RVIT_CPU_AMX = 1 << 6, /* TILE, BF16, INT8, and the system saves the tiles' registers */
    RVIT_CPU_AMX_ALLOWED = 1 << 7, /* the system lets the process use AMX */
    /* arm64 */
    RVIT_CPU_DOTPROD = 1 << 8, /* sdot */
    RVIT_CPU_I8MM = 1 << 9,    /* smmla */
    RVIT_CPU_BF16 = 1 << 10    /* bfdot, bfmmla */
};

typedef struct rvit_cpu_features {
    uint32_t has;
    int amx_error; /* an errno if the system does not let the process use AMX; else 0 */
} rvit_cpu_features;

typedef struct rvit_cpu_table {
    const char *name; /* "avx512_vnni" */
    int bits;         /* of its vectors */
    uint32_t needs;   /* features */
    uint32_t wants;   /* features without which it is slower than the tables before it */
    const rvit_cpu_kernels *base;
    void (*fill)(rvit_cpu_kernels *kernels); /* replaces those of base; or NULL */
} rvit_cpu_table;

/* The slowest one first, which runs on every processor of the architecture. */
extern const rvit_cpu_table rvit_cpu_tables[];
extern const int rvit_cpu_n_tables;

/* request_amx 1: asks the system to allow AMX to this process; this cannot be undone. */
rvit_cpu_features rvit_cpu_detect_features(int request_amx);

#endif
