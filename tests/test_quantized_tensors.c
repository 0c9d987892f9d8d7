/* Tests checkpoints with 8-bit weights in blocks: they are dequantized, loaded unchanged, or refused. */
#include "family_models.h"

#include "core/base/quantized.h"

static const char *const quantized_dtypes[] = {"I8", "F8_E4M3"};
static const rvit_quantization kinds[] = {RVIT_QUANTIZATION_INT8, RVIT_QUANTIZATION_FP8};

/* The forms of scales. */
enum { OF_ROWS = 0, FLAT = 1, ONE = 2, INPUTS = 4 };

static int is_block_weight(const tensor *t)
{
    return strncmp(t->name, "blocks.", 7) == 0 && t->rank == 2 && strstr(t->name, ".weight") != NULL;
}

/* Makes a weight of scratch 8-bit, with scales. */
static void quantize_weight(tensor *weight, const char *dtype, int how)
{
    char name[96];
    const int64_t rows = weight->shape[0];
    snprintf(weight->dtype, sizeof weight->dtype, "%s", dtype);
    snprintf(name, sizeof name, "%.80s_scale", weight->name);
    add(&scratch, name, how & (ONE | FLAT) ? 1 : 2, how & ONE ? 1 : rows, 1, 0, 0);
    if (how & INPUTS) {
        snprintf(name, sizeof name, "%.*sinput_scale", (int)(strlen(weight->name) - strlen("weight")), weight->name);
        add(&scratch, name, 0, 0, 0, 0, 0);
    }
}

static void quantize_all_weights(const char *dtype, int how)
{
    for (int i = 0, n = scratch.n; i < n; i++)
        if (is_block_weight(&scratch.tensors[i]))
            quantize_weight(&scratch.tensors[i], dtype, how);
}

static void build_quantized(const char *dtype, int how)
{
    build(&scratch, &small_geometry, "F32");
    quantize_all_weights(dtype, how);
}

static rvit_status create(rvit_quantization quantization, rvit_model **out)
{
    rvit_checkpoint *checkpoint = open_with(NULL);
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    desc.quantization = quantization;
    *out = NULL;
    const rvit_status status = rvit_model_create(device, checkpoint, &desc, out);
    rvit_checkpoint_destroy(checkpoint);
    return status;
}

static void expect_status_of(rvit_status found, rvit_status expected, const char *word)
{
    if (found != expected || strstr(rvit_status_detail(), word) == NULL)
        fail_msg("expected %s with \"%s\", got %s: %s", rvit_status_name(expected), word, rvit_status_name(found), rvit_status_detail());
}

static rvit_model *model_of(rvit_quantization quantization)
{
    rvit_model *m;
    if (create(quantization, &m) != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    return m;
}

static int64_t rows_of(const rvit_model *m, rvit_block_linear linear)
{
    return rvit_block_outputs(m, linear) * (linear == RVIT_BLOCK_FC1 && m->info.gated ? 2 : 1);
}

/* Quantized values times their scales must equal the weights of the unquantized model up to float rounding. Returns the number of rows that
   do not; their error must be at most half a step. */
static int64_t compare(const rvit_model *quantized, const rvit_model *floats, int32_t block, rvit_block_linear linear)
{
    const rvit_linear_weights *b = &quantized->blocks[block].linears[linear], *f = &floats->blocks[block].linears[linear];
    const int64_t rows = rows_of(floats, linear), columns = rvit_block_inputs(floats, linear), wide = rvit_block_inputs(quantized, linear);
    int64_t n_off = 0;
    assert_true(rvit_is_quantized(b->dtype));
    assert_int_equal(f->dtype, RVIT_F32);
    uint8_t *q = read_view(b->weight, rows * wide);
    float *scales = read_view(b->scales, rows * 4), *w = read_view(f->weight, rows * columns * 4);
    for (int64_t r = 0; r < rows; r++) {
        double off = 0;
        for (int64_t i = 0; i < columns; i++) {
            const double wanted = w[r * columns + i], found = (double)rvit_dequantize_value(q[r * wide + i], b->dtype) * scales[r];
            off = fmax(off, fabs(found - wanted) / scales[r]);
        }
        const double whole = b->dtype == RVIT_I8 ? 128 : 448;
        if (off > whole * 4e-7)
            n_off++;
        if (off > 0.501)
            fail_msg("block %d, layer %d: row %d has an error of %g steps", (int)block, (int)linear, (int)r, off);
    }
    free(q);
    free(scales);
    free(w);
    return n_off;
}

static int64_t compare_all(int k)
{
    rvit_model *floats = model_of(RVIT_QUANTIZATION_NONE), *quantized = model_of(kinds[k]);
    int64_t n_off = 0;
    for (int32_t b = 0; b < 2; b++)
        for (rvit_block_linear i = 0; i < RVIT_N_BLOCK_LINEARS; i++)
            if (k == 0 || i != RVIT_BLOCK_PROJ)
                n_off += compare(quantized, floats, b, i);
            else
                assert_int_equal(quantized->blocks[b].linears[i].dtype, RVIT_F32);
    rvit_model_destroy(floats);
    rvit_model_destroy(quantized);
    return n_off;
}

/* An unquantized model has weights q * scale; a quantized model has the values and scales of the file. */
static void quantized_values_are_kept(void **state)
{
    (void)state;
    static const int ways[] = {OF_ROWS, FLAT, ONE};
    for (int k = 0; k < 2; k++)
        for (int way = 0; way < 3; way++) {
            build_quantized(quantized_dtypes[k], ways[way]);
            rvit_model *floats = model_of(RVIT_QUANTIZATION_NONE), *quantized = model_of(kinds[k]);
            const tensor *weight = get(&scratch, "blocks.1.mlp.fc2.weight"), *scale = get(&scratch, "blocks.1.mlp.fc2.weight_scale");
            float *w = read_view(floats->blocks[1].linears[RVIT_BLOCK_FC2].weight, 64 * 256 * 4);
            uint8_t *q = read_view(quantized->blocks[1].linears[RVIT_BLOCK_FC2].weight, 64 * 256);
            float *scales = read_view(quantized->blocks[1].linears[RVIT_BLOCK_FC2].scales, 64 * 4);
            for (int i = 0; i < 64 * 256; i++) {
                const float s = tensor_value(scale, ways[way] == ONE ? 0 : i / 256);
                assert_int_equal(q[i], origin_byte(weight, i));
                assert_true(scales[i / 256] == s);
                assert_true(w[i] == rvit_dequantize_value(origin_byte(weight, i), k == 0 ? RVIT_I8 : RVIT_E4M3) * s);
            }
            /* With one scale for all rows, fp8 inputs are bounded, as with unquantized checkpoints. */
            assert_int_equal(quantized->blocks[0].linears[RVIT_BLOCK_QKV].bounded, k == 1 && ways[way] == ONE);
            free(w);
            free(q);
            free(scales);
            rvit_model_destroy(floats);
            rvit_model_destroy(quantized);
            assert_int_equal(compare_all(k), 0);
        }
}

/* Splits a tensor of each block into n parts. */
static void split(const char *from, const char *const *to, int n)
{
    for (int i = 0, all = scratch.n; i < all; i++) {
        tensor *t = &scratch.tensors[i], part = *t;
        char *place = strstr(t->name, from), before[32];
        if (strncmp(t->name, "blocks.", 7) != 0 || place == NULL)
            continue;
        snprintf(before, sizeof before, "%.*s", (int)(place - t->name), t->name);
        part.shape[0] /= n;
        for (int j = 0; j < n; j++) {
            part.start = j * n_elements(&part);
            snprintf(part.name, sizeof part.name, "%s%s", before, to[j]);
            if (j == 0)
                *t = part;
            else
                scratch.tensors[scratch.n++] = part;
        }
    }
}

static void build_gated(int64_t mlp)
{
    geometry g = small_geometry;
    g.mlp = mlp;
    build(&scratch, &g, "F32");
    set_config(&scratch, "{\"architecture\":\"vit\",\"model_args\":{\"num_heads\":1,\"swiglu_mlp\":true}}");
    for (int i = 0; i < scratch.n; i++)
        if (strstr(scratch.tensors[i].name, "mlp.fc1.") != NULL)
            scratch.tensors[i].shape[0] = 2 * mlp;
}

/* Split layers, rearranged and padded rows, layer scales with signs. */
static void split_layers_are_joined(void **state)
{
    (void)state;
    static const char *const gates[][2] = {{"mlp.fc1_g.weight", "mlp.fc1_x.weight"}, {"mlp.fc1_g.bias", "mlp.fc1_x.bias"}};
    static const char *const weights[] = {"attn.q_proj.weight", "attn.k_proj.weight", "attn.v_proj.weight"};
    for (int k = 0; k < 2; k++) {
        build_gated(44); /* padded to 48, also if quantized */
        split("mlp.fc1.weight", gates[0], 2);
        split("mlp.fc1.bias", gates[1], 2);
        split("attn.qkv.weight", weights, 3);
        for (int b = 0; b < 2; b++) {
            char name[64];
            snprintf(name, sizeof name, "blocks.%d.attn.qkv.bias", b);
            drop_name(name);
            add_block(&scratch, b, "attn.q_proj.bias", 1, 64, 0);
            add_block(&scratch, b, "attn.v_proj.bias", 1, 64, 0);
        }
        quantize_all_weights(quantized_dtypes[k], OF_ROWS);
        assert_int_equal(compare_all(k), 0);
        /* Rotary pairs are neighbouring columns. */
        geometry g = small_geometry;
        g.dim = 128;
        build(&scratch, &g, "F32");
        set_config(&scratch, "{\"architecture\":\"vit_small_patch16_rope_ape_224\",\"model_args\":{\"num_heads\":2,\"embed_dim\":128,"
                             "\"depth\":2,\"init_values\":null}}");
        quantize_all_weights(quantized_dtypes[k], OF_ROWS);
        assert_int_equal(compare_all(k), 0);
        /* -128 has no negative in int8, so rows that contain it and have a negative layer scale are rounded again. */
        build(&scratch, &small_geometry, "F32");
        for (int b = 0; b < 2; b++) {
            add_block(&scratch, b, "ls1.gamma", 1, 64, 0);
            add_block(&scratch, b, "ls2.gamma", 1, 64, 0);
        }
        quantize_all_weights(quantized_dtypes[k], ONE);
        const int64_t n_off = compare_all(k);
        if (k == 0)
            assert_in_range(n_off, 1, 2 * 2 * 64 - 1);
        else
            assert_int_equal(n_off, 0);
        rvit_model *m = model_of(kinds[k]);
        assert_int_equal(m->blocks[0].linears[RVIT_BLOCK_FC2].bounded, 0);
        rvit_model_destroy(m);
    }
}

/* Layers that are float32 in the file are not quantized, and neither are layers with an unquantized part. Input scales are those of the
   file; of split layers, the largest. */
static void the_file_decides_what_is_quantized(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "F32");
    quantize_weight(get(&scratch, "blocks.0.mlp.fc1.weight"), "I8", INPUTS);
    rvit_model *m = model_of(RVIT_QUANTIZATION_INT8);
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < RVIT_N_BLOCK_LINEARS; i++) {
            const int quantized = b == 0 && i == RVIT_BLOCK_FC1;
            assert_int_equal(m->blocks[b].linears[i].dtype, quantized ? RVIT_I8 : RVIT_F32);
            assert_int_equal(m->blocks[b].linears[i].input_scale.buffer != NULL, quantized);
        }
    float *scale = read_view(m->blocks[0].linears[RVIT_BLOCK_FC1].input_scale, 4);
    assert_true(*scale == tensor_value(get(&scratch, "blocks.0.mlp.fc1.input_scale"), 0));
    free(scale);
    rvit_model_destroy(m);

    static const char *const gates[][2] = {{"mlp.fc1_g.weight", "mlp.fc1_x.weight"}, {"mlp.fc1_g.bias", "mlp.fc1_x.bias"}};
    build_gated(48);
    split("mlp.fc1.weight", gates[0], 2);
    split("mlp.fc1.bias", gates[1], 2);
    quantize_weight(get(&scratch, "blocks.0.mlp.fc1_g.weight"), "I8", INPUTS);
    quantize_weight(get(&scratch, "blocks.0.mlp.fc1_x.weight"), "I8", INPUTS);
    quantize_weight(get(&scratch, "blocks.1.mlp.fc1_x.weight"), "I8", OF_ROWS);
    m = model_of(RVIT_QUANTIZATION_INT8);
    assert_int_equal(m->blocks[0].linears[RVIT_BLOCK_FC1].dtype, RVIT_I8);
    assert_int_equal(m->blocks[1].linears[RVIT_BLOCK_FC1].dtype, RVIT_F32);
    scale = read_view(m->blocks[0].linears[RVIT_BLOCK_FC1].input_scale, 4);
    assert_true(*scale == fmaxf(tensor_value(get(&scratch, "blocks.0.mlp.fc1_g.input_scale"), 0),
                                tensor_value(get(&scratch, "blocks.0.mlp.fc1_x.input_scale"), 0)));
    free(scale);
    rvit_model_destroy(m);
    drop_name("blocks.0.mlp.fc1_g.input_scale");
    expect_status_of(create(RVIT_QUANTIZATION_INT8, &m), RVIT_BAD_FILE, "has an input_scale for 1 parts, but none for 1");
}

static void expect_scale(const char *name, float value, const char *word)
{
    build_quantized("I8", INPUTS);
    get(&scratch, name)->has_first = 1;
    get(&scratch, name)->first = value;
    expect_bad(NULL, RVIT_BAD_FILE, word);
}

static void bad_files(void **state)
{
    (void)state;
    static const float values[] = {0, -1, NAN, INFINITY, 1e-38f};
    static const char *const words[] = {"scale 0 is 0,", "scale 0 is -1,", "nan,", "scale 0 is inf,", "expected a number from 2^-100"};
    for (int i = 0; i < 5; i++) {
        expect_scale("blocks.1.mlp.fc1.weight_scale", values[i], words[i]);
        expect_scale("blocks.0.attn.proj.input_scale", values[i], words[i]);
    }
    build_quantized("F8_E4M3", OF_ROWS);
    drop_name("blocks.0.attn.qkv.weight_scale");
    expect_bad(NULL, RVIT_BAD_FILE,
               "tensor 'blocks.0.attn.qkv.weight_scale' is missing: the scale of the F8_E4M3 tensor 'blocks.0.attn.qkv.weight'");
    build_quantized("I8", OF_ROWS);
    get(&scratch, "blocks.0.attn.qkv.weight_scale")->shape[0]--;
    expect_bad(NULL, RVIT_BAD_FILE, "expected the shape [192, 1], [192] or [1], found [191, 1]");
    build_quantized("I8", OF_ROWS); /* scales of groups of columns */
    get(&scratch, "blocks.0.attn.qkv.weight_scale")->shape[1] = 2;
    expect_bad(NULL, RVIT_BAD_FILE, "found [192, 2]");
    build_quantized("I8", INPUTS);
    get(&scratch, "blocks.0.attn.qkv.input_scale")->rank = 1;
    get(&scratch, "blocks.0.attn.qkv.input_scale")->shape[0] = 2;
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'blocks.0.attn.qkv.input_scale': expected one scale, found the shape [2]");
    build_quantized("I8", OF_ROWS);
    strcpy(get(&scratch, "blocks.1.mlp.fc2.weight_scale")->dtype, "I32");
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'blocks.1.mlp.fc2.weight_scale': dtype is I32, expected F32, F16 or BF16");
    build_quantized("I8", OF_ROWS);
    strcpy(get(&scratch, "blocks.1.mlp.fc2.bias")->dtype, "I8");
    expect_bad(NULL, RVIT_BAD_FILE,
               "tensor 'blocks.1.mlp.fc2.bias': dtype is I8, expected F32, F16 or BF16: only weights of linear layers");
    build_quantized("I8", OF_ROWS);
    quantize_weight(get(&scratch, "head.weight"), "I8", OF_ROWS);
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'head.weight': dtype is I8");
    build_quantized("I8", OF_ROWS);
    strcpy(get(&scratch, "blocks.1.attn.proj.weight")->dtype, "F8_E4M3");
    expect_bad(NULL, RVIT_BAD_FILE, "mixed 8-bit weights: this tensor is F8_E4M3, earlier ones are I8");
    build_quantized("I8", OF_ROWS); /* asymmetric */
    add_block(&scratch, 0, "mlp.fc1.weight_zero_point", 2, 256, 1);
    expect_bad(NULL, RVIT_BAD_FILE, "unknown tensor 'blocks.0.mlp.fc1.weight_zero_point'");
    build(&scratch, &small_geometry, "F32");
    add_block(&scratch, 0, "mlp.fc1.weight_scale", 2, 256, 1);
    expect_bad(NULL, RVIT_BAD_FILE, "unknown tensor 'blocks.0.mlp.fc1.weight_scale'");
    rvit_model *m = NULL;
    build_quantized("F8_E4M3", OF_ROWS);
    expect_status_of(create(RVIT_QUANTIZATION_INT8, &m), RVIT_UNSUPPORTED, "its weights are fp8, but quantization is int8, expected fp8");
    build_quantized("I8", OF_ROWS);
    expect_status_of(create(RVIT_QUANTIZATION_FP8, &m), RVIT_UNSUPPORTED, "its weights are int8, but quantization is fp8, expected int8");
}

static void quantization_config(const char *fields)
{
    char json[256];
    snprintf(json, sizeof json, "{\"architecture\":\"vit\",\"model_args\":{\"num_heads\":1},\"quantization_config\":{%s}}", fields);
    build_quantized("I8", OF_ROWS);
    set_config(&scratch, json);
}

static void formats(void **state)
{
    (void)state;
    quantization_config("\"quant_method\":\"compressed-tensors\",\"format\":\"int-quantized\",\"ignore\":[\"head\"]");
    (void)good();
    quantization_config("\"format\":\"pack-quantized\"");
    expect_bad(NULL, RVIT_UNSUPPORTED, "quantization_config.format is 'pack-quantized', which is not supported");
    quantization_config("\"quant_method\":\"gptq\"");
    expect_bad(NULL, RVIT_UNSUPPORTED, "quantization_config.quant_method is 'gptq'");
    quantization_config("\"format\":8");
    expect_bad(NULL, RVIT_BAD_FILE, "quantization_config.format is not a string");
    char path[160];
    snprintf(path, sizeof path, "%s/hf_quant_config.json", temp_folder);
    static const char *const algorithms[] = {"FP8", "NVFP4"};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "{\"producer\":{\"name\":\"modelopt\"},\"quantization\":{\"quant_algo\":\"%s\",\"exclude_modules\":[\"head\"]}}",
                algorithms[i]);
        assert_int_equal(fclose(file), 0);
        build_quantized("F8_E4M3", ONE | INPUTS);
        if (i == 0)
            (void)good();
        else
            expect_bad(NULL, RVIT_UNSUPPORTED, "hf_quant_config.json: quantization.quant_algo is 'NVFP4', which is not supported");
    }
    assert_int_equal(unlink(path), 0);
}

static rvit_status update(rvit_model *m)
{
    rvit_checkpoint *checkpoint = open_with(NULL);
    const rvit_status status = rvit_model_update(m, checkpoint);
    rvit_checkpoint_destroy(checkpoint);
    return status;
}

/* An update must not change which layers are quantized or have input scales, because sessions have recorded it. */
static void updates(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        build_quantized(quantized_dtypes[k], INPUTS);
        rvit_model *m = model_of(kinds[k]), *same = model_of(kinds[k]);
        get(&scratch, "blocks.0.mlp.fc1.weight")->origin++;
        get(&scratch, "blocks.0.mlp.fc1.weight_scale")->origin++;
        rvit_model *wanted = model_of(kinds[k]);
        assert_int_equal(update(m), RVIT_OK);
        expect_same_weights(m, wanted);
        drop_name("blocks.1.mlp.fc2.input_scale");
        expect_status_of(update(same), RVIT_INVALID_ARGUMENT, "the kind of input scale of fc2 of block 1 differs");
        build(&scratch, &small_geometry, "F32");
        expect_status_of(update(same), RVIT_INVALID_ARGUMENT, "the kind of input scale of qkv of block 0 differs");
        build(&scratch, &small_geometry, "F32");
        quantize_weight(get(&scratch, "blocks.0.mlp.fc1.weight"), quantized_dtypes[k], INPUTS);
        expect_status_of(update(same), RVIT_INVALID_ARGUMENT, "rvit_model_update: qkv of block 0 is f32 in the checkpoint");
        build_quantized(quantized_dtypes[1 - k], INPUTS);
        expect_status_of(update(same), RVIT_UNSUPPORTED, "its weights are");
        rvit_model_destroy(same);
    }
    build(&scratch, &small_geometry, "F32");
    rvit_model *floats = model_of(RVIT_QUANTIZATION_NONE);
    build_quantized("I8", OF_ROWS);
    assert_int_equal(update(floats), RVIT_OK);
    expect_same_weights(floats, model_of(RVIT_QUANTIZATION_NONE));
}

static void failed_allocations(void **state)
{
    (void)state;
    build_quantized("I8", OF_ROWS);
    rvit_checkpoint *checkpoint = open_with(NULL);
    const tensor *weight = get(&scratch, "blocks.0.attn.proj.weight");
    const int64_t n = weight->shape[0] * weight->shape[1];
    float *values = calloc((size_t)n, sizeof *values);
    assert_non_null(values);
    counter memory;
    const rvit_allocator allocator = {&memory, counter_allocate, counter_release};
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, &allocator);
    rvit_status status = RVIT_OUT_OF_HOST_MEMORY;
    int64_t i = 0;
    for (; status != RVIT_OK; i++) {
        memory = (counter){0, 0, i};
        status = rvit_checkpoint_read(checkpoint, &alloc, weight->name, n, values);
        if (status != RVIT_OK)
            expect_status_of(status, RVIT_OUT_OF_HOST_MEMORY, "memory");
        assert_int_equal(memory.live, 0);
    }
    assert_int_equal(i, 3);
    free(values);
    rvit_checkpoint_destroy(checkpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantized_values_are_kept),
        cmocka_unit_test(split_layers_are_joined),
        cmocka_unit_test(the_file_decides_what_is_quantized),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(formats),
        cmocka_unit_test(updates),
        cmocka_unit_test(failed_allocations),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
