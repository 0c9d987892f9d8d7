/* Tests of the cuBLASLt emulation: its GEMMs, and its refusals. Each refusal is one change to a valid GEMM. */
#include <cublasLt.h>

#include "session.h"

int failures = 0;

extern "C" long long rvit_emulation_gemms(void);
extern "C" int rvit_emulation_lt_reports(void);

namespace
{
enum { M = 3, N = 2, K = 4 }; /* out [N, M] = x [N, K] weight [M, K]^T, row-major, which is the transpose in column-major order */

enum change {
    NOTHING,
    SMALL_ATTRIBUTE,
    UNKNOWN_ATTRIBUTE,
    BIAS_OF_ANOTHER_TYPE,
    RELU,
    SPLIT_SUMS,
    OTHER_SHAPE,
    TIGHT_LAYOUT,
    SMALL_WORKSPACE,
    UNALIGNED,
    TOO_SHORT,
    FOREIGN_ALGORITHM,
    DEFAULT_STREAM,
    N_CHANGES
};

struct problem {
    cublasLtHandle_t handle = nullptr;
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t weight = nullptr, x = nullptr, out = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulHeuristicResult_t found = {};
};

/* The first error, or the result of the GEMM. */
cublasStatus_t multiply(session &s, change c, float *a, float *b, const float *bias, float *d, void *workspace, size_t workspace_size)
{
    problem p;
    cublasStatus_t first = CUBLAS_STATUS_SUCCESS;
    const auto note = [&first](cublasStatus_t status) {
        if (first == CUBLAS_STATUS_SUCCESS)
            first = status;
    };
    const int32_t transpose = CUBLAS_OP_T, type = c == BIAS_OF_ANOTHER_TYPE ? CUDA_R_16F : CUDA_R_32F;
    const uint32_t epilogue = c == RELU ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    const uint32_t reduction = c == SPLIT_SUMS ? CUBLASLT_REDUCTION_SCHEME_MASK : 0, alignment = 16;
    const uint64_t most = workspace_size;
    note(cublasLtCreate(&p.handle));
    note(cublasLtMatmulDescCreate(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    note(cublasLtMatmulDescSetAttribute(p.desc, c == UNKNOWN_ATTRIBUTE ? CUBLASLT_MATMUL_DESC_COMPUTE_TYPE : CUBLASLT_MATMUL_DESC_TRANSA,
                                        &transpose, c == SMALL_ATTRIBUTE ? 1 : 4));
    note(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4));
    note(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, 4));
    note(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    note(cublasLtMatrixLayoutCreate(&p.weight, CUDA_R_32F, K, M, c == TIGHT_LAYOUT ? K - 1 : K));
    note(cublasLtMatrixLayoutCreate(&p.x, CUDA_R_32F, K, c == OTHER_SHAPE ? N + 1 : N, K));
    note(cublasLtMatrixLayoutCreate(&p.out, CUDA_R_32F, M, N, M));
    note(cublasLtMatmulPreferenceCreate(&p.preference));
    note(cublasLtMatmulPreferenceSetAttribute(p.preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, 8));
    note(cublasLtMatmulPreferenceSetAttribute(p.preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, 4));
    for (int i = 0; i < 4; i++)
        note(cublasLtMatmulPreferenceSetAttribute(
            p.preference, (cublasLtMatmulPreferenceAttributes_t)(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i), &alignment, 4));
    int n = 0;
    if (first == CUBLAS_STATUS_SUCCESS)
        note(cublasLtMatmulAlgoGetHeuristic(p.handle, p.desc, p.weight, p.x, p.out, p.out, p.preference, 1, &p.found, &n));
    if (first == CUBLAS_STATUS_SUCCESS && n == 1) {
        const float one = 1.0f, zero = 0.0f;
        if (c == FOREIGN_ALGORITHM)
            p.found.algo.data[1]++;
        note(cublasLtMatmul(p.handle, p.desc, &one, a, p.weight, c == UNALIGNED ? b + 1 : b, p.x, &zero, d, p.out, d, p.out, &p.found.algo,
                            workspace, c == SMALL_WORKSPACE ? workspace_size / 2 : workspace_size,
                            reinterpret_cast<cudaStream_t>(c == DEFAULT_STREAM ? nullptr : s.stream)));
    } else if (first == CUBLAS_STATUS_SUCCESS) {
        first = CUBLAS_STATUS_NOT_SUPPORTED;
    }
    for (cublasLtMatrixLayout_t l : {p.weight, p.x, p.out})
        if (l != nullptr)
            cublasLtMatrixLayoutDestroy(l);
    cublasLtMatmulPreferenceDestroy(p.preference);
    cublasLtMatmulDescDestroy(p.desc);
    cublasLtDestroy(p.handle);
    return first;
}

std::vector<float> wanted(const std::vector<float> &weight, const std::vector<float> &x, const std::vector<float> &bias)
{
    std::vector<float> out(N * M);
    for (int n = 0; n < N; n++)
        for (int m = 0; m < M; m++) {
            out[(size_t)(n * M + m)] = bias[(size_t)m];
            for (int k = 0; k < K; k++)
                out[(size_t)(n * M + m)] += weight[(size_t)(m * K + k)] * x[(size_t)(n * K + k)];
        }
    return out;
}
} // namespace

int main()
{
    session s;
    std::vector<float> weight(M * K), x(N * K), bias(M);
    for (size_t i = 0; i < weight.size(); i++)
        weight[i] = (float)i - 5.0f;
    for (size_t i = 0; i < x.size(); i++)
        x[i] = (float)(i * i) - 7.0f;
    for (size_t i = 0; i < bias.size(); i++)
        bias[i] = 100.0f * (float)i;
    const size_t room = 1 << 20;
    float *a = s.device(weight), *b = s.device(x), *v = s.device(bias), *d = s.device<float>(N * M),
          *too_short = s.device<float>(N * M - 1);
    char *workspace = s.device<char>(room);
    for (int c = NOTHING; c < N_CHANGES; c++) {
        const int reports = rvit_emulation_lt_reports();
        const long long gemms = rvit_emulation_gemms();
        const cublasStatus_t status = multiply(s, (change)c, a, b, v, c == TOO_SHORT ? too_short : d, workspace, room);
        const bool is_fine = c == NOTHING;
        /* Split-K is valid in the library, but this project does not use it. */
        CHECK((status == CUBLAS_STATUS_SUCCESS) == is_fine);
        CHECK((rvit_emulation_lt_reports() == reports) == is_fine);
        CHECK(rvit_emulation_gemms() - gemms == (is_fine || c == DEFAULT_STREAM));
        if (is_fine)
            CHECK(s.host(d, N * M) == wanted(weight, x, bias));
        if (failures > 0) {
            fprintf(stderr, "change %d\n", c);
            break;
        }
    }
    if (failures == 0)
        printf("passed\n");
    return failures != 0;
}
