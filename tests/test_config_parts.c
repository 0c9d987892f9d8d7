/* Tests parts that only some models have, with their config files: each is supported, or refused with a message that names it. */
#include "config_file.h"

static void norms_without_bias(void **state)
{
    (void)state;
    bare(&deit_tiny);
    for (int i = scratch.n - 1; i >= 0; i--)
        if (strstr(scratch.tensors[i].name, "norm") != NULL && strstr(scratch.tensors[i].name, ".bias") != NULL)
            drop(&scratch, i);
    REFUSED(NULL, RVIT_UNSUPPORTED, "whether norms without a bias are RMS norms", "--architecture");
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "the norms have no bias, but they are LayerNorm (config.json: architecture");
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"norm_layer\":\"batchnorm\"}}");
    REFUSED(NULL, RVIT_BAD_FILE, "the norms have no bias");
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"norm_layer\":\"rmsnorm\"}}");
    assert_true(loaded(NULL).rms_norm);
    add_block(&scratch, 0, "norm1.bias", 1, 192, 0);
    REFUSED(NULL, RVIT_BAD_FILE, "tensor 'norm.bias' is missing (24 in total)");
    bare(&deit_tiny);
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"norm_layer\":\"rmsnorm\"}}");
    REFUSED(NULL, RVIT_BAD_FILE, "the norms have a bias, but they are RMSNorm (config.json: model_args.norm_layer");
    remove_config_files();
}

static void inner_norms(void **state)
{
    (void)state;
    bare(&deit_tiny);
    for (int b = 0; b < 12; b++) {
        add_block(&scratch, b, "attn.norm.weight", 1, 192, 0);
        add_block(&scratch, b, "attn.norm.bias", 1, 192, 0);
        add_block(&scratch, b, "mlp.norm.weight", 1, 768, 0);
        add_block(&scratch, b, "mlp.norm.bias", 1, 768, 0);
    }
    REFUSED(NULL, RVIT_UNSUPPORTED, "the number of heads, the activation"); /* not recognised as DeiT-Tiny */
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\"}");
    (void)loaded(NULL);
    get(&scratch, "blocks.5.mlp.norm.bias")->shape[0] = 192;
    REFUSED(NULL, RVIT_BAD_FILE, "tensor 'blocks.5.mlp.norm.bias': expected the shape [768], found [192]");
    drop(&scratch, (int)(get(&scratch, "blocks.5.mlp.norm.bias") - scratch.tensors));
    REFUSED(NULL, RVIT_BAD_FILE, "tensor 'blocks.5.mlp.norm.bias' is missing");
    remove_config_files();
}

static void gates(void **state)
{
    (void)state;
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    pack_gate();
    REFUSED(NULL, RVIT_UNSUPPORTED, "the number of heads, the activation");
    desc.n_heads = 3;
    desc.activation = RVIT_ACTIVATION_SILU;
    desc.eps = 1e-6f;
    desc.pooling = RVIT_POOLING_CLS;
    desc.position = RVIT_POSITION_TABLE;
    const rvit_model_info info = loaded(&desc);
    assert_true(info.gated && info.mlp_dim == 384);
    get(&scratch, "blocks.0.mlp.fc1.bias")->shape[0] = 384;
    REFUSED(&desc, RVIT_BAD_FILE, "tensor 'blocks.0.mlp.fc1.bias': expected the shape [768], found [384]");
    pack_gate();
    get(&scratch, "blocks.7.mlp.fc1.weight")->shape[0] = 384;
    REFUSED(&desc, RVIT_BAD_FILE, "tensor 'blocks.7.mlp.fc1.weight': expected the shape [768, 192], found [384, 192]");
    pack_gate();
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "the tensors have MLPs with a gate (SwiGLU), but the model has none (config.json: architecture");
    bare(&deit_tiny);
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"swiglu_mlp\":true}}");
    REFUSED(NULL, RVIT_BAD_FILE, "MLPs without a gate (SwiGLU), but the model has one (config.json: model_args.swiglu_mlp");
    remove_config_files();
    for (int b = 0; b < 12; b++) {
        char name[48];
        for (int bias = 0; bias < 2; bias++) {
            snprintf(name, sizeof name, "blocks.%d.mlp.fc1.%s", b, bias ? "bias" : "weight");
            tensor *t = get(&scratch, name), gate = *t;
            snprintf(t->name, sizeof t->name, "blocks.%d.mlp.fc1_x.%s", b, bias ? "bias" : "weight");
            snprintf(gate.name, sizeof gate.name, "blocks.%d.mlp.fc1_g.%s", b, bias ? "bias" : "weight");
            scratch.tensors[scratch.n++] = gate;
        }
    }
    assert_true(loaded(&desc).gated);
    get(&scratch, "blocks.3.mlp.fc1_g.weight")->shape[0] = 764;
    REFUSED(&desc, RVIT_BAD_FILE, "tensor 'blocks.3.mlp.fc1_g.weight': expected the shape [768, 192], found [764, 192]");
    drop(&scratch, (int)(get(&scratch, "blocks.3.mlp.fc1_g.weight") - scratch.tensors));
    REFUSED(&desc, RVIT_BAD_FILE, "tensor 'blocks.3.mlp.fc1_g.weight' is missing (1 in total)");
}

/* Unsupported families are recognised by their names, and the message names each unsupported part. */
static void families(void **state)
{
    (void)state;
    static const struct {
        const char *config, *tensors[12], *words[6];
    } cases[] = {
        {"{\"architecture\":\"naflexvit_base_patch16_parfac_gap\"}",
         {"embeds.proj.weight", "embeds.proj.bias", "embeds.reg_token", "embeds.pos_embed_y", "embeds.pos_embed_x", "blocks.0.norm1.weight",
          "blocks.0.attn.qkv.weight", "fc_norm.weight"},
         {"factorised position tables (lines and columns), which is not supported (tensor 'embeds.pos_embed_y')",
          "a position table that keeps its aspect ratio for all images, which is not supported (config.json: architecture"}},
        {"{\"architecture\":\"vit_small_patch16_rope_mixed_224\"}",
         {"cls_token", "patch_embed.proj.weight", "rope.freqs", "blocks.0.norm1.weight", "blocks.0.attn.qkv.weight", "norm.weight"},
         {"learned rotary frequencies, which is not supported (tensor 'rope.freqs')"}},
        {"{\"architecture\":\"vit_dwee_patch16_reg1_gap_256\"}",
         {"reg_token", "patch_embed.proj.weight", "blocks.0.norm1.weight", "blocks.0.attn.qkv.weight", "blocks.0.attn.lambda_q1",
          "norm.weight"},
         {"differential attention, which is not supported (tensor 'blocks.0.attn.lambda_q1')"}},
        {"{\"architecture\":\"vit_pwee_patch16_reg1_gap_256\"}",
         {"reg_token", "patch_embed.proj.weight", "blocks.0.in_norm.weight", "blocks.0.in_proj.weight", "norm.weight"},
         {"parallel attention and MLP, which is not supported (tensor 'blocks.0.in_norm.weight')"}},
        {"{\"architecture\":\"vit_base_patch16_sapiens2\"}",
         {"cls_token", "patch_embed.proj.weight", "blocks.0.norm1.weight", "blocks.0.attn.q_proj.weight", "blocks.0.attn.q_norm.weight",
          "norm.weight"},
         {"normalised queries and keys, which is not supported (tensor 'blocks.0.attn.q_norm.weight')"}},
        {"{\"architecture\":\"beit_base_patch16_224\"}",
         {"cls_token", "patch_embed.proj.weight", "blocks.0.norm1.weight", "blocks.0.attn.qkv.weight",
          "blocks.0.attn.relative_position_bias_table", "fc_norm.weight"},
         {"a relative position bias, which is not supported (tensor 'blocks.0.attn.relative_position_bias_table')"}},
        {NULL,
         {"cls_token", "storage_tokens", "patch_embed.proj.weight", "rope_embed.periods", "blocks.0.norm1.weight", "blocks.0.ls1.gamma",
          "blocks.0.attn.qkv.weight", "blocks.0.mlp.w3.weight", "norm.weight"},
         {"the tensor names of DINOv3's own code", "the activation"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        remove_config_files();
        scratch.n = 0;
        scratch.dtype = "F16";
        scratch.metadata[0] = '\0';
        for (int t = 0; cases[i].tensors[t] != NULL; t++)
            add(&scratch, cases[i].tensors[t], 1, 64, 0, 0, 0);
        if (cases[i].config != NULL)
            write_config_file("config.json", cases[i].config);
        refused_with(NULL, RVIT_UNSUPPORTED, cases[i].words);
    }
    remove_config_files();
}

/* Adds the tensors of attention pooling. */
static void add_map(const geometry *g)
{
    static const struct {
        const char *name;
        int rank, rows;
    } tensors[] = {{"latent", 3, 1},       {"q.weight", 2, 1},       {"q.bias", 1, 1},      {"kv.weight", 2, 2}, {"kv.bias", 1, 2},
                   {"proj.weight", 2, 1},  {"proj.bias", 1, 1},      {"norm.weight", 1, 1}, {"norm.bias", 1, 1}, {"mlp.fc1.weight", 2, 4},
                   {"mlp.fc1.bias", 1, 4}, {"mlp.fc2.weight", 2, 1}, {"mlp.fc2.bias", 1, 1}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char name[48];
        const int rank = tensors[i].rank, rows = tensors[i].rows * g->dim;
        snprintf(name, sizeof name, "attn_pool.%s", tensors[i].name);
        add(&scratch, name, rank, rank == 3 ? 1 : rows, rank == 3 ? 1 : strstr(name, "fc2") != NULL ? 4 * g->dim : g->dim, g->dim, 0);
    }
}

/* The number of heads and the activation of attention pooling may differ from those of the blocks, in timm's EVA class, which follows from
   the architecture's name. */
static void attention_pooling(void **state)
{
    (void)state;
    bare(&deit_tiny);
    add_map(&deit_tiny);
    write_config_file("config.json",
                      "{\"architecture\":\"vit_pe_core_tiny_patch16_384\",\"num_classes\":10,\"model_args\":{\"img_size\":224,"
                      "\"pre_norm\":false}}");
    expect_fact("pooling heads", "8", "config.json: architecture 'vit_pe_core_tiny_patch16_384'");
    expect_fact("heads", "3", "config.json: architecture");
    expect_fact("pooling activation", "GELU", "config.json: architecture");
    static const struct {
        const char *args;
        rvit_status status;
        const char *word;
    } cases[] = {
        {"\"attn_pool_num_heads\":5", RVIT_BAD_FILE,
         "192 cannot be split into 5 heads of attention pooling (config.json: model_args.attn_pool_num"},
        {"\"attn_pool_num_heads\":0", RVIT_BAD_FILE, "cannot be split into 0 heads of attention pooling"},
        {"\"attn_pool_num_heads\":96", RVIT_UNSUPPORTED,
         "the heads of attention pooling have 2 columns, expected a multiple of 4 up to 192"},
        {"\"attn_pool_num_heads\":\"8\"", RVIT_BAD_FILE, "config.json: model_args.attn_pool_num_heads is not an integer"},
        {"\"class_token\":false", RVIT_BAD_FILE,
         "tensor 'cls_token' is present, but the model has no CLS token (config.json: model_args.class_token"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"architecture\":\"vit_pe_core_tiny_patch16_384\",\"model_args\":{\"img_size\":224,\"pre_norm\":false,%s}}",
                 cases[i].args);
        write_config_file("config.json", text);
        REFUSED(NULL, cases[i].status, cases[i].word);
    }
    /* Attention pooling of timm's other class ignores prefix tokens. */
    write_config_file("config.json", "{\"architecture\":\"vit_tiny_patch16_224\",\"model_args\":{\"global_pool\":\"map\"}}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "prefix tokens that its attention pooling does not read, which is not supported (config.json: arch");
    write_config_file("config.json",
                      "{\"architecture\":\"vit_tiny_patch16_224\",\"model_args\":{\"global_pool\":\"map\",\"act_layer\":\"quick_gelu\","
                      "\"pool_include_prefix\":true}}");
    expect_fact("pooling heads", "3", "architecture");
    expect_fact("pooling activation", "quick GELU", "architecture");
    remove_config_files();
    /* Without a name: with a position table and without a gated MLP, the pooling has the blocks' heads and activation. */
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.n_heads = 3;
    desc.activation = RVIT_ACTIVATION_GELU;
    desc.eps = 1e-6f;
    desc.position = RVIT_POSITION_TABLE;
    REFUSED(&desc, RVIT_UNSUPPORTED,
            "whether the attention pooling reads the prefix tokens from the weights or the files next to them: set --architecture");
    drop(&scratch, (int)(get(&scratch, "cls_token") - scratch.tensors));
    get(&scratch, "pos_embed")->shape[1]--;
    assert_int_equal(loaded(&desc).pooling, RVIT_POOLING_MAP);
    desc.position = RVIT_POSITION_BOTH;
    REFUSED(&desc, RVIT_UNSUPPORTED, "the number of heads of the attention pooling, the activation of the attention pooling",
            "--architecture");
    pack_gate();
    add_map(&deit_tiny);
    drop(&scratch, (int)(get(&scratch, "cls_token") - scratch.tensors));
    get(&scratch, "pos_embed")->shape[1]--;
    desc.position = RVIT_POSITION_TABLE;
    desc.activation = RVIT_ACTIVATION_SILU;
    REFUSED(&desc, RVIT_UNSUPPORTED,
            "the activation of the attention pooling from the weights or the files next to them: set --architecture");
}

/* Models with register tokens and without a position table may have no CLS token, so a file without one is valid. */
static void missing_cls(void **state)
{
    (void)state;
    const char *const dropped[] = {"pos_embed", "head.weight", "head.bias"};
    bare(&deit_small);
    add_scales(&deit_small);
    add(&scratch, "reg_token", 3, 1, 4, 384, 0);
    for (int i = scratch.n - 1; i >= 0; i--)
        if (strstr(scratch.tensors[i].name, "qkv.bias") != NULL)
            drop(&scratch, i);
    for (int i = 0; i < 3; i++)
        drop(&scratch, (int)(get(&scratch, dropped[i]) - scratch.tensors));
    write_config_file("config.json", "{\"architecture\":\"vit_small_patch16_dinov3\",\"model_args\":{\"img_size\":224}}");
    assert_int_equal(loaded(NULL).n_prefix, 5);
    drop(&scratch, (int)(get(&scratch, "cls_token") - scratch.tensors));
    REFUSED(NULL, RVIT_BAD_FILE, "tensor 'cls_token' is missing, but the model has a CLS token (config.json: architecture");
    write_config_file("config.json",
                      "{\"architecture\":\"vit_small_patch16_dinov3\",\"model_args\":{\"img_size\":224,\"class_token\":false}}");
    assert_int_equal(loaded(NULL).n_prefix, 4);
    remove_config_files();
}

/* A norm of only the patches does not apply to prefix tokens, which are added with their positions. */
static void patch_norm(void **state)
{
    (void)state;
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.architecture = "vit";
    desc.n_heads = 3;
    bare(&deit_tiny);
    add(&scratch, "patch_embed.norm.weight", 1, 192, 0, 0, 0);
    REFUSED(&desc, RVIT_BAD_FILE, "tensor 'patch_embed.norm.bias' is missing (1 in total)");
    add(&scratch, "patch_embed.norm.bias", 1, 192, 0, 0, 0);
    REFUSED(&desc, RVIT_UNSUPPORTED, "a patch norm together with prefix tokens");
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "tensor 'patch_embed.norm.weight' is present, but the model has no patch norm (config.json: arch");
    remove_config_files();
    get(&scratch, "patch_embed.norm.bias")->shape[0] = 191;
    REFUSED(&desc, RVIT_BAD_FILE, "tensor 'patch_embed.norm.bias': expected the shape [192], found [191]");
}

static void rename_to(const char *from, const char *to)
{
    for (int i = 0; i < scratch.n; i++)
        if (strncmp(scratch.tensors[i].name, from, strlen(from)) == 0) {
            char rest[64];
            snprintf(rest, sizeof rest, "%s", scratch.tensors[i].name + strlen(from));
            snprintf(scratch.tensors[i].name, sizeof scratch.tensors[i].name, "%s%s", to, rest);
        }
}

/* A name or an argument contradicts the tensors. timm's models with mean pooling have a norm after it ("fc_norm"); a file with such a norm
   and the name of a model that reads the CLS row is refused. */
static void contradictions(void **state)
{
    (void)state;
#define NAMED "{\"architecture\":\"vit_tiny_patch16_224\",\"model_args\":{"
#define PLAIN "{\"architecture\":\"vit\",\"model_args\":{\"num_heads\":3,"
    static const struct {
        int fc_norm, scales, norm_pre, bias;
        const char *config, *word; /* word: part of the error message; NULL: valid */
    } cases[] = {
        {1, 0, 0, 1, NAMED "}}", "tensor 'fc_norm.weight' is present, but the model has no norm after pooling (config.json: architecture"},
        {1, 0, 0, 1, NAMED "\"global_pool\":\"token\"}}", "tensor 'fc_norm.weight' is present"},
        {1, 0, 0, 1, NAMED "\"global_pool\":\"avg\"}}", NULL},
        {1, 0, 0, 1, NAMED "\"global_pool\":\"avg\",\"fc_norm\":false}}", "no norm after pooling (config.json: model_args.fc_norm"},
        {1, 0, 0, 1, NAMED "\"fc_norm\":true}}", NULL},
        {1, 0, 0, 1, PLAIN "\"global_pool\":\"token\"}}",
         "tensor 'fc_norm.weight', the norm of a mean, is present, but the head reads the CLS row (config.json: model_args.global"},
        {1, 0, 0, 1, PLAIN "\"fc_norm\":true}}", NULL},
        {0, 0, 0, 1, NAMED "\"global_pool\":\"avg\"}}", NULL}, /* fc_norm=False, or not a model of timm */
        {0, 0, 0, 1, NAMED "\"global_pool\":\"avg\",\"fc_norm\":true}}",
         "tensor 'fc_norm.weight' is missing, but the model has a norm after"},
        {0, 0, 0, 1, NAMED "\"final_norm\":false}}",
         "tensor 'norm.weight' is present, but the model has no norm after the last block (config"},
        {1, 0, 0, 1, NAMED "\"global_pool\":\"avg\",\"final_norm\":false}}",
         "tensor 'fc_norm.weight' is present, but the model has no norm after"},
        {0, 1, 0, 1, NAMED "}}", "tensor 'blocks.0.gamma_1' is present, but the model has no layer scale (config.json: architecture"},
        {0, 1, 0, 1, NAMED "\"init_values\":1e-5}}", NULL},
        {0, 0, 0, 1, NAMED "\"init_values\":1e-5}}", "is missing, but the model has a layer scale (config.json: model_args.init_values"},
        {0, 0, 0, 1, NAMED "\"init_values\":null}}", NULL},
        {0, 0, 1, 1, NAMED "}}",
         "tensor 'norm_pre.weight' is present, but the model has no norm before the first block (config.json: arch"},
        {0, 0, 1, 1, NAMED "\"pre_norm\":true}}", NULL},
        {0, 0, 0, 1, NAMED "\"pre_norm\":true}}", "tensor 'norm_pre.weight' is missing, but the model has a norm before the first block"},
        {0, 0, 0, 0, NAMED "}}", "tensor 'blocks.0.attn.qkv.bias' is missing, but the model has a qkv bias (config.json: archi"},
        {0, 0, 0, 0, NAMED "\"qkv_bias\":false}}", NULL},
        {0, 0, 0, 1, NAMED "\"qkv_bias\":false}}", "tensor 'blocks.0.attn.qkv.bias' is present, but the model has no qkv bias"},
        {0, 0, 0, 1, NAMED "\"norm_eps\":1e-5,\"position\":\"table\"}}", NULL},
        {0, 0, 0, 1, NAMED "\"position\":\"rope\"}}",
         "tensor 'pos_embed' is present, but positions are 'rotary' (config.json: model_args.pos"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bare(&deit_tiny);
        if (cases[i].fc_norm)
            rename_to("norm.", "fc_norm.");
        if (cases[i].scales)
            add_scales(&deit_tiny);
        if (cases[i].norm_pre) {
            add(&scratch, "norm_pre.weight", 1, 192, 0, 0, 0);
            add(&scratch, "norm_pre.bias", 1, 192, 0, 0, 0);
        }
        for (int k = scratch.n - 1; k >= 0; k--)
            if (!cases[i].bias && strstr(scratch.tensors[k].name, "qkv.bias") != NULL)
                drop(&scratch, k);
        write_config_file("config.json", cases[i].config);
        if (cases[i].word != NULL)
            REFUSED(NULL, RVIT_BAD_FILE, cases[i].word);
        else
            (void)loaded(NULL);
    }
    remove_config_files();
    /* The architecture's name in the file's metadata. */
    snprintf(scratch.metadata, sizeof scratch.metadata, ",\"architecture\":\"vit_tiny_patch16_224\"");
    rename_to("norm.", "fc_norm.");
    REFUSED(NULL, RVIT_BAD_FILE, "tensor 'fc_norm.weight' is present, but the model has no norm after pooling (metadata: architecture");
    /* An explicit option has priority over the tensors. */
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.n_heads = 3;
    desc.activation = RVIT_ACTIVATION_GELU;
    desc.eps = 1e-6f;
    desc.position = RVIT_POSITION_TABLE;
    desc.pooling = RVIT_POOLING_CLS;
    scratch.metadata[0] = '\0';
    assert_int_equal(loaded(&desc).pooling, RVIT_POOLING_CLS);
#undef NAMED
#undef PLAIN
}

/* torchvision's files have no config. The number of heads is the only option of its class, and that of published models is known. */
static void torchvision(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"cls_token", "class_token"},
        {"pos_embed", "encoder.pos_embedding"},
        {"patch_embed.proj", "conv_proj"},
        {"norm1", "ln_1"},
        {"norm2", "ln_2"},
        {"attn.qkv.", "self_attention.in_proj_"},
        {"attn.proj", "self_attention.out_proj"},
        {"mlp.fc1", "mlp.0"},
        {"mlp.fc2", "mlp.3"},
        {"blocks.", "encoder.layers.encoder_layer_"},
        {"head.", "heads.head."},
    };
    const geometry g = {768, 12, 3072, 16, 14, 3, 10, 0};
    bare(&g);
    for (int i = 0; i < scratch.n; i++) {
        char *name = scratch.tensors[i].name, from[96];
        for (size_t p = 0; p < sizeof names / sizeof *names; p++) {
            char *at = strstr(name, names[p][0]);
            if (at == NULL)
                continue;
            strcpy(from, at + strlen(names[p][0]));
            snprintf(at, sizeof scratch.tensors[i].name - (size_t)(at - name), "%s%s", names[p][1], from);
        }
        if (strncmp(name, "norm.", 5) == 0) {
            strcpy(from, name + 5);
            snprintf(name, sizeof scratch.tensors[i].name, "encoder.ln.%.64s", from);
        }
    }
    const rvit_model_info info = loaded(NULL);
    assert_string_equal(info.family, "torchvision");
    assert_int_equal(info.n_heads, 12);
    expect_fact("heads", "12", "torchvision's VisionTransformer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_without_bias), cmocka_unit_test(inner_norms),       cmocka_unit_test(gates),
        cmocka_unit_test(families),           cmocka_unit_test(attention_pooling), cmocka_unit_test(missing_cls),
        cmocka_unit_test(patch_norm),         cmocka_unit_test(torchvision),       cmocka_unit_test(contradictions),
    };
    return cmocka_run_group_tests(tests, temp_setup, temp_teardown);
}
