/* What leaves no trace in the weights: it comes from a file beside them, from a name or from the caller, or the model is refused. */
#include "checkpoint_file.h"

#include <raggedvit/raggedvit.h>

static model scratch;
static const geometry deit_tiny = {192, 12, 768, 16, 14, 3, 10, 0}, deit_small = {384, 12, 1536, 16, 14, 3, 10, 0};

static void write_beside(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", temp_folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void remove_beside(void)
{
    static const char *const names[] = {"config.json", "open_clip_config.json", "preprocessor_config.json"};
    for (int i = 0; i < 3; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", temp_folder, names[i]);
        (void)unlink(path);
    }
}

static rvit_status open_scratch(const rvit_checkpoint_desc *desc, rvit_checkpoint **out)
{
    write_model(&scratch, NO_DATA);
    *out = NULL;
    return rvit_checkpoint_open(temp_path, desc, out);
}

/* Refused, and the sentence has all these words. */
static void refused_with(const rvit_checkpoint_desc *desc, rvit_status expected, const char *const *words)
{
    rvit_checkpoint *checkpoint;
    const rvit_status status = open_scratch(desc, &checkpoint);
    for (; *words != NULL; words++)
        if (status != expected || strstr(rvit_status_detail(), *words) == NULL)
            fail_msg("expected %s with \"%s\", got %s: %s", rvit_status_name(expected), *words, rvit_status_name(status),
                     status == RVIT_OK ? "" : rvit_status_detail());
    assert_null(checkpoint);
}
#define REFUSED(desc, status, ...) refused_with(desc, status, (const char *const[]){__VA_ARGS__, NULL})

static rvit_model_info loaded(const rvit_checkpoint_desc *desc)
{
    rvit_checkpoint *checkpoint;
    if (open_scratch(desc, &checkpoint) != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    assert_int_equal(rvit_checkpoint_get_info(checkpoint, &info), RVIT_OK);
    rvit_checkpoint_destroy(checkpoint);
    return info;
}

/* Where a fact of a checkpoint that loads came from. */
static void expect_fact(const char *name, const char *value, const char *origin)
{
    rvit_checkpoint *checkpoint;
    const char *n, *v, *o;
    assert_int_equal(open_scratch(NULL, &checkpoint), RVIT_OK);
    for (int32_t i = 0; rvit_checkpoint_fact(checkpoint, i, &n, &v, &o) == RVIT_OK; i++)
        if (strcmp(n, name) == 0) {
            assert_string_equal(v, value);
            if (strstr(o, origin) == NULL)
                fail_msg("%s comes from \"%s\", not from \"%s\"", name, o, origin);
            rvit_checkpoint_destroy(checkpoint);
            return;
        }
    fail_msg("no fact %s", name);
}

/* A file without any metadata. */
static void bare(const geometry *g)
{
    build(&scratch, g, "F16");
    scratch.metadata[0] = '\0';
    remove_beside();
}

static void bare_files(void **state)
{
    (void)state;
    bare(&deit_tiny);
    const rvit_model_info info = loaded(NULL);
    assert_int_equal(info.n_heads, 3);
    assert_int_equal(info.activation, RVIT_ACTIVATION_GELU);
    assert_int_equal(info.pooling, RVIT_POOLING_CLS);
    assert_int_equal(info.position, RVIT_POSITION_TABLE);
    assert_true(info.eps == 1e-6f);
    expect_fact("heads", "3", "assumed");
    expect_fact("activation", "GELU", "assumed");

    geometry g = deit_tiny;
    g.depth = 11; /* no published model */
    bare(&g);
    REFUSED(NULL, RVIT_UNSUPPORTED, "the number of heads, the activation, the eps of the norms, what the head reads, whether positions are",
            "--heads, --activation, --eps, --pool, --position", "--architecture");
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.architecture = "vit";
    REFUSED(&desc, RVIT_UNSUPPORTED, "tell the number of heads: give --heads,");
    desc.n_heads = 6;
    assert_int_equal(loaded(&desc).head_dim, 32);
    desc.architecture = "vit_of_nobody";
    REFUSED(&desc, RVIT_INVALID_ARGUMENT, "architecture 'vit_of_nobody' is not a Vision Transformer of timm's");
}

/* MoCo v3's small model has the tensors of a DeiT-S, and 12 heads. */
static void moco_heads(void **state)
{
    (void)state;
    bare(&deit_small);
    REFUSED(NULL, RVIT_UNSUPPORTED, "the number of heads", "--heads", "--architecture");
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.architecture = "deit_small_patch16_224";
    assert_int_equal(loaded(&desc).n_heads, 6);
    desc.n_heads = 12;
    assert_int_equal(loaded(&desc).head_dim, 32);
    write_beside("config.json", "{\"architecture\":\"vit_small_patch16_224\",\"model_args\":{\"num_heads\":12}}");
    assert_int_equal(loaded(NULL).n_heads, 12);
    expect_fact("heads", "12", "config.json: model_args.num_heads");
    remove_beside();
}

static void add_scales(const geometry *g)
{
    for (int b = 0; b < g->depth; b++) {
        add_block(&scratch, b, "gamma_1", 1, g->dim, 0);
        add_block(&scratch, b, "gamma_2", 1, g->dim, 0);
    }
}

/* timm's rotary models with a table have the tensors of a DeiT-III. */
static void rope_ape(void **state)
{
    (void)state;
    bare(&deit_small);
    add_scales(&deit_small);
    REFUSED(NULL, RVIT_UNSUPPORTED, "whether positions are rotary", "--position");
    write_beside("config.json", "{\"architecture\":\"vit_small_patch16_rope_ape_224\",\"num_classes\":10}");
    assert_int_equal(loaded(NULL).position, RVIT_POSITION_BOTH);
    expect_fact("rotary base", "100", "config.json: architecture 'vit_small_patch16_rope_ape_224'");
    expect_fact("rotary axes", "x, y", "config.json: architecture");
    write_beside("config.json", "{\"architecture\":\"deit3_small_patch16_224\",\"num_classes\":10}");
    assert_int_equal(loaded(NULL).position, RVIT_POSITION_TABLE);
    remove_beside();
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.architecture = "vit_small_patch16_rope_ape_224";
    assert_int_equal(loaded(&desc).position, RVIT_POSITION_BOTH);
    desc.architecture = "deit3_small_patch16_224";
    desc.position = RVIT_POSITION_BOTH;
    REFUSED(&desc, RVIT_UNSUPPORTED, "tell how its rotary positions turn: give timm's name (--architecture)");
    desc.position = RVIT_POSITION_ROPE;
    REFUSED(&desc, RVIT_INVALID_ARGUMENT, "tensor 'pos_embed' is there, but positions are 'rotary' in given");
    /* Learned frequencies are tensors; without them this is no such model. */
    write_beside("config.json", "{\"architecture\":\"vit_small_patch16_rope_mixed_ape_224\",\"num_classes\":10}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "how its rotary positions turn");
    remove_beside();
}

/* What is said of rotary positions is believed within reason. */
static void rotations(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        rvit_status status;
        const char *word;
    } cases[] = {
        {"\"rope_temperature\":0.5", RVIT_BAD_FILE, "the base of the rotary positions is 0.5 in config.json: model_args.rope_temperature"},
        {"\"rope_temperature\":1e30", RVIT_BAD_FILE, "expected 1 to 1e12"},
        {"\"rope_temperature\":\"hot\"", RVIT_BAD_FILE, "config.json: model_args.rope_temperature is not a number above 0"},
        {"\"rope_grid_indexing\":\"ji\"", RVIT_UNSUPPORTED, "model_args.rope_grid_indexing is not understood"},
        {"\"rope_grid_indexing\":1", RVIT_BAD_FILE, "rope_grid_indexing is not a string"},
        {"\"rope_type\":\"mixed\"", RVIT_UNSUPPORTED, "model_args.rope_type is not understood"},
        {"\"rope_grid_offset\":-1", RVIT_BAD_FILE, "rope_grid_offset is -1, expected 0 to"},
        {"\"rope_rotate_half\":\"yes\"", RVIT_BAD_FILE, "rope_rotate_half is not true or false"},
        {"\"ref_feat_shape\":[0, 4]", RVIT_BAD_FILE, "ref_feat_shape is not a size"},
    };
    bare(&deit_small);
    add_scales(&deit_small);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"architecture\":\"vit_small_patch16_rope_ape_224\",\"model_args\":{%s}}", cases[i].args);
        write_beside("config.json", text);
        REFUSED(NULL, cases[i].status, cases[i].word);
    }
    write_beside("config.json", "{\"architecture\":\"vit_small_patch16_rope_ape_224\",\"model_args\":{\"rope_temperature\":50,"
                                "\"rope_grid_indexing\":\"ij\",\"rope_rotate_half\":true,\"ref_feat_shape\":[16, 24]}}");
    expect_fact("rotary base", "50", "config.json: model_args.rope_temperature");
    expect_fact("rotary axes", "y, x", "config.json: model_args.rope_grid_indexing");
    expect_fact("rotary pairs", "halves", "config.json: model_args.rope_rotate_half");
    expect_fact("rotary reference", "16, 24", "config.json: model_args.ref_feat_shape");
    remove_beside();
}

/* Without a position table no tensor tells the image size. */
static void no_table(void **state)
{
    (void)state;
    bare(&deit_small);
    add_scales(&deit_small);
    drop(&scratch, (int)(get(&scratch, "pos_embed") - scratch.tensors));
    REFUSED(NULL, RVIT_UNSUPPORTED, "the number of heads", "whether positions are rotary, the image size", "--position, --image-size");
    write_beside("config.json", "{\"architecture\":\"vit_small_patch16_rope_224\"}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "tell the image size: give --image-size");
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.image_size = 96;
    assert_int_equal(loaded(&desc).tokens, 37);
    write_beside("config.json", "{\"architecture\":\"vit_small_patch16_rope_224\",\"pretrained_cfg\":{\"input_size\":[3,160,160]}}");
    assert_int_equal(loaded(NULL).image_size, 160);
    assert_int_equal(loaded(NULL).tokens, 101);
    assert_int_equal(loaded(&desc).image_size, 96);
    write_beside("config.json", "{\"architecture\":\"vit_small_patch16_rope_224\",\"model_args\":{\"img_size\":[100,240]}}");
    assert_int_equal(loaded(NULL).image_size, 0);
    assert_int_equal(loaded(NULL).tokens, 1 + 6 * 15);
    assert_int_equal(loaded(&desc).image_size, 96);
    write_beside("config.json", "{\"architecture\":\"vit_small_patch16_rope_224\",\"pretrained_cfg\":{\"input_size\":[3,160,160]}}");
    expect_fact("image", "160, 160", "config.json: pretrained_cfg.input_size");
    static const struct {
        const char *text;
        rvit_status status;
        const char *word;
    } cases[] = {
        {"{\"architecture\":\"deit3_small_patch16_224\"}", RVIT_BAD_FILE,
         "tensor 'pos_embed' is missing, but positions are 'table' in config.json: architecture"},
        {"{\"architecture\":\"vit_small_patch16_rope_224\",\"model_args\":{\"img_size\":8}}", RVIT_BAD_FILE,
         "expected 16 to 16384 an edge"},
        {"{\"architecture\":\"vit_small_patch16_rope_224\",\"model_args\":{\"img_size\":1000000}}", RVIT_BAD_FILE,
         "images are of 1000000 x 1000000 pixels in config.json: model_args.img_size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_beside("config.json", cases[i].text);
        REFUSED(NULL, cases[i].status, cases[i].word);
    }
    remove_beside();
}

static void mean_pooling(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"global_pool\":\"avg\"}");
    assert_int_equal(loaded(NULL).pooling, RVIT_POOLING_MEAN);
    expect_fact("pooling", "mean of the patches", "config.json: global_pool");
    write_beside("config.json",
                 "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"global_pool\":\"avg\"},\"global_pool\":\"token\"}");
    assert_int_equal(loaded(NULL).pooling, RVIT_POOLING_MEAN);
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"global_pool\":\"map\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "pooling is by attention (config.json: global_pool), but the weights have none");
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"global_pool\":\"\"}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "a head on every row, which is not supported (config.json: global_pool)");
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"global_pool\":\"avgmax\"}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "global_pool is 'avgmax'");
    remove_beside();
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.pooling = RVIT_POOLING_MEAN;
    assert_int_equal(loaded(&desc).pooling, RVIT_POOLING_MEAN);
    desc.pooling = RVIT_POOLING_MEAN_NORM;
    REFUSED(&desc, RVIT_INVALID_ARGUMENT, "the head normalises the mean (given), but the weights have no fc_norm");
    desc.pooling = RVIT_POOLING_CLS_MEAN;
    REFUSED(&desc, RVIT_INVALID_ARGUMENT, "the head reads CLS row and mean (given), but has columns for one");
    /* Without a head the rows are the result, whatever a head would read. */
    drop(&scratch, (int)(get(&scratch, "head.weight") - scratch.tensors));
    drop(&scratch, (int)(get(&scratch, "head.bias") - scratch.tensors));
    assert_int_equal(loaded(&desc).n_classes, 0);
}

static void activations(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"act_layer\":\"quick_gelu\"}}");
    assert_int_equal(loaded(NULL).activation, RVIT_ACTIVATION_QUICK_GELU);
    expect_fact("activation", "quick GELU", "config.json: model_args.act_layer");
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"act_layer\":\"mish\"}}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "config.json: model_args.act_layer is 'mish', which is not known here");
    remove_beside();
    /* CLIP: the weights decide, and a note says what they are. */
    const geometry g = {768, 12, 3072, 16, 14, 3, 10, 0};
    bare(&g);
    drop(&scratch, (int)(get(&scratch, "patch_embed.proj.bias") - scratch.tensors));
    add(&scratch, "norm_pre.weight", 1, 768, 0, 0, 0);
    add(&scratch, "norm_pre.bias", 1, 768, 0, 0, 0);
    REFUSED(NULL, RVIT_UNSUPPORTED, "the activation", "--activation");
    write_beside("config.json", "{\"architecture\":\"vit_base_patch16_clip_224\",\"pretrained_cfg\":{\"notes\":[\"natively QuickGELU\"]}}");
    expect_fact("activation", "quick GELU", "config.json: pretrained_cfg.notes");
    write_beside("config.json", "{\"architecture\":\"vit_base_patch16_clip_quickgelu_224\"}");
    expect_fact("activation", "quick GELU", "config.json: architecture");
    write_beside("config.json", "{\"architecture\":\"vit_base_patch16_clip_224\",\"pretrained_cfg\":{\"tag\":\"laion2b\"}}");
    const rvit_model_info info = loaded(NULL);
    assert_true(info.eps == 1e-5f && info.norm_pre);
    remove_beside();
}

static void hugging_face_needs_its_config(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "F16");
    scratch.metadata[0] = '\0';
    for (int i = 0; i < scratch.n; i++) {
        tensor *t = &scratch.tensors[i];
        char name[64];
        int block, at = 0;
        snprintf(name, sizeof name, "%.63s", t->name);
        if (sscanf(name, "blocks.%d.%n", &block, &at) == 1 && strncmp(name + at, "norm", 4) == 0)
            snprintf(t->name, sizeof t->name, "encoder.layer.%d.layernorm_%s", block,
                     name[at + 4] == '1'                  ? strcmp(name + at + 6, "bias") == 0 ? "before.bias" : "before.weight"
                     : strcmp(name + at + 6, "bias") == 0 ? "after.bias"
                                                          : "after.weight");
        else if (strncmp(name, "norm.", 5) == 0)
            snprintf(t->name, sizeof t->name, "layernorm.%s", name + 5);
    }
    for (int i = scratch.n - 1; i >= 0; i--) {
        tensor *t = &scratch.tensors[i];
        static const char *const pairs[][2] = {
            {"attn.proj.", "attention.output.dense."}, {"mlp.fc1.", "intermediate.dense."}, {"mlp.fc2.", "output.dense."}};
        int block, at = 0;
        if (strcmp(t->name, "cls_token") == 0)
            strcpy(t->name, "embeddings.cls_token");
        else if (strcmp(t->name, "pos_embed") == 0)
            strcpy(t->name, "embeddings.position_embeddings");
        else if (strncmp(t->name, "patch_embed.proj.", 17) == 0)
            strcpy(t->name,
                   t->name[17] == 'w' ? "embeddings.patch_embeddings.projection.weight" : "embeddings.patch_embeddings.projection.bias");
        else if (strncmp(t->name, "head.", 5) == 0)
            drop(&scratch, i);
        else if (sscanf(t->name, "blocks.%d.%n", &block, &at) == 1)
            for (int p = 0; p < 3; p++)
                if (strncmp(t->name + at, pairs[p][0], strlen(pairs[p][0])) == 0)
                    snprintf(t->name, sizeof t->name, "encoder.layer.%d.%s%s", block, pairs[p][1],
                             strstr(t->name, "bias") != NULL ? "bias" : "weight");
    }
    for (int i = scratch.n - 1; i >= 0; i--) {
        int block, at = 0;
        tensor t = scratch.tensors[i];
        if (sscanf(t.name, "blocks.%d.attn.qkv.%n", &block, &at) != 1 || at == 0)
            continue;
        drop(&scratch, i);
        for (int p = 0; p < 3; p++) {
            static const char *const kinds[] = {"query", "key", "value"};
            tensor part = t;
            part.shape[0] /= 3;
            snprintf(part.name, sizeof part.name, "encoder.layer.%d.attention.attention.%s.%s", block, kinds[p],
                     strstr(t.name, "bias") != NULL ? "bias" : "weight");
            scratch.tensors[scratch.n++] = part;
        }
    }
    REFUSED(NULL, RVIT_UNSUPPORTED, "the number of heads, the activation, the eps of the norms, whether positions are rotary",
            "config.json beside it");
    write_beside("config.json", "{\"model_type\":\"vit\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
                                "\"intermediate_size\":256,\"image_size\":32}");
    const rvit_model_info info = loaded(NULL);
    assert_int_equal(info.n_heads, 2);
    assert_int_equal(info.resample, RVIT_RESAMPLE_BICUBIC); /* as its own code does it */
    expect_fact("eps", "1e-12", "the default of model_type 'vit'");
    write_beside("config.json", "{\"model_type\":\"vit\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "the tensors have a width of 64, but it is 768 in config.json: the default of model_type 'vit'");
    remove_beside();
}

static void images_that_are_not_square(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"img_size\":[112,448]}}");
    const rvit_model_info wide = loaded(NULL);
    assert_int_equal(wide.image_height, 112);
    assert_int_equal(wide.image_width, 448);
    assert_int_equal(wide.image_size, 0);
    assert_int_equal(wide.tokens, 197);
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"pretrained_cfg\":{\"input_size\":[3,112,448]}}");
    assert_int_equal(loaded(NULL).image_width, 448);
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"img_size\":384}}");
    REFUSED(NULL, RVIT_BAD_FILE,
            "the position table is for 196 patches, but images are of 384 x 384 pixels in config.json: model_args.img_size");
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"img_size\":230}}");
    assert_int_equal(loaded(NULL).image_size, 230); /* the lines past the last patch are not read */
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"img_size\":[224,224,3,1]}}");
    REFUSED(NULL, RVIT_BAD_FILE, "model_args.img_size is not a size in pixels");
    remove_beside();
}

static void norms_without_bias(void **state)
{
    (void)state;
    bare(&deit_tiny);
    for (int i = scratch.n - 1; i >= 0; i--)
        if (strstr(scratch.tensors[i].name, "norm") != NULL && strstr(scratch.tensors[i].name, ".bias") != NULL)
            drop(&scratch, i);
    REFUSED(NULL, RVIT_UNSUPPORTED, "whether norms without a bias are RMS norms", "--architecture");
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "the norms have no bias, but they are of the kind LayerNorm in config.json: architecture");
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"norm_layer\":\"batchnorm\"}}");
    REFUSED(NULL, RVIT_BAD_FILE, "the norms have no bias");
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"norm_layer\":\"rmsnorm\"}}");
    assert_true(loaded(NULL).rms_norm);
    add_block(&scratch, 0, "norm1.bias", 1, 192, 0);
    REFUSED(NULL, RVIT_BAD_FILE, "tensor 'norm.bias' is missing (24 missing in all)");
    bare(&deit_tiny);
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"norm_layer\":\"rmsnorm\"}}");
    REFUSED(NULL, RVIT_BAD_FILE, "the norms have a bias, but they are of the kind RMSNorm in config.json: model_args.norm_layer");
    remove_beside();
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
    REFUSED(NULL, RVIT_UNSUPPORTED, "the number of heads, the activation"); /* not DeiT-Tiny */
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\"}");
    (void)loaded(NULL);
    get(&scratch, "blocks.5.mlp.norm.bias")->shape[0] = 192;
    REFUSED(NULL, RVIT_BAD_FILE, "tensor 'blocks.5.mlp.norm.bias': expected the shape [768], found [192]");
    drop(&scratch, (int)(get(&scratch, "blocks.5.mlp.norm.bias") - scratch.tensors));
    REFUSED(NULL, RVIT_BAD_FILE, "tensor 'blocks.5.mlp.norm.bias' is missing");
    remove_beside();
}

/* fc1 has two rows for each column of fc2: a gate's and the values'. */
static void pack_gate(void)
{
    bare(&deit_tiny);
    for (int b = 0; b < 12; b++) {
        char name[48];
        snprintf(name, sizeof name, "blocks.%d.mlp.fc2.weight", b);
        get(&scratch, name)->shape[1] = 384;
    }
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
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "the tensors have MLPs with a gate (SwiGLU), but they have none in config.json: architecture");
    bare(&deit_tiny);
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"swiglu_mlp\":true}}");
    REFUSED(NULL, RVIT_BAD_FILE, "MLPs without a gate (SwiGLU), but they have one in config.json: model_args.swiglu_mlp");
    remove_beside();
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
    REFUSED(&desc, RVIT_BAD_FILE, "tensor 'blocks.3.mlp.fc1_g.weight' is missing (1 missing in all)");
}

/* Each obstacle is named, and lenient passes over none of them. */
static void all_obstacles(void **state)
{
    (void)state;
    bare(&deit_tiny);
    add(&scratch, "attn_pool.latent", 3, 1, 1, 192, 0);
    add_block(&scratch, 0, "attn.q_norm.weight", 1, 64, 0);
    write_beside("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"act_layer\":\"mish\",\"block_fn\":\"x\"}}");
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    for (desc.lenient = 0; desc.lenient < 2; desc.lenient++)
        REFUSED(&desc, RVIT_UNSUPPORTED, "normalised queries and keys", "act_layer is 'mish'", "model_args.block_fn is not understood");
    desc.lenient = 0;
    desc.describe = 1;
    rvit_checkpoint *checkpoint;
    assert_int_equal(open_scratch(&desc, &checkpoint), RVIT_OK);
    assert_non_null(strstr(rvit_checkpoint_obstacles(checkpoint), "act_layer is 'mish'"));
    rvit_device_desc device_desc = RVIT_DEVICE_DESC_INIT;
    device_desc.backend = RVIT_BACKEND_CPU;
    rvit_device *device = NULL;
    rvit_model *m = NULL;
    assert_int_equal(rvit_device_create(&device_desc, &device), RVIT_OK);
    assert_int_equal(rvit_model_create(device, checkpoint, NULL, &m), RVIT_UNSUPPORTED);
    ASSERT_DETAIL("normalised queries and keys");
    assert_null(m);
    rvit_device_destroy(device);
    rvit_checkpoint_destroy(checkpoint);
    remove_beside();
}

/* A tensor of a block that is not known may change what the block computes. */
static void lenient_drops_nothing_computed(void **state)
{
    (void)state;
    static const char *const names[] = {"blocks.3.attn.temperature", "patch_embed.offset", "norm.scale", "pos_embed_win"};
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.lenient = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bare(&deit_tiny);
        add(&scratch, names[i], 1, 64, 0, 0, 0);
        REFUSED(&desc, RVIT_BAD_FILE, names[i], "belongs to what the model computes");
    }
    bare(&deit_tiny);
    add(&scratch, "ema.step", 1, 1, 0, 0, 0);
    (void)loaded(&desc);
}

static void preparation_of_pictures(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_beside("config.json",
                 "{\"architecture\":\"vit_tiny_patch16_224\",\"pretrained_cfg\":{\"mean\":[0.5,0.5,0.5],\"std\":[0.25,0.5,0.5],"
                 "\"interpolation\":\"bicubic\",\"crop_pct\":0.9,\"crop_mode\":\"center\"}}");
    rvit_model_info info = loaded(NULL);
    assert_true(info.mean[0] == 0.5f && info.std[0] == 0.25f && info.std[2] == 0.5f && info.crop == 0.9f);
    assert_true(info.filter == RVIT_FILTER_BICUBIC && info.fit == RVIT_FIT_CROP);
    write_beside("preprocessor_config.json",
                 "{\"do_normalize\":true,\"image_mean\":[0.4,0.4,0.4],\"resample\":2,\"size\":{\"height\":224,\"width\":224}}");
    info = loaded(NULL);
    assert_true(info.mean[0] == 0.4f && info.std[0] == 0.25f && info.filter == RVIT_FILTER_BILINEAR && info.fit == RVIT_FIT_SQUASH);
    write_beside("preprocessor_config.json", "{\"image_mean\":[0.4,0.4]}");
    REFUSED(NULL, RVIT_BAD_FILE, "preprocessor_config.json: image_mean is not a list of three numbers");
    write_beside("preprocessor_config.json", "{\"image_mean\":[0.4,0.4");
    REFUSED(NULL, RVIT_BAD_FILE, "preprocessor_config.json: is not valid JSON");
    remove_beside();
}

/* A file of another model, or broken. */
static void bad_configs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        rvit_status status;
        const char *word;
    } cases[] = {
        {"{\"architecture\":\"deit_tiny_patch16_224\",\"num_classes\":1000}", RVIT_BAD_FILE,
         "the tensors have a number of classes of 10, but it is 1000 in config.json: num_classes"},
        {"{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"depth\":6}}", RVIT_BAD_FILE, "of 12, but it is 6"},
        {"{\"architecture\":\"deit_base_patch16_224\",\"num_classes\":10}", RVIT_BAD_FILE,
         "the tensors have a width of 192, but it is 768 in config.json: architecture 'deit_base_patch16_224'"},
        {"{\"architecture\":\"vit_base_patch32_224\",\"model_args\":{\"embed_dim\":192,\"num_heads\":3}}", RVIT_BAD_FILE,
         "the tensors have a patch size of 16, but it is 32"},
        {"{\"architecture\":7}", RVIT_BAD_FILE, "config.json: architecture is not a string"},
        {"{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":[]}", RVIT_BAD_FILE, "config.json: model_args is not an object"},
        {"{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"num_heads\":0}}", RVIT_BAD_FILE, "cannot be cut into 0 heads"},
        {"{\"architecture\":\"vit_of_nobody\"}", RVIT_UNSUPPORTED, "(the name 'vit_of_nobody' does not tell)"},
        {"{\"architecture\":\"vit_relpos_small_patch16_224\",\"model_args\":{\"embed_dim\":192}}", RVIT_UNSUPPORTED,
         "blocks or a stem that no plain Vision Transformer has"},
        {"{\"model_type\":\"swin\"}", RVIT_UNSUPPORTED, "config.json: model_type 'swin' is not known here"},
        {"{\"model_type\":\"siglip\",\"vision_config\":{\"hidden_size\":192,\"intermediate_size\":768,\"num_attention_heads\":3}}",
         RVIT_BAD_FILE,
         "pooling is by attention (config.json: the default of model_type 'siglip_vision_model'), but the weights have none"},
        {"[]", RVIT_BAD_FILE, "config.json: its top level is not an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bare(&deit_tiny);
        write_beside("config.json", cases[i].text);
        REFUSED(NULL, cases[i].status, cases[i].word);
    }
    remove_beside();
}

/* Models of families that cannot be run: told by their names, and each part is named. */
static void families(void **state)
{
    (void)state;
    static const struct {
        const char *config, *tensors[12], *words[6];
    } cases[] = {
        {"{\"model_type\":\"aimv2_vision_model\"}",
         {"embeddings.patch_embed.weight", "embeddings.rms_norm.weight", "embeddings.position_embedding.weight",
          "encoder.layers.0.rms_norm1.weight", "encoder.layers.0.ffn.gate_proj.weight", "encoder.layers.0.attention.out_proj.weight",
          "rms_norm.weight", "head.cls_token"},
         {"attention pooling without an MLP", "a norm of the patches before their positions"}},
        {NULL,
         {"cls_token", "storage_tokens", "patch_embed.proj.weight", "rope_embed.periods", "blocks.0.norm1.weight", "blocks.0.ls1.gamma",
          "blocks.0.attn.qkv.weight", "blocks.0.mlp.w3.weight", "norm.weight"},
         {"the tensor names of DINOv3's own code", "the activation"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        remove_beside();
        scratch.n = 0;
        scratch.dtype = "F16";
        scratch.metadata[0] = '\0';
        for (int t = 0; cases[i].tensors[t] != NULL; t++)
            add(&scratch, cases[i].tensors[t], 1, 64, 0, 0, 0);
        if (cases[i].config != NULL)
            write_beside("config.json", cases[i].config);
        refused_with(NULL, RVIT_UNSUPPORTED, cases[i].words);
    }
    remove_beside();
}

/* torchvision's files come without a config; its class has no choices but the heads, and published models have these. */
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
        cmocka_unit_test(bare_files),
        cmocka_unit_test(moco_heads),
        cmocka_unit_test(rope_ape),
        cmocka_unit_test(rotations),
        cmocka_unit_test(no_table),
        cmocka_unit_test(mean_pooling),
        cmocka_unit_test(activations),
        cmocka_unit_test(hugging_face_needs_its_config),
        cmocka_unit_test(images_that_are_not_square),
        cmocka_unit_test(gates),
        cmocka_unit_test(norms_without_bias),
        cmocka_unit_test(inner_norms),
        cmocka_unit_test(all_obstacles),
        cmocka_unit_test(lenient_drops_nothing_computed),
        cmocka_unit_test(preparation_of_pictures),
        cmocka_unit_test(bad_configs),
        cmocka_unit_test(families),
        cmocka_unit_test(torchvision),
    };
    return cmocka_run_group_tests(tests, temp_setup, temp_teardown);
}
