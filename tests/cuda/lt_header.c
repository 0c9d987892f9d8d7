/* Compares backend_cuda/linear_lt.h with cuBLASLt's own header, if installed, at compile time. */
#include "backend_cuda/linear_lt.h"

#if defined __has_include
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#define EQUAL(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
EQUAL(LT_R_32F, CUDA_R_32F);
EQUAL(LT_R_16F, CUDA_R_16F);
EQUAL(LT_R_16BF, CUDA_R_16BF);
EQUAL(LT_R_E4M3, CUDA_R_8F_E4M3);
EQUAL(LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
EQUAL(LT_OP_T, CUBLAS_OP_T);
EQUAL(LT_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
EQUAL(LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
EQUAL(LT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU);
EQUAL(LT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);
EQUAL(LT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
EQUAL(LT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
EQUAL(LT_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
EQUAL(LT_DESC_BIAS_DATA_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
EQUAL(LT_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
EQUAL(LT_DESC_B_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
EQUAL(LT_DESC_FAST_ACCUM, CUBLASLT_MATMUL_DESC_FAST_ACCUM);
#if CUBLAS_VERSION >= 120900
EQUAL(LT_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
EQUAL(LT_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
EQUAL(LT_SCALE_SCALAR_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
EQUAL(LT_SCALE_OUTER_VEC_32F, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
#endif
EQUAL(LT_PREF_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
EQUAL(LT_PREF_REDUCTION, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
EQUAL(LT_PREF_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
EQUAL(LT_PREF_ALIGNMENT_A + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
EQUAL(LT_PREF_ALIGNMENT_A + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
EQUAL(LT_PREF_ALIGNMENT_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
EQUAL(0, CUBLAS_STATUS_SUCCESS);
EQUAL(LT_ALGO_SPLIT_K, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
EQUAL(LT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

#define SAME_OFFSET(ours, theirs) _Static_assert(offsetof(lt_heuristic, ours) == offsetof(cublasLtMatmulHeuristicResult_t, theirs), #ours)
SAME_OFFSET(algorithm, algo);
SAME_OFFSET(workspace, workspaceSize);
SAME_OFFSET(status, state);
SAME_OFFSET(waves, wavesCount);
SAME_OFFSET(reserved, reserved);
EQUAL(sizeof(lt_heuristic), sizeof(cublasLtMatmulHeuristicResult_t));
EQUAL(sizeof(lt_algorithm), sizeof(cublasLtMatmulAlgo_t));

/* Argument counts and sizes match: enums are ints, handles are pointers. */
EQUAL(sizeof(cudaDataType), sizeof(int));
EQUAL(sizeof(cublasComputeType_t), sizeof(int));
EQUAL(sizeof(cublasStatus_t), sizeof(int));
EQUAL(sizeof(cublasLtMatmulDescAttributes_t), sizeof(int));
EQUAL(sizeof(cublasLtMatmulPreferenceAttributes_t), sizeof(int));
EQUAL(sizeof(cublasLtHandle_t), sizeof(void *));
EQUAL(sizeof(cudaStream_t), sizeof(CUstream));
_Static_assert(_Generic(&cublasLtMatmul,
                        cublasStatus_t (*)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t,
                                           const void *, cublasLtMatrixLayout_t, const void *, const void *, cublasLtMatrixLayout_t, void *,
                                           cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t) : 1,
                        default : 0),
               "cublasLtMatmul");
_Static_assert(_Generic(&cublasLtMatmulAlgoGetHeuristic,
                        cublasStatus_t (*)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                           cublasLtMatmulHeuristicResult_t *, int *) : 1,
                        default : 0),
               "cublasLtMatmulAlgoGetHeuristic");
_Static_assert(_Generic(&cublasLtMatmulAlgoConfigGetAttribute,
                        cublasStatus_t (*)(const cublasLtMatmulAlgo_t *, cublasLtMatmulAlgoConfigAttributes_t, void *, size_t,
                                           size_t *) : 1,
                        default : 0),
               "cublasLtMatmulAlgoConfigGetAttribute");
_Static_assert(_Generic(&cublasLtMatrixLayoutCreate,
                        cublasStatus_t (*)(cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t) : 1, default : 0),
               "cublasLtMatrixLayoutCreate");
_Static_assert(_Generic(&cublasLtMatmulDescCreate, cublasStatus_t (*)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t) : 1,
                        default : 0),
               "cublasLtMatmulDescCreate");
_Static_assert(_Generic(&cublasLtMatmulDescSetAttribute,
                        cublasStatus_t (*)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t) : 1, default : 0),
               "cublasLtMatmulDescSetAttribute");
_Static_assert(_Generic(&cublasLtMatmulPreferenceSetAttribute,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t) : 1,
                        default : 0),
               "cublasLtMatmulPreferenceSetAttribute");
#endif
#endif
