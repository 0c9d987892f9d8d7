/* Checks that the dumps detect the mistakes that a loader could make: each mistake, one at a time, must change the outputs. */
#include "dumps.h"

#include <math.h>

static rvit_model_info info; /* of the dump's model */
static int interleaved;      /* whether its rotary pairs are interleaved */
static int n_changed;        /* number of tensors that the mistake changed */

static int has(const char *name, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strstr(name, *words) != NULL)
            return 1;
    return 0;
}

static int is_text(const char *name)
{
    return strncmp(name, "text", 4) == 0;
}

static float *copy_of(const float *values, int64_t n)
{
    float *copy = scratch((size_t)n * sizeof *copy);
    memcpy(copy, values, (size_t)n * sizeof *copy);
    return copy;
}

static int64_t elements(int32_t rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int32_t i = 0; i < rank; i++)
        n *= shape[i];
    return n;
}

/* Rotates the rows by `by`. */
static void roll(int64_t rows, int64_t columns, int64_t by, float *values)
{
    const float *old = copy_of(values, rows * columns);
    for (int64_t r = 0; r < rows; r++)
        memcpy(values + (r + by) % rows * columns, old + r * columns, (size_t)columns * sizeof *values);
    n_changed++;
}

/* Reads the pixels of a patch in the order (y, x, channel) as (channel, y, x), or the reverse. */
static void patch_order(const char *name, int32_t rank, const int64_t *shape, float *values)
{
    static const char *const rows[] = {"patch_embedding.weight", "embeds.proj.weight", NULL};
    if (rank == 2 && has(name, rows)) { /* linear patch embeddings */
        const float *row = copy_of(values, shape[0] * shape[1]);
        const int64_t area = (int64_t)info.patch_size * info.patch_size;
        for (int64_t i = 0; i < shape[0] * shape[1]; i++)
            values[i] = row[i / shape[1] * shape[1] + i % shape[1] % info.channels * area + i % shape[1] / info.channels];
        n_changed++;
    }
    if ((rank != 4 && rank != 5) || strstr(name, "pos_embed") != NULL)
        return;
    const int64_t pixels = elements(rank, shape) / shape[0] / shape[1], row = shape[1] * pixels;
    const float *old = copy_of(values, shape[0] * row);
    for (int64_t d = 0; d < shape[0]; d++)
        for (int64_t c = 0; c < shape[1]; c++)
            for (int64_t i = 0; i < pixels; i++)
                values[d * row + c * pixels + i] = old[d * row + i * shape[1] + c];
    n_changed++;
}

/* Shifts the position table by one row. */
static void shifted_positions(const char *name, int32_t rank, const int64_t *shape, float *values)
{
    static const char *const words[] = {"pos_embed", "position_embedding", "positional_embedding", NULL};
    if (rank >= 2 && !is_text(name) && has(name, words))
        roll(elements(rank, shape) / shape[rank - 1], shape[rank - 1], 1, values);
}

/* Takes values as queries, queries as keys, and keys as values. */
static void qkv_order(const char *name, int32_t rank, const int64_t *shape, float *values)
{
    static const char *const words[] = {"qkv.", "attn.in_proj_", "self_attention.in_proj_", NULL};
    if (!is_text(name) && has(name, words))
        roll(shape[0], rank == 2 ? shape[1] : 1, shape[0] / 3, values);
}

/* The same in attention pooling; timm's has only keys and values, which are exchanged. A classifier on top of SigLIP does not use them. */
static void pool_order(const char *name, int32_t rank, const int64_t *shape, float *values)
{
    static const char *const all[] = {"head.attention.in_proj_", NULL}, *const two[] = {"attn_pool.kv.", NULL};
    if (info.pooling == RVIT_POOLING_MAP && (has(name, all) || has(name, two)))
        roll(shape[0], rank == 2 ? shape[1] : 1, shape[0] / (has(name, all) ? 3 : 2), values);
}

/* Takes the other half of a packed gated MLP as the gate. */
static void gate_half(const char *name, int32_t rank, const int64_t *shape, float *values)
{
    static const char *const words[] = {"mlp.fc1.", "mlp.w12.", "mlp.weights_in.", NULL};
    if (info.gated && shape[0] == 2 * (int64_t)info.mlp_dim && has(name, words))
        roll(shape[0], rank == 2 ? shape[1] : 1, shape[0] / 2, values);
}

/* The column that is taken for column j of a head, if the axes are exchanged. */
static int64_t other_axis(int64_t j, int64_t head_dim)
{
    const int64_t quarter = head_dim / 4;
    return interleaved ? (j + 2 * quarter) % head_dim : j + (j / quarter % 2 == 0 ? quarter : -quarter);
}

/* The same, if interleaved pairs are read as halves, or the reverse. */
static int64_t other_layout(int64_t j, int64_t head_dim)
{
    return interleaved ? j % (head_dim / 2) * 2 + j / (head_dim / 2) : j / 2 + j % 2 * (head_dim / 2);
}

/* Permutes the rows of queries and keys within each head. */
static void permute_head_rows(const char *name, int32_t rank, const int64_t *shape, float *values, int64_t (*column)(int64_t, int64_t))
{
    static const char *const both[] = {"attn.qkv.", NULL}, *const one[] = {"attn.q_bias", ".q_proj.", ".k_proj.", NULL};
    const int64_t columns = rank == 2 ? shape[1] : 1, head_dim = info.head_dim, rows = has(name, both) ? 2 * (int64_t)info.dim : info.dim;
    if (is_text(name) || (!has(name, both) && !has(name, one)))
        return;
    const float *old = copy_of(values, rows * columns);
    for (int64_t r = 0; r < rows; r++)
        memcpy(values + r * columns, old + (r / head_dim * head_dim + column(r % head_dim, head_dim)) * columns,
               (size_t)columns * sizeof *values);
    n_changed++;
}

static void rotary_axes(const char *name, int32_t rank, const int64_t *shape, float *values)
{
    permute_head_rows(name, rank, shape, values, other_axis);
}

static void rotary_layout(const char *name, int32_t rank, const int64_t *shape, float *values)
{
    permute_head_rows(name, rank, shape, values, other_layout);
}

/* Parts of tensor names that a loader could exchange. */
static const char *const swaps[][2] = {{"attention.query.", "attention.value."},
                                       {".q_proj.", ".v_proj."},
                                       {".fc1_g.", ".fc1_x."},
                                       {".gate_proj.", ".up_proj."},
                                       {"head.k_proj.", "head.v_proj."}};

static int swap_tensors(json_t *dump, const char *const pair[2])
{
    size_t index;
    json_t *tensor;
    int n = 0, known[2] = {0};
    json_array_foreach(json_object_get(dump, "tensors"), index, tensor)
    {
        const char *name = json_string_value(json_array_get(tensor, 0));
        for (int i = 0; i < 2; i++)
            known[i] += !is_text(name) && strstr(name, pair[i]) != NULL;
    }
    if (known[0] == 0 || known[0] != known[1])
        return 0;
    json_array_foreach(json_object_get(dump, "tensors"), index, tensor)
    {
        const char *name = json_string_value(json_array_get(tensor, 0));
        for (int i = 0; i < 2; i++) {
            const char *at = is_text(name) ? NULL : strstr(name, pair[i]);
            char other[128];
            if (at == NULL)
                continue;
            snprintf(other, sizeof other, "%.*s%s%s", (int)(at - name), name, pair[!i], at + strlen(pair[i]));
            assert_int_equal(json_array_set_new(tensor, 0, json_string(other)), 0);
            n++;
            break;
        }
    }
    return n;
}

static void expect_detected(const json_t *dump, const char *what, const rvit_checkpoint_desc *desc)
{
    rvit_checkpoint *checkpoint = dump_open(dump, desc);
    const double difference = dump_run(dump, checkpoint, RVIT_F32, RVIT_QUANTIZATION_NONE) / dump_largest(dump);
    rvit_checkpoint_destroy(checkpoint);
    if (!(difference >= 1e-3))
        fail_msg("%s: the mistake \"%s\" changes the outputs by only %g of the largest", dump_text(dump, "name"), what, difference);
}

/* Wrong values of options that the weights do not reveal. */
static int wrong_options(const json_t *dump)
{
    const rvit_checkpoint_desc init = RVIT_CHECKPOINT_DESC_INIT;
    rvit_checkpoint_desc desc = init;
    int n = 1;
    /* The two GELUs differ by less than 1e-3. */
    desc.activation = info.activation == RVIT_ACTIVATION_QUICK_GELU || info.activation == RVIT_ACTIVATION_SILU ? RVIT_ACTIVATION_GELU
                                                                                                               : RVIT_ACTIVATION_SILU;
    expect_detected(dump, "another activation", &desc);
    desc = init;
    desc.n_heads = info.head_dim % 16 == 0 ? 2 * info.n_heads : info.n_heads % 2 == 0 && info.head_dim <= 64 ? info.n_heads / 2 : 0;
    if (desc.n_heads > 0) {
        expect_detected(dump, "another number of heads", &desc);
        n++;
    }
    desc = init;
    const int has_cls = info.n_prefix > info.n_registers, logits = dump_integer(dump, "features") == 0;
    if (info.pooling == RVIT_POOLING_CLS && !info.distilled)
        desc.pooling = RVIT_POOLING_MEAN;
    else if (info.pooling == RVIT_POOLING_MEAN && (has_cls || info.final_norm))
        desc.pooling = has_cls ? RVIT_POOLING_CLS : RVIT_POOLING_MEAN_RAW;
    else if (info.pooling == RVIT_POOLING_MEAN_RAW)
        desc.pooling = RVIT_POOLING_MEAN;
    else if (info.pooling == RVIT_POOLING_MEAN_NORM)
        desc.pooling = RVIT_POOLING_MEAN_RAW;
    if (logits && desc.pooling != RVIT_POOLING_UNKNOWN) {
        expect_detected(dump, "another pooling", &desc);
        n++;
    }
    desc = init;
    desc.position = RVIT_POSITION_TABLE;
    if (info.position == RVIT_POSITION_BOTH) {
        expect_detected(dump, "no rotary positions", &desc);
        n++;
    }
    return n;
}

/* Another filter for the position table, and lines exchanged with columns. */
static int wrong_grids(const json_t *dump)
{
    const int32_t has_table = info.position == RVIT_POSITION_TABLE || info.position == RVIT_POSITION_BOTH;
    int n = 0;
    if (json_object_get(dump, "grids") == NULL)
        return 0;
    for (int how = RVIT_RESAMPLE_BICUBIC; has_table && how <= RVIT_RESAMPLE_NEAREST; how++) {
        rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
        desc.resample = (rvit_resample)how;
        if (desc.resample == info.resample)
            continue;
        expect_detected(dump, "another way to resample positions", &desc);
        n++;
    }
    json_t *other = json_deep_copy(dump), *grid;
    size_t index;
    json_array_foreach(json_object_get(other, "grids"), index, grid)
    {
        const json_int_t lines = json_integer_value(json_array_get(grid, 0));
        assert_int_equal(json_array_set(grid, 0, json_array_get(grid, 1)), 0);
        assert_int_equal(json_array_set_new(grid, 1, json_integer(lines)), 0);
    }
    expect_detected(other, "lines for columns", NULL);
    json_decref(other);
    return n + 1;
}

/* Values in another order. */
static int wrong_orders(const json_t *dump)
{
    static const struct {
        const char *what;
        int rotary;
        void (*change)(const char *, int32_t, const int64_t *, float *);
    } mistakes[] = {{"another order of a patch's pixels", 0, patch_order},
                    {"positions shifted by a row", 0, shifted_positions},
                    {"queries, keys and values in another order", 0, qkv_order},
                    {"keys and values of the pooling in another order", 0, pool_order},
                    {"the other half as the gate", 0, gate_half},
                    {"the other axis first", 1, rotary_axes},
                    {"other pairs of columns", 1, rotary_layout}};
    int n = 0;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        if (mistakes[i].rotary && info.position != RVIT_POSITION_ROPE && info.position != RVIT_POSITION_BOTH)
            continue;
        n_changed = 0;
        dump_change = mistakes[i].change;
        (void)dump_checkpoint(dump);
        if (n_changed > 0) {
            expect_detected(dump, mistakes[i].what, NULL);
            n++;
        }
        dump_change = NULL;
    }
    return n;
}

static int mutants_of(const char *name)
{
    json_t *dump = dump_load(dump_file, name);
    rvit_checkpoint *checkpoint = dump_open(dump, NULL);
    info = (rvit_model_info)RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_checkpoint_get_model_info(checkpoint, &info));
    rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
    expect_ok(rvit_checkpoint_get_info(checkpoint, &files));
    for (int32_t i = 0; i < files.n_facts; i++)
        if (strcmp(files.facts[i].name, "rotary pairs") == 0)
            interleaved = strcmp(files.facts[i].value, "interleaved") == 0;
    rvit_checkpoint_destroy(checkpoint);
    int n = wrong_options(dump) + wrong_grids(dump) + wrong_orders(dump);
    for (size_t i = 0; i < sizeof swaps / sizeof *swaps; i++) {
        json_t *other = json_deep_copy(dump);
        if (swap_tensors(other, swaps[i]) > 0) {
            expect_detected(other, swaps[i][0], NULL);
            n++;
        }
        json_decref(other);
    }
    json_decref(dump);
    return n;
}

static void mutants(void **state)
{
    (void)state;
    int n_dumps = 0, n = 0;
    /* This tests the dumps, which needs only one device. */
    if (H.desc.backend != RVIT_BACKEND_CPU || H.desc.tier != RVIT_TIER_AUTO || H.desc.vector_bits != 0)
        skip();
    for (const char *name; (name = dump_name(dump_file, n_dumps)) != NULL; n_dumps++) {
        const int n_mistakes = mutants_of(name);
        assert_true(n_mistakes >= 3);
        n += n_mistakes;
    }
    printf("%d mistakes in %d dumps\n", n, n_dumps);
    assert_true(n_dumps > 0);
}

SUITE(dump_mutants_suite, TEST(mutants));
