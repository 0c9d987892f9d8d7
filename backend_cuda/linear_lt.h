/* The part of cuBLASLt that is used: constants, structs, functions. The build does not need its headers; tests/cuda/lt_header.c compares
   with them where they are installed. */
#ifndef RVIT_CU_LINEAR_LT_H
#define RVIT_CU_LINEAR_LT_H

#include <cuda.h>

#include <stddef.h>
#include <stdint.h>

enum {
    LT_R_32F = 0,
    LT_R_16F = 2,
    LT_R_16BF = 14,
    LT_R_E4M3 = 28,
    LT_COMPUTE_32F = 68,
    LT_OP_T = 1,
    LT_EPILOGUE_NONE = 1,
    LT_EPILOGUE_BIAS = 4,
    LT_EPILOGUE_GELU = 32, /* tanh approximation */
    LT_EPILOGUE_GELU_BIAS = 36,
    LT_REDUCTION_COMPUTE_TYPE = 2,
    LT_ALGO_SPLIT_K = 2,
    LT_DESC_TRANSA = 3,
    LT_DESC_EPILOGUE = 7,
    LT_DESC_BIAS_POINTER = 8,
    LT_DESC_A_SCALE_POINTER = 17,
    LT_DESC_B_SCALE_POINTER = 18,
    LT_DESC_FAST_ACCUM = 25, /* e4m3 */
    LT_DESC_BIAS_DATA_TYPE = 26,
    LT_DESC_A_SCALE_MODE = 31,
    LT_DESC_B_SCALE_MODE = 32,
    LT_SCALE_SCALAR_32F = 0,
    LT_SCALE_OUTER_VEC_32F = 3, /* float32, one per row of weight and one per row of x; since cuBLAS 12.9 */
    LT_PREF_WORKSPACE = 1,
    LT_PREF_REDUCTION = 3,
    LT_PREF_ALIGNMENT_A = 5 /* then B, C, D */
};

typedef struct lt_algorithm {
    uint64_t data[8];
} lt_algorithm;

typedef struct lt_heuristic {
    lt_algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} lt_heuristic;

typedef struct lt_functions {
    int (*cublasLtCreate)(void **handle);
    int (*cublasLtDestroy)(void *handle);
    int (*cublasLtMatmulDescCreate)(void **desc, int compute_type, int scale_type);
    int (*cublasLtMatmulDescDestroy)(void *desc);
    int (*cublasLtMatmulDescSetAttribute)(void *desc, int attribute, const void *value, size_t size);
    int (*cublasLtMatrixLayoutCreate)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
    int (*cublasLtMatrixLayoutDestroy)(void *layout);
    int (*cublasLtMatmulPreferenceCreate)(void **preference);
    int (*cublasLtMatmulPreferenceDestroy)(void *preference);
    int (*cublasLtMatmulPreferenceSetAttribute)(void *preference, int attribute, const void *value, size_t size);
    int (*cublasLtMatmulAlgoGetHeuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,
                                          lt_heuristic *results, int *out_found);
    int (*cublasLtMatmulAlgoConfigGetAttribute)(const lt_algorithm *algorithm, int attribute, void *value, size_t size, size_t *out_size);
    int (*cublasLtMatmul)(void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,
                          const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const lt_algorithm *algorithm,
                          void *workspace, size_t workspace_size, CUstream stream);
} lt_functions;

#endif
