/* An emulation of libcublasLt.so.13 for the emulated driver: the functions that the backend calls, as strict as their documentation.
   GEMMs are computed on the CPU when their stream reaches them. A mistake prints a line on standard error and returns the library's
   error. Tests can query rvit_emulation_gemms and rvit_emulation_lt_reports. */
#include <cublasLt.h>

#include <cuda.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmath>
#include <list>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/half.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

#define TRY(call)                             \
    do {                                      \
        const cublasStatus_t status = (call); \
        if (status != CUBLAS_STATUS_SUCCESS)  \
            return status;                    \
    } while (0)

namespace
{
const uint64_t ALGORITHM = 0x6c74616c676f0001u;
const size_t ALGORITHM_WORKSPACE = 1 << 20;

struct matmul_desc {
    cublasComputeType_t compute;
    cudaDataType scale;
    int32_t transpose_a, transpose_b, bias_type;
    uint32_t epilogue;
    const void *bias;
    int32_t scale_mode[2]; /* of A and B */
    const void *scales[2];
    int8_t fast;
};

struct layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t stride;
};

struct preference {
    uint64_t workspace;
    uint32_t reduction, alignment[4];
};

struct matrix {
    const char *data;
    layout shape;
};

/* A pending GEMM. It is never destroyed, because a graph may run it repeatedly. */
struct job {
    matrix a, b, c;
    char *d;
    layout d_shape;
    bool transpose_a, transpose_b;
    float alpha, beta;
    bool gelu;
    const char *bias;
    cudaDataType bias_type;
    const float *scales[2]; /* of the rows of op(A) and columns of op(B); nullptr: none */
    bool one_scale;
};

struct driver {
    __typeof__(cuLaunchHostFunc) *launch;
    int (*holds)(const void *address, size_t size);
};

struct library_state {
    std::mutex lock;
    std::set<const void *> handles;
    std::set<matmul_desc *> descs;
    std::set<layout *> layouts;
    std::set<preference *> preferences;
    std::list<job> jobs;
    driver cuda = {nullptr, nullptr};
    long long gemms = 0;
    int reports = 0, algorithms = 1;
};

library_state &state()
{
    static library_state *const s = new library_state();
    return *s;
}

__attribute__((format(printf, 2, 3))) cublasStatus_t refuse(cublasStatus_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("cuBLASLt emulation: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    state().reports++;
    return status;
}

size_t size_of(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : type == CUDA_R_8F_E4M3 ? 1 : 0;
}

float load(cudaDataType type, const char *data, size_t i)
{
    if (type == CUDA_R_32F) {
        float x;
        memcpy(&x, data + i * 4, 4);
        return x;
    }
    if (type == CUDA_R_8F_E4M3)
        return emu::e4m3_to_f32((uint8_t)data[i]);
    uint16_t bits;
    memcpy(&bits, data + i * 2, 2);
    return type == CUDA_R_16F ? emu::f16_to_f32(bits) : emu::bf16_to_f32(bits);
}

void store(cudaDataType type, char *data, size_t i, float x)
{
    if (type == CUDA_R_32F) {
        memcpy(data + i * 4, &x, 4);
        return;
    }
    const uint16_t bits = type == CUDA_R_16F ? emu::f32_to_f16(x) : emu::f32_to_bf16(x);
    memcpy(data + i * 2, &bits, 2);
}

/* Column-major. */
float element(const matrix &m, bool transposed, uint64_t row, uint64_t column)
{
    const uint64_t r = transposed ? column : row, c = transposed ? row : column;
    return load(m.shape.type, m.data, r + c * (uint64_t)m.shape.stride);
}

/* The rows of op(A) or columns of op(B), contiguous. */
std::vector<float> lines_of(const matrix &m, bool transposed, bool rows, uint64_t n, uint64_t length)
{
    std::vector<float> lines(n * length);
    for (uint64_t line = 0; line < n; line++)
        for (uint64_t i = 0; i < length; i++)
            lines[line * length + i] = rows ? element(m, transposed, line, i) : element(m, transposed, i, line);
    return lines;
}

float dot(const float *x, const float *y, uint64_t n)
{
    float sums[8] = {0};
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; lane++)
            sums[lane] += x[i + (uint64_t)lane] * y[i + (uint64_t)lane];
    for (; i < n; i++)
        sums[i % 8] += x[i] * y[i];
    return (sums[0] + sums[4] + (sums[1] + sums[5])) + (sums[2] + sums[6] + (sums[3] + sums[7]));
}

void multiply(const job &j)
{
    const uint64_t inner = j.transpose_a ? j.a.shape.rows : j.a.shape.columns, rows = j.d_shape.rows, columns = j.d_shape.columns;
    const std::vector<float> a = lines_of(j.a, j.transpose_a, true, rows, inner);
    const std::vector<float> b = lines_of(j.b, j.transpose_b, false, columns, inner);
    for (uint64_t column = 0; column < columns; column++)
        for (uint64_t row = 0; row < rows; row++) {
            float sum = j.alpha * dot(a.data() + row * inner, b.data() + column * inner, inner);
            if (j.scales[0] != nullptr)
                sum *= j.scales[0][j.one_scale ? 0 : row] * j.scales[1][j.one_scale ? 0 : column];
            if (j.beta != 0.0f) /* with 0, C is not read */
                sum += j.beta * element(j.c, false, row, column);
            if (j.bias != nullptr)
                sum += load(j.bias_type, j.bias, row);
            if (j.gelu)
                sum = 0.5f * sum * (1.0f + std::tanh(0.797884561f * (sum + 0.044715f * sum * sum * sum)));
            store(j.d_shape.type, j.d, row + column * (uint64_t)j.d_shape.stride, sum);
        }
}

void CUDA_CB run(void *data)
{
    multiply(*static_cast<const job *>(data));
}

template <typename T> cublasStatus_t create(std::set<T *> &set, T **out, const T &value)
{
    if (out == nullptr)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "the output pointer is null");
    *out = new T(value);
    set.insert(*out);
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> cublasStatus_t destroy(std::set<T *> &set, void *object, const char *what)
{
    T *const typed = static_cast<T *>(object);
    if (set.erase(typed) == 0)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s %p does not exist or was destroyed", what, object);
    delete typed;
    return CUBLAS_STATUS_SUCCESS;
}

/* Copies an attribute after checking its size. */
cublasStatus_t set_attribute(void *to, size_t size, const void *value, size_t value_size, const char *name)
{
    if (value == nullptr || value_size != size)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s has %zu bytes, expected %zu", name, value_size, size);
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

bool is_power_of_2(uint32_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

bool adds_bias(const matmul_desc *desc)
{
    return desc->epilogue == CUBLASLT_EPILOGUE_BIAS || desc->epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
}

/* Whether the device multiplies e4m3: with per-row scales on 9.0, with one scale from 8.9 on. */
bool multiplies_e4m3(const matmul_desc *desc)
{
    const char *const text = getenv("RVIT_EMU_ARCH");
    const int architecture = text == nullptr ? 89 : atoi(text);
    return architecture == 90 || (architecture >= 89 && desc->scale_mode[0] == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
}

/* For e4m3: scales per row and column, or one for all. */
cublasStatus_t check_scales(const matmul_desc *desc, const layout *a, const layout *b, const layout *d)
{
    const bool is_e4m3 = a->type == CUDA_R_8F_E4M3;
    for (int i = 0; i < 2; i++) {
        if (!is_e4m3 && (desc->scales[i] != nullptr || desc->scale_mode[i] != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F))
            return refuse(CUBLAS_STATUS_INVALID_VALUE, "scales for a matrix of type %d", a->type);
        if (is_e4m3 && (desc->scales[i] == nullptr || desc->scale_mode[i] != desc->scale_mode[0]))
            return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "e4m3 without scales");
    }
    if (is_e4m3 && (desc->transpose_a != CUBLAS_OP_T || desc->transpose_b != CUBLAS_OP_N || a->rows % 16 != 0 || a->stride % 16 != 0 ||
                    b->stride % 16 != 0 || (uint64_t)d->stride * size_of(d->type) % 16 != 0))
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "e4m3: A is transposed, B is not, and columns are multiples of 16 bytes");
    return CUBLAS_STATUS_SUCCESS;
}

/* Whether the library supports this configuration with float32 accumulation. */
cublasStatus_t check_problem(const matmul_desc *desc, const layout *a, const layout *b, const layout *c, const layout *d)
{
    library_state &s = state();
    if (s.descs.count(const_cast<matmul_desc *>(desc)) == 0)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "invalid descriptor");
    for (const layout *l : {a, b, c, d})
        if (s.layouts.count(const_cast<layout *>(l)) == 0)
            return refuse(CUBLAS_STATUS_INVALID_VALUE, "invalid layout");
    const bool ta = desc->transpose_a == CUBLAS_OP_T, tb = desc->transpose_b == CUBLAS_OP_T;
    const uint64_t m = ta ? a->columns : a->rows, k = ta ? a->rows : a->columns;
    const uint64_t k_of_b = tb ? b->columns : b->rows, n = tb ? b->rows : b->columns;
    if (k != k_of_b || c->rows != m || c->columns != n || d->rows != m || d->columns != n)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "the shapes of the matrices do not match");
    if (desc->compute != CUBLAS_COMPUTE_32F || desc->scale != CUDA_R_32F || a->type != b->type || c->type != d->type ||
        (d->type != a->type && d->type != CUDA_R_32F && a->type != CUDA_R_8F_E4M3) || d->type == CUDA_R_8F_E4M3)
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "types %d x %d + %d -> %d", a->type, b->type, c->type, d->type);
    TRY(check_scales(desc, a, b, d));
    if (adds_bias(desc)) {
        /* -1: the type of D; bfloat16 for 8-bit inputs with a float32 D. */
        const int32_t wanted = a->type == CUDA_R_8F_E4M3 && d->type == CUDA_R_32F ? CUDA_R_16BF : d->type;
        if (desc->bias_type != wanted && (desc->bias_type != -1 || wanted != d->type))
            return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "a bias of type %d for an output of type %d", desc->bias_type, d->type);
    } else if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT && desc->epilogue != CUBLASLT_EPILOGUE_GELU) {
        return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "epilogue %u", desc->epilogue);
    }
    return CUBLAS_STATUS_SUCCESS;
}

uint64_t fingerprint(const matmul_desc *desc, const layout *a, const layout *b, const layout *c, const layout *d)
{
    uint64_t h = 1469598103934665603u;
    const auto mix = [&h](uint64_t x) { h = (h ^ x) * 1099511628211u; };
    mix((uint64_t)desc->transpose_a), mix((uint64_t)desc->transpose_b), mix(desc->epilogue);
    for (const layout *l : {a, b, c, d})
        mix((uint64_t)l->type), mix(l->rows), mix(l->columns), mix((uint64_t)l->stride);
    return h;
}

uint64_t bytes_of(const layout &l)
{
    return ((l.columns - 1) * (uint64_t)l.stride + l.rows) * size_of(l.type);
}

cublasStatus_t check_array(const char *name, const void *p, uint64_t bytes, uint64_t alignment)
{
    if ((uintptr_t)p % alignment != 0)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s is at %p, expected a multiple of %llu for this algorithm", name, p,
                      (unsigned long long)alignment);
    if (!state().cuda.holds(p, bytes))
        return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "%s: %llu bytes at %p are not within an allocation", name, (unsigned long long)bytes,
                      p);
    return CUBLAS_STATUS_SUCCESS;
}

bool open_driver()
{
    driver &d = state().cuda;
    if (d.launch == nullptr) {
        void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr)
            return false;
        d.holds = reinterpret_cast<int (*)(const void *, size_t)>(dlsym(library, "rvit_emulation_holds"));
        d.launch = reinterpret_cast<__typeof__(cuLaunchHostFunc) *>(dlsym(library, "cuLaunchHostFunc"));
    }
    return d.launch != nullptr && d.holds != nullptr;
}

} // namespace

EXPORT void rvit_emulation_algorithms(int n)
{
    const std::lock_guard<std::mutex> held(state().lock);
    state().algorithms = n;
}

EXPORT long long rvit_emulation_gemms()
{
    const std::lock_guard<std::mutex> held(state().lock);
    return state().gemms;
}

EXPORT int rvit_emulation_lt_reports()
{
    const std::lock_guard<std::mutex> held(state().lock);
    return state().reports;
}

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    library_state &s = state();
    const std::lock_guard<std::mutex> held(s.lock);
    if (handle == nullptr)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "cublasLtCreate: no handle");
    if (!open_driver())
        return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "the driver is not the emulated one");
    *handle = reinterpret_cast<cublasLtHandle_t>(new char);
    s.handles.insert(*handle);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    library_state &s = state();
    const std::lock_guard<std::mutex> held(s.lock);
    if (s.handles.erase(handle) == 0)
        return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "cublasLtDestroy: no such handle");
    delete reinterpret_cast<char *>(handle);
    if (s.handles.empty() && s.descs.size() + s.layouts.size() + s.preferences.size() > 0)
        return refuse(CUBLAS_STATUS_SUCCESS, "%zu descriptors, layouts and preferences were not destroyed before the last handle",
                      s.descs.size() + s.layouts.size() + s.preferences.size());
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType scale)
{
    const std::lock_guard<std::mutex> held(state().lock);
    return create(state().descs, reinterpret_cast<matmul_desc **>(desc),
                  {compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, -1, CUBLASLT_EPILOGUE_DEFAULT, nullptr, {0, 0}, {nullptr, nullptr}, 0});
}

EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    const std::lock_guard<std::mutex> held(state().lock);
    return destroy(state().descs, desc, "descriptor");
}

EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value,
                                                     size_t size)
{
    const std::lock_guard<std::mutex> held(state().lock);
    matmul_desc *const d = reinterpret_cast<matmul_desc *>(desc);
    if (state().descs.count(d) == 0)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "invalid descriptor");
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set_attribute(&d->transpose_a, 4, value, size, "TRANSA");
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set_attribute(&d->transpose_b, 4, value, size, "TRANSB");
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set_attribute(&d->epilogue, 4, value, size, "EPILOGUE");
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set_attribute(&d->bias, sizeof d->bias, value, size, "BIAS_POINTER");
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return set_attribute(&d->bias_type, 4, value, size, "BIAS_DATA_TYPE");
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
        return set_attribute(&d->scale_mode[0], 4, value, size, "A_SCALE_MODE");
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
        return set_attribute(&d->scale_mode[1], 4, value, size, "B_SCALE_MODE");
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
        return set_attribute(&d->scales[0], sizeof d->scales[0], value, size, "A_SCALE_POINTER");
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
        return set_attribute(&d->scales[1], sizeof d->scales[1], value, size, "B_SCALE_POINTER");
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
        return set_attribute(&d->fast, 1, value, size, "FAST_ACCUM");
    default:
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "attribute %d of a descriptor is not emulated", (int)attribute);
    }
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t stride)
{
    const std::lock_guard<std::mutex> held(state().lock);
    if (size_of(type) == 0 || rows == 0 || columns == 0 || stride < (int64_t)rows)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "a layout of type %d, %llu x %llu, columns %lld apart", type, (unsigned long long)rows,
                      (unsigned long long)columns, (long long)stride);
    return create(state().layouts, reinterpret_cast<layout **>(out), {type, rows, columns, stride});
}

EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t object)
{
    const std::lock_guard<std::mutex> held(state().lock);
    return destroy(state().layouts, object, "layout");
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    const std::lock_guard<std::mutex> held(state().lock);
    return create(state().preferences, reinterpret_cast<preference **>(out), {0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}});
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t object)
{
    const std::lock_guard<std::mutex> held(state().lock);
    return destroy(state().preferences, object, "preference");
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t object,
                                                           cublasLtMatmulPreferenceAttributes_t attribute, const void *value, size_t size)
{
    const std::lock_guard<std::mutex> held(state().lock);
    preference *const p = reinterpret_cast<preference *>(object);
    if (state().preferences.count(p) == 0)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "invalid preference");
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set_attribute(&p->workspace, 8, value, size, "MAX_WORKSPACE_BYTES");
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set_attribute(&p->reduction, 4, value, size, "REDUCTION_SCHEME_MASK");
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: {
        uint32_t *const to = &p->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
        TRY(set_attribute(to, 4, value, size, "MIN_ALIGNMENT"));
        return is_power_of_2(*to) ? CUBLAS_STATUS_SUCCESS : refuse(CUBLAS_STATUS_INVALID_VALUE, "an alignment of %u", *to);
    }
    default:
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "attribute %d of a preference is not emulated", (int)attribute);
    }
}

/* Returns one algorithm, or as many equal ones as rvit_emulation_algorithms requested. They need all of the promised alignment, and a
   workspace if allowed. */
EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                     cublasLtMatmulPreference_t object, int wanted,
                                                     cublasLtMatmulHeuristicResult_t results[], int *out_found)
{
    const std::lock_guard<std::mutex> held(state().lock);
    const preference *const p = reinterpret_cast<preference *>(object);
    if (state().handles.count(handle) == 0)
        return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no such handle");
    if (wanted < 1 || results == nullptr || out_found == nullptr || state().preferences.count(const_cast<preference *>(p)) == 0)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "a search for algorithms without a preference or without space for results");
    *out_found = 0;
    const matmul_desc *const pd = reinterpret_cast<matmul_desc *>(desc);
    const layout *const layouts[4] = {reinterpret_cast<layout *>(a), reinterpret_cast<layout *>(b), reinterpret_cast<layout *>(c),
                                      reinterpret_cast<layout *>(d)};
    TRY(check_problem(pd, layouts[0], layouts[1], layouts[2], layouts[3]));
    if ((p->reduction & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0)
        return refuse(CUBLAS_STATUS_SUCCESS, "split-K with an unspecified order of summation: a row's bits would depend on chance");
    if (layouts[0]->type == CUDA_R_8F_E4M3 && !multiplies_e4m3(pd))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (adds_bias(pd) && pd->bias == nullptr)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "the bias must be set before the search, because of its alignment");
    cublasLtMatmulHeuristicResult_t result = {};
    result.algo.data[0] = ALGORITHM;
    result.algo.data[1] = fingerprint(pd, layouts[0], layouts[1], layouts[2], layouts[3]);
    result.algo.data[2] =
        p->alignment[0] | (uint64_t)p->alignment[1] << 16 | (uint64_t)p->alignment[2] << 32 | (uint64_t)p->alignment[3] << 48;
    result.workspaceSize = p->workspace < ALGORITHM_WORKSPACE ? 0 : ALGORITHM_WORKSPACE;
    result.algo.data[3] = result.workspaceSize;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1.0f;
    for (int i = 0; i < wanted && i < state().algorithms; i++) {
        result.algo.data[4] = (uint64_t)i;
        results[i] = result;
        *out_found = i + 1;
    }
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                           cublasLtMatmulAlgoConfigAttributes_t attribute, void *value, size_t size,
                                                           size_t *out_size)
{
    const int32_t parts = 1;
    if (algorithm == nullptr || algorithm->data[0] != ALGORITHM)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "attributes without an algorithm");
    if (attribute != CUBLASLT_ALGO_CONFIG_SPLITK_NUM || value == nullptr || size != sizeof parts || out_size == nullptr)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "attribute %d of an algorithm, %zu bytes", (int)attribute, size);
    memcpy(value, &parts, sizeof parts);
    *out_size = sizeof parts;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                                     cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                                     const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_size, cudaStream_t stream)
{
    library_state &s = state();
    const std::lock_guard<std::mutex> held(s.lock);
    if (s.handles.count(handle) == 0)
        return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no such handle");
    const matmul_desc *const pd = reinterpret_cast<matmul_desc *>(desc);
    const layout *const la = reinterpret_cast<layout *>(a_layout), *const lb = reinterpret_cast<layout *>(b_layout),
                        *const lc = reinterpret_cast<layout *>(c_layout), *const ld = reinterpret_cast<layout *>(d_layout);
    TRY(check_problem(pd, la, lb, lc, ld));
    if (alpha == nullptr || beta == nullptr || algorithm == nullptr)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "alpha, beta or the algorithm is missing");
    if (algorithm->data[0] != ALGORITHM || algorithm->data[1] != fingerprint(pd, la, lb, lc, ld))
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "the algorithm was not chosen for this problem");
    job j = {{static_cast<const char *>(a), *la},
             {static_cast<const char *>(b), *lb},
             {static_cast<const char *>(c), *lc},
             static_cast<char *>(d),
             *ld,
             pd->transpose_a == CUBLAS_OP_T,
             pd->transpose_b == CUBLAS_OP_T,
             0.0f,
             0.0f,
             false,
             nullptr,
             pd->bias_type == -1 ? ld->type : (cudaDataType)pd->bias_type,
             {static_cast<const float *>(pd->scales[0]), static_cast<const float *>(pd->scales[1])},
             pd->scale_mode[0] == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F};
    memcpy(&j.alpha, alpha, 4);
    memcpy(&j.beta, beta, 4);
    const uint64_t alignments = algorithm->data[2];
    TRY(check_array("A", a, bytes_of(*la), alignments & 0xffff));
    TRY(check_array("B", b, bytes_of(*lb), alignments >> 16 & 0xffff));
    if (j.beta != 0.0f)
        TRY(check_array("C", c, bytes_of(*lc), alignments >> 32 & 0xffff));
    TRY(check_array("D", d, bytes_of(*ld), alignments >> 48));
    if (c == d && memcmp(lc, ld, sizeof *lc) != 0)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "C and D are the same memory, but have different layouts");
    j.gelu = pd->epilogue == CUBLASLT_EPILOGUE_GELU || pd->epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
    if (adds_bias(pd)) {
        TRY(check_array("the bias", pd->bias, ld->rows * size_of(j.bias_type), 16));
        j.bias = static_cast<const char *>(pd->bias);
    }
    if (j.scales[0] != nullptr) {
        TRY(check_array("A's scales", j.scales[0], j.one_scale ? 4 : ld->rows * 4, j.one_scale ? 4 : 16));
        TRY(check_array("B's scales", j.scales[1], j.one_scale ? 4 : ld->columns * 4, j.one_scale ? 4 : 16));
    }
    const size_t needed = algorithm->data[3];
    if (workspace_size < needed)
        return refuse(CUBLAS_STATUS_INVALID_VALUE, "a workspace of %zu bytes, the algorithm needs %zu", workspace_size, needed);
    if (needed > 0)
        TRY(check_array("the workspace", workspace, workspace_size, 16));
    s.jobs.push_back(j);
    s.gemms++;
    const CUresult result = s.cuda.launch(reinterpret_cast<CUstream>(stream), run, &s.jobs.back());
    if (result != CUDA_SUCCESS)
        return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "enqueueing failed: %d", (int)result);
    return CUBLAS_STATUS_SUCCESS;
}
