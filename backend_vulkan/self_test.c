/* The self-test of a device: small problems run through the kernels of its tier, three times as one program. The results are compared
   with float64 sums from the host. All inputs are multiples of 1/16 or 1/64 up to 1, so they are equal in every type. */
#include "backend_vulkan/vulkan.h"

#include <math.h>
#include <string.h>

#include "core/base/half.h"

#define RUNS 3
#define MAX_CHECKS 9
#define ALIGNMENT 256

enum { N_IMAGES = 3, ROWS = 22, MAX_LEN = 17, HEADS = 2, HEAD_DIM = 64, DIM = HEADS * HEAD_DIM, WIDE = 3 * DIM, OUT = 64 };
enum { MAX_VALUES = ROWS * DIM, N_TYPES = RVIT_BF16 + 1 };
static const int32_t cu_seqlens[N_IMAGES + 1] = {0, 5, 5, 22};

typedef struct check {
    const char *name;
    rvit_op op;
    int64_t at, n;    /* offset of the output in bytes, number of its elements */
    rvit_dtype dtype; /* dtype of the output; F32 for integers, which have the same size */
    double tolerance;
    int is_integer;
    double expected[MAX_VALUES];
} check;

typedef struct arena {
    rvit_vk_buffer buffer;
    int64_t used;
} arena;

typedef struct self_test {
    rvit_vk_device *device;
    arena in, out;
    rvit_view x[N_TYPES], qkv[N_TYPES], weight[N_TYPES]; /* [dtype] */
    rvit_view bias, gamma, beta, scores, counts, cu;
    int n_checks;
    check checks[MAX_CHECKS];
    rvit_op ops[MAX_CHECKS];
} self_test;

static double value(uint32_t seed, int64_t i, double scale)
{
    const uint32_t mixed = ((uint32_t)i + seed * 7919u) * 2654435761u >> 16;
    return ((double)(mixed % 33u) - 16.0) * scale;
}

#define X(i) value(1, (i), 1.0 / 16)
#define QKV(i) value(2, (i), 1.0 / 16)
#define WEIGHT(i) value(3, (i), 1.0 / 64)
#define BIAS(i) value(4, (i), 1.0 / 16)
#define GAMMA(i) value(5, (i), 1.0 / 16)
#define SCORE(i) value(6, (i), 1.0 / 16)

static rvit_view alloc(arena *a, int64_t size)
{
    const rvit_view view = {&a->buffer.base, a->used};
    a->used += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return view;
}

static rvit_view put_values(arena *a, rvit_dtype dtype, uint32_t seed, int64_t n, double scale)
{
    const int64_t element = rvit_dtype_size(dtype);
    const rvit_view view = alloc(a, n * element);
    char *at = (char *)a->buffer.base.host + view.offset;
    for (int64_t i = 0; i < n; i++) {
        const float f = (float)value(seed, i, scale);
        const uint16_t h = dtype == RVIT_BF16 ? rvit_f32_to_bf16(f) : rvit_f32_to_f16(f);
        memcpy(at + i * element, dtype == RVIT_F32 ? (const void *)&f : (const void *)&h, (size_t)element);
    }
    return view;
}

static rvit_view put_ints(arena *a, const int32_t *values, int64_t n)
{
    const rvit_view view = alloc(a, n * 4);
    memcpy((char *)a->buffer.base.host + view.offset, values, (size_t)n * 4);
    return view;
}

static rvit_status open_arena(rvit_vk_device *device, arena *a, int64_t size, rvit_buffer_type type)
{
    RVIT_TRY(rvit_vk_buffer_open(device, size, type, &a->buffer));
    a->buffer.base.device = &device->base;
    a->buffer.base.size = size;
    a->buffer.base.type = type;
    return RVIT_OK;
}

static check *add(self_test *t, const char *name, const rvit_op *op, rvit_view out, int64_t n, rvit_dtype dtype)
{
    check *c = &t->checks[t->n_checks++];
    c->name = name;
    c->op = *op;
    c->at = out.offset;
    c->n = n;
    c->dtype = dtype;
    c->tolerance = dtype == RVIT_F32 ? 2e-4 : 1e-2;
    return c;
}

static rvit_op *add_linear(self_test *t, const char *name, rvit_dtype dtype)
{
    const rvit_view out = alloc(&t->out, ROWS * OUT * rvit_dtype_size(dtype));
    const rvit_op op = {.type = RVIT_OP_LINEAR,
                        .linear = {.struct_size = sizeof op.linear,
                                   .dtype = dtype,
                                   .out_dtype = dtype,
                                   .rows = {.capacity = ROWS},
                                   .in_features = DIM,
                                   .out_features = OUT,
                                   .activation = RVIT_ACTIVATION_GELU,
                                   .x = t->x[dtype],
                                   .weight = t->weight[dtype],
                                   .bias = t->bias,
                                   .out = out}};
    check *c = add(t, name, &op, out, ROWS * OUT, dtype);
    for (int row = 0; row < ROWS; row++)
        for (int o = 0; o < OUT; o++) {
            double sum = BIAS(o);
            for (int i = 0; i < DIM; i++)
                sum += X(row * DIM + i) * WEIGHT(o * DIM + i);
            c->expected[row * OUT + o] = 0.5 * sum * (1.0 + erf(sum * sqrt(0.5)));
        }
    return &c->op;
}

static void attend(double *expected, int begin, int end, int head)
{
    for (int query = begin; query < end; query++) {
        double p[MAX_LEN], sum = 0.0, out[HEAD_DIM] = {0};
        for (int key = begin; key < end; key++) {
            double dot = 0.0;
            for (int d = 0; d < HEAD_DIM; d++)
                dot += QKV(query * WIDE + head * HEAD_DIM + d) * QKV(key * WIDE + DIM + head * HEAD_DIM + d);
            sum += p[key - begin] = exp(dot / 8.0); /* sqrt(HEAD_DIM); the logits are small */
        }
        for (int key = begin; key < end; key++)
            for (int d = 0; d < HEAD_DIM; d++)
                out[d] += p[key - begin] / sum * QKV(key * WIDE + 2 * DIM + head * HEAD_DIM + d);
        memcpy(expected + query * DIM + head * HEAD_DIM, out, sizeof out);
    }
}

static void add_attention(self_test *t, const char *name, rvit_dtype dtype)
{
    const int64_t element = rvit_dtype_size(dtype);
    const rvit_view out = alloc(&t->out, ROWS * DIM * element), qkv = t->qkv[dtype];
    const rvit_op op = {.type = RVIT_OP_ATTENTION,
                        .attention = {.struct_size = sizeof op.attention,
                                      .dtype = dtype,
                                      .n_images = N_IMAGES,
                                      .n_heads = HEADS,
                                      .head_dim = HEAD_DIM,
                                      .max_len = MAX_LEN,
                                      .rows = ROWS,
                                      .q = qkv,
                                      .k = {qkv.buffer, qkv.offset + DIM * element},
                                      .v = {qkv.buffer, qkv.offset + 2 * DIM * element},
                                      .q_stride = WIDE,
                                      .k_stride = WIDE,
                                      .v_stride = WIDE,
                                      .cu_seqlens = t->cu,
                                      .out = out}};
    check *c = add(t, name, &op, out, ROWS * DIM, dtype);
    for (int image = 0; image < N_IMAGES; image++)
        for (int head = 0; head < HEADS; head++)
            attend(c->expected, cu_seqlens[image], cu_seqlens[image + 1], head);
}

static void add_layernorm(self_test *t)
{
    const double eps = 1e-5;
    const rvit_view out = alloc(&t->out, ROWS * DIM * 4);
    const rvit_op op = {.type = RVIT_OP_LAYERNORM,
                        .layernorm = {.struct_size = sizeof op.layernorm,
                                      .rows = {.capacity = ROWS},
                                      .dim = DIM,
                                      .features = DIM,
                                      .eps = (float)eps,
                                      .x = t->x[0],
                                      .gamma = t->gamma,
                                      .beta = t->beta,
                                      .out = out}};
    check *c = add(t, "layernorm_f32", &op, out, ROWS * DIM, RVIT_F32);
    for (int row = 0; row < ROWS; row++) {
        double mean = 0.0, variance = 0.0;
        for (int i = 0; i < DIM; i++)
            mean += X(row * DIM + i) / DIM;
        for (int i = 0; i < DIM; i++)
            variance += (X(row * DIM + i) - mean) * (X(row * DIM + i) - mean) / DIM;
        for (int i = 0; i < DIM; i++)
            c->expected[row * DIM + i] = (X(row * DIM + i) - mean) / sqrt(variance + eps) * GAMMA(i) + BIAS(i);
    }
}

/* Whether a row is among the n best of its image: by higher score, then lower index. */
static int is_kept(int row, int begin, int end, int n)
{
    int before = 0;
    for (int other = begin + 1; other < end; other++)
        before += SCORE(other) > SCORE(row) || (SCORE(other) == SCORE(row) && other < row);
    return row == begin || before < n;
}

static void add_select(self_test *t)
{
    const rvit_view keep = alloc(&t->out, ROWS), cu = alloc(&t->out, (N_IMAGES + 1) * 4), src_rows = alloc(&t->out, ROWS * 4);
    const rvit_op op = {.type = RVIT_OP_SELECT,
                        .select = {.struct_size = sizeof op.select,
                                   .mode = RVIT_SELECT_TOP_K,
                                   .n_images = N_IMAGES,
                                   .max_len = MAX_LEN,
                                   .rows = ROWS,
                                   .n_prefix = 1,
                                   .cu_seqlens = t->cu,
                                   .counts = t->counts,
                                   .scores = t->scores,
                                   .keep = keep,
                                   .out_cu_seqlens = cu,
                                   .src_rows = src_rows}};
    check *c = add(t, "select", &op, src_rows, 0, RVIT_F32);
    c->is_integer = 1;
    for (int image = 0; image < N_IMAGES; image++) {
        const int begin = cu_seqlens[image], end = cu_seqlens[image + 1];
        for (int row = begin; row < end; row++)
            if (is_kept(row, begin, end, (end - begin - 1) / 2))
                c->expected[c->n++] = row;
    }
}

/* Half of the rows past the prefix of each image are kept. */
static void put_inputs(self_test *t)
{
    int32_t counts[MAX_LEN + 1];
    for (int n = 0; n <= MAX_LEN; n++)
        counts[n] = n / 2;
    for (rvit_dtype dtype = RVIT_F32; dtype <= RVIT_BF16; dtype++) {
        t->x[dtype] = put_values(&t->in, dtype, 1, ROWS * DIM, 1.0 / 16);
        t->qkv[dtype] = put_values(&t->in, dtype, 2, ROWS * WIDE, 1.0 / 16);
        t->weight[dtype] = put_values(&t->in, dtype, 3, OUT * DIM, 1.0 / 64);
    }
    t->bias = t->beta = put_values(&t->in, RVIT_F32, 4, DIM, 1.0 / 16);
    t->gamma = put_values(&t->in, RVIT_F32, 5, DIM, 1.0 / 16);
    t->scores = put_values(&t->in, RVIT_F32, 6, ROWS, 1.0 / 16);
    t->counts = put_ints(&t->in, counts, MAX_LEN + 1);
    t->cu = put_ints(&t->in, cu_seqlens, N_IMAGES + 1);
}

static double load(const self_test *t, const check *c, int64_t i)
{
    const char *at = (const char *)t->out.buffer.base.host + c->at + i * rvit_dtype_size(c->dtype);
    if (c->is_integer) {
        int32_t whole;
        memcpy(&whole, at, sizeof whole);
        return whole;
    }
    if (c->dtype != RVIT_F32) {
        uint16_t half;
        memcpy(&half, at, sizeof half);
        return c->dtype == RVIT_F16 ? rvit_f16_to_f32(half) : rvit_bf16_to_f32(half);
    }
    float single;
    memcpy(&single, at, sizeof single);
    return single;
}

static rvit_status compare(const self_test *t, int run)
{
    for (int i = 0; i < t->n_checks; i++) {
        const check *c = &t->checks[i];
        for (int64_t e = 0; e < c->n; e++) {
            const double got = load(t, c, e), wanted = c->expected[e];
            const double bound = c->is_integer ? 0.0 : c->tolerance * (1.0 + fabs(wanted));
            if (!(fabs(got - wanted) <= bound)) /* also fails for NaN */
                return rvit_fail(RVIT_INTERNAL, "self-test: %s gives %g, not %g (element %lld, run %d)", c->name, got, wanted, (long long)e,
                                 run + 1);
        }
    }
    return RVIT_OK;
}

static rvit_status launch(self_test *t, rvit_stream *stream, rvit_program *program)
{
    for (int run = 0; run < RUNS; run++) {
        memset(t->out.buffer.base.host, 0xff, (size_t)t->out.buffer.base.size);
        RVIT_TRY(rvit_vk_program_launch(program, stream, NULL));
        RVIT_TRY(rvit_vk_stream_synchronize(stream));
        RVIT_TRY(compare(t, run));
    }
    return RVIT_OK;
}

static rvit_status run_checks(self_test *t)
{
    rvit_device *device = &t->device->base;
    int32_t n = 0;
    for (int i = 0; i < t->n_checks; i++) {
        RVIT_TRY(rvit_op_prepare(&t->checks[i].op));
        if (rvit_vk_supports(device, &t->checks[i].op) == NULL)
            t->ops[n++] = t->checks[i].op;
        else
            t->checks[i].n = 0;
    }
    rvit_program *program = NULL;
    rvit_stream *stream = NULL;
    RVIT_TRY(rvit_vk_stream_create(device, &stream));
    rvit_status status = rvit_vk_program_create(device, t->ops, n, &program);
    if (status == RVIT_OK) {
        program->device = device;
        status = launch(t, stream, program);
        rvit_vk_program_destroy(program);
    }
    rvit_vk_stream_destroy(stream);
    return status;
}

static rvit_status arrange(rvit_vk_device *device, rvit_op *op)
{
    rvit_stream *stream = NULL;
    RVIT_TRY(rvit_vk_stream_create(&device->base, &stream));
    rvit_status status = rvit_vk_arrange_weight(stream, op);
    if (status == RVIT_OK)
        status = rvit_vk_stream_synchronize(stream);
    rvit_vk_stream_destroy(stream);
    return status;
}

static rvit_status test(self_test *t)
{
    RVIT_TRY(open_arena(t->device, &t->in, 256 * 1024, RVIT_BUFFER_UPLOAD));
    RVIT_TRY(open_arena(t->device, &t->out, 64 * 1024, RVIT_BUFFER_READBACK));
    put_inputs(t);
    add_linear(t, "linear_f32", RVIT_F32);
    add_attention(t, "attention_f32", RVIT_F32);
    add_linear(t, "linear_f16", RVIT_F16);
    add_attention(t, "attention_f16", RVIT_F16);
    if (t->device->base.info.tier == RVIT_TIER_MATRIX && t->device->physical.matrix.in_rows) {
        rvit_op *op = add_linear(t, "linear_f16 of an arranged weight", RVIT_F16);
        op->linear.weight = put_values(&t->in, RVIT_F16, 3, OUT * DIM, 1.0 / 64);
        RVIT_TRY(arrange(t->device, op));
    }
    /* In the other tiers bf16 uses the kernels of f16. */
    if (t->device->base.info.tier == RVIT_TIER_MATRIX && t->device->physical.matrix.has_bf16) {
        add_linear(t, "linear_bf16", RVIT_BF16);
        add_attention(t, "attention_bf16", RVIT_BF16);
    }
    add_layernorm(t);
    add_select(t);
    return run_checks(t);
}

rvit_status rvit_vk_self_test(rvit_vk_device *device)
{
    self_test *t = rvit_alloc_new(&device->base.alloc, sizeof *t);
    RVIT_TRY_MEMORY(t);
    t->device = device;
    const rvit_status status = test(t);
    rvit_vk_buffer_close(device, &t->in.buffer);
    rvit_vk_buffer_close(device, &t->out.buffer);
    rvit_alloc_free(&device->base.alloc, t);
    return status;
}
