/* Random programs in one range of memory, where ops read and overwrite data of other ops, so that a device needs barriers. The contents are
   small integers, so that any word is a valid live count. Plain code runs the same ops in sequence. */
#include "properties.h"

enum { WORDS = 512, SIZE = WORDS * 4, ROW = 16, N_INDEX = 8 };

typedef enum step_kind { STEP_COPY, STEP_PACK, STEP_UNPACK, N_STEP_KINDS } step_kind;

typedef struct step {
    step_kind kind;
    int32_t from, to, size, live; /* byte offsets; live -1: none */
    int32_t in_place;             /* unpack: what is not in source stays */
} step;

typedef struct memory {
    array *words, *pack_index, *unpack_index;
    int32_t pack_rows[N_INDEX], unpack_rows[N_INDEX];
} memory;

static int apart(int32_t a, int32_t a_size, int32_t b, int32_t b_size)
{
    return a + a_size <= b || b + b_size <= a;
}

/* Sources and live counts lie apart from what is written: the ops demand it. */
static step random_step(void)
{
    for (;;) {
        step s;
        memset(&s, 0, sizeof s);
        s.kind = (step_kind)random_below(N_STEP_KINDS);
        const int32_t unit = s.kind == STEP_COPY ? 4 : ROW;
        s.size = s.kind == STEP_COPY ? 4 * (1 + random_below(64)) : N_INDEX * ROW;
        s.from = random_below((SIZE - s.size) / unit + 1) * unit;
        s.to = random_below((SIZE - 2 * s.size) / unit + 1) * unit;
        s.live = s.kind != STEP_COPY && random_below(3) ? random_below(WORDS) * 4 : -1;
        s.in_place = random_below(2);
        const int32_t written = s.kind == STEP_UNPACK ? 2 * s.size : s.size;
        if (apart(s.from, s.size, s.to, written) && (s.live < 0 || apart(s.live, 4, s.to, written)))
            return s;
    }
}

static int32_t live_of(const uint8_t *words, const step *s)
{
    int32_t live = N_INDEX;
    if (s->live >= 0)
        memcpy(&live, words + s->live, 4);
    return live < 0 ? 0 : live > N_INDEX ? N_INDEX : live;
}

static void simulate(const memory *m, const step *s, uint8_t *words)
{
    const int32_t rows = live_of(words, s);
    static const float fill = 0;
    if (s->kind == STEP_COPY) {
        memcpy(words + s->to, words + s->from, (size_t)s->size);
        return;
    }
    if (s->kind == STEP_UNPACK && !s->in_place)
        for (int i = 0; i < 2 * N_INDEX * ROW / 4; i++)
            memcpy(words + s->to + i * 4, &fill, 4);
    for (int32_t i = 0; i < rows; i++) {
        const int32_t from = s->kind == STEP_PACK ? m->pack_rows[i] : i, to = s->kind == STEP_PACK ? i : m->unpack_rows[i];
        memcpy(words + s->to + to * ROW, words + s->from + from * ROW, ROW);
    }
}

static rvit_view at(const memory *m, int32_t offset)
{
    rvit_view view = array_view(m->words, DEVICE);
    view.offset += offset;
    return view;
}

static rvit_status call(const memory *m, const step *s, rvit_stream *stream)
{
    const rvit_view none = {NULL, 0};
    const rvit_rows rows = {N_INDEX, s->live < 0 ? none : at(m, s->live), 0};
    if (s->kind == STEP_COPY) {
        rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
        copy.source = at(m, s->from);
        copy.destination = at(m, s->to);
        copy.size = s->size;
        return rvit_copy(stream, &copy);
    }
    if (s->kind == STEP_PACK) {
        rvit_pack_args pack = RVIT_PACK_ARGS_INIT;
        pack.rows = rows;
        pack.source_rows = N_INDEX;
        pack.row_size = ROW;
        pack.source = at(m, s->from);
        pack.src_rows = array_view(m->pack_index, DEVICE);
        pack.destination = at(m, s->to);
        return rvit_pack(stream, &pack);
    }
    rvit_unpack_args unpack = RVIT_UNPACK_ARGS_INIT;
    unpack.rows = rows;
    unpack.destination_rows.capacity = 2 * N_INDEX;
    unpack.dim = ROW / 4;
    unpack.source = at(m, s->from);
    unpack.src_rows = array_view(m->unpack_index, DEVICE);
    unpack.destination = at(m, s->to);
    if (s->in_place)
        unpack.base = unpack.destination;
    return rvit_unpack(stream, &unpack);
}

static memory make_memory(void)
{
    memory m;
    m.words = array_output("words", SIZE);
    m.pack_index = array_input("pack_index", N_INDEX * 4);
    m.unpack_index = array_input("unpack_index", N_INDEX * 4);
    for (int i = 0; i < N_INDEX; i++) {
        m.pack_rows[i] = random_below(N_INDEX);
        m.unpack_rows[i] = 2 * i + random_below(2);
    }
    memcpy(m.pack_index->host, m.pack_rows, sizeof m.pack_rows);
    memcpy(m.unpack_index->host, m.unpack_rows, sizeof m.unpack_rows);
    for (int i = 0; i < WORDS; i++) {
        const int32_t value = random_below(N_INDEX + 4) - 2;
        memcpy(m.words->host + i * 4, &value, 4);
    }
    return m;
}

static void expect_words(const memory *m, const uint8_t *wanted, const char *what, int program)
{
    arrays_fetch(DEVICE);
    for (int i = 0; i < SIZE; i++)
        if (m->words->result[DEVICE][i] != wanted[i])
            fail_msg("program %d, %s: byte %d is %02x, should be %02x", program, what, i, m->words->result[DEVICE][i], wanted[i]);
}

static void random_programs(void **state)
{
    (void)state;
    enum { N_PROGRAMS = 40, N_STEPS = 80, LAUNCHES = 3 };
    rvit_stream *stream = H.stream[DEVICE];
    for (int n = 0; n < N_PROGRAMS; n++) {
        if (leaves_out(n, 4))
            continue;
        random_seed((uint64_t)(n + 1) * 1000003);
        const memory m = make_memory();
        step steps[N_STEPS];
        uint8_t wanted[SIZE];
        for (int i = 0; i < N_STEPS; i++)
            steps[i] = random_step();
        memcpy(wanted, m.words->host, SIZE);
        arrays_upload();
        for (int i = 0; i < N_STEPS; i++) {
            simulate(&m, &steps[i], wanted);
            expect_ok(call(&m, &steps[i], stream));
        }
        expect_words(&m, wanted, "one op after another", n);
        rvit_program *program = NULL;
        expect_ok(rvit_record_begin(stream));
        for (int i = 0; i < N_STEPS; i++)
            expect_ok(call(&m, &steps[i], stream));
        expect_ok(rvit_record_end(stream, &program));
        arrays_upload();
        for (int launch = 0; launch < LAUNCHES; launch++)
            expect_ok(rvit_program_launch(program, stream));
        memcpy(wanted, m.words->host, SIZE);
        for (int i = 0; i < LAUNCHES * N_STEPS; i++)
            simulate(&m, &steps[i % N_STEPS], wanted);
        expect_words(&m, wanted, "recorded", n);
        rvit_program_destroy(program);
        harness_teardown(NULL);
    }
}

/* Many ops that need no order among them, then one that needs the first of them: what is remembered of the past must not run over. */
static void many_independent_ops(void **state)
{
    (void)state;
    enum { N = 1000, SLOT = 64 };
    array *source = array_input("source", N * SLOT), *middle = array_output("middle", N * SLOT), *last = array_output("last", N * SLOT);
    for (int i = 0; i < N * SLOT; i++)
        source->host[i] = (uint8_t)random_bits();
    arrays_upload();
    rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
    copy.size = SLOT;
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    for (int i = 0; i < 2 * N; i++) {
        const int64_t slot = i % N * 7 % N * SLOT;
        copy.source = array_view(i < N ? source : middle, DEVICE);
        copy.destination = array_view(i < N ? middle : last, DEVICE);
        copy.source.offset += slot;
        copy.destination.offset += slot;
        expect_ok(rvit_copy(H.stream[DEVICE], &copy));
    }
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
    arrays_fetch(DEVICE);
    assert_memory_equal(last->result[DEVICE], source->host, N * SLOT);
    rvit_program_destroy(program);
}

enum { GEMM_ROWS = 40, N_SETS = 2 };

/* GEMMs that read weights written by ops of the same program, immediately before or with other ops between. The weights of the last one
   are the output of a GEMM. */
typedef struct weight_chain {
    int32_t in, out;
    rvit_dtype dtype;
    array *x, *live, *weights[N_SETS], *biases[N_SETS], *weight, *bias, *gamma, *results[3], *aside[2];
} weight_chain;

static rvit_status multiply(const weight_chain *c, const array *weight, const array *bias, const array *out, int32_t out_features)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = c->dtype;
    args.rows.capacity = GEMM_ROWS;
    args.rows.live = array_view(c->live, DEVICE);
    args.in_features = c->in;
    args.out_features = out_features;
    args.x = array_view(c->x, DEVICE);
    args.weight = array_view(weight, DEVICE);
    args.bias = array_view(bias, DEVICE);
    args.out = array_view(out, DEVICE);
    return rvit_linear(H.stream[DEVICE], &args);
}

static rvit_status copy_array(const array *from, const array *to)
{
    rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
    copy.source = array_view(from, DEVICE);
    copy.destination = array_view(to, DEVICE);
    copy.size = from->size;
    return rvit_copy(H.stream[DEVICE], &copy);
}

static void run_weight_chain(const weight_chain *c)
{
    for (int set = 0; set < N_SETS; set++) {
        expect_ok(copy_array(c->biases[set], c->bias));
        expect_ok(copy_array(c->weights[set], c->weight));
        if (set == 1)
            expect_ok(copy_array(c->gamma, c->aside[0]));
        expect_ok(multiply(c, c->weight, c->bias, c->results[set], c->out));
    }
    rvit_layernorm_args norm = RVIT_LAYERNORM_ARGS_INIT;
    norm.dtype = norm.out_dtype = c->dtype;
    norm.rows.capacity = GEMM_ROWS;
    norm.dim = c->in;
    norm.eps = 1e-5f;
    norm.x = array_view(c->x, DEVICE);
    norm.gamma = norm.beta = array_view(c->gamma, DEVICE);
    norm.out = array_view(c->aside[1], DEVICE);
    expect_ok(rvit_layernorm(H.stream[DEVICE], &norm));
    expect_ok(multiply(c, c->aside[1], NULL, c->results[2], GEMM_ROWS));
}

static void weights_of_the_program(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{128, 96}, {64, 8}, {256, 192}}; /* the last is not copied by a kernel on every device */
    for (int dtype = RVIT_F32; dtype < n_types(); dtype++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            weight_chain c = {.in = sizes[s][0], .out = sizes[s][1], .dtype = (rvit_dtype)dtype};
            const int64_t element = rvit_dtype_size(c.dtype), weight_size = (int64_t)c.in * c.out * element;
            const int32_t live = GEMM_ROWS;
            c.x = array_input("x", GEMM_ROWS * c.in * element);
            c.live = array_input("live", 4);
            c.gamma = array_input("gamma", c.in * 4);
            store_normal(c.dtype, c.x->host, 0, (int64_t)GEMM_ROWS * c.in, 1);
            memcpy(c.live->host, &live, 4);
            store_normal(RVIT_F32, c.gamma->host, 0, c.in, 1);
            for (int set = 0; set < N_SETS; set++) {
                c.weights[set] = array_input("weights", weight_size);
                c.biases[set] = array_input("biases", c.out * 4);
                store_normal(c.dtype, c.weights[set]->host, 0, (int64_t)c.in * c.out, 1);
                store_normal(RVIT_F32, c.biases[set]->host, 0, c.out, 1);
            }
            c.weight = array_output("weight", weight_size);
            c.bias = array_output("bias", c.out * 4);
            c.aside[0] = array_output("copy of gamma", c.in * 4);
            c.aside[1] = array_output("normal", GEMM_ROWS * c.in * element);
            for (int i = 0; i < 3; i++)
                c.results[i] = array_output("result", GEMM_ROWS * (i < 2 ? c.out : GEMM_ROWS) * element);
            uint8_t *wanted[3];
            arrays_upload();
            run_weight_chain(&c);
            arrays_fetch(DEVICE);
            for (int i = 0; i < 3; i++) {
                wanted[i] = scratch((size_t)c.results[i]->size);
                memcpy(wanted[i], c.results[i]->result[DEVICE], (size_t)c.results[i]->size);
            }
            rvit_program *program = NULL;
            expect_ok(rvit_record_begin(H.stream[DEVICE]));
            run_weight_chain(&c);
            expect_ok(rvit_record_end(H.stream[DEVICE], &program));
            for (int launch = 0; launch < 20; launch++) {
                if (launch % 5 == 0)
                    arrays_upload();
                expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
                if (launch % 5 < 4)
                    continue; /* launches follow each other at once */
                arrays_fetch(DEVICE);
                for (int i = 0; i < 3; i++)
                    if (memcmp(wanted[i], c.results[i]->result[DEVICE], (size_t)c.results[i]->size) != 0)
                        fail_msg("%s, %d x %d: product %d is not that of its weights", rvit_enum_name(RVIT_ENUM_DTYPE, c.dtype), c.out,
                                 c.in, i);
            }
            rvit_program_destroy(program);
            harness_teardown(NULL);
        }
}

SUITE(programs_suite, TEST(random_programs), TEST(many_independent_ops), TEST(weights_of_the_program));
