/* Tests parts that only some models have: their weights on the device, and missing tensors and wrong shapes. */
#include "family_models.h"

static void add_scales(const char *const names[2])
{
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 2; i++) {
            add_block(&scratch, b, names[i], 1, 64, 0);
            scratch.tensors[scratch.n - 1].origin = origin_of(i == 0 ? "one" : "two");
        }
}

static void layer_scale(void **state)
{
    (void)state;
    static const char *const timm_names[] = {"ls1.gamma", "ls2.gamma"}, *const deit3_names[] = {"gamma_1", "gamma_2"};
    build(&scratch, &small_geometry, "F32");
    add_scales(timm_names);
    rvit_model *timm = load_model(NULL, RVIT_F32);
    assert_string_equal(timm->info.family, "timm");
    assert_int_equal(timm->files.n_parameters, 150346 + 4 * 64);
    const struct {
        rvit_view view;
        const char *name, *scale;
        int columns;
    } scaled[] = {
        {timm->blocks[1].linears[RVIT_BLOCK_PROJ].weight, "blocks.1.attn.proj.weight", "one", 64},
        {timm->blocks[1].linears[RVIT_BLOCK_PROJ].bias, "blocks.1.attn.proj.bias", "one", 1},
        {timm->blocks[0].linears[RVIT_BLOCK_FC2].weight, "blocks.0.mlp.fc2.weight", "two", 256},
        {timm->blocks[0].linears[RVIT_BLOCK_FC2].bias, "blocks.0.mlp.fc2.bias", "two", 1},
    };
    for (size_t p = 0; p < sizeof scaled / sizeof *scaled; p++) {
        float *values = read_view(scaled[p].view, (int64_t)64 * scaled[p].columns * 4);
        for (int i = 0; i < 64 * scaled[p].columns; i++) {
            const float scale = origin_value(origin_of(scaled[p].scale), i / scaled[p].columns);
            assert_true(values[i] == origin_value(origin_of(scaled[p].name), i) * scale);
        }
        free(values);
    }
    build(&scratch, &small_geometry, "F32");
    add_scales(deit3_names);
    rvit_model *deit3 = load_model(NULL, RVIT_F32);
    assert_string_equal(deit3->info.family, "deit3");
    expect_same_weights(timm, deit3);

    drop_name("blocks.1.gamma_2");
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'blocks.1.gamma_2' is missing (1 in total)");
    build(&scratch, &small_geometry, "F32");
    add_scales(timm_names);
    get(&scratch, "blocks.0.ls2.gamma")->shape[0] = 63;
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'blocks.0.ls2.gamma': expected the shape [64], found [63]");
}

/* Attention pooling: the message names each missing tensor and each wrong shape, and no tensor is ignored. */
static void pooled_heads(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int rank, shape[3];
    } tensors[] = {{"latent", 3, {1, 1, 64}}, {"q.weight", 2, {64, 64}},       {"q.bias", 1, {64}},       {"kv.weight", 2, {128, 64}},
                   {"kv.bias", 1, {128}},     {"proj.weight", 2, {64, 64}},    {"proj.bias", 1, {64}},    {"norm.weight", 1, {64}},
                   {"norm.bias", 1, {64}},    {"mlp.fc1.weight", 2, {96, 64}}, {"mlp.fc1.bias", 1, {96}}, {"mlp.fc2.weight", 2, {64, 96}},
                   {"mlp.fc2.bias", 1, {64}}};
    const int n = (int)(sizeof tensors / sizeof *tensors);
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.lenient = 1;
    desc.pooling = RVIT_POOLING_MAP;
    for (int bad = -1; bad < 2 * n; bad++) {
        char name[64], word[128];
        build(&scratch, &small_geometry, "F32");
        drop_name("cls_token");
        get(&scratch, "pos_embed")->shape[1]--;
        for (int i = 0; i < n; i++) {
            snprintf(name, sizeof name, "attn_pool.%s", tensors[i].name);
            add(&scratch, name, tensors[i].rank, tensors[i].shape[0], tensors[i].shape[1], tensors[i].shape[2], 0);
            if (bad == n + i)
                get(&scratch, name)->shape[0]++;
        }
        if (bad < 0) {
            rvit_model *m = load_model(&desc, RVIT_F32);
            assert_int_equal(m->map.mlp_dim, 96);
            rvit_model_destroy(m);
            rvit_checkpoint_desc other = desc;
            other.pooling = RVIT_POOLING_CLS;
            expect_bad(&other, RVIT_INVALID_ARGUMENT, "the weights have attention pooling, but pooling is CLS row (given)");
            continue;
        }
        snprintf(name, sizeof name, "attn_pool.%s", tensors[bad % n].name);
        snprintf(word, sizeof word, bad < n ? "tensor '%s' is missing" : "tensor '%s': expected the shape", name);
        if (bad < n)
            drop_name(name);
        expect_bad(&desc, RVIT_BAD_FILE, word);
    }
    for (int bad = 0; bad < 4; bad++) {
        build(&scratch, &small_geometry, "F32");
        add(&scratch, "fc_norm.weight", 1, bad == 0 ? 63 : 64, 0, 0, 0);
        if (bad != 1)
            add(&scratch, "fc_norm.bias", 1, 64, 0, 0, 0);
        if (bad < 3) {
            drop_name("norm.weight");
            drop_name("norm.bias");
        }
        desc.pooling = RVIT_POOLING_MEAN;
        if (bad == 0)
            expect_bad(&desc, RVIT_BAD_FILE, "tensor 'fc_norm.weight': expected the shape [64], found [63]");
        if (bad == 1)
            expect_bad(&desc, RVIT_BAD_FILE, "tensor 'fc_norm.bias' is missing");
        if (bad == 3)
            expect_bad(&desc, RVIT_UNSUPPORTED, "two norms after the last block");
        if (bad == 2) {
            rvit_model *m = load_model(&desc, RVIT_F32);
            assert_int_equal(m->info.pooling, RVIT_POOLING_MEAN_NORM);
            rvit_model_destroy(m);
        }
    }
    build(&scratch, &small_geometry, "F32");
    drop_name("norm.weight");
    drop_name("norm.bias");
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'norm.weight' is missing, and no file says that the model has no norm after the last block");
    build(&scratch, &small_geometry, "F32");
    drop_name("cls_token");
    get(&scratch, "pos_embed")->shape[1]--;
    expect_bad(NULL, RVIT_BAD_FILE, "the head reads the CLS row");
}

/* Splits the packed tensor of a gated MLP into one for the gate and one for the values. */
static void split_gate(const char *kind)
{
    for (int b = 0; b < 2; b++) {
        char name[96];
        snprintf(name, sizeof name, "blocks.%d.mlp.fc1.%s", b, kind);
        tensor *gate = get(&scratch, name), values = *gate;
        gate->shape[0] /= 2;
        values.shape[0] /= 2;
        values.start = n_elements(gate);
        snprintf(gate->name, sizeof gate->name, "blocks.%d.mlp.fc1_g.%s", b, kind);
        snprintf(values.name, sizeof values.name, "blocks.%d.mlp.fc1_x.%s", b, kind);
        scratch.tensors[scratch.n++] = values;
    }
}

/* The width of the MLP is not a multiple of 4, so it is padded with zeros. */
static void build_gated(void)
{
    build(&scratch, &small_geometry, "F32");
    set_config(&scratch, "{\"architecture\":\"vit\",\"model_args\":{\"num_heads\":1,\"swiglu_mlp\":true}}");
    for (int i = 0; i < scratch.n; i++) {
        tensor *t = &scratch.tensors[i];
        if (strstr(t->name, "mlp.fc1.") != NULL)
            t->shape[0] = 2 * 43;
        if (strstr(t->name, "mlp.fc2.weight") != NULL)
            t->shape[1] = 43;
    }
}

static void gated(void **state)
{
    (void)state;
    build_gated();
    rvit_model *m = load_model(NULL, RVIT_F32);
    assert_true(m->info.gated && m->info.mlp_dim == 43 && m->mlp_width == 48);
    float *fc1 = read_view(m->blocks[1].linears[RVIT_BLOCK_FC1].weight, 96 * 64 * 4),
          *bias = read_view(m->blocks[1].linears[RVIT_BLOCK_FC1].bias, 96 * 4);
    float *fc2 = read_view(m->blocks[0].linears[RVIT_BLOCK_FC2].weight, 64 * 48 * 4);
    for (int row = 0; row < 96; row++) {
        const int source = row % 2 * 43 + row / 2, pad = row / 2 >= 43;
        assert_true(bias[row] == (pad ? 0 : origin_value(origin_of("blocks.1.mlp.fc1.bias"), source)));
        for (int i = 0; i < 64; i++)
            assert_true(fc1[row * 64 + i] == (pad ? 0 : origin_value(origin_of("blocks.1.mlp.fc1.weight"), source * 64 + i)));
    }
    for (int i = 0; i < 64 * 48; i++)
        assert_true(fc2[i] == (i % 48 >= 43 ? 0 : origin_value(origin_of("blocks.0.mlp.fc2.weight"), i / 48 * 43 + i % 48)));
    free(fc1);
    free(bias);
    free(fc2);
    rvit_model_destroy(m);
    for (int dtype = RVIT_F32; dtype <= RVIT_BF16; dtype++) {
        build_gated();
        m = load_model(NULL, (rvit_dtype)dtype);
        split_gate("weight");
        split_gate("bias");
        expect_same_weights(m, load_model(NULL, (rvit_dtype)dtype));
        build_gated();
        m = load_model(NULL, (rvit_dtype)dtype);
        rename_all("mlp.fc1.", "mlp.w12.");
        rename_all("mlp.fc2.", "mlp.w3.");
        expect_same_weights(m, load_model(NULL, (rvit_dtype)dtype));
    }
}

/* The token and the position of each row of the embedding: timm with positions for all tokens or only for patches, and DINOv2's names. */
static void registers(void **state)
{
    (void)state;
    static const struct {
        const char *name, *family;
        int rows, position_prefix;
    } cases[] = {
        {"reg_token", "timm", 5 + 16, 5}, {"reg_token", "timm", 16, 0}, {"register_tokens", "dinov2", 1 + 16, 1}, {"", "timm", 16, 0},
        {"", "timm", 1 + 16, 1},
    };
    geometry g = small_geometry;
    g.patch = 14;
    g.grid = 4;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        build(&scratch, &g, "F32");
        get(&scratch, "pos_embed")->shape[1] = cases[c].rows;
        const int n_registers = cases[c].name[0] != '\0' ? 4 : 0, n_prefix = 1 + n_registers;
        if (n_registers > 0)
            add(&scratch, cases[c].name, 3, 1, 4, 64, 0);
        rvit_model *m = load_model(NULL, RVIT_F32);
        assert_string_equal(m->info.family, cases[c].family);
        assert_int_equal(m->info.n_prefix, n_prefix);
        assert_int_equal(m->info.n_registers, n_registers);
        assert_int_equal(m->info.tokens, n_prefix + 16);
        assert_int_equal(m->info.image_size, 56);
        assert_string_equal(m->info.architecture, n_registers > 0 ? "vit_d64_h1_l2_patch14_reg4_56" : "vit_d64_h1_l2_patch14_56");
        float *embedding = read_view(m->embedding, (int64_t)m->info.tokens * 64 * 4);
        for (int t = 0; t < m->info.tokens; t++)
            for (int i = 0; i < 64; i++) {
                const int position = t < cases[c].position_prefix ? t : t >= n_prefix ? t - n_prefix + cases[c].position_prefix : -1;
                const float token = t == 0         ? origin_value(origin_of("cls_token"), i)
                                    : t < n_prefix ? origin_value(origin_of(cases[c].name), (t - 1) * 64 + i)
                                                   : origin_value(origin_of("patch_embed.proj.bias"), i);
                const float added = position < 0 ? 0 : origin_value(origin_of("pos_embed"), (int64_t)position * 64 + i);
                assert_true(embedding[t * 64 + i] == token + added);
            }
        free(embedding);
        rvit_model_destroy(m);
    }
    /* 9 rows could be 3 x 3 patches, or 2 x 2 patches and 5 prefix tokens. Published models with registers have the former. */
    build(&scratch, &g, "F32");
    add(&scratch, "reg_token", 3, 1, 4, 64, 0);
    get(&scratch, "pos_embed")->shape[1] = 9;
    assert_int_equal(good().image_size, 3 * 14);
    build(&scratch, &g, "F32");
    add(&scratch, "register_tokens", 3, 1, 4, 64, 0);
    get(&scratch, "pos_embed")->shape[1] = 5 + 16;
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'pos_embed': its 21 rows");

    build(&scratch, &g, "F32");
    add(&scratch, "reg_token", 3, 1, 4, 64, 0);
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'pos_embed': its 17 rows, with or without 5 for prefix tokens, do not form a square grid");
    get(&scratch, "pos_embed")->shape[1] = 16;
    get(&scratch, "reg_token")->shape[2] = 32;
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'reg_token': expected the shape [1, 4, 64], found [1, 4, 32]");
    get(&scratch, "reg_token")->rank = 2;
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'reg_token': cannot infer the number of register tokens from its shape");
}

static void add_predictor(int index)
{
    static const struct {
        const char *name;
        int rank, a, b;
    } parts[] = {
        {"in_conv.0.weight", 1, 64, 0},   {"in_conv.0.bias", 1, 64, 0},  {"in_conv.1.weight", 2, 64, 64},  {"in_conv.1.bias", 1, 64, 0},
        {"out_conv.0.weight", 2, 32, 64}, {"out_conv.0.bias", 1, 32, 0}, {"out_conv.2.weight", 2, 16, 32}, {"out_conv.2.bias", 1, 16, 0},
        {"out_conv.4.weight", 2, 2, 16},  {"out_conv.4.bias", 1, 2, 0},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[96];
        snprintf(name, sizeof name, "score_predictor.%d.%s", index, parts[i].name);
        add(&scratch, name, parts[i].rank, parts[i].a, parts[i].b, 0, 0);
    }
}

static void expect_predictors(int n, const char *missing)
{
    rvit_model *m = load_model(NULL, RVIT_F32);
    assert_int_equal(m->files.n_predictors, n);
    assert_string_equal(m->missing_predictor, missing);
    assert_int_equal(m->files.n_parameters, 150346);
    for (int p = 0; p < n; p++) {
        const rvit_predictor_weights *w = &m->predictors[p];
        const struct {
            rvit_view view;
            const char *name;
            int n;
        } tensors[] = {
            {w->norm_gamma, "in_conv.0.weight", 64},          {w->norm_beta, "in_conv.0.bias", 64},
            {w->in_weight, "in_conv.1.weight", 64 * 64},      {w->in_bias, "in_conv.1.bias", 64},
            {w->out_weight[0], "out_conv.0.weight", 32 * 64}, {w->out_bias[0], "out_conv.0.bias", 32},
            {w->out_weight[1], "out_conv.2.weight", 16 * 32}, {w->out_bias[1], "out_conv.2.bias", 16},
            {w->keep_weight, "out_conv.4.weight", 2 * 16},    {w->keep_bias, "out_conv.4.bias", 2},
        };
        for (size_t t = 0; t < sizeof tensors / sizeof *tensors; t++) {
            char name[96];
            snprintf(name, sizeof name, "score_predictor.%d.%s", p, tensors[t].name);
            float *values = read_view(tensors[t].view, tensors[t].n * 4);
            for (int i = 0; i < tensors[t].n; i++)
                assert_true(values[i] == origin_value(origin_of(name), i));
            free(values);
        }
    }
    rvit_model_destroy(m);
}

static void predictors(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "F32");
    expect_predictors(0, "score_predictor.0.in_conv.0.weight");
    for (int i = 0; i < 3; i++)
        add_predictor(i);
    expect_predictors(3, "score_predictor.3.in_conv.0.weight");
    drop_name("score_predictor.1.out_conv.2.bias");
    expect_predictors(1, "score_predictor.1.out_conv.2.bias");
    get(&scratch, "score_predictor.0.out_conv.4.weight")->shape[0] = 3;
    expect_predictors(0, "score_predictor.0.out_conv.4.weight");
    build(&scratch, &small_geometry, "F32");
    for (int i = 0; i < 10; i++)
        add_predictor(i);
    expect_predictors(8, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_scale), cmocka_unit_test(pooled_heads), cmocka_unit_test(gated),
        cmocka_unit_test(registers),   cmocka_unit_test(predictors),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
