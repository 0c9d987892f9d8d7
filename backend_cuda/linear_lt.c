/* Products by cuBLASLt, opened at run time when one is first asked for. It is given what it can do as we do it: float32 accumulation, a
   bias in the type of the output, a residual as the matrix that is added to. Its own GELU is the tanh approximation. What it is not given
   follows in place (rvit_cu_tile_product says when that is worth it); what it cannot do it says when asked for an algorithm, once for each
   shape, and then the backend's own kernel serves. */
#include "backend_cuda/cu.h"
#include "backend_cuda/linear_lt.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

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
    MOST_PLANS = 512,
    CANDIDATES = 8,
    FEW_CANDIDATES = 4, /* for one of many shapes of a program */
    ROUNDS = 4,
    CHOICES = 512
};
_Static_assert(sizeof(lt_functions) == N_FUNCTIONS * sizeof(void (*)(void)), "one function pointer for each name");

/* out^T [n, m] = weight^T-of-a-column-major-matrix x^T + c^T: what is row-major here is column-major there, transposed. */
typedef struct shape {
    int64_t m, n, k;
    int32_t dtype, out_dtype, has_bias, has_residual; /* has_bias: cuBLASLt adds it */
    uint32_t alignment;                               /* of all arrays, up to 256 */
    int32_t whole;                                    /* sums must not be split. Shapes are compared as bytes: no gaps */
} shape;
_Static_assert(sizeof(shape) == 3 * sizeof(int64_t) + 6 * sizeof(int32_t), "a shape has no gaps");

/* What a trial has found out. */
typedef struct lt_choice {
    shape key;
    lt_algorithm algorithm;
} lt_choice;

struct rvit_cu_lt {
    pthread_mutex_t lock;
    int tried;
    void *library, *handle;
    lt_functions functions;
    lt_choice choices[CHOICES];
    int n_choices; /* made so far: the oldest make room */
};

struct rvit_cu_lt_plan {
    rvit_cu_lt_plan *next;
    shape key;
    int usable;
    void *desc, *weight, *x, *out;
    lt_algorithm algorithm;
    size_t workspace; /* that it needs */
};

rvit_status rvit_cu_lt_open(rvit_cu_device *device)
{
    device->lt = rvit_alloc_new(&device->base.alloc, sizeof *device->lt);
    if (device->lt == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    pthread_mutex_init(&device->lt->lock, NULL);
    return RVIT_OK;
}

void rvit_cu_lt_close(rvit_cu_device *device, int entered)
{
    rvit_cu_lt *lt = device->lt;
    if (lt == NULL)
        return;
    if (lt->handle != NULL && entered)
        (void)lt->functions.cublasLtDestroy(lt->handle);
    /* The library stays open: it registers itself with the driver for the life of the process. */
    pthread_mutex_destroy(&lt->lock);
    rvit_alloc_free(&device->base.alloc, lt);
    device->lt = NULL;
}

static void open_library(rvit_cu_lt *lt)
{
    static const char *const libraries[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
    for (int i = 0; i < 2 && lt->library == NULL; i++)
        lt->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (lt->library == NULL) {
        rvit_log(RVIT_LOG_INFO, "cuda: libcublasLt.so.13 or .12 not found; "
                                "products run on kernels of the library's own");
        return;
    }
    void *functions[N_FUNCTIONS];
    for (int i = 0; i < N_FUNCTIONS; i++) {
        functions[i] = dlsym(lt->library, names[i]);
        if (functions[i] == NULL) {
            rvit_log(RVIT_LOG_WARNING, "cuda: libcublasLt has no %s; it is not used", names[i]);
            return;
        }
    }
    memcpy(&lt->functions, functions, sizeof functions);
    const int result = lt->functions.cublasLtCreate(&lt->handle);
    if (result != 0) {
        lt->handle = NULL;
        rvit_log(RVIT_LOG_WARNING, "cuda: cublasLtCreate failed: %d; cuBLASLt is not used", result);
    }
}

/* A queue asks once. */
static int is_open(rvit_cu_queue *queue)
{
    rvit_cu_lt *lt = queue->device->lt;
    if (!queue->asked_for_lt) {
        pthread_mutex_lock(&lt->lock);
        if (!lt->tried) {
            lt->tried = 1;
            open_library(lt);
        }
        pthread_mutex_unlock(&lt->lock);
        queue->asked_for_lt = 1;
    }
    return lt->handle != NULL;
}

static int type_of(rvit_dtype dtype)
{
    return dtype == RVIT_F32 ? LT_R_32F : dtype == RVIT_F16 ? LT_R_16F : LT_R_16BF;
}

/* The bias in the type of the output; one that a GELU follows is not for cuBLASLt to round. */
static rvit_view bias_of(const rvit_linear_args *args)
{
    if (args->out_dtype == RVIT_F32)
        return args->bias;
    return args->activation == RVIT_ACTIVATION_GELU ? (rvit_view){NULL, 0} : args->bias_narrow;
}

/* Rows that a product works on. */
static int64_t rows_of(const rvit_cu_queue *queue, const rvit_linear_args *args)
{
    return queue->bucket_rows > 0 ? queue->bucket_rows : args->rows.capacity;
}

static shape shape_of(const rvit_cu_queue *queue, const rvit_linear_args *args)
{
    shape s = {0};
    s.whole = queue->bucket_rows > 0;
    s.m = rows_of(queue, args), s.n = args->out_features, s.k = args->in_features;
    s.dtype = type_of(args->dtype), s.out_dtype = type_of(args->out_dtype);
    s.has_bias = bias_of(args).buffer != NULL, s.has_residual = args->residual.buffer != NULL;
    const uintptr_t bits = (uintptr_t)rvit_cu_at(args->x) | (uintptr_t)rvit_cu_at(args->weight) | (uintptr_t)rvit_cu_at(bias_of(args)) |
                           (uintptr_t)rvit_cu_at(args->residual) | (uintptr_t)rvit_cu_at(args->out) | 256;
    s.alignment = (uint32_t)(bits & (~bits + 1));
    return s;
}

static rvit_cu_lt_plan *find_plan(rvit_cu_queue *queue, const shape *key)
{
    for (rvit_cu_lt_plan *plan = queue->plans; plan != NULL; plan = plan->next)
        if (memcmp(&plan->key, key, sizeof *key) == 0)
            return plan;
    return NULL;
}

static void end_plan(const rvit_cu_queue *queue, rvit_cu_lt_plan *plan)
{
    const lt_functions *f = &queue->device->lt->functions;
    void *const layouts[] = {plan->weight, plan->x, plan->out};
    for (int i = 0; i < 3; i++)
        if (layouts[i] != NULL)
            (void)f->cublasLtMatrixLayoutDestroy(layouts[i]);
    if (plan->desc != NULL)
        (void)f->cublasLtMatmulDescDestroy(plan->desc);
    rvit_alloc_free(&queue->device->base.alloc, plan);
}

void rvit_cu_lt_forget(rvit_cu_queue *queue)
{
    while (queue->plans != NULL) {
        rvit_cu_lt_plan *plan = queue->plans;
        queue->plans = plan->next;
        end_plan(queue, plan);
    }
}

/* Whether an algorithm cuts sums into parts. */
static int splits(const rvit_cu_lt *lt, const lt_heuristic *found)
{
    int32_t parts = 0;
    size_t written = 0;
    (void)lt->functions.cublasLtMatmulAlgoConfigGetAttribute(&found->algorithm, LT_ALGO_SPLIT_K, &parts, sizeof parts, &written);
    return parts > 1;
}

/* Asks for algorithms, the library's preference first. Returns how many there are. */
static int ask(const rvit_cu_lt *lt, const rvit_cu_lt_plan *plan, size_t workspace, uint32_t reduction, int most, lt_heuristic *found)
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
            f->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREF_ALIGNMENT_A + i, &plan->key.alignment, sizeof plan->key.alignment);
    int n_found = 0, n = 0;
    if (result == 0)
        result = f->cublasLtMatmulAlgoGetHeuristic(lt->handle, plan->desc, plan->weight, plan->x, plan->out, plan->out, preference, most,
                                                   found, &n_found);
    if (preference != NULL)
        (void)f->cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; i < n_found && result == 0; i++)
        if (found[i].status == 0 && found[i].workspace <= workspace)
            found[n++] = found[i];
    return n;
}

/* The library's first answer, so that an op always runs alike. Without a workspace: given one, the library deals out tiles by a counter in
   it, and a graph holds a node that zeroes the counter, which costs the host a microsecond at each launch. But few rows of many channels
   keep few CTAs busy unless sums are split. The parts are then left in the workspace; they are cut alike for all rows and added in order,
   so that a row's bits depend on neither its place nor its mates. */
static int choose_algorithm(const rvit_cu_lt *lt, rvit_cu_lt_plan *plan)
{
    lt_heuristic whole, parts;
    const int has_whole = ask(lt, plan, 0, 0, 1, &whole) > 0;
    const int has_parts = !plan->key.whole && ask(lt, plan, WORKSPACE, LT_REDUCTION_COMPUTE_TYPE, 1, &parts) > 0;
    if (!has_whole && !has_parts)
        return 0;
    const int takes_parts = !has_whole || (has_parts && splits(lt, &parts) && parts.waves > 4 * whole.waves);
    plan->algorithm = takes_parts ? parts.algorithm : whole.algorithm;
    plan->workspace = takes_parts ? parts.workspace : whole.workspace;
    return 1;
}

/* The bias counts for the alignment only here; each run sets its own. */
static int make_plan(const rvit_cu_lt *lt, rvit_cu_lt_plan *plan, const void *bias)
{
    const lt_functions *f = &lt->functions;
    const shape *s = &plan->key;
    const int transpose = LT_OP_T, with_bias = LT_EPILOGUE_BIAS, bias_type = s->out_dtype;
    int result = f->cublasLtMatmulDescCreate(&plan->desc, LT_COMPUTE_32F, LT_R_32F);
    if (result == 0)
        result = f->cublasLtMatmulDescSetAttribute(plan->desc, LT_DESC_TRANSA, &transpose, sizeof transpose);
    if (s->has_bias) {
        if (result == 0)
            result = f->cublasLtMatmulDescSetAttribute(plan->desc, LT_DESC_EPILOGUE, &with_bias, sizeof with_bias);
        if (result == 0)
            result = f->cublasLtMatmulDescSetAttribute(plan->desc, LT_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type);
        if (result == 0)
            result = f->cublasLtMatmulDescSetAttribute(plan->desc, LT_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    if (result == 0)
        result = f->cublasLtMatrixLayoutCreate(&plan->weight, s->dtype, (uint64_t)s->k, (uint64_t)s->n, s->k);
    if (result == 0)
        result = f->cublasLtMatrixLayoutCreate(&plan->x, s->dtype, (uint64_t)s->k, (uint64_t)s->m, s->k);
    if (result == 0)
        result = f->cublasLtMatrixLayoutCreate(&plan->out, s->out_dtype, (uint64_t)s->n, (uint64_t)s->m, s->n);
    return result == 0 && choose_algorithm(lt, plan);
}

/* Launches the product alone. */
static int multiply(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_plan *plan, const lt_algorithm *algorithm,
                    const void *x, const void *residual, void *out)
{
    const rvit_cu_lt *lt = queue->device->lt;
    const float one = 1.0f, beta = plan->key.has_residual ? 1.0f : 0.0f;
    const void *bias = rvit_cu_at(bias_of(args));
    void *workspace = plan->workspace > 0 ? (void *)(uintptr_t)queue->workspace.pointer : NULL;
    int result = 0;
    queue->behind_own = 0;
    if (plan->key.has_bias)
        result = lt->functions.cublasLtMatmulDescSetAttribute(plan->desc, LT_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (result == 0)
        result = lt->functions.cublasLtMatmul(lt->handle, plan->desc, &one, rvit_cu_at(args->weight), plan->weight, x, plan->x, &beta,
                                              residual != NULL ? residual : out, plan->out, out, plan->out, algorithm, workspace,
                                              plan->workspace, queue->stream);
    return result;
}

/* Candidates being tried out on an input and an output of their own: the op's x may not be there yet, its output may hold what is needed.
 */
typedef struct trial {
    CUdeviceptr x, out;             /* one allocation */
    CUgraphExec graphs[CANDIDATES]; /* NULL: the algorithm cannot be run */
    double seconds[CANDIDATES];
} trial;

/* x is filled with the weight's rows: how fast the device multiplies depends on the numbers. */
static rvit_status prepare_trial(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_plan *plan, trial *t)
{
    const rvit_cu_driver *driver = queue->device->driver;
    const shape *s = &plan->key;
    const size_t row = (size_t)(s->k * rvit_dtype_size(args->dtype)), x_size = ((size_t)s->m * row + 255) / 256 * 256;
    const size_t out_size = (size_t)(s->m * s->n * rvit_dtype_size(args->out_dtype));
    RVIT_CU_TRY(driver, cuMemAlloc, (&t->x, x_size + out_size));
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

/* In a graph, which is how the product will run, and in place if it adds. A few times, but not many: after graphs of thousands of nodes the
   forward's own was 5 % slower on the H200. */
static rvit_status record_trial(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_plan *plan,
                                const lt_algorithm *algorithm, const trial *t, CUgraphExec *graph_exec)
{
    const rvit_cu_driver *driver = queue->device->driver;
    const double multiplications = (double)plan->key.m * (double)plan->key.n * (double)plan->key.k;
    const int n = multiplications < 1e9 ? 10 : 1 + (int)(1e10 / multiplications);
    void *x = (void *)(uintptr_t)t->x, *out = (void *)(uintptr_t)t->out;
    rvit_cu_copy_params gap = {.source = out, .destination = out, .size = 16, .wide = 1};
    rvit_status status = RVIT_OK;
    int result = 0;
    RVIT_CU_TRY(driver, cuStreamBeginCapture, (queue->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < n && result == 0 && status == RVIT_OK; i++) {
        /* Kernels of the library overlap their neighbours of the same kind; in a forward these are others. */
        status = rvit_cu_launch(queue, RVIT_CU_copy, 1, 256, 0, &gap);
        if (status == RVIT_OK)
            result = multiply(queue, args, plan, algorithm, x, out, out);
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
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static rvit_status run_trial(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_plan *plan, const lt_heuristic *found,
                             int n, trial *t)
{
    const rvit_cu_driver *driver = queue->device->driver;
    RVIT_TRY(prepare_trial(queue, args, plan, t));
    for (int i = 0; i < n; i++)
        RVIT_TRY(record_trial(queue, args, plan, &found[i].algorithm, t, &t->graphs[i]));
    RVIT_CU_TRY(driver, cuStreamSynchronize, (queue->stream));
    /* In turns, so that a change of clock touches all alike. */
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

/* Replaces the plan's algorithm by the fastest. A little faster is not faster. */
static rvit_status try_candidates(rvit_cu_queue *queue, const rvit_linear_args *args, rvit_cu_lt_plan *plan)
{
    const rvit_cu_driver *driver = queue->device->driver;
    lt_heuristic found[CANDIDATES];
    const int n = ask(queue->device->lt, plan, 0, 0, plan->key.whole ? FEW_CANDIDATES : CANDIDATES, found);
    trial t = {0};
    const int64_t launches = queue->launches;
    const rvit_status status = n > 1 ? run_trial(queue, args, plan, found, n, &t) : RVIT_OK;
    queue->launches = launches;
    int best = 0;
    for (int i = 1; i < n; i++)
        if (t.graphs[i] != NULL && (t.graphs[best] == NULL || t.seconds[i] < 0.97 * t.seconds[best]))
            best = i;
    if (status == RVIT_OK && n > 0)
        plan->algorithm = found[best].algorithm;
    for (int i = 0; i < n; i++)
        if (t.graphs[i] != NULL)
            (void)driver->cuGraphExecDestroy(t.graphs[i]);
    if (t.x != 0)
        (void)driver->cuMemFree(t.x);
    return status;
}

/* The library's first answer is a tenth slower than its best at many large products. Before a program is recorded the others that do not
   split sums are tried out, once for a device. */
static rvit_status improve(rvit_cu_queue *queue, const rvit_linear_args *args, rvit_cu_lt_plan *plan)
{
    rvit_cu_lt *lt = queue->device->lt;
    const int32_t least = queue->device->machine.tried;
    const double multiplications = (double)plan->key.m * (double)plan->key.n * (double)plan->key.k;
    if (!queue->records || queue->capturing || plan->workspace > 0 || least == 0 || multiplications < least)
        return RVIT_OK;
    pthread_mutex_lock(&lt->lock);
    const lt_choice *known = NULL;
    for (int i = 0; i < CHOICES && known == NULL; i++)
        if (memcmp(&lt->choices[i].key, &plan->key, sizeof plan->key) == 0)
            known = &lt->choices[i];
    rvit_status status = RVIT_OK;
    if (known != NULL) {
        plan->algorithm = known->algorithm;
    } else {
        status = try_candidates(queue, args, plan);
        if (status == RVIT_OK)
            lt->choices[lt->n_choices++ % CHOICES] = (lt_choice){plan->key, plan->algorithm};
    }
    pthread_mutex_unlock(&lt->lock);
    /* Without room for a trial the first answer serves. */
    return status == RVIT_OUT_OF_DEVICE_MEMORY ? RVIT_OK : status;
}

/* The host knows the rows, or may work on all there can be. What the two steps cannot compose: a residual that repeats, or one that comes
   before what the second step does. */
static int is_expressible(const rvit_cu_queue *queue, const rvit_linear_args *args)
{
    const int has_residual = args->residual.buffer != NULL;
    const int repeats = has_residual && args->residual_period != 0 && args->residual_period < args->rows.capacity;
    const int knows_rows = args->rows.live.buffer == NULL || args->rows.padded == RVIT_ROWS_PADDED || queue->bucket_rows > 0;
    if (!knows_rows || args->rows.capacity == 0 || repeats)
        return 0;
    const int adds_bias = args->bias.buffer == NULL || bias_of(args).buffer != NULL;
    const rvit_cu_product product = rvit_cu_tile_product(
        &queue->device->machine, (int32_t)rvit_dtype_size(args->dtype), args->rows.capacity, args->in_features, args->out_features,
        (int32_t)rvit_dtype_size(args->out_dtype), adds_bias, args->activation == RVIT_ACTIVATION_GELU);
    return product == RVIT_CU_PRODUCT_LT || (product == RVIT_CU_PRODUCT_FINISHED && !has_residual);
}

rvit_status rvit_cu_lt_prepare(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_plan **out_plan)
{
    *out_plan = NULL;
    if (!is_expressible(queue, args) || !is_open(queue))
        return RVIT_OK;
    const shape key = shape_of(queue, args);
    rvit_cu_lt_plan *plan = find_plan(queue, &key);
    if (plan == NULL) {
        plan = rvit_alloc_new(&queue->device->base.alloc, sizeof *plan);
        if (plan == NULL)
            return RVIT_OUT_OF_HOST_MEMORY;
        plan->key = key;
        plan->usable = make_plan(queue->device->lt, plan, rvit_cu_at(bias_of(args)));
        plan->next = queue->plans;
        queue->plans = plan;
        if (plan->usable)
            RVIT_TRY(improve(queue, args, plan));
        /* Eager use may go on with ever new row counts: the oldest shape is forgotten. A program needs each of its own once more. */
        int n = 1;
        for (rvit_cu_lt_plan *last = plan; !queue->records && last->next != NULL; last = last->next)
            if (++n > MOST_PLANS) {
                end_plan(queue, last->next);
                last->next = NULL;
                break;
            }
    }
    RVIT_TRY(rvit_cu_scratch_reserve(queue, &queue->workspace, plan->workspace));
    *out_plan = plan->usable ? plan : NULL;
    return RVIT_OK;
}

static rvit_status finish(rvit_cu_queue *queue, const rvit_linear_args *args, int adds_bias)
{
    static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(finish);
    rvit_cu_finish_params params = {
        .x = rvit_cu_at(args->out),
        .bias = adds_bias ? rvit_cu_at(args->bias) : NULL,
        .n = rows_of(queue, args) * args->out_features,
        .columns = args->out_features,
        .gelu = args->activation == RVIT_ACTIVATION_GELU,
    };
    const int64_t chunks = params.n * rvit_dtype_size(args->out_dtype) / 16;
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, chunks, 256, RVIT_CU_CTAS_FINISH);
    return rvit_cu_launch(queue, kernels[args->out_dtype], ctas, 256, 0, &params);
}

rvit_status rvit_cu_lt_run(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_lt_plan *plan)
{
    const int result =
        multiply(queue, args, plan, &plan->algorithm, rvit_cu_at(args->x), rvit_cu_at(args->residual), rvit_cu_at(args->out));
    if (result != 0)
        return rvit_fail(RVIT_INTERNAL, "cublasLtMatmul failed: %d", result);
    queue->launches++;
    const int adds_bias = args->bias.buffer != NULL && !plan->key.has_bias;
    return adds_bias || args->activation == RVIT_ACTIVATION_GELU ? finish(queue, args, adds_bias) : RVIT_OK;
}
