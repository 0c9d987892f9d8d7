/* Declarations shared by the files of the CPU backend.

   Ops run immediately, on the calling thread and the device's thread pool. The device's mutex is held while they run, so that streams on
   several threads can share a device. It also guards the scratch memory of each pool thread. */
#ifndef RVIT_CPU_H
#define RVIT_CPU_H

#include <string.h>

#include "backend_cpu/kernels.h"
#include "core/base/os.h"
#include "core/base/resample.h"
#include "core/contract/backend.h"

typedef struct rvit_cpu_thread_pool rvit_cpu_thread_pool;

/* How linear.c split an op. The tiles depend only on the device and the fields before them. */
typedef struct rvit_cpu_split {
    int64_t rows, columns, in_features;
    rvit_dtype dtype;
    int64_t row_tiles, column_tiles;
    int64_t clocks; /* estimated */
} rvit_cpu_split;
#define RVIT_CPU_SPLITS 16

typedef struct rvit_cpu_device {
    rvit_device base;
    const rvit_cpu_kernels *kernels; /* &chosen */
    rvit_cpu_kernels chosen;
    rvit_cpu_thread_pool *pool;
    float *scratch; /* [threads of the pool, RVIT_CPU_SCRATCH_FLOATS] */
    rvit_mutex lock;
    rvit_cpu_split splits[RVIT_CPU_SPLITS]; /* the most recent ones */
    uint32_t next_split;
    const rvit_op_hints *hints; /* of the op that is running */
    int oracle;
    int use_cblas;
    int64_t tile_rows; /* tests set it: rows of every row tile; 0: fused_ops.c chooses */
} rvit_cpu_device;

/* A run of ops that may be computed one row tile at a time (fused_ops.c). */
typedef struct rvit_cpu_fused {
    int32_t length;
    uint32_t passing;        /* bit i: each thread keeps its row tiles of op i's output in one slot */
    int64_t weights;         /* bytes of all weights */
    int64_t rows, tile_rows; /* of the last run: live rows, rows of a tile; 0: the ops ran one by one */
} rvit_cpu_fused;
#define RVIT_CPU_MAX_FUSED_OPS 8

typedef struct rvit_cpu_program {
    rvit_program base;
    rvit_cpu_fused *fused; /* [n_ops]: the fused ops that begin at an op; length 1: none */
    int32_t n_ops;
    rvit_op ops[];
} rvit_cpu_program;

/* Address of a view's data; NULL if the view is absent. */
static inline void *rvit_cpu_at(rvit_view view)
{
    return view.buffer == NULL ? NULL : (char *)(uintptr_t)view.buffer->address + view.offset;
}

/* The number of row numbers less than `row` in an ascending list of n. */
static inline int64_t rvit_cpu_rows_below(const int32_t *rows, int64_t n, int64_t row)
{
    int64_t begin = 0, end = n;
    while (begin < end) {
        const int64_t middle = (begin + end) / 2;
        if (rows[middle] < row)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

static inline int64_t rvit_cpu_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static inline int64_t rvit_cpu_live_rows(const rvit_rows *rows)
{
    const int32_t *live = rvit_cpu_at(rows->live);
    return live == NULL ? rows->capacity : rvit_cpu_clamp(*live, 0, rows->capacity);
}

/* The rows of an image, clamped to 0..rows and to max_len rows, whatever cu_seqlens contains. */
typedef struct rvit_cpu_range {
    int64_t begin, len;
} rvit_cpu_range;

static inline rvit_cpu_range rvit_cpu_image(const int32_t *cu_seqlens, int64_t image, int64_t rows, int64_t max_len)
{
    const int64_t begin = rvit_cpu_clamp(cu_seqlens[image], 0, rows);
    const int64_t end = rvit_cpu_clamp(cu_seqlens[image + 1], begin, rows);
    return (rvit_cpu_range){begin, end - begin < max_len ? end - begin : max_len};
}

/* The rows of an image that head reads. */
static inline rvit_cpu_range rvit_cpu_head_rows(const rvit_head_args *a, int64_t image)
{
    const int32_t *cu_seqlens = rvit_cpu_at(a->cu_seqlens);
    if (cu_seqlens == NULL)
        return (rvit_cpu_range){image * a->n_tokens, a->n_tokens};
    return rvit_cpu_image(cu_seqlens, image, a->rows, INT64_MAX);
}

/* The rows of an image that pool reads. */
static inline rvit_cpu_range rvit_cpu_pool_rows(const rvit_pool_args *a, int64_t image)
{
    const rvit_cpu_range rows = rvit_cpu_image(rvit_cpu_at(a->cu_seqlens), image, a->rows, a->max_len);
    if (a->mode == RVIT_POOL_FIRST)
        return (rvit_cpu_range){rows.begin, rows.len < 1 ? rows.len : 1};
    const int64_t prefix = a->n_prefix < rows.len ? a->n_prefix : rows.len;
    return (rvit_cpu_range){rows.begin + prefix, rows.len - prefix};
}

/* Turns the counts in cu_seqlens[1 ..] into a layout of at most `rows` rows. With an invalid input layout several images may claim the
   same row, which is then counted more than once. */
static inline void rvit_cpu_sum_counts(int32_t *cu_seqlens, int64_t n_images, int64_t rows)
{
    int64_t total = 0;
    cu_seqlens[0] = 0;
    for (int64_t image = 0; image < n_images; image++) {
        total = rvit_cpu_clamp(total + cu_seqlens[image + 1], 0, rows);
        cu_seqlens[image + 1] = (int32_t)total;
    }
}

/* The position of a patch in its image, and the image's grid. It is inside the grid even if the array holds garbage. */
#define RVIT_CPU_MAX_SIDE 32767 /* of a grid */
typedef struct rvit_cpu_position {
    int32_t y, x, height, width;
} rvit_cpu_position;

static inline rvit_cpu_position rvit_cpu_position_of(const int32_t *entry)
{
    const int64_t height = rvit_cpu_clamp(entry[3] >> 16, 1, RVIT_CPU_MAX_SIDE),
                  width = rvit_cpu_clamp(entry[3] & 65535, 1, RVIT_CPU_MAX_SIDE);
    const int64_t y = rvit_cpu_clamp(entry[2] >> 16, 0, height - 1), x = rvit_cpu_clamp(entry[2] & 65535, 0, width - 1);
    return (rvit_cpu_position){(int32_t)y, (int32_t)x, (int32_t)height, (int32_t)width};
}

/* The row after `row` in a list of merge that begins at `first`; -1 at its end. Later rows must ascend, so every list ends. */
static inline int64_t rvit_cpu_next_row(const int32_t *next_rows, int64_t first, int64_t row, int64_t x_rows)
{
    const int64_t next = next_rows[row];
    return next >= 0 && next < x_rows && next != first && (row == first || next > row) ? next : -1;
}

static inline rvit_cpu_activation rvit_cpu_activation_of(rvit_activation activation)
{
    return activation == RVIT_ACTIVATION_NONE ? RVIT_CPU_NONE : activation == RVIT_ACTIVATION_GELU ? RVIT_CPU_GELU : RVIT_CPU_SIGMOID;
}

/* Adds to a count of saturated values, if the view is present. Several threads may add concurrently. */
static inline void rvit_cpu_add_saturated(rvit_view view, int64_t n)
{
    if (view.buffer != NULL && n > 0)
        __atomic_fetch_add((uint32_t *)rvit_cpu_at(view), (uint32_t)n, __ATOMIC_RELAXED);
}

/* n elements of an array as floats, starting at element i: a pointer into the array, or a copy converted into `values`. */
static inline const float *rvit_cpu_load_floats(const rvit_cpu_kernels *kernels, const void *p, int64_t i, int64_t n, rvit_dtype dtype,
                                                float *values)
{
    if (dtype == RVIT_F32)
        return (const float *)p + i;
    kernels->widen((const uint16_t *)p + i, dtype, values, n);
    return values;
}

static inline void rvit_cpu_store_floats(const rvit_cpu_kernels *kernels, const float *values, void *p, int64_t i, int64_t n,
                                         rvit_dtype dtype)
{
    if (dtype != RVIT_F32)
        kernels->narrow(values, dtype, (uint16_t *)p + i, n);
    else
        memcpy((float *)p + i, values, (size_t)n * sizeof *values);
}

/* The same, stored as hi and lo parts: element i + second receives the rounding error of each value. second 0: only the hi part. */
static inline void rvit_cpu_store_split(const rvit_cpu_kernels *kernels, const float *values, void *p, int64_t i, int64_t second, int64_t n,
                                        rvit_dtype dtype)
{
    enum { SOME = 64 };
    float rest[SOME];
    rvit_cpu_store_floats(kernels, values, p, i, n, dtype);
    for (int64_t first = 0; second > 0 && first < n; first += SOME) {
        const int64_t some = n - first < SOME ? n - first : SOME;
        const float *stored = rvit_cpu_load_floats(kernels, p, i + first, some, dtype, rest);
        for (int64_t k = 0; k < some; k++)
            rest[k] = values[first + k] - stored[k];
        rvit_cpu_store_floats(kernels, rest, p, i + second + first, some, dtype);
    }
}

/* The thread pool. n_threads includes the calling thread. usable: processors that this process may use. */
rvit_status rvit_cpu_pool_create(rvit_alloc *alloc, int n_threads, int usable, rvit_cpu_thread_pool **out_pool);
void rvit_cpu_pool_destroy(rvit_alloc *alloc, rvit_cpu_thread_pool *pool);
int rvit_cpu_pool_threads(const rvit_cpu_thread_pool *pool);
/* Calls fn on the pool's threads for disjoint ranges that cover 0..n-1, each at most `grain` long; returns when all have finished.
   thread: index of the thread and of its scratch memory. One call at a time: the caller holds the device's lock. */
typedef void (*rvit_cpu_range_fn)(void *context, int64_t begin, int64_t end, int thread);
void rvit_cpu_pool_run(rvit_cpu_thread_pool *pool, int64_t n, int64_t grain, rvit_cpu_range_fn fn, void *context);
/* A grain of at least `min` that splits n items into a few more ranges than threads, for load balance. */
int64_t rvit_cpu_grain(const rvit_cpu_thread_pool *pool, int64_t n, int64_t min);

static inline float *rvit_cpu_scratch(const rvit_cpu_device *device, int thread)
{
    return device->scratch + (int64_t)thread * RVIT_CPU_SCRATCH_FLOATS;
}

/* The ops, one file each. The caller holds the device's lock; ops cannot fail. */
#define RVIT_OP(TYPE, name) void rvit_cpu_##name(rvit_cpu_device *device, const rvit_##name##_args *args);
#include "core/contract/ops.def"

/* ops.c */
void rvit_cpu_run_op(rvit_cpu_device *device, const rvit_op *op);
const char *rvit_cpu_supports(const rvit_device *device, const rvit_op *op);

/* fused_ops.c */
rvit_cpu_fused rvit_cpu_find_fused(const rvit_cpu_device *device, const rvit_op *ops, int32_t n_ops);
/* Rows per tile for this many live rows; 0: running the ops one by one is faster. */
int64_t rvit_cpu_choose_tile_rows(rvit_cpu_device *device, const rvit_op *ops, const rvit_cpu_fused *fused, int64_t rows);
void rvit_cpu_run_fused(rvit_cpu_device *device, const rvit_op *ops, rvit_cpu_fused *fused);

/* Compute rows begin .. end - 1 of an op on one thread of the pool. */
void rvit_cpu_patchify_row_tile(rvit_cpu_device *device, const rvit_patchify_args *args, int64_t begin, int64_t end, int thread);
void rvit_cpu_linear_row_tile(rvit_cpu_device *device, const rvit_op *op, int64_t begin, int64_t end, int thread);
void rvit_cpu_layernorm_row_tile(rvit_cpu_device *device, const rvit_layernorm_args *args, int64_t begin, int64_t end, int thread);
void rvit_cpu_quantize_row_tile(rvit_cpu_device *device, const rvit_quantize_args *args, int64_t begin, int64_t end, int thread);
/* patchify's rows at capacity, and its live rows, after writing their layout. */
int64_t rvit_cpu_patchify_rows(const rvit_patchify_args *args);
int64_t rvit_cpu_patchify_layout(const rvit_patchify_args *args);
/* Whether the GEMM runs on AMX tiles. */
int rvit_cpu_linear_is_tiled(const rvit_cpu_device *device, const rvit_linear_args *args);
/* Estimated clocks of linear for this many rows: on one thread for a row tile with its weights in the L2 cache, and on all threads. */
int64_t rvit_cpu_linear_row_tile_clocks(const rvit_cpu_device *device, const rvit_linear_args *args, int64_t rows);
int64_t rvit_cpu_linear_clocks(rvit_cpu_device *device, const rvit_linear_args *args, int64_t rows);

/* The steps of select. An error is encoded as kind + 1 + 3 * image. */
enum { RVIT_CPU_SELECT_NAN = 0, RVIT_CPU_SELECT_PREFIX = 1, RVIT_CPU_SELECT_SUM = 2, RVIT_CPU_SELECT_FINE = 3 };
/* Scores (score.c). */
void rvit_cpu_score(rvit_cpu_device *device, const rvit_select_args *args);
/* SAMPLE and MASS (select_sums.c): marks which of the n competing rows of an image are kept; returns the kind of error. */
int rvit_cpu_mark_sums(const rvit_select_args *args, const float *scores, int64_t n, uint8_t *keep, float *scratch);
/* Computes the fused token of every image (select_fuse.c), after keep is marked. */
void rvit_cpu_fuse(rvit_cpu_device *device, const rvit_select_args *args);

/* Reference implementations that accumulate in float64 (oracle*.c): of whole ops, which ops.c calls, and of parts of ops.
   rvit_cpu_oracle_score covers CLS_NORM and PREDICTOR. */
#define RVIT_CPU_ORACLES(OP)                   \
    OP(LINEAR, linear)                         \
    OP(LAYERNORM, layernorm)                   \
    OP(QUANTIZE, quantize)                     \
    OP(ATTENTION, attention)                   \
    OP(ATTENTION_BACKWARD, attention_backward) \
    OP(ATTENTION_RECEIVED, attention_received) \
    OP(HEAD, head)                             \
    OP(POOL, pool)                             \
    OP(ATTENTION_POOL, attention_pool)         \
    OP(MEAN, mean)                             \
    OP(MERGE, merge)
#define RVIT_CPU_ORACLE(TYPE, name) void rvit_cpu_oracle_##name(rvit_cpu_device *device, const rvit_##name##_args *args);
RVIT_CPU_ORACLES(RVIT_CPU_ORACLE)
#undef RVIT_CPU_ORACLE
void rvit_cpu_oracle_rope(void *heads, int64_t first, int64_t pairs, const float *cosines, rvit_dtype dtype);
void rvit_cpu_oracle_embed(const float *table, int64_t table_width, int64_t dim, const rvit_taps *y, const rvit_taps *x,
                           const float *patches, int64_t n, float *out);
void rvit_cpu_oracle_score(rvit_cpu_device *device, const rvit_select_args *args);
void rvit_cpu_oracle_fuse(rvit_cpu_device *device, const rvit_select_args *args);
void rvit_cpu_oracle_metric(const rvit_cpu_metric_rows *rows);
void rvit_cpu_oracle_bipartite_match(const rvit_cpu_bipartite_match_tile *tile);

/* CBLAS (cblas.c). The name is "OpenBLAS 0.3.21 Haswell", or NULL if the build has none. */
const char *rvit_cpu_cblas_name(char *text, size_t size);
/* 1 if there is a CBLAS and the result of a row does not depend on the row's position. */
int rvit_cpu_cblas_is_usable(void);
/* Prepares the CBLAS to be called from several threads. */
void rvit_cpu_cblas_open(void);
/* Computes a tile of linear as rvit_cpu_kernels.linear does, of at most RVIT_CPU_CBLAS_ROWS rows. */
#define RVIT_CPU_CBLAS_ROWS 64
void rvit_cpu_cblas_linear(const rvit_cpu_kernels *kernels, const rvit_cpu_linear_tile *tile, float *scratch);

/* Backend functions that are in their own files. */
rvit_status rvit_cpu_arrange_weight(rvit_stream *stream, rvit_op *linear);
rvit_status rvit_cpu_buffer_create(rvit_device *device, int64_t size, rvit_buffer_type type, rvit_buffer **out_buffer);
void rvit_cpu_buffer_destroy(rvit_buffer *buffer);
rvit_status rvit_cpu_buffer_wrap(rvit_device *device, const rvit_memory_desc *memory, rvit_buffer **out_buffer);
rvit_status rvit_cpu_stream_create(rvit_device *device, rvit_stream **out_stream);
void rvit_cpu_stream_destroy(rvit_stream *stream);
rvit_status rvit_cpu_stream_enqueue(rvit_stream *stream, const rvit_op *ops, int32_t n_ops);
rvit_status rvit_cpu_stream_synchronize(rvit_stream *stream);
rvit_status rvit_cpu_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program);
void rvit_cpu_program_destroy(rvit_program *program);
rvit_status rvit_cpu_program_launch(rvit_program *program, rvit_stream *stream, const rvit_op *ops);

#endif
