/* GEMMs by cuBLASLt, which is opened at run time by the first op that could use it. It accumulates in float32, adds a bias in the output
   type, and adds a residual as matrix C. Its only activation used is tanh GELU; the epilogue kernel computes the others. Rows of e4m3 x
   and weight each have a scale. cuBLASLt applies them per row where it can (compute capability 9.0), or one scale for all rows if the
   session has one, which is faster. Each shape asks for an algorithm once. Gated GEMMs, and shapes without an algorithm, run on the
   backend's own kernels. */
#include "backend_cuda/cu.h"
#include "backend_cuda/linear_lt.h"
#include "core/base/os.h"

#include <string.h>

static const char *const names[] = {
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulAlgoConfigGetAttribute",
    "cublasLtMatmul",
};
enum {
    N_FUNCTIONS = (int)(sizeof names / sizeof names[0]),
    WORKSPACE = 32 << 20,
    MAX_GEMMS = 512,
    CANDIDATES = 8,
    ROUNDS = 4,
    CHOICES = 512
};
_Static_assert(sizeof(lt_functions) == N_FUNCTIONS * sizeof(void (*)(void)), "one function pointer for each name");

/* out^T [n, m] = weight^T x^T + c^T, because cuBLASLt is column-major: our row-major matrices are transposed for it. */
typedef struct shape {
    int64_t m, n, k;
    int32_t dtype, out_dtype, epilogue, has_residual; /* epilogue: a cuBLASLt constant */
    uint32_t alignment;                               /* of all arrays, up to 256 */
    int32_t bias_type, scale_mode;                    /* cuBLASLt constants */
    int32_t unused;                                   /* shapes are compared by memcmp: no padding */
} shape;
_Static_assert(sizeof(shape) == 3 * sizeof(int64_t) + 8 * sizeof(int32_t), "a shape has no gaps");

/* The fastest algorithm measured for a shape. */
typedef struct lt_choice {
    shape key;
    lt_algorithm algorithm;
} lt_choice;

struct rvit_cu_lt {
    rvit_mutex lock;
    int tried;
    void *handle;
    lt_functions functions;
    lt_choice choices[CHOICES];
    int n_choices; /* all that were ever made; new ones replace the oldest */
};

struct rvit_cu_lt_gemm {
    rvit_cu_lt_gemm *next;
    shape key;
    int usable;
    void *desc, *weight, *x, *out;
    lt_algorithm algorithm;
    size_t workspace; /* bytes it needs */
};

rvit_status rvit_cu_lt_open(rvit_cu_device *device)
{
    device->lt = rvit_alloc_new(&device->base.alloc, sizeof *device->lt);
    RVIT_TRY_MEMORY(device->lt);
    rvit_mutex_init(&device->lt->lock);
    return RVIT_OK;
}

void rvit_cu_lt_close(rvit_cu_device *device, int entered)
{
    rvit_cu_lt *lt = device->lt;
    if (lt == NULL)
        return;
    if (lt->handle != NULL && entered)
        (void)lt->functions.cublasLtDestroy(lt->handle);
    rvit_mutex_destroy(&lt->lock);
    rvit_alloc_free(&device->base.alloc, lt);
    device->lt = NULL;
}

static void open_library(rvit_cu_lt *lt)
{
    static const char *const files[] = {RVIT_OS_LIBRARY("libcublasLt.so.13", "libcublasLt.13.dylib", "cublasLt64_13.dll"),
                                        RVIT_OS_LIBRARY("libcublasLt.so.12", "libcublasLt.12.dylib", "cublasLt64_12.dll"), NULL};
    void *functions[N_FUNCTIONS];
    char why_not[192];
    RVIT_SIGNALS_BLOCKED;
    if (rvit_library_open(files, names, N_FUNCTIONS, N_FUNCTIONS, functions, why_not, sizeof why_not) == NULL) {
        rvit_log(RVIT_LOG_INFO, "cuda: GEMMs run without cuBLASLt: %s and %s: %s", files[0], files[1], why_not);
        return;
    }
    memcpy(&lt->functions, functions, sizeof functions);
    const int result = lt->functions.cublasLtCreate(&lt->handle);
    if (result != 0) {
        lt->handle = NULL;
        rvit_log(RVIT_LOG_WARNING, "cuda: cublasLtCreate failed: %d; cuBLASLt is not used", result);
    }
}

/* Opens cuBLASLt if that was not tried before. Each queue checks only once, to avoid the lock. */
static int is_open(rvit_cu_queue *queue)
{
    rvit_cu_lt *lt = queue->device->lt;
    if (!queue->checked_lt) {
        rvit_mutex_lock(&lt->lock);
        if (!lt->tried) {
            lt->tried = 1;
            open_library(lt);
        }
        rvit_mutex_unlock(&lt->lock);
        queue->checked_lt = 1;
    }
    return lt->handle != NULL;
}

static int type_of(rvit_dtype dtype)
{
    return dtype == RVIT_F32 ? LT_R_32F : dtype == RVIT_F16 ? LT_R_16F : dtype == RVIT_BF16 ? LT_R_16BF : LT_R_E4M3;
}

/* The bias in the output type; e4m3 GEMMs with a float32 output need it in bfloat16. */
static void *bias_of(const rvit_cu_queue *queue, const rvit_linear_args *args)
{
    return rvit_cu_at(args->out_dtype == RVIT_F32 && args->dtype != RVIT_E4M3 ? args->bias : queue->hints.narrow_bias);
}

static shape shape_of(const rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_linear_choice *choice)
{
    shape s = {0};
    s.m = args->rows.capacity, s.n = args->out_features, s.k = args->in_features;
    s.dtype = type_of(args->dtype), s.out_dtype = type_of(args->out_dtype);
    s.epilogue = choice->lt_activates   ? choice->lt_adds_bias ? LT_EPILOGUE_GELU_BIAS : LT_EPILOGUE_GELU
                 : choice->lt_adds_bias ? LT_EPILOGUE_BIAS
                                        : LT_EPILOGUE_NONE;
    s.has_residual = args->residual.buffer != NULL;
    s.scale_mode = args->dtype == RVIT_E4M3 && queue->hints.one_scale.buffer == NULL ? LT_SCALE_OUTER_VEC_32F : LT_SCALE_SCALAR_32F;
    s.bias_type = args->dtype == RVIT_E4M3 && args->out_dtype == RVIT_F32 ? LT_R_16BF : s.out_dtype;
    const uintptr_t bits = (uintptr_t)rvit_cu_at(args->x) | (uintptr_t)rvit_cu_at(args->weight) |
                           (choice->lt_adds_bias ? (uintptr_t)bias_of(queue, args) : 0) | (uintptr_t)rvit_cu_at(args->residual) |
                           (uintptr_t)rvit_cu_at(args->out) | 256;
    s.alignment = (uint32_t)(bits & (~bits + 1));
    return s;
}

static int has_bias(const shape *s)
{
    return (s->epilogue & LT_EPILOGUE_BIAS) != 0;
}

static rvit_cu_lt_gemm *find_gemm(rvit_cu_queue *queue, const shape *key)
{
    for (rvit_cu_lt_gemm *gemm = queue->gemms; gemm != NULL; gemm = gemm->next)
        if (memcmp(&gemm->key, key, sizeof *key) == 0)
            return gemm;
    return NULL;
}

static void destroy_gemm(const rvit_cu_queue *queue, rvit_cu_lt_gemm *gemm)
{
    const lt_functions *f = &queue->device->lt->functions;
    void *const layouts[] = {gemm->weight, gemm->x, gemm->out};
    for (int i = 0; i < 3; i++)
        if (layouts[i] != NULL)
            (void)f->cublasLtMatrixLayoutDestroy(layouts[i]);
    if (gemm->desc != NULL)
        (void)f->cublasLtMatmulDescDestroy(gemm->desc);
    rvit_alloc_free(&queue->device->base.alloc, gemm);
}

void rvit_cu_lt_forget(rvit_cu_queue *queue)
{
    while (queue->gemms != NULL) {
        rvit_cu_lt_gemm *gemm = queue->gemms;
        queue->gemms = gemm->next;
        destroy_gemm(queue, gemm);
    }
}

static int uses_split_k(const rvit_cu_lt *lt, const lt_heuristic *found)
{
    int32_t n_splits = 0;
    size_t written = 0;
    (void)lt->functions.cublasLtMatmulAlgoConfigGetAttribute(&found->algorithm, LT_ALGO_SPLIT_K, &n_splits, sizeof n_splits, &written);
    return n_splits > 1;
}

/* Fills `found` with algorithms in cuBLASLt's order of preference, and returns their number. */
static int find_algorithms(const rvit_cu_lt *lt, const rvit_cu_lt_gemm *gemm, size_t workspace, uint32_t reduction, int max_found,
                           lt_heuristic *found)
{
    const lt_functions *f = &lt->functions;
    void *preference = NULL;
    int result = f->cublasLtMatmulPreferenceCreate(&preference);
    if (result == 0)
        result = f->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREF_WORKSPACE, &workspace, sizeof workspace);
    if (result == 0)
        result = f->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREF_REDUCTION, &reduction, sizeof reduction);
    for (int i = 0; i < 4 && result == 0; i++)
        result =
            f->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREF_ALIGNMENT_A + i, &gemm->key.alignment, sizeof gemm->key.alignment);
    int n_found = 0, n = 0;
    if (result == 0)
        result = f->cublasLtMatmulAlgoGetHeuristic(lt->handle, gemm->desc, gemm->weight, gemm->x, gemm->out, gemm->out, preference,
                                                   max_found, found, &n_found);
    if (preference != NULL)
        (void)f->cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; i < n_found && result == 0; i++)
        if (found[i].status == 0 && found[i].workspace <= workspace)
            found[n++] = found[i];
    return n;
}

/* Takes the first heuristic result, so that an op always runs the same algorithm. It gets no workspace: with one, cuBLASLt schedules
   tiles by a counter in it, which a graph must reset with a memset node, at a microsecond of host time per launch. The exception is
   split-K, because few rows with many channels keep few CTAs busy. All rows are split alike and the partial sums are added in order, so
   a row's bits depend neither on its position nor on other rows. */
static int choose_algorithm(const rvit_cu_lt *lt, rvit_cu_lt_gemm *gemm)
{
    lt_heuristic whole, split_k;
    const int has_whole = find_algorithms(lt, gemm, 0, 0, 1, &whole) > 0;
    const int has_split_k = find_algorithms(lt, gemm, WORKSPACE, LT_REDUCTION_COMPUTE_TYPE, 1, &split_k) > 0;
    if (!has_whole && !has_split_k)
        return 0;
    const int takes_split_k = !has_whole || (has_split_k && uses_split_k(lt, &split_k) && split_k.waves > 4 * whole.waves);
    gemm->algorithm = takes_split_k ? split_k.algorithm : whole.algorithm;
    gemm->workspace = takes_split_k ? split_k.workspace : whole.workspace;
    return 1;
}

/* The single scale of x is also valid for rows that are not finite, because all their values are NaN. */
static int set_scales(const rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_gemm *gemm)
{
    const lt_functions *f = &queue->device->lt->functions;
    const void *of_weight = rvit_cu_at(args->weight_scales);
    const void *of_x = rvit_cu_at(gemm->key.scale_mode == LT_SCALE_SCALAR_32F ? queue->hints.one_scale : args->x_scales);
    const int result = f->cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_A_SCALE_POINTER, &of_weight, sizeof of_weight);
    return result != 0 ? result : f->cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_B_SCALE_POINTER, &of_x, sizeof of_x);
}

/* cuBLAS before 12.9 has no per-row scales. With fast accumulation, tensor cores keep 13 bits of the sums: that error is a fortieth of
   the operands' rounding error. Accumulating in float32 every 128 channels costs 10 % (bench/notes/cuda-fp8.md). */
static int describe_scales(const rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_gemm *gemm)
{
    const lt_functions *f = &queue->device->lt->functions;
    const int32_t mode = gemm->key.scale_mode;
    const int8_t fast = 1;
    int result = 0;
    if (mode != LT_SCALE_SCALAR_32F)
        result = f->cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_A_SCALE_MODE, &mode, sizeof mode);
    if (mode != LT_SCALE_SCALAR_32F && result == 0)
        result = f->cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_B_SCALE_MODE, &mode, sizeof mode);
    if (result == 0)
        result = f->cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_FAST_ACCUM, &fast, sizeof fast);
    return result != 0 ? result : set_scales(queue, args, gemm);
}

/* The bias and scale pointers are only needed for the search; each run sets its own. */
static int create_gemm(const rvit_cu_queue *queue, const rvit_linear_args *args, rvit_cu_lt_gemm *gemm)
{
    const rvit_cu_lt *lt = queue->device->lt;
    const lt_functions *f = &lt->functions;
    const void *bias = bias_of(queue, args);
    const shape *s = &gemm->key;
    const int transpose = LT_OP_T, bias_type = s->bias_type;
    int result = f->cublasLtMatmulDescCreate(&gemm->desc, LT_COMPUTE_32F, LT_R_32F);
    if (result == 0)
        result = f->cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_TRANSA, &transpose, sizeof transpose);
    if (result == 0)
        result = f->cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_EPILOGUE, &s->epilogue, sizeof s->epilogue);
    if (has_bias(s)) {
        if (result == 0)
            result = f->cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type);
        if (result == 0)
            result = f->cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    if (result == 0 && s->dtype == LT_R_E4M3)
        result = describe_scales(queue, args, gemm);
    if (result == 0)
        result = f->cublasLtMatrixLayoutCreate(&gemm->weight, s->dtype, (uint64_t)s->k, (uint64_t)s->n, s->k);
    if (result == 0)
        result = f->cublasLtMatrixLayoutCreate(&gemm->x, s->dtype, (uint64_t)s->k, (uint64_t)s->m, s->k);
    if (result == 0)
        result = f->cublasLtMatrixLayoutCreate(&gemm->out, s->out_dtype, (uint64_t)s->n, (uint64_t)s->m, s->n);
    return result == 0 && choose_algorithm(lt, gemm);
}

/* Launches the GEMM, without the epilogue kernel. */
static int multiply(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_gemm *gemm, const lt_algorithm *algorithm,
                    const void *x, const void *residual, void *out)
{
    const rvit_cu_lt *lt = queue->device->lt;
    const float one = 1.0f, beta = gemm->key.has_residual ? 1.0f : 0.0f;
    const void *bias = bias_of(queue, args);
    void *workspace = gemm->workspace > 0 ? (void *)(uintptr_t)queue->workspace.pointer : NULL;
    int result = 0;
    queue->after_own_kernel = 0;
    if (has_bias(&gemm->key))
        result = lt->functions.cublasLtMatmulDescSetAttribute(gemm->desc, LT_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (result == 0 && gemm->key.dtype == LT_R_E4M3)
        result = set_scales(queue, args, gemm);
    if (result == 0)
        result = lt->functions.cublasLtMatmul(lt->handle, gemm->desc, &one, rvit_cu_at(args->weight), gemm->weight, x, gemm->x, &beta,
                                              residual != NULL ? residual : out, gemm->out, out, gemm->out, algorithm, workspace,
                                              gemm->workspace, queue->stream);
    return result;
}

/* Candidate algorithms run on their own input and output: the op's x may not be ready, and its output may hold live data. */
typedef struct candidate_runs {
    CUdeviceptr x, out;             /* one allocation */
    CUgraphExec graphs[CANDIDATES]; /* NULL: the algorithm fails */
    double seconds[CANDIDATES];
} candidate_runs;

/* x is filled with rows of weight, because the speed of a GEMM depends on the values. */
static rvit_status prepare_candidates(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_gemm *gemm, candidate_runs *t)
{
    const rvit_cu_driver *driver = queue->device->driver;
    const shape *s = &gemm->key;
    const size_t row = (size_t)(s->k * rvit_dtype_size(args->dtype)), x_size = ((size_t)s->m * row + 255) / 256 * 256;
    const size_t out_size = (size_t)(s->m * s->n * rvit_dtype_size(args->out_dtype));
    RVIT_TRY(rvit_cu_allocate(queue->device, x_size + out_size, &t->x));
    atomic_fetch_add(&queue->device->base.device_allocations, 1);
    t->out = t->x + x_size;
    RVIT_CU_TRY(driver, cuMemsetD8Async, (t->out, 0, out_size, queue->stream));
    for (int64_t filled = 0; filled < s->m; filled += s->n) {
        const int64_t rows = s->m - filled < s->n ? s->m - filled : s->n;
        RVIT_CU_TRY(driver, cuMemcpyAsync,
                    (t->x + (size_t)filled * row, (CUdeviceptr)(uintptr_t)rvit_cu_at(args->weight), (size_t)rows * row, queue->stream));
    }
    return RVIT_OK;
}

/* Records the GEMM in a graph as in the program, in place if it has a residual. Few repeats: after graphs of thousands of nodes, the
   forward's own graph was 5 % slower on the H200. */
static rvit_status record_candidate(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_gemm *gemm,
                                    const lt_algorithm *algorithm, const candidate_runs *t, CUgraphExec *graph_exec)
{
    const rvit_cu_driver *driver = queue->device->driver;
    const double macs = (double)gemm->key.m * (double)gemm->key.n * (double)gemm->key.k;
    const int n = macs < 1e9 ? 10 : 1 + (int)(1e10 / macs);
    void *x = (void *)(uintptr_t)t->x, *out = (void *)(uintptr_t)t->out;
    rvit_cu_copy_params gap = {.source = out, .destination = out, .size = 16, .wide = 1};
    rvit_status status = RVIT_OK;
    int result = 0;
    RVIT_CU_TRY(driver, cuStreamBeginCapture, (queue->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < n && result == 0 && status == RVIT_OK; i++) {
        /* Consecutive cuBLASLt GEMMs overlap; in a forward, other kernels run between them. */
        status = rvit_cu_launch(queue, RVIT_CU_copy, 1, 256, 0, &gap);
        if (status == RVIT_OK)
            result = multiply(queue, args, gemm, algorithm, x, out, out);
    }
    CUgraph graph = NULL;
    CUresult ended = driver->cuStreamEndCapture(queue->stream, &graph);
    if (ended == CUDA_SUCCESS && status == RVIT_OK && result == 0)
        ended = driver->cuGraphInstantiateWithFlags(graph_exec, graph, 0);
    if (graph != NULL)
        (void)driver->cuGraphDestroy(graph);
    if (status != RVIT_OK || result != 0)
        return status;
    return ended == CUDA_SUCCESS ? RVIT_OK : rvit_cu_fail(driver, ended, "cuGraphInstantiateWithFlags");
}

static double seconds_now(void)
{
    return 1e-9 * (double)rvit_nanoseconds();
}

static rvit_status run_candidates(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_gemm *gemm,
                                  const lt_heuristic *found, int n, candidate_runs *t)
{
    const rvit_cu_driver *driver = queue->device->driver;
    RVIT_TRY(prepare_candidates(queue, args, gemm, t));
    for (int i = 0; i < n; i++)
        RVIT_TRY(record_candidate(queue, args, gemm, &found[i].algorithm, t, &t->graphs[i]));
    RVIT_CU_TRY(driver, cuStreamSynchronize, (queue->stream));
    /* Round-robin, so that clock changes affect all candidates alike. */
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            if (t->graphs[i] == NULL)
                continue;
            const double begin = seconds_now();
            RVIT_CU_TRY(driver, cuGraphLaunch, (t->graphs[i], queue->stream));
            RVIT_CU_TRY(driver, cuStreamSynchronize, (queue->stream));
            const double took = seconds_now() - begin;
            if (round == 0 || took < t->seconds[i])
                t->seconds[i] = took;
        }
    return RVIT_OK;
}

/* Takes the fastest algorithm if it is at least 3 % faster. */
static rvit_status choose_candidate(rvit_cu_queue *queue, const rvit_linear_args *args, rvit_cu_lt_gemm *gemm)
{
    const rvit_cu_driver *driver = queue->device->driver;
    lt_heuristic found[CANDIDATES];
    const int n = find_algorithms(queue->device->lt, gemm, 0, 0, CANDIDATES, found);
    candidate_runs t = {0};
    const int64_t launches = queue->launches;
    const rvit_status status = n > 1 ? run_candidates(queue, args, gemm, found, n, &t) : RVIT_OK;
    queue->launches = launches;
    int best = 0;
    for (int i = 1; i < n; i++)
        if (t.graphs[i] != NULL && (t.graphs[best] == NULL || t.seconds[i] < 0.97 * t.seconds[best]))
            best = i;
    if (status == RVIT_OK && n > 0)
        gemm->algorithm = found[best].algorithm;
    for (int i = 0; i < n; i++)
        if (t.graphs[i] != NULL)
            (void)driver->cuGraphExecDestroy(t.graphs[i]);
    if (t.x != 0)
        (void)driver->cuMemFree(t.x);
    return status;
}

/* For many large GEMMs the first heuristic result is 10 % slower than the best. Before a program is recorded, the other algorithms
   without split-K are measured, once per device and shape. */
static rvit_status improve(rvit_cu_queue *queue, const rvit_linear_args *args, rvit_cu_lt_gemm *gemm)
{
    rvit_cu_lt *lt = queue->device->lt;
    const int32_t min_macs = queue->device->machine.autotune_macs;
    const double macs = (double)gemm->key.m * (double)gemm->key.n * (double)gemm->key.k;
    if (!queue->records || queue->capturing || gemm->workspace > 0 || min_macs == 0 || macs < min_macs)
        return RVIT_OK;
    rvit_mutex_lock(&lt->lock);
    const lt_choice *known = NULL;
    for (int i = 0; i < CHOICES && known == NULL; i++)
        if (memcmp(&lt->choices[i].key, &gemm->key, sizeof gemm->key) == 0)
            known = &lt->choices[i];
    rvit_status status = RVIT_OK;
    if (known != NULL) {
        gemm->algorithm = known->algorithm;
    } else {
        status = choose_candidate(queue, args, gemm);
        if (status == RVIT_OK)
            lt->choices[lt->n_choices++ % CHOICES] = (lt_choice){gemm->key, gemm->algorithm};
    }
    rvit_mutex_unlock(&lt->lock);
    /* Without memory to measure, keep the first result. */
    return status == RVIT_OUT_OF_DEVICE_MEMORY ? RVIT_OK : status;
}

rvit_status rvit_cu_lt_prepare(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_linear_choice *choice,
                               const rvit_cu_lt_gemm **out_gemm)
{
    *out_gemm = NULL;
    if (!is_open(queue))
        return RVIT_OK;
    const shape key = shape_of(queue, args, choice);
    rvit_cu_lt_gemm *gemm = find_gemm(queue, &key);
    if (gemm == NULL) {
        gemm = rvit_alloc_new(&queue->device->base.alloc, sizeof *gemm);
        RVIT_TRY_MEMORY(gemm);
        gemm->key = key;
        gemm->usable = create_gemm(queue, args, gemm);
        gemm->next = queue->gemms;
        queue->gemms = gemm;
        if (gemm->usable)
            RVIT_TRY(improve(queue, args, gemm));
        /* Eager calls may have ever new row counts, so the oldest shape is dropped. A program needs each of its shapes again. */
        int n = 1;
        for (rvit_cu_lt_gemm *last = gemm; !queue->records && last->next != NULL; last = last->next)
            if (++n > MAX_GEMMS) {
                destroy_gemm(queue, last->next);
                last->next = NULL;
                break;
            }
    }
    RVIT_TRY(rvit_cu_scratch_reserve(queue, &queue->workspace, gemm->workspace));
    *out_gemm = gemm->usable ? gemm : NULL;
    return RVIT_OK;
}

static rvit_status run_epilogue(rvit_cu_queue *queue, const rvit_linear_args *args, int adds_bias)
{
    static const rvit_cu_kernel kernels[2][3] = {RVIT_CU_OF_TYPES(epilogue), RVIT_CU_OF_TYPES(epilogue_sigmoid)};
    const rvit_sigmoid sigmoid = rvit_sigmoid_of(args->activation);
    rvit_cu_epilogue_params params = {
        .x = rvit_cu_at(args->out),
        .bias = adds_bias ? rvit_cu_at(args->bias) : NULL,
        .n = args->rows.capacity * args->out_features,
        .columns = args->out_features,
        .gelu = args->activation == RVIT_ACTIVATION_GELU,
        .slope = sigmoid.slope,
        .cubic = sigmoid.cubic,
    };
    const int64_t chunks = params.n * rvit_dtype_size(args->out_dtype) / 16;
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, chunks, 256, RVIT_CU_CTAS_EPILOGUE);
    return rvit_cu_launch(queue, kernels[sigmoid.slope != 0.0f][args->out_dtype], ctas, 256, 0, &params);
}

rvit_status rvit_cu_lt_run(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_gemm *gemm)
{
    const int result =
        multiply(queue, args, gemm, &gemm->algorithm, rvit_cu_at(args->x), rvit_cu_at(args->residual), rvit_cu_at(args->out));
    if (result != 0)
        return rvit_fail(RVIT_INTERNAL, "cublasLtMatmul failed: %d", result);
    queue->launches++;
    const int adds_bias = args->bias.buffer != NULL && !has_bias(&gemm->key);
    const int activates = args->activation != RVIT_ACTIVATION_NONE && (gemm->key.epilogue & LT_EPILOGUE_GELU) == 0;
    return adds_bias || activates ? run_epilogue(queue, args, adds_bias) : RVIT_OK;
}
