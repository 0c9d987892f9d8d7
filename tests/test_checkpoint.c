/* Tests checkpoints: the geometry inferred from timm's names, refusals, values, and number formats. */
#include "checkpoint_file.h"

#include <math.h>
#include <sys/stat.h>

#include <raggedvit/session.h>

#include "core/base/half.h"
#include "core/model/checkpoint.h"

static counter memory;

static rvit_status open_checkpoint(int32_t lenient, rvit_checkpoint **out)
{
    static const rvit_allocator allocator = {&memory, counter_allocate, counter_release};
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.lenient = lenient;
    desc.allocator = &allocator;
    memory.calls = 0;
    return rvit_checkpoint_open(temp_path, &desc, out);
}

static rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT; /* of the last expect_good */

static rvit_model_info expect_good(const model *m, int32_t lenient)
{
    write_model(m, NO_DATA);
    memory = (counter){0, 0, -1};
    rvit_checkpoint *checkpoint = NULL;
    if (open_checkpoint(lenient, &checkpoint) != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, &info), RVIT_OK);
    assert_int_equal(rvit_checkpoint_get_info(checkpoint, &files), RVIT_OK);
    rvit_checkpoint_destroy(checkpoint);
    assert_int_equal(memory.live, 0);
    return info;
}

static void expect_status(const model *m, int32_t lenient, rvit_status expected, const char *word)
{
    write_model(m, NO_DATA);
    memory = (counter){0, 0, -1};
    const int descriptor = next_descriptor();
    rvit_checkpoint *checkpoint = NULL;
    const rvit_status status = open_checkpoint(lenient, &checkpoint);
    if (status != expected || strstr(rvit_status_detail(), word) == NULL)
        fail_msg("expected %s with \"%s\", got %s: %s", rvit_status_name(expected), word, rvit_status_name(status), rvit_status_detail());
    assert_memory_equal(rvit_status_detail(), temp_path, strlen(temp_path));
    assert_null(checkpoint);
    assert_int_equal(memory.live, 0);
    assert_int_equal(next_descriptor(), descriptor);
}

static model scratch;

static const struct {
    geometry g;
    const char *architecture;
    int32_t n_heads, image_size, tokens, n_tensors;
    int64_t n_parameters;
} geometry_cases[] = {
    {.g = {.dim = 192, .depth = 12, .mlp = 768, .patch = 16, .grid = 14, .channels = 3, .classes = 1000},
     .architecture = "deit_tiny_patch16_224",
     .n_heads = 3,
     .image_size = 224,
     .tokens = 197,
     .n_tensors = 152,
     .n_parameters = 5717416},
    {.g = {.dim = 384, .depth = 12, .mlp = 1536, .patch = 16, .grid = 14, .channels = 3, .classes = 1000},
     .architecture = "deit_small_patch16_224",
     .n_heads = 6,
     .image_size = 224,
     .tokens = 197,
     .n_tensors = 152,
     .n_parameters = 22050664},
    {.g = {.dim = 768, .depth = 12, .mlp = 3072, .patch = 16, .grid = 14, .channels = 3, .classes = 1000},
     .architecture = "deit_base_patch16_224",
     .n_heads = 12,
     .image_size = 224,
     .tokens = 197,
     .n_tensors = 152,
     .n_parameters = 86567656},
    {.g = {.dim = 192, .depth = 12, .mlp = 768, .patch = 16, .grid = 14, .channels = 3, .classes = 1000, .distilled = 1},
     .architecture = "deit_tiny_distilled_patch16_224",
     .n_heads = 3,
     .image_size = 224,
     .tokens = 198,
     .n_tensors = 155,
     .n_parameters = 5910800},
    {.g = {.dim = 384, .depth = 12, .mlp = 1536, .patch = 16, .grid = 14, .channels = 3, .classes = 1000, .distilled = 1},
     .architecture = "deit_small_distilled_patch16_224",
     .n_heads = 6,
     .image_size = 224,
     .tokens = 198,
     .n_tensors = 155,
     .n_parameters = 22436432},
    {.g = {.dim = 768, .depth = 12, .mlp = 3072, .patch = 16, .grid = 14, .channels = 3, .classes = 1000, .distilled = 1},
     .architecture = "deit_base_distilled_patch16_224",
     .n_heads = 12,
     .image_size = 224,
     .tokens = 198,
     .n_tensors = 155,
     .n_parameters = 87338192},
    {.g = {.dim = 192, .depth = 12, .mlp = 768, .patch = 16, .grid = 24, .channels = 3, .classes = 1000},
     .architecture = "deit_tiny_patch16_384",
     .n_heads = 3,
     .image_size = 384,
     .tokens = 577,
     .n_tensors = 152,
     .n_parameters = 5790376},
    {.g = {.dim = 384, .depth = 12, .mlp = 1536, .patch = 16, .grid = 24, .channels = 3, .classes = 1000},
     .architecture = "deit_small_patch16_384",
     .n_heads = 6,
     .image_size = 384,
     .tokens = 577,
     .n_tensors = 152,
     .n_parameters = 22196584},
    {.g = {.dim = 768, .depth = 12, .mlp = 3072, .patch = 16, .grid = 24, .channels = 3, .classes = 1000},
     .architecture = "deit_base_patch16_384",
     .n_heads = 12,
     .image_size = 384,
     .tokens = 577,
     .n_tensors = 152,
     .n_parameters = 86859496},
    {.g = {.dim = 768, .depth = 12, .mlp = 3072, .patch = 16, .grid = 24, .channels = 3, .classes = 1000, .distilled = 1},
     .architecture = "deit_base_distilled_patch16_384",
     .n_heads = 12,
     .image_size = 384,
     .tokens = 578,
     .n_tensors = 155,
     .n_parameters = 87338192 + 380 * 768},
    {.g = {.dim = 768, .depth = 12, .mlp = 3072, .patch = 32, .grid = 7, .channels = 3, .classes = 1000},
     .architecture = "deit_base_patch32_224",
     .n_heads = 12,
     .image_size = 224,
     .tokens = 50,
     .n_tensors = 152,
     .n_parameters = 88224232},
    {.g = {.dim = 1024, .depth = 24, .mlp = 4096, .patch = 14, .grid = 16, .channels = 3, .classes = 1000},
     .architecture = "vit_large_patch14_224",
     .n_heads = 16,
     .image_size = 224,
     .tokens = 257,
     .n_tensors = 296,
     .n_parameters = 304203752},
    {.g = {.dim = 64, .depth = 2, .mlp = 256, .patch = 16, .grid = 2, .channels = 3, .classes = 10},
     .architecture = "vit_d64_h1_l2_patch16_32",
     .n_heads = 1,
     .image_size = 32,
     .tokens = 5,
     .n_tensors = 32,
     .n_parameters = 150346},
    {.g = {.dim = 64, .depth = 1, .mlp = 128, .patch = 2, .grid = 1, .channels = 1, .classes = 1, .distilled = 1},
     .architecture = "vit_d64_h1_l1_distilled_patch2_2",
     .n_heads = 1,
     .image_size = 2,
     .tokens = 3,
     .n_tensors = 23,
     .n_parameters = 34370},
    {.g = {.dim = 192, .depth = 11, .mlp = 768, .patch = 16, .grid = 14, .channels = 3, .classes = 1000},
     .architecture = "vit_d192_h3_l11_patch16_224",
     .n_heads = 3,
     .image_size = 224,
     .tokens = 197,
     .n_tensors = 140,
     .n_parameters = 5272552},
    {.g = {.dim = 192, .depth = 12, .mlp = 384, .patch = 16, .grid = 14, .channels = 3, .classes = 1000},
     .architecture = "vit_d192_h3_l12_patch16_224",
     .n_heads = 3,
     .image_size = 224,
     .tokens = 197,
     .n_tensors = 152,
     .n_parameters = 3943336},
};

static void geometries(void **state)
{
    (void)state;
    static const char *const dtypes[3] = {"F32", "F16", "BF16"};
    for (size_t i = 0; i < sizeof geometry_cases / sizeof *geometry_cases; i++) {
        const geometry *g = &geometry_cases[i].g;
        build(&scratch, g, dtypes[i % 3]);
        const rvit_model_info info = expect_good(&scratch, 0);
        assert_string_equal(info.architecture, geometry_cases[i].architecture);
        assert_string_equal(info.family, "timm");
        assert_int_equal(info.image_size, geometry_cases[i].image_size);
        assert_int_equal(info.patch_size, g->patch);
        assert_int_equal(info.channels, g->channels);
        assert_int_equal(info.dim, g->dim);
        assert_int_equal(info.n_heads, geometry_cases[i].n_heads);
        assert_int_equal(info.head_dim, 64);
        assert_int_equal(info.depth, g->depth);
        assert_int_equal(info.mlp_dim, g->mlp);
        assert_int_equal(info.n_prefix, 1 + g->distilled);
        assert_int_equal(info.tokens, geometry_cases[i].tokens);
        assert_int_equal(info.n_classes, g->classes);
        assert_true(info.eps == 1e-6f);
        assert_int_equal(files.n_parameters, geometry_cases[i].n_parameters);
        assert_int_equal(files.n_tensors, geometry_cases[i].n_tensors);
        assert_int_equal(files.n_unknown, 0);
        for (size_t j = 0; j < 3; j++)
            assert_int_equal(files.n_by_dtype[j], j == i % 3 ? geometry_cases[i].n_tensors : 0);
    }
    build(&scratch, &small_geometry, "F32");
    get(&scratch, "patch_embed.proj.weight")->rank = 2;
    get(&scratch, "patch_embed.proj.weight")->shape[1] = 768;
    const rvit_model_info info = expect_good(&scratch, 0);
    assert_int_equal(info.patch_size, 16);
    assert_int_equal(info.channels, 3);
    assert_int_equal(files.n_parameters, 150346);
}

/* If one tensor is missing, or has another shape, rank or type, the message names it. */
static void each_tensor(void **state)
{
    (void)state;
    for (int distilled = 0; distilled < 2; distilled++) {
        geometry g = small_geometry;
        g.distilled = distilled;
        build(&scratch, &g, "F16");
        const int n = scratch.n;
        for (int i = 0; i < n; i++) {
            build(&scratch, &g, "F16");
            tensor *t = &scratch.tensors[i];
            char word[160];
            snprintf(word, sizeof word, "tensor '%s': dtype is I32", t->name);
            snprintf(t->dtype, sizeof t->dtype, "I32");
            expect_status(&scratch, 1, RVIT_BAD_FILE, word);
            snprintf(t->dtype, sizeof t->dtype, "F16");

            snprintf(word, sizeof word, "tensor '%s': ", t->name);
            /* Only the bias shows the size of a plain head. */
            const int head = !distilled && strcmp(t->name, "head.weight") == 0;
            t->shape[0]++;
            expect_status(&scratch, 1, RVIT_BAD_FILE, head ? "tensor 'head.bias': expected the shape [11], found [10]" : word);
            t->shape[0]--;
            t->shape[t->rank++] = 1;
            expect_status(&scratch, 1, RVIT_BAD_FILE, word);
            t->rank -= 2;
            expect_status(&scratch, 1, RVIT_BAD_FILE, word);
            t->rank++;

            snprintf(word, sizeof word, "tensor '%s' is missing (1 in total)", t->name);
            if (strcmp(t->name, "dist_token") == 0)
                snprintf(word, sizeof word, "distillation head ('head_dist.weight') without its token: tensor 'dist_token' is missing");
            drop(&scratch, i);
            expect_status(&scratch, 1, RVIT_BAD_FILE, word);
        }
    }
}

static void bad_models(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "F32");
    drop(&scratch, 30);
    drop(&scratch, 9);
    drop(&scratch, 6);
    expect_status(&scratch, 1, RVIT_BAD_FILE, "tensor 'head.weight' is missing (3 in total)");

    build(&scratch, &small_geometry, "F32");
    get(&scratch, "blocks.1.attn.qkv.weight")->shape[0] = 128;
    expect_status(&scratch, 1, RVIT_BAD_FILE, "tensor 'blocks.1.attn.qkv.weight': expected the shape [192, 64], found [128, 64]");
    build(&scratch, &small_geometry, "F32");
    get(&scratch, "pos_embed")->shape[1] = 6;
    expect_status(&scratch, 1, RVIT_BAD_FILE,
                  "tensor 'pos_embed': its 6 rows, with or without 1 for prefix tokens, do not form a square grid");
    build(&scratch, &small_geometry, "F32");
    get(&scratch, "pos_embed")->shape[1] = 0;
    expect_status(&scratch, 1, RVIT_BAD_FILE, "tensor 'pos_embed': cannot infer the number of positions from its shape");
    build(&scratch, &small_geometry, "F32");
    get(&scratch, "patch_embed.proj.weight")->shape[3] = 8;
    expect_status(&scratch, 1, RVIT_BAD_FILE, "expected the shape [64, channels, patch, patch], found [64, 3, 16, 8]");
    build(&scratch, &small_geometry, "F32");
    get(&scratch, "patch_embed.proj.weight")->rank = 2;
    get(&scratch, "patch_embed.proj.weight")->shape[1] = 3 * 255;
    expect_status(&scratch, 1, RVIT_BAD_FILE, "found [64, 765]");

    geometry g = small_geometry;
    g.patch = 7;
    build(&scratch, &g, "F32");
    expect_status(&scratch, 1, RVIT_UNSUPPORTED, "an odd patch size, which is not supported");
    g = small_geometry;
    g.dim = 100;
    build(&scratch, &g, "F32");
    expect_status(&scratch, 1, RVIT_UNSUPPORTED, "heads whose width is not a multiple of 8 up to 128");
    g.dim = 1280;
    build(&scratch, &g, "F32");
    set_plain_config(&scratch, 3 * 64);
    expect_status(&scratch, 1, RVIT_BAD_FILE, "the width 1280 cannot be split into 3 heads (metadata: model_args.num_heads)");
    g = small_geometry;
    g.mlp = 250;
    build(&scratch, &g, "F32");
    assert_int_equal(expect_good(&scratch, 0).mlp_dim, 250);
    g = small_geometry;
    g.classes = (1 << 20) + 1;
    build(&scratch, &g, "F32");
    expect_status(&scratch, 1, RVIT_UNSUPPORTED, "number of classes 1048577 is above 1048576");
    g = small_geometry;
    g.depth = 0;
    build(&scratch, &g, "F32");
    expect_status(&scratch, 1, RVIT_BAD_FILE, "the model has no blocks");

    /* A missing block, and an index that is not a number. */
    build(&scratch, &small_geometry, "F32");
    add(&scratch, "blocks.3.norm1.weight", 1, 64, 0, 0, 0);
    expect_status(&scratch, 1, RVIT_BAD_FILE, "every tensor of block 2 is missing");
    build(&scratch, &small_geometry, "F32");
    add(&scratch, "blocks.99999999999999999999.norm1.weight", 1, 64, 0, 0, 0);
    expect_status(&scratch, 1, RVIT_BAD_FILE, "every tensor of block 2 is missing");
    build(&scratch, &small_geometry, "F32");
    add(&scratch, "blocks.01.norm1.weight", 1, 64, 0, 0, 0);
    expect_status(&scratch, 0, RVIT_BAD_FILE, "unknown tensor 'blocks.01.norm1.weight'");

    scratch.n = 0;
    expect_status(&scratch, 1, RVIT_BAD_FILE, "holds no tensors");
    add(&scratch, "module.clstoken", 1, 64, 0, 0, 0);
    expect_status(&scratch, 1, RVIT_BAD_FILE, "the first is 'module.clstoken'");
}

static void unknown_tensors(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "F32");
    add(&scratch, "score_predictor.0.in_conv.0.weight", 1, 64, 0, 0, 0);
    add(&scratch, "mask_token", 2, 1, 64, 0, 0);
    add(&scratch, "pooler.dense.bias", 1, 64, 0, 0, 0);
    (void)expect_good(&scratch, 0);
    assert_int_equal(files.n_tensors, 35);
    assert_int_equal(files.n_unknown, 3);
    assert_int_equal(files.n_parameters, 150346);

    add(&scratch, "optimizer.step", 0, 0, 0, 0, 0);
    snprintf(scratch.tensors[35].dtype, 8, "I64");
    add(&scratch, "head.extra", 1, 64, 0, 0, 0);
    expect_status(&scratch, 0, RVIT_BAD_FILE, "unknown tensor 'optimizer.step' (2 in total)");
    (void)expect_good(&scratch, 1);
    assert_int_equal(files.n_tensors, 37);
    assert_int_equal(files.n_unknown, 5);
    assert_int_equal(files.n_by_dtype[0], 36);
    assert_int_equal(files.n_parameters, 150346);

    static const struct {
        const char *name, *word;
    } parts[] = {
        {"blocks.0.attn.q_norm.weight", "normalised queries and keys"},
        {"blocks.0.attn.relative_position_bias_table", "relative position bias"},
        {"pre_logits.fc.weight", "between norm and head"},
    };
    static const char *const gates[] = {"blocks.1.mlp.fc1_g.weight", "blocks.0.mlp.w12.weight"};
    for (int i = 0; i < 2; i++) {
        build(&scratch, &small_geometry, "F32");
        add(&scratch, gates[i], 2, 256, 64, 0, 0);
        expect_status(&scratch, 1, RVIT_BAD_FILE, "is part of the model's computation");
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        build(&scratch, &small_geometry, "F32");
        add(&scratch, parts[i].name, 1, 64, 0, 0, 0);
        expect_status(&scratch, 1, RVIT_UNSUPPORTED, parts[i].word);
        expect_status(&scratch, 0, RVIT_UNSUPPORTED, parts[i].name);
    }
}

/* An independent conversion of the number formats, in exact double arithmetic. */
static double decode(unsigned bits, int exponent_bits, int mantissa_bits)
{
    const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
    const int exponent = (int)(bits >> mantissa_bits & ((1u << exponent_bits) - 1)), top = (1 << exponent_bits) - 1, bias = top / 2;
    const double sign = bits >> (exponent_bits + mantissa_bits) ? -1.0 : 1.0;
    if (exponent == top)
        return mantissa != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp((double)(mantissa + (1u << mantissa_bits)), exponent - bias - mantissa_bits);
}

/* Checks one 16-bit format over all its values, and rounding at and near the midpoint of all neighbours. */
static void check_format(int exponent_bits, int mantissa_bits, float (*widen)(uint16_t), uint16_t (*narrow)(float))
{
    const unsigned infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
    for (unsigned bits = 0; bits < 65536; bits++) {
        const float value = widen((uint16_t)bits);
        const double expected = decode(bits, exponent_bits, mantissa_bits);
        if (isnan(expected)) {
            assert_true(isnan(value));
            assert_int_equal(rvit_float_bits(value) >> 31, bits >> 15);
            assert_true((narrow(value) & 0x7fffu) > infinity);
            assert_int_equal(narrow(value) >> 15, bits >> 15);
            continue;
        }
        assert_true(value == expected && rvit_float_bits(value) >> 31 == bits >> 15);
        assert_int_equal(narrow(value), bits);
        if ((bits & 0x7fffu) >= infinity)
            continue;
        /* Above the largest finite value, infinity takes the position of the next value. */
        const double next = (bits & 0x7fffu) + 1 < infinity ? decode(bits + 1, exponent_bits, mantissa_bits)
                                                            : 2 * expected - decode(bits - 1, exponent_bits, mantissa_bits);
        const float middle = (float)((expected + next) / 2);
        if ((double)middle != (expected + next) / 2)
            continue; /* a subnormal of bfloat16 is also subnormal in float32, which may not represent the midpoint */
        assert_int_equal(narrow(middle), bits % 2 == 0 ? bits : bits + 1);
        assert_int_equal(narrow(nextafterf(middle, 0.0f)), bits);
        assert_int_equal(narrow(nextafterf(middle, (float)next * 2)), bits + 1);
    }
}

static float widen_f16(uint16_t bits)
{
    return rvit_f16_to_f32(bits);
}

static uint16_t narrow_f16(float value)
{
    return rvit_f32_to_f16(value);
}

static float widen_bf16(uint16_t bits)
{
    return rvit_bf16_to_f32(bits);
}

static uint16_t narrow_bf16(float value)
{
    return rvit_f32_to_bf16(value);
}

static void number_formats(void **state)
{
    (void)state;
    check_format(5, 10, widen_f16, narrow_f16);
    check_format(8, 7, widen_bf16, narrow_bf16);
    assert_int_equal(rvit_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(rvit_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(rvit_f32_to_f16(-1e30f), 0xfc00);
    assert_int_equal(rvit_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(rvit_f32_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(rvit_f32_to_f16(-0x1p-149f), 0x8000);
    assert_int_equal(rvit_f32_to_bf16(3.4028235e38f), 0x7f80);
    /* A NaN remains a NaN if narrowing drops all bits of its payload. */
    assert_true((rvit_f32_to_f16(rvit_bits_float(0x7f800001u)) & 0x7fffu) > 0x7c00u);
    assert_true((rvit_f32_to_bf16(rvit_bits_float(0xff800001u)) & 0x7fffu) > 0x7f80u);
}

/* Reads a tensor in a 16-bit type: each value is rounded once, or not at all if the file has that type. */
static void check_narrow(rvit_checkpoint *checkpoint, const char *name, int64_t n, const float *values)
{
    uint16_t *read = malloc((size_t)n * sizeof *read);
    assert_non_null(read);
    for (int dtype = RVIT_F16; dtype <= RVIT_BF16; dtype++) {
        assert_int_equal(rvit_checkpoint_read_part(checkpoint, &checkpoint->alloc, name, n, 0, n, (rvit_dtype)dtype, read), RVIT_OK);
        for (int64_t i = 0; i < n; i++) {
            const uint16_t expected = dtype == RVIT_F16 ? rvit_f32_to_f16(values[i]) : rvit_f32_to_bf16(values[i]);
            const float back = dtype == RVIT_F16 ? rvit_f16_to_f32(read[i]) : rvit_bf16_to_f32(read[i]);
            assert_true(isnan(values[i]) ? isnan(back) : read[i] == expected);
        }
    }
    free(read);
}

/* Compares every value of every tensor, in each type, with its bytes. */
static void values(void **state)
{
    (void)state;
    static const char *const dtypes[3] = {"F32", "F16", "BF16"};
    for (int kind = 0; kind < 3; kind++) {
        build(&scratch, &small_geometry, dtypes[kind]);
        write_model(&scratch, BYTES);
        memory = (counter){0, 0, -1};
        rvit_checkpoint *checkpoint = NULL;
        assert_int_equal(open_checkpoint(0, &checkpoint), RVIT_OK);
        const int64_t live = memory.live;
        int64_t offset = 0, n_nan = 0;
        for (int i = 0; i < scratch.n; i++) {
            const tensor *t = &scratch.tensors[i];
            const int64_t n = n_elements(t), size = element_size(t->dtype);
            float *read = malloc((size_t)(n + 1) * sizeof *read);
            assert_non_null(read);
            read[n] = 42;
            assert_int_equal(rvit_checkpoint_read(checkpoint, &checkpoint->alloc, t->name, n, read), RVIT_OK);
            for (int64_t j = 0; j < n; j++) {
                uint32_t bits = 0;
                for (int64_t k = 0; k < size; k++)
                    bits |= (uint32_t)data_byte(offset + j * size + k) << 8 * k;
                const double expected = kind == 0 ? (double)rvit_bits_float(bits) : kind == 1 ? decode(bits, 5, 10) : decode(bits, 8, 7);
                n_nan += isnan(expected);
                if (!(isnan(expected) ? isnan(read[j]) : read[j] == expected) || rvit_float_bits(read[j]) >> 31 != bits >> (8 * size - 1))
                    fail_msg("%s %s [%d]: %g instead of %g", dtypes[kind], t->name, (int)j, (double)read[j], expected);
                if (kind == 0)
                    assert_int_equal(rvit_float_bits(read[j]), bits);
            }
            assert_true(read[n] == 42);
            check_narrow(checkpoint, t->name, n, read);
            assert_int_equal(rvit_checkpoint_read(checkpoint, &checkpoint->alloc, t->name, n - 1, read), RVIT_BAD_FILE);
            ASSERT_DETAIL("values, found");
            free(read);
            offset += n * size;
        }
        assert_true(n_nan > 0);
        assert_int_equal(memory.live, live);
        float none = 0;
        assert_int_equal(rvit_checkpoint_read(checkpoint, &checkpoint->alloc, "no.such", 1, &none), RVIT_BAD_FILE);
        ASSERT_DETAIL("tensor 'no.such' is missing");
        assert_int_equal(truncate(temp_path, 5000), 0);
        assert_int_equal(rvit_checkpoint_read(checkpoint, &checkpoint->alloc, "norm.bias", 64, &none), RVIT_BAD_FILE);
        ASSERT_DETAIL("has changed");
        rvit_checkpoint_destroy(checkpoint);
        assert_int_equal(memory.live, 0);
    }
}

static void listing(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "BF16");
    add(&scratch, "mask_token", 2, 1, 64, 0, 0);
    write_model(&scratch, NO_DATA);
    rvit_checkpoint *checkpoint = NULL;
    assert_int_equal(rvit_checkpoint_open(temp_path, NULL, &checkpoint), RVIT_OK);
    rvit_checkpoint_info listed = RVIT_CHECKPOINT_INFO_INIT;
    assert_int_equal(rvit_checkpoint_get_info(checkpoint, &listed), RVIT_OK);
    const rvit_tensors *tensors = listed.tensors;
    for (int i = 0; i < scratch.n; i++) {
        rvit_tensor_info found = RVIT_TENSOR_INFO_INIT;
        assert_int_equal(rvit_tensors_get(tensors, i, &found), RVIT_OK);
        assert_string_equal(found.name, scratch.tensors[i].name);
        assert_string_equal(found.dtype, "BF16");
        assert_int_equal(found.rank, scratch.tensors[i].rank);
        assert_memory_equal(found.shape, scratch.tensors[i].shape, (size_t)found.rank * sizeof *found.shape);
        assert_int_equal(found.size, 2 * n_elements(&scratch.tensors[i]));
        assert_int_equal(found.used, strcmp(found.name, "mask_token") != 0);
        const int is_fc1 = strcmp(found.name, "blocks.1.mlp.fc1.weight") == 0;
        assert_true(is_fc1 ? found.block == 1 && found.layer == RVIT_LAYER_FC1 : found.block != 1 || found.layer != RVIT_LAYER_FC1);
        assert_int_equal(found.block >= 0, strstr(found.name, "blocks.") != NULL && found.rank == 2);
    }
    rvit_tensor_info none = RVIT_TENSOR_INFO_INIT;
    assert_int_equal(rvit_tensors_count(tensors), scratch.n);
    assert_int_equal(rvit_tensors_get(tensors, scratch.n, &none), RVIT_INVALID_ARGUMENT);
    ASSERT_DETAIL("tensor index is 33, but the file has 33 tensors");
    assert_int_equal(rvit_tensors_get(tensors, -1, &none), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_tensors_get(NULL, 0, &none), RVIT_INVALID_ARGUMENT);
    assert_string_equal(rvit_checkpoint_metadata(checkpoint, "format"), "pt");
    assert_null(rvit_checkpoint_metadata(checkpoint, "classes"));
    assert_null(rvit_checkpoint_metadata(checkpoint, NULL));
    assert_null(rvit_checkpoint_metadata(NULL, "format"));
    rvit_checkpoint_destroy(checkpoint);
    rvit_checkpoint_destroy(NULL);
}

/* Struct sizes of an older and a newer caller. */
static void struct_sizes(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "F32");
    write_model(&scratch, NO_DATA);
    struct {
        rvit_checkpoint_desc desc;
        unsigned char more[16];
    } desc = {RVIT_CHECKPOINT_DESC_INIT, {0}};
    desc.desc.struct_size = sizeof desc;
    rvit_checkpoint *checkpoint = NULL;
    assert_int_equal(rvit_checkpoint_open(temp_path, &desc.desc, &checkpoint), RVIT_OK);

    struct {
        rvit_model_info info;
        unsigned char more[16];
    } big, old;
    memset(&big, 0x5a, sizeof big);
    big.info.struct_size = sizeof big;
    assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, &big.info), RVIT_OK);
    assert_int_equal(big.info.struct_size, sizeof big);
    assert_int_equal(big.info.dim, 64);
    memset(&old, 0x5a, sizeof old);
    old.info.struct_size = offsetof(rvit_model_info, depth);
    assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, &old.info), RVIT_OK);
    assert_int_equal(old.info.struct_size, offsetof(rvit_model_info, depth));
    assert_int_equal(old.info.head_dim, 64);
    assert_int_equal(old.info.depth, 0x5a5a5a5a);
    old.info.struct_size = 0;
    assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, &old.info), RVIT_INVALID_ARGUMENT);
    assert_int_equal(old.info.head_dim, 64);
    assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, NULL), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_checkpoint_get_model_info(NULL, &big.info), RVIT_INVALID_ARGUMENT);
    rvit_checkpoint_destroy(checkpoint);

    checkpoint = NULL;
    desc.more[3] = 1;
    assert_int_equal(rvit_checkpoint_open(temp_path, &desc.desc, &checkpoint), RVIT_INVALID_ARGUMENT);
    ASSERT_DETAIL("checkpoint desc");
    desc.desc.struct_size = 0;
    assert_int_equal(rvit_checkpoint_open(temp_path, &desc.desc, &checkpoint), RVIT_INVALID_ARGUMENT);
    desc.desc.struct_size = sizeof desc.desc;
    desc.desc.lenient = 2;
    assert_int_equal(rvit_checkpoint_open(temp_path, &desc.desc, &checkpoint), RVIT_INVALID_ARGUMENT);
    ASSERT_DETAIL("lenient is 2");
    const rvit_allocator half_made = {NULL, counter_allocate, NULL};
    desc.desc.lenient = 0;
    desc.desc.allocator = &half_made;
    assert_int_equal(rvit_checkpoint_open(temp_path, &desc.desc, &checkpoint), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_checkpoint_open(NULL, NULL, &checkpoint), RVIT_INVALID_ARGUMENT);
    ASSERT_DETAIL("path is NULL");
    assert_int_equal(rvit_checkpoint_open(temp_path, NULL, NULL), RVIT_INVALID_ARGUMENT);
    assert_null(checkpoint);
}

static rvit_status open_tensors(const rvit_tensor_desc *tensors, int32_t n, const rvit_checkpoint_desc *given, rvit_checkpoint **out)
{
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    if (given != NULL)
        desc = *given;
    desc.tensors = tensors;
    desc.n_tensors = n;
    return rvit_checkpoint_open(NULL, &desc, out);
}

/* Checkpoints from tensors in memory, and refusals that do not depend on their geometry. */
static void tensors_in_memory(void **state)
{
    (void)state;
    static const float values[64];
    static const int64_t shape[9] = {64, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct {
        const char *word;
        rvit_tensor_desc desc;
    } cases[] = {
        {"struct_size", {0, "norm.bias", RVIT_F32, 1, shape, values}},
        {"name of tensor 1", {sizeof(rvit_tensor_desc), NULL, RVIT_F32, 1, shape, values}},
        {"name of tensor 1", {sizeof(rvit_tensor_desc), "", RVIT_F32, 1, shape, values}},
        {"dtype", {sizeof(rvit_tensor_desc), "norm.bias", (rvit_dtype)7, 1, shape, values}},
        {"rank is 9", {sizeof(rvit_tensor_desc), "norm.bias", RVIT_F32, 9, shape, values}},
        {"rank is -1", {sizeof(rvit_tensor_desc), "norm.bias", RVIT_F32, -1, shape, values}},
        {"shape", {sizeof(rvit_tensor_desc), "norm.bias", RVIT_F32, 1, NULL, values}},
        {"shape[1]", {sizeof(rvit_tensor_desc), "norm.bias", RVIT_F32, 2, (const int64_t[]){64, -1}, values}},
        {"shape[1]", {sizeof(rvit_tensor_desc), "norm.bias", RVIT_F32, 2, (const int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40}, values}},
        {"data is NULL", {sizeof(rvit_tensor_desc), "norm.bias", RVIT_F32, 1, shape, NULL}},
        {"two tensors have the name 'norm.weight'", {sizeof(rvit_tensor_desc), "norm.weight", RVIT_F32, 1, shape, values}},
    };
    rvit_checkpoint *checkpoint = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rvit_tensor_desc tensors[2] = {{sizeof(rvit_tensor_desc), "norm.weight", RVIT_F32, 1, shape, values}, cases[i].desc};
        assert_int_equal(open_tensors(tensors, 2, NULL, &checkpoint), RVIT_INVALID_ARGUMENT);
        ASSERT_DETAIL(cases[i].word);
    }
    const rvit_tensor_desc one = {sizeof(rvit_tensor_desc), "norm.weight", RVIT_F32, 1, shape, values};
    assert_int_equal(open_tensors(&one, 1, NULL, &checkpoint), RVIT_BAD_FILE);
    ASSERT_DETAIL("tensors in memory: tensor 'cls_token' is missing");
    assert_int_equal(open_tensors(&one, 0, NULL, &checkpoint), RVIT_INVALID_ARGUMENT);
    ASSERT_DETAIL("n_tensors is 0");
    assert_int_equal(open_tensors(NULL, 1, NULL, &checkpoint), RVIT_INVALID_ARGUMENT);
    ASSERT_DETAIL("path is NULL");
    assert_int_equal(rvit_checkpoint_open(NULL, NULL, &checkpoint), RVIT_INVALID_ARGUMENT);
    const rvit_checkpoint_desc both = RVIT_INIT_WITH(rvit_checkpoint_desc, .tensors = &one, .n_tensors = 1);
    assert_int_equal(rvit_checkpoint_open("model.safetensors", &both, &checkpoint), RVIT_INVALID_ARGUMENT);
    ASSERT_DETAIL("there is a path");
    assert_int_equal(open_tensors(&one, 1, NULL, NULL), RVIT_INVALID_ARGUMENT);
    assert_null(checkpoint);

    build(&scratch, &small_geometry, "F32");
    rvit_tensor_desc *all = calloc((size_t)scratch.n, sizeof *all);
    float *zeros = calloc(1 << 16, sizeof *zeros);
    assert_true(all != NULL && zeros != NULL);
    for (int i = 0; i < scratch.n; i++) {
        const tensor *t = &scratch.tensors[i];
        assert_true(n_elements(t) <= 1 << 16);
        all[i] = (rvit_tensor_desc){sizeof *all, t->name, RVIT_F32, t->rank, t->shape, zeros};
    }
    assert_int_equal(open_tensors(all, scratch.n, NULL, &checkpoint), RVIT_UNSUPPORTED);
    ASSERT_DETAIL("tensors in memory: cannot determine the number of heads");
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.architecture = "vit";
    desc.n_heads = 1;
    assert_int_equal(open_tensors(all, scratch.n, &desc, &checkpoint), RVIT_OK);
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, &info), RVIT_OK);
    assert_string_equal(info.architecture, "vit_d64_h1_l2_patch16_32");
    assert_int_equal(rvit_checkpoint_get_info(checkpoint, &files), RVIT_OK);
    assert_int_equal(files.n_files, 0);
    assert_int_equal(files.n_tensors, scratch.n);
    rvit_tensor_info found = RVIT_TENSOR_INFO_INIT;
    assert_int_equal(rvit_tensors_get(files.tensors, 3, &found), RVIT_OK);
    assert_string_equal(found.name, scratch.tensors[3].name);
    rvit_checkpoint_destroy(checkpoint);
    free(zeros);
    free(all);
}

static void failed_allocations(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "F32");
    write_model(&scratch, NO_DATA);
    const int descriptor = next_descriptor();
    int64_t i = 0;
    for (;; i++) {
        memory = (counter){0, 0, i};
        rvit_checkpoint *checkpoint = NULL;
        const rvit_status status = open_checkpoint(0, &checkpoint);
        if (status == RVIT_OK) {
            rvit_checkpoint_destroy(checkpoint);
            assert_int_equal(memory.live, 0);
            break;
        }
        assert_int_equal(status, RVIT_OUT_OF_HOST_MEMORY);
        ASSERT_DETAIL("memory");
        assert_null(checkpoint);
        assert_int_equal(memory.live, 0);
        assert_int_equal(next_descriptor(), descriptor);
    }
    assert_true(i >= 7);
}

/* Random changes to bytes of the header give a valid checkpoint or an error. */
static void mutations(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "F16");
    write_model(&scratch, NO_DATA);
    struct stat info;
    assert_int_equal(stat(temp_path, &info), 0);
    const int64_t header_end = info.st_size - 2 * 150346;
    const int fd = open(temp_path, O_RDWR);
    uint32_t random = 99;
    int n_good = 0;
    for (int i = 0; i < 4000; i++) {
        random = random * 1664525u + 1013904223u;
        const off_t at = 8 + (off_t)((random >> 8) % (uint32_t)(header_end - 8));
        random = random * 1664525u + 1013904223u;
        const char byte = (char)("0123456789,[]{}\"blocks.FBI-e \\\x01\xff"[(random >> 8) % 32]);
        char before;
        assert_int_equal(pread(fd, &before, 1, at), 1);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        memory = (counter){0, 0, -1};
        rvit_checkpoint *checkpoint = NULL;
        const rvit_status status = open_checkpoint(i % 2, &checkpoint);
        if (status == RVIT_OK) {
            n_good++;
            float norm[64];
            assert_int_equal(rvit_checkpoint_read(checkpoint, &checkpoint->alloc, "norm.bias", 64, norm), RVIT_OK);
            rvit_checkpoint_destroy(checkpoint);
        } else {
            assert_true(status == RVIT_BAD_FILE || status == RVIT_UNSUPPORTED);
            assert_null(checkpoint);
        }
        assert_int_equal(memory.live, 0);
        assert_int_equal(pwrite(fd, &before, 1, at), 1);
    }
    close(fd);
    assert_in_range(n_good, 20, 400);
    (void)expect_good(&scratch, 0);
}

static void demo(void **state)
{
    (void)state;
    rvit_checkpoint *checkpoint = NULL;
    if (rvit_checkpoint_open(RVIT_EXAMPLES_DATA "/deit_tiny_cifar10.safetensors", NULL, &checkpoint) != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, &info), RVIT_OK);
    assert_int_equal(rvit_checkpoint_get_info(checkpoint, &files), RVIT_OK);
    assert_string_equal(info.architecture, "deit_tiny_patch16_224");
    assert_string_equal(rvit_checkpoint_metadata(checkpoint, "architecture"), info.architecture);
    assert_int_equal(info.dim, 192);
    assert_int_equal(info.n_heads, 3);
    assert_int_equal(info.depth, 12);
    assert_int_equal(info.mlp_dim, 768);
    assert_int_equal(info.n_classes, 10);
    assert_int_equal(info.n_prefix, 1);
    assert_int_equal(info.tokens, 197);
    assert_int_equal(info.image_size, 224);
    assert_int_equal(info.patch_size, 16);
    assert_int_equal(info.channels, 3);
    assert_int_equal(files.n_tensors, 182);
    assert_int_equal(files.n_unknown, 30);
    assert_int_equal(files.n_by_dtype[1], 182);
    assert_int_equal(files.n_parameters, 5717416 - (1000 - 10) * 193);
    /* The values of trained weights are finite and not too large. */
    static float weights[576 * 192];
    assert_int_equal(rvit_checkpoint_read(checkpoint, &checkpoint->alloc, "blocks.11.attn.qkv.weight", 576 * 192, weights), RVIT_OK);
    double sum = 0;
    for (int i = 0; i < 576 * 192; i++)
        sum += (double)weights[i] * weights[i];
    const double rms = sqrt(sum / (576 * 192));
    assert_true(rms > 0.01 && rms < 1);
    rvit_checkpoint_destroy(checkpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(geometries),      cmocka_unit_test(each_tensor),    cmocka_unit_test(bad_models),
        cmocka_unit_test(unknown_tensors), cmocka_unit_test(number_formats), cmocka_unit_test(values),
        cmocka_unit_test(listing),         cmocka_unit_test(struct_sizes),   cmocka_unit_test(failed_allocations),
        cmocka_unit_test(mutations),       cmocka_unit_test(demo),           cmocka_unit_test(tensors_in_memory),
    };
    return cmocka_run_group_tests(tests, temp_setup, temp_teardown);
}
