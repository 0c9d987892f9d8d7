/* Op fusion on the CPU: a recorded list of ops gives the same bytes as running its ops one by one, whatever arrays they share, and the
   ops of a forward are fused where that is possible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <raggedvit/raggedvit.h>

#include "emulated_kernels.h"
#include "backend_cpu/cpu.h"
#include "core/base/half.h"

enum { ROWS = 700, MOST_DIM = 64, SLOT = ROWS * MOST_DIM * 4, SLOTS = 6, ARENA = SLOTS * SLOT, WEIGHTS = MOST_DIM * MOST_DIM * 4, OPS = 8 };

static rvit_device *device;
static const char *kernels_of_device;
static rvit_stream *stream;
static rvit_buffer *arena, *weights;
static uint8_t before[ARENA], expected[ARENA], found[ARENA];
static uint32_t state_of_random = 11;

static uint32_t any(uint32_t n)
{
    state_of_random = state_of_random * 1664525u + 1013904223u;
    return (state_of_random >> 8) % n;
}

static void fill(void *data, int64_t n, rvit_dtype dtype)
{
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)any(2001) / 1000.0f - 1.0f;
        if (dtype == RVIT_F32)
            ((float *)data)[i] = value;
        else
            ((uint16_t *)data)[i] = rvit_f32_to_bf16(value);
    }
}

static void open_device(int32_t n_threads, rvit_dtype dtype)
{
    static float values[2 * WEIGHTS / 4];
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    desc.n_threads = n_threads;
    desc.kernels = kernels_of_device;
    assert_int_equal(rvit_device_create(&desc, &device), RVIT_OK);
    assert_int_equal(rvit_stream_create(device, &stream), RVIT_OK);
    assert_int_equal(rvit_buffer_create(device, ARENA, RVIT_BUFFER_DEVICE, &arena), RVIT_OK);
    assert_int_equal(rvit_buffer_create(device, sizeof values, RVIT_BUFFER_DEVICE, &weights), RVIT_OK);
    fill(values, WEIGHTS / rvit_dtype_size(dtype), dtype);
    fill(values + WEIGHTS / 4, WEIGHTS / 4, RVIT_F32);
    assert_int_equal(rvit_stream_write(stream, (rvit_view){weights, 0}, values, sizeof values), RVIT_OK);
    fill(before, ARENA / rvit_dtype_size(dtype), dtype);
}

static void close_device(void)
{
    rvit_buffer_destroy(arena);
    rvit_buffer_destroy(weights);
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
}

/* Mostly at the start of a slot, so that ops read the outputs of others; sometimes half a slot or a few rows later. */
static rvit_view any_array(void)
{
    const int64_t further = any(4) > 0 ? 0 : any(2) ? SLOT / 2 : (int64_t)any(5) * MOST_DIM * 4;
    return (rvit_view){arena, (int64_t)any(SLOTS - 1) * SLOT + further};
}

static rvit_op any_op(rvit_dtype dtype, int64_t rows)
{
    const rvit_view vector = {weights, WEIGHTS};
    rvit_op op = {.type = any(3) > 0 ? RVIT_OP_LINEAR : RVIT_OP_LAYERNORM, .passes_on = 0};
    if (op.type == RVIT_OP_LINEAR) {
        op.linear = (rvit_linear_args)RVIT_LINEAR_ARGS_INIT;
        op.linear.dtype = op.linear.out_dtype = dtype;
        op.linear.rows.capacity = rows;
        op.linear.in_features = 16 << any(3);
        op.linear.out_features = 16 << any(3);
        op.linear.activation = any(2) ? RVIT_ACTIVATION_GELU : RVIT_ACTIVATION_NONE;
        op.linear.x = any_array();
        op.linear.out = any_array();
        op.linear.weight = (rvit_view){weights, 0};
        op.linear.bias = vector;
        if (any(3) == 0)
            op.linear.residual = any(2) ? op.linear.out : any_array();
    } else {
        op.layernorm = (rvit_layernorm_args)RVIT_LAYERNORM_ARGS_INIT;
        op.layernorm.dtype = op.layernorm.out_dtype = dtype;
        op.layernorm.rows.capacity = rows;
        op.layernorm.dim = 16 << any(3);
        op.layernorm.eps = 1e-6f;
        op.layernorm.x = any_array();
        op.layernorm.out = any_array();
        op.layernorm.gamma = op.layernorm.beta = vector;
    }
    return op;
}

static rvit_status enqueue(const rvit_op *op)
{
    return op->type == RVIT_OP_LINEAR ? rvit_linear(stream, &op->linear) : rvit_layernorm(stream, &op->layernorm);
}

static void random_lists(void **state)
{
    (void)state;
    static const int32_t threads[] = {1, 3};
    int fused = 0;
    for (int t = 0; t < 4; t++) {
        const rvit_dtype dtype = t < 2 ? RVIT_F32 : RVIT_BF16;
        open_device(threads[t % 2], dtype);
        ((rvit_cpu_device *)device)->tile_rows = 16 + 8 * t;
        for (int list = 0; list < 150; list++) {
            rvit_op ops[OPS];
            const int64_t rows = any(2) ? ROWS : 1 + any(ROWS);
            rvit_program *program;
            assert_int_equal(rvit_stream_write(stream, (rvit_view){arena, 0}, before, ARENA), RVIT_OK);
            for (int n = 0; n < OPS; n++)
                do
                    ops[n] = any_op(dtype, rows);
                while (enqueue(&ops[n]) != RVIT_OK); /* its own arrays overlap */
            assert_int_equal(rvit_stream_read(stream, (rvit_view){arena, 0}, expected, ARENA), RVIT_OK);
            assert_int_equal(rvit_stream_write(stream, (rvit_view){arena, 0}, before, ARENA), RVIT_OK);
            assert_int_equal(rvit_record_begin(stream), RVIT_OK);
            for (int n = 0; n < OPS; n++)
                assert_int_equal(enqueue(&ops[n]), RVIT_OK);
            assert_int_equal(rvit_record_end(stream, &program), RVIT_OK);
            assert_int_equal(rvit_program_launch(program, stream), RVIT_OK);
            assert_int_equal(rvit_stream_read(stream, (rvit_view){arena, 0}, found, ARENA), RVIT_OK);
            assert_memory_equal(found, expected, ARENA);
            const rvit_cpu_program *recorded = (const rvit_cpu_program *)program;
            for (int n = 0; n < OPS; n += recorded->fused[n].length)
                fused += recorded->fused[n].length > 1 && recorded->fused[n].tile_rows > 0;
            rvit_program_destroy(program);
        }
        close_device();
    }
    assert_true(fused > 100);
}

/* The ops of a block after its attention. */
static void block_ops(rvit_op *ops, int64_t hidden_at)
{
    const rvit_view x = {arena, 0}, normed = {arena, SLOT}, attended = {arena, 2 * SLOT}, hidden = {arena, hidden_at},
                    vector = {weights, WEIGHTS};
    for (int i = 0; i < 5; i++) {
        ops[i] = (rvit_op){.type = i == 1 || i == 4 ? RVIT_OP_LAYERNORM : RVIT_OP_LINEAR, .passes_on = i == 2};
        if (ops[i].type == RVIT_OP_LAYERNORM) {
            ops[i].layernorm = (rvit_layernorm_args){
                .rows.capacity = ROWS, .dim = 16, .eps = 1e-6f, .x = x, .gamma = vector, .beta = vector, .out = normed};
            ops[i].layernorm.struct_size = sizeof ops[i].layernorm;
        } else {
            ops[i].linear = (rvit_linear_args){.rows.capacity = ROWS, .in_features = i == 3 ? 64 : 16, .out_features = i == 2 ? 64 : 16};
            ops[i].linear.struct_size = sizeof ops[i].linear;
            ops[i].linear.weight = (rvit_view){weights, 0};
            ops[i].linear.x = i == 0 ? attended : i == 2 ? normed : hidden;
            ops[i].linear.residual = i == 2 ? (rvit_view){0} : x;
            ops[i].linear.out = i == 2 ? hidden : x;
        }
        assert_int_equal(rvit_op_prepare(&ops[i]), RVIT_OK);
    }
}

static void fused_ops_of_a_block(void **state)
{
    (void)state;
    rvit_op ops[5];
    open_device(1, RVIT_F32);
    const rvit_cpu_device *cpu = (const rvit_cpu_device *)device;
    block_ops(ops, 3 * SLOT);
    rvit_cpu_fused fused = rvit_cpu_find_fused(cpu, ops, 5);
    assert_int_equal(fused.length, 5);
    assert_int_equal(fused.passing, 1 << 2);
    /* The hidden layer overlaps attention's rows, which have another width: fc1 must wait for proj. */
    block_ops(ops, 2 * SLOT);
    fused = rvit_cpu_find_fused(cpu, ops, 5);
    assert_int_equal(fused.length, 2);
    /* A gathered row, or a different number of rows, ends the fusion. */
    block_ops(ops, 3 * SLOT);
    ops[4].layernorm.src_rows = (rvit_view){arena, 5 * SLOT};
    assert_int_equal(rvit_cpu_find_fused(cpu, ops, 5).length, 4);
    ops[3].linear.rows.capacity = ROWS - 1;
    assert_int_equal(rvit_cpu_find_fused(cpu, ops, 5).length, 3);
    assert_int_equal(rvit_cpu_find_fused(cpu, ops, 5).passing, 0);
    close_device();
}

/* The ops from a DeiT's proj to the next block's qkv, with arrays that do not overlap. They are not run. Returns the number of ops. */
static int32_t deit_ops(rvit_op *ops, int32_t dim, rvit_dtype dtype, int64_t rows)
{
    const int32_t in[] = {dim, dim, 4 * dim, dim}, out[] = {dim, 4 * dim, dim, 3 * dim};
    int32_t n = 0;
    rvit_view x = {arena, 0};
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 1) { /* before fc1 and qkv */
            ops[n] = (rvit_op){.type = RVIT_OP_LAYERNORM};
            ops[n].layernorm = (rvit_layernorm_args){.rows.capacity = rows, .x_rows = rows, .dim = dim, .out_dtype = dtype, .x = x};
            ops[n++].layernorm.out = x = (rvit_view){arena, x.offset + (1LL << 32)};
        } else if (dtype == RVIT_I8) {
            ops[n] = (rvit_op){.type = RVIT_OP_QUANTIZE};
            ops[n].quantize = (rvit_quantize_args){.rows.capacity = rows, .columns = in[i], .dtype = RVIT_BF16, .out_dtype = dtype, .x = x};
            ops[n++].quantize.out = x = (rvit_view){arena, x.offset + (1LL << 32)};
        }
        ops[n] = (rvit_op){.type = RVIT_OP_LINEAR};
        ops[n].linear = (rvit_linear_args){.rows.capacity = rows, .in_features = in[i], .out_features = out[i], .dtype = dtype, .x = x};
        ops[n].linear.weight = (rvit_view){weights, (int64_t)i << 32};
        ops[n].linear.out_dtype = i % 2 == 0 || dtype == RVIT_F32 ? RVIT_F32 : RVIT_BF16;
        ops[n].linear.activation = i == 1 && dtype != RVIT_I8 ? RVIT_ACTIVATION_GELU : RVIT_ACTIVATION_NONE;
        ops[n++].linear.out = x = (rvit_view){arena, x.offset + (1LL << 32)};
    }
    return n;
}

/* For the measured cases of DeiT-T, S and B (bench/notes/cpu.md) the device chooses a number of tile rows that was among the best, or no
   fusion if that was faster. */
static void chosen_tile_rows(void **state)
{
    (void)state;
    enum { T = 192, S = 384, B = 768, IMAGE = 197, PRUNED = 40 };
    static const struct {
        int32_t n_threads, dim;
        rvit_dtype dtype;
        int64_t rows, least, most;
    } cases[] = {
        /* 16 threads: small tiles, so that all threads finish at about the same time. */
        {16, T, RVIT_BF16, 1 * IMAGE, 16, 16},
        {16, T, RVIT_I8, 1 * IMAGE, 16, 16},
        {16, T, RVIT_BF16, 1 * PRUNED, 16, 16},
        {16, T, RVIT_BF16, 8 * IMAGE, 16, 16},
        {16, T, RVIT_I8, 8 * IMAGE, 16, 16},
        {16, T, RVIT_BF16, 8 * PRUNED, 16, 16},
        {16, T, RVIT_I8, 8 * PRUNED, 16, 16},
        {16, T, RVIT_BF16, 32 * IMAGE, 16, 32},
        {16, T, RVIT_I8, 32 * PRUNED, 16, 32},
        {2, T, RVIT_BF16, 8 * IMAGE, 32, 64},
        {2, T, RVIT_I8, 8 * PRUNED, 16, 64},
        {2, T, RVIT_BF16, 1 * IMAGE, 16, 32},
        {2, T, RVIT_I8, 32 * IMAGE, 64, 128},
        {2, T, RVIT_BF16, 1 * PRUNED, 20, 20},
        {2, T, RVIT_I8, 1 * PRUNED, 20, 20},
        /* Weights that do not fit the L2 cache. */
        {16, S, RVIT_I8, 8 * IMAGE, 32, 32},
        {16, S, RVIT_I8, 32 * PRUNED, 32, 32},
        {16, S, RVIT_BF16, 8 * IMAGE, 64, 64},
        {16, S, RVIT_BF16, 32 * PRUNED, 64, 64},
        {16, S, RVIT_I8, 8 * PRUNED, 0, 0},
        {16, S, RVIT_BF16, 8 * PRUNED, 0, 0},
        {16, S, RVIT_I8, 1 * IMAGE, 0, 0},
        {16, S, RVIT_BF16, 1 * IMAGE, 0, 0},
        {16, S, RVIT_BF16, 32 * IMAGE, 64, 64},
        {2, S, RVIT_BF16, 1 * IMAGE, 64, 64},
        {2, S, RVIT_I8, 8 * IMAGE, 64, 64},
        {2, S, RVIT_I8, 32 * IMAGE, 0, 0},
        {2, S, RVIT_I8, 1 * PRUNED, 0, 0},
        {16, B, RVIT_BF16, 8 * IMAGE, 0, 0},
        {16, B, RVIT_I8, 32 * IMAGE, 0, 0},
        {2, B, RVIT_I8, 8 * IMAGE, 0, 0},
        /* No AMX tiles; no threads to wait for. */
        {16, T, RVIT_F32, 8 * IMAGE, 0, 0},
        {1, T, RVIT_BF16, 8 * IMAGE, 0, 0},
    };
    emulated_kernels_register();
    kernels_of_device = "amx_emulated";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rvit_op ops[OPS];
        open_device(cases[i].n_threads, RVIT_F32);
        const int32_t n = deit_ops(ops, cases[i].dim, cases[i].dtype, cases[i].rows);
        const rvit_cpu_fused fused = rvit_cpu_find_fused((rvit_cpu_device *)device, ops, n);
        assert_int_equal(fused.length, n);
        const int64_t tile_rows = rvit_cpu_choose_tile_rows((rvit_cpu_device *)device, ops, &fused, cases[i].rows);
        if (tile_rows < cases[i].least || tile_rows > cases[i].most)
            fail_msg("%d threads, dim %d, dtype %d, %d rows: tiles of %d rows", (int)cases[i].n_threads, (int)cases[i].dim,
                     (int)cases[i].dtype, (int)cases[i].rows, (int)tile_rows);
        close_device();
    }
    kernels_of_device = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_lists), cmocka_unit_test(fused_ops_of_a_block),
                                       cmocka_unit_test(chosen_tile_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
