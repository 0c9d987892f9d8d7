/* Tests options that the weights do not show. They come from a config file, from a name or from the caller; otherwise the model is refused.
 */
#include "config_file.h"

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
    REFUSED(NULL, RVIT_UNSUPPORTED,
            "the number of heads, the activation, the eps of the norms, the pooling before the head, whether positions are",
            "--heads, --activation, --eps, --pool, --position", "--architecture");
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.architecture = "vit";
    REFUSED(&desc, RVIT_UNSUPPORTED, "cannot determine the number of heads from the weights or the files next to them: set --heads,");
    desc.n_heads = 6;
    assert_int_equal(loaded(&desc).head_dim, 32);
    desc.architecture = "vit_of_nobody";
    REFUSED(&desc, RVIT_INVALID_ARGUMENT, "architecture 'vit_of_nobody' is not a Vision Transformer of timm");
}

/* MoCo v3's small model has the same tensors as DeiT-S, but 12 heads. */
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
    write_config_file("config.json", "{\"architecture\":\"vit_small_patch16_224\",\"model_args\":{\"num_heads\":12}}");
    assert_int_equal(loaded(NULL).n_heads, 12);
    expect_fact("heads", "12", "config.json: model_args.num_heads");
    remove_config_files();
}

/* timm's rotary models with a position table have the same tensors as DeiT-III. */
static void rope_ape(void **state)
{
    (void)state;
    bare(&deit_small);
    add_scales(&deit_small);
    REFUSED(NULL, RVIT_UNSUPPORTED, "whether positions are rotary", "--position");
    write_config_file("config.json", "{\"architecture\":\"vit_small_patch16_rope_ape_224\",\"num_classes\":10}");
    assert_int_equal(loaded(NULL).position, RVIT_POSITION_BOTH);
    expect_fact("rotary base", "100", "config.json: architecture 'vit_small_patch16_rope_ape_224'");
    expect_fact("rotary axes", "x, y", "config.json: architecture");
    write_config_file("config.json", "{\"architecture\":\"deit3_small_patch16_224\",\"num_classes\":10}");
    assert_int_equal(loaded(NULL).position, RVIT_POSITION_TABLE);
    remove_config_files();
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.architecture = "vit_small_patch16_rope_ape_224";
    assert_int_equal(loaded(&desc).position, RVIT_POSITION_BOTH);
    desc.architecture = "deit3_small_patch16_224";
    desc.position = RVIT_POSITION_BOTH;
    REFUSED(&desc, RVIT_UNSUPPORTED, "its rotary positions from the weights or the files next to them: set the timm name (--architecture)");
    desc.position = RVIT_POSITION_ROPE;
    REFUSED(&desc, RVIT_INVALID_ARGUMENT, "tensor 'pos_embed' is present, but positions are 'rotary' (given)");
    /* This architecture has learned frequencies, but the tensors are missing. */
    write_config_file("config.json", "{\"architecture\":\"vit_small_patch16_rope_mixed_ape_224\",\"num_classes\":10}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "its rotary positions");
    remove_config_files();
}

/* Options of rotary positions are accepted within limits. */
static void rotary_options(void **state)
{
    (void)state;
    static const struct {
        const char *args;
        rvit_status status;
        const char *word;
    } cases[] = {
        {"\"rope_temperature\":0.5", RVIT_BAD_FILE, "the base of the rotary positions is 0.5 (config.json: model_args.rope_temperature"},
        {"\"rope_temperature\":1e30", RVIT_BAD_FILE, "expected 1 to 1e12"},
        {"\"rope_temperature\":\"hot\"", RVIT_BAD_FILE, "config.json: model_args.rope_temperature is not a number above 0"},
        {"\"rope_grid_indexing\":\"ji\"", RVIT_UNSUPPORTED, "model_args.rope_grid_indexing is not supported"},
        {"\"rope_grid_indexing\":1", RVIT_BAD_FILE, "rope_grid_indexing is not a string"},
        {"\"rope_type\":\"mixed\"", RVIT_UNSUPPORTED, "model_args.rope_type is not supported"},
        {"\"rope_grid_offset\":-1", RVIT_BAD_FILE, "rope_grid_offset is -1, expected 0.."},
        {"\"rope_rotate_half\":\"yes\"", RVIT_BAD_FILE, "rope_rotate_half is not true or false"},
        {"\"ref_feat_shape\":[0, 4]", RVIT_BAD_FILE, "ref_feat_shape is not a size"},
    };
    bare(&deit_small);
    add_scales(&deit_small);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"architecture\":\"vit_small_patch16_rope_ape_224\",\"model_args\":{%s}}", cases[i].args);
        write_config_file("config.json", text);
        REFUSED(NULL, cases[i].status, cases[i].word);
    }
    write_config_file("config.json", "{\"architecture\":\"vit_small_patch16_rope_ape_224\",\"model_args\":{\"rope_temperature\":50,"
                                     "\"rope_grid_indexing\":\"ij\",\"rope_rotate_half\":true,\"ref_feat_shape\":[16, 24]}}");
    expect_fact("rotary base", "50", "config.json: model_args.rope_temperature");
    expect_fact("rotary axes", "y, x", "config.json: model_args.rope_grid_indexing");
    expect_fact("rotary pairs", "halves", "config.json: model_args.rope_rotate_half");
    expect_fact("rotary reference", "16, 24", "config.json: model_args.ref_feat_shape");
    remove_config_files();
}

/* Without a position table no tensor shows the image size. */
static void no_table(void **state)
{
    (void)state;
    bare(&deit_small);
    add_scales(&deit_small);
    drop(&scratch, (int)(get(&scratch, "pos_embed") - scratch.tensors));
    REFUSED(NULL, RVIT_UNSUPPORTED, "the number of heads", "whether positions are rotary, the image size", "--position, --image-size");
    write_config_file("config.json", "{\"architecture\":\"vit_small_patch16_rope_224\"}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "the image size from the weights or the files next to them: set --image-size");
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.image_size = 96;
    assert_int_equal(loaded(&desc).tokens, 37);
    write_config_file("config.json", "{\"architecture\":\"vit_small_patch16_rope_224\",\"pretrained_cfg\":{\"input_size\":[3,160,160]}}");
    assert_int_equal(loaded(NULL).image_size, 160);
    assert_int_equal(loaded(NULL).tokens, 101);
    assert_int_equal(loaded(&desc).image_size, 96);
    write_config_file("config.json", "{\"architecture\":\"vit_small_patch16_rope_224\",\"model_args\":{\"img_size\":[100,240]}}");
    assert_int_equal(loaded(NULL).image_size, 0);
    assert_int_equal(loaded(NULL).tokens, 1 + 6 * 15);
    assert_int_equal(loaded(&desc).image_size, 96);
    write_config_file("config.json", "{\"architecture\":\"vit_small_patch16_rope_224\",\"pretrained_cfg\":{\"input_size\":[3,160,160]}}");
    expect_fact("image", "160, 160", "config.json: pretrained_cfg.input_size");
    static const struct {
        const char *text;
        rvit_status status;
        const char *word;
    } cases[] = {
        {"{\"architecture\":\"deit3_small_patch16_224\"}", RVIT_BAD_FILE,
         "tensor 'pos_embed' is missing, but positions are 'table' (config.json: architecture 'deit3_small_patch16_224')"},
        {"{\"architecture\":\"vit_small_patch16_rope_224\",\"model_args\":{\"img_size\":8}}", RVIT_BAD_FILE, "expected sides of 16..16384"},
        {"{\"architecture\":\"vit_small_patch16_rope_224\",\"model_args\":{\"img_size\":1000000}}", RVIT_BAD_FILE,
         "images have 1000000 x 1000000 pixels (config.json: model_args.img_size)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_config_file("config.json", cases[i].text);
        REFUSED(NULL, cases[i].status, cases[i].word);
    }
    remove_config_files();
}

static void mean_pooling(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"global_pool\":\"avg\"}");
    assert_int_equal(loaded(NULL).pooling, RVIT_POOLING_MEAN);
    expect_fact("pooling", "mean of the patches", "config.json: global_pool");
    write_config_file("config.json",
                      "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"global_pool\":\"avg\"},\"global_pool\":\"token\"}");
    assert_int_equal(loaded(NULL).pooling, RVIT_POOLING_MEAN);
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"global_pool\":\"map\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "the model has attention pooling (config.json: global_pool), but the weights have none");
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"global_pool\":\"\"}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "a head on every row, which is not supported (config.json: global_pool)");
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"global_pool\":\"avgmax\"}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "global_pool is 'avgmax'");
    remove_config_files();
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.pooling = RVIT_POOLING_MEAN;
    assert_int_equal(loaded(&desc).pooling, RVIT_POOLING_MEAN);
    desc.pooling = RVIT_POOLING_MEAN_NORM;
    REFUSED(&desc, RVIT_INVALID_ARGUMENT, "the head normalises the mean (given), but the weights have no fc_norm");
    desc.pooling = RVIT_POOLING_CLS_MEAN;
    REFUSED(&desc, RVIT_INVALID_ARGUMENT, "the head reads CLS row and mean (given), but has columns for one");
    /* Without a head the pooling option has no effect. */
    drop(&scratch, (int)(get(&scratch, "head.weight") - scratch.tensors));
    drop(&scratch, (int)(get(&scratch, "head.bias") - scratch.tensors));
    assert_int_equal(loaded(&desc).n_classes, 0);
}

static void activations(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"act_layer\":\"quick_gelu\"}}");
    assert_int_equal(loaded(NULL).activation, RVIT_ACTIVATION_QUICK_GELU);
    expect_fact("activation", "quick GELU", "config.json: model_args.act_layer");
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"act_layer\":\"mish\"}}");
    REFUSED(NULL, RVIT_UNSUPPORTED, "config.json: model_args.act_layer is 'mish', which is not supported");
    remove_config_files();
    /* CLIP without a config: the activation is unknown. */
    const geometry g = {768, 12, 3072, 16, 14, 3, 10, 0};
    bare(&g);
    drop(&scratch, (int)(get(&scratch, "patch_embed.proj.bias") - scratch.tensors));
    add(&scratch, "norm_pre.weight", 1, 768, 0, 0, 0);
    add(&scratch, "norm_pre.bias", 1, 768, 0, 0, 0);
    REFUSED(NULL, RVIT_UNSUPPORTED, "the activation", "--activation");
    write_config_file("config.json",
                      "{\"architecture\":\"vit_base_patch16_clip_224\",\"pretrained_cfg\":{\"notes\":[\"natively QuickGELU\"]}}");
    expect_fact("activation", "quick GELU", "config.json: pretrained_cfg.notes");
    write_config_file("config.json", "{\"architecture\":\"vit_base_patch16_clip_quickgelu_224\"}");
    expect_fact("activation", "quick GELU", "config.json: architecture");
    write_config_file("config.json", "{\"architecture\":\"vit_base_patch16_clip_224\",\"pretrained_cfg\":{\"tag\":\"laion2b\"}}");
    const rvit_model_info info = loaded(NULL);
    assert_true(info.eps == 1e-5f && info.norm_pre);
    remove_config_files();
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
    write_config_file("config.json", "{\"model_type\":\"vit\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
                                     "\"intermediate_size\":256,\"image_size\":32}");
    const rvit_model_info info = loaded(NULL);
    assert_int_equal(info.n_heads, 2);
    assert_int_equal(info.resample, RVIT_RESAMPLE_BICUBIC); /* the default of transformers */
    expect_fact("eps", "1e-12", "the default of model_type 'vit'");
    write_config_file("config.json", "{\"model_type\":\"vit\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "the width is 64 in the tensors, but should be 768 (config.json: the default of model_type 'vit'");
    remove_config_files();
}

static void images_that_are_not_square(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"img_size\":[112,448]}}");
    const rvit_model_info wide = loaded(NULL);
    assert_int_equal(wide.image_height, 112);
    assert_int_equal(wide.image_width, 448);
    assert_int_equal(wide.image_size, 0);
    assert_int_equal(wide.tokens, 197);
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"pretrained_cfg\":{\"input_size\":[3,112,448]}}");
    assert_int_equal(loaded(NULL).image_width, 448);
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"img_size\":384}}");
    REFUSED(NULL, RVIT_BAD_FILE,
            "the position table is for 196 patches, but images have 384 x 384 pixels (config.json: model_args.img_size)");
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"img_size\":230}}");
    assert_int_equal(loaded(NULL).image_size, 230); /* the lines after the last patch are ignored */
    write_config_file("config.json", "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"img_size\":[224,224,3,1]}}");
    REFUSED(NULL, RVIT_BAD_FILE, "model_args.img_size is not a size in pixels");
    remove_config_files();
}

/* The message has every reason, and lenient ignores none. */
static void all_unsupported(void **state)
{
    (void)state;
    bare(&deit_tiny);
    add(&scratch, "attn_pool.latent", 3, 1, 1, 192, 0);
    add_block(&scratch, 0, "attn.q_norm.weight", 1, 64, 0);
    write_config_file("config.json",
                      "{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"act_layer\":\"mish\",\"block_fn\":\"x\"}}");
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    for (desc.lenient = 0; desc.lenient < 2; desc.lenient++)
        REFUSED(&desc, RVIT_UNSUPPORTED, "normalised queries and keys", "act_layer is 'mish'", "model_args.block_fn is not supported");
    desc.lenient = 0;
    desc.describe = 1;
    rvit_checkpoint *checkpoint;
    assert_int_equal(open_scratch(&desc, &checkpoint), RVIT_OK);
    rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
    assert_int_equal(rvit_checkpoint_get_info(checkpoint, &files), RVIT_OK);
    assert_non_null(strstr(files.unsupported, "act_layer is 'mish'"));
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
    remove_config_files();
}

/* An unknown tensor of a block may change the block's computation. */
static void lenient_ignores_only_unused_tensors(void **state)
{
    (void)state;
    static const char *const names[] = {"blocks.3.attn.temperature", "patch_embed.offset", "norm.scale", "pos_embed_win"};
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.lenient = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bare(&deit_tiny);
        add(&scratch, names[i], 1, 64, 0, 0, 0);
        REFUSED(&desc, RVIT_BAD_FILE, names[i], "is part of the model's computation");
    }
    bare(&deit_tiny);
    add(&scratch, "ema.step", 1, 1, 0, 0, 0);
    (void)loaded(&desc);
}

static void preprocessing_of_images(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_config_file("config.json",
                      "{\"architecture\":\"vit_tiny_patch16_224\",\"pretrained_cfg\":{\"mean\":[0.5,0.5,0.5],\"std\":[0.25,0.5,0.5],"
                      "\"interpolation\":\"bicubic\",\"crop_pct\":0.9,\"crop_mode\":\"center\"}}");
    rvit_image_recipe recipe = loaded_recipe();
    assert_true(recipe.mean[0] == 0.5f && recipe.std[0] == 0.25f && recipe.std[2] == 0.5f);
    assert_int_equal(recipe.resize_height, 248); /* trunc(224 / 0.9) */
    assert_true(recipe.filter == RVIT_FILTER_BICUBIC && recipe.fit == RVIT_FIT_CROP && recipe.patch_size == 16);
    write_config_file("preprocessor_config.json",
                      "{\"do_normalize\":true,\"image_mean\":[0.4,0.4,0.4],\"resample\":2,\"size\":{\"height\":224,\"width\":224}}");
    recipe = loaded_recipe();
    assert_true(recipe.mean[0] == 0.4f && recipe.std[0] == 0.25f && recipe.filter == RVIT_FILTER_BILINEAR && recipe.fit == RVIT_FIT_SQUASH);
    write_config_file("preprocessor_config.json", "{\"image_mean\":[0.4,0.4]}");
    REFUSED(NULL, RVIT_BAD_FILE, "preprocessor_config.json: image_mean is not a list of three numbers");
    write_config_file("preprocessor_config.json", "{\"image_mean\":[0.4,0.4");
    REFUSED(NULL, RVIT_BAD_FILE, "preprocessor_config.json: is not valid JSON");
    remove_config_files();
}

/* transformers 5 writes the image processor of CLIP, SigLIP and Qwen to processor_config.json, which has priority. */
static void processors_of_several_inputs(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_config_file("config.json", "{\"architecture\":\"vit_tiny_patch16_224\"}");
    write_config_file("preprocessor_config.json", "{\"image_mean\":[0.4,0.4,0.4],\"image_std\":[0.2,0.2,0.2]}");
    write_config_file("processor_config.json", "{\"processor_class\":\"CLIPProcessor\"}");
    assert_true(loaded_recipe().mean[0] == 0.4f);
    write_config_file("processor_config.json",
                      "{\"image_processor\":{\"image_mean\":[0.3,0.3,0.3]},\"processor_class\":\"CLIPProcessor\"}");
    const rvit_image_recipe recipe = loaded_recipe();
    assert_true(recipe.mean[0] == 0.3f && recipe.std[0] != 0.2f);
    expect_fact("mean", "0.3, 0.3, 0.3", "processor_config.json: image_processor.image_mean");
    write_config_file("processor_config.json", "{\"image_processor\":{\"image_mean\":[0.3,0.3]}}");
    REFUSED(NULL, RVIT_BAD_FILE, "processor_config.json: image_processor.image_mean is not a list of three numbers");
    write_config_file("processor_config.json", "{\"image_processor\":7}");
    REFUSED(NULL, RVIT_BAD_FILE, "processor_config.json: image_processor is not an object");
    remove_config_files();
}

static void prefix_all(const char *prefix)
{
    for (int i = 0; i < scratch.n; i++) {
        char name[sizeof scratch.tensors[i].name];
        snprintf(name, sizeof name, "%s%s", prefix, scratch.tensors[i].name);
        strcpy(scratch.tensors[i].name, name);
    }
}

/* DDP, torch.compile, Lightning and DINO add a prefix to every name. */
static void prefixes_of_training_code(void **state)
{
    (void)state;
    static const char *const prefixes[] = {"module.", "_orig_mod.", "model.", "backbone.", "encoder.", "vit.", "module._orig_mod."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        bare(&deit_tiny);
        const rvit_model_info plain = loaded(NULL);
        prefix_all(prefixes[i]);
        const rvit_model_info info = loaded(NULL);
        assert_memory_equal(&info, &plain, sizeof plain);
        expect_fact("prefix", prefixes[i], "removed from the name of every tensor");
    }
    /* A tensor without the prefix. */
    add(&scratch, "criterion.weight", 1, 1, 0, 0, 0);
    REFUSED(NULL, RVIT_BAD_FILE, "tensors that begin with 'module._orig_mod.'", "timm", "save only those");
    /* A prefix of a known family is not removed. */
    bare(&deit_tiny);
    prefix_all("visual.trunk.");
    assert_int_equal(loaded(NULL).dim, 192);
}

/* A NaFlex processor sets the maximum number of patches per image instead of a size. */
static void naflex_processors(void **state)
{
    (void)state;
    bare(&deit_tiny);
    write_config_file("config.json", "{\"architecture\":\"vit_tiny_patch16_224\"}");
    write_config_file("preprocessor_config.json",
                      "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"max_num_patches\":729,\"patch_size\":16,"
                      "\"resample\":2,\"image_mean\":[0.5,0.5,0.5],\"image_std\":[0.5,0.5,0.5]}");
    rvit_image_recipe recipe = loaded_recipe();
    assert_true(recipe.filter == RVIT_FILTER_BILINEAR && recipe.processor == RVIT_PROCESSOR_HF);
    expect_fact("max patches", "729", "preprocessor_config.json: max_num_patches");
    assert_int_equal(recipe.max_patches, 729);
    assert_true(recipe.fit == RVIT_FIT_SQUASH && recipe.resize_height == 224 && recipe.std[2] == 0.5f);
    /* Defaults of the processor class. */
    write_config_file("preprocessor_config.json", "{\"image_processor_type\":\"Siglip2ImageProcessorFast\"}");
    recipe = loaded_recipe();
    assert_true(recipe.max_patches == 256 && recipe.filter == RVIT_FILTER_BILINEAR && recipe.mean[0] == 0.5f);
    expect_fact("max patches", "256", "the default of Siglip2ImageProcessor");
    /* A patch size that differs from the model's, and invalid numbers. */
    write_config_file("preprocessor_config.json", "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"patch_size\":32}");
    REFUSED(NULL, RVIT_BAD_FILE, "patch size", "preprocessor_config.json: patch_size");
    write_config_file("preprocessor_config.json", "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"max_num_patches\":0}");
    REFUSED(NULL, RVIT_BAD_FILE, "preprocessor_config.json: max_num_patches");
    write_config_file("preprocessor_config.json", "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"max_num_patches\":\"many\"}");
    REFUSED(NULL, RVIT_BAD_FILE, "preprocessor_config.json: max_num_patches");
    /* A size, or no resize: not supported. */
    write_config_file("preprocessor_config.json",
                      "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"size\":{\"height\":9,\"width\":9}}");
    recipe = loaded_recipe();
    assert_true(recipe.fit == RVIT_FIT_OTHER && recipe.max_patches == 0);
    expect_fact("fit", "both a size and max_num_patches", "preprocessor_config.json: size");
    rvit_images_args images = RVIT_IMAGES_ARGS_INIT;
    int64_t size;
    images.recipe = &recipe;
    images.patch_size = 16;
    assert_int_equal(rvit_images_write(&images, NULL, 0, &size), RVIT_UNSUPPORTED);
    ASSERT_DETAIL("image recipe: fit is OTHER");
    write_config_file("preprocessor_config.json", "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"do_resize\":false}");
    assert_int_equal(loaded_recipe().fit, RVIT_FIT_OTHER);
    remove_config_files();
    /* timm's configs have only an input size, which gives max_patches only for a NaFlexViT. */
    write_config_file("config.json", "{\"architecture\":\"vit_tiny_patch16_224\",\"pretrained_cfg\":{\"input_size\":[3,224,224]}}");
    assert_int_equal(loaded_recipe().max_patches, 0);
    remove_config_files();
}

/* The caller provides the text of a config, which is used instead of files. */
static void given_config(void **state)
{
    (void)state;
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    bare(&deit_tiny);
    write_config_file("config.json", "{\"architecture\":\"deit_base_patch16_224\"}");
    desc.config = "{\"architecture\":\"vit_tiny_patch16_224\",\"model_args\":{\"act_layer\":\"quick_gelu\",\"num_heads\":6}}";
    rvit_model_info info = loaded(&desc);
    assert_true(info.activation == RVIT_ACTIVATION_QUICK_GELU && info.n_heads == 6);
    desc.n_heads = 3;
    assert_int_equal(loaded(&desc).n_heads, 3);
    desc.config = "{\"architecture\":\"deit_base_patch16_224\"}";
    REFUSED(&desc, RVIT_INVALID_ARGUMENT, "the width is 192 in the tensors, but should be 768 (given config: architecture");
    desc.config = "{\"architecture\":";
    REFUSED(&desc, RVIT_BAD_FILE, "the given config");
    desc.config = "{} {}";
    REFUSED(&desc, RVIT_BAD_FILE, "the given config");
    remove_config_files();
}

/* Config files of another model, and broken ones. */
static void bad_configs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        rvit_status status;
        const char *word;
    } cases[] = {
        {"{\"architecture\":\"deit_tiny_patch16_224\",\"num_classes\":1000}", RVIT_BAD_FILE,
         "the number of classes is 10 in the tensors, but should be 1000 (config.json: num_classes"},
        {"{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"depth\":6}}", RVIT_BAD_FILE,
         "is 12 in the tensors, but should be 6"},
        {"{\"architecture\":\"deit_base_patch16_224\",\"num_classes\":10}", RVIT_BAD_FILE,
         "the width is 192 in the tensors, but should be 768 (config.json: architecture 'deit_base_patch16_224'"},
        {"{\"architecture\":\"vit_base_patch32_224\",\"model_args\":{\"embed_dim\":192,\"num_heads\":3}}", RVIT_BAD_FILE,
         "the patch size is 16 in the tensors, but should be 32"},
        {"{\"architecture\":7}", RVIT_BAD_FILE, "config.json: architecture is not a string"},
        {"{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":[]}", RVIT_BAD_FILE, "config.json: model_args is not an object"},
        {"{\"architecture\":\"deit_tiny_patch16_224\",\"model_args\":{\"num_heads\":0}}", RVIT_BAD_FILE, "cannot be split into 0 heads"},
        {"{\"architecture\":\"vit_of_nobody\"}", RVIT_UNSUPPORTED, "(the name 'vit_of_nobody' does not say)"},
        {"{\"architecture\":\"vit_relpos_small_patch16_224\",\"model_args\":{\"embed_dim\":192}}", RVIT_UNSUPPORTED,
         "blocks or a stem unlike those of a plain Vision Transformer"},
        {"{\"model_type\":\"swin\"}", RVIT_UNSUPPORTED, "config.json: model_type 'swin' is not supported"},
        {"{\"model_type\":\"siglip\",\"vision_config\":{\"hidden_size\":192,\"intermediate_size\":768,\"num_attention_heads\":3}}",
         RVIT_BAD_FILE,
         "the model has attention pooling (config.json: the default of model_type 'siglip_vision_model'), but the weights have none"},
        {"[]", RVIT_BAD_FILE, "config.json: its top level is not an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bare(&deit_tiny);
        write_config_file("config.json", cases[i].text);
        REFUSED(NULL, cases[i].status, cases[i].word);
    }
    remove_config_files();
}

/* Class names from label_names and id2label, each a list or an object, in a file, in metadata or from the caller. Invalid names are
 * ignored. */
static void class_names(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *names[4];
    } cases[] = {
        {"\"label_names\":[\"tench, Tinca\",\"cat\"],\"id2label\":{\"0\":\"no\"}", {"tench, Tinca", "cat", NULL}},
        {"\"id2label\":{\"2\":\"c\",\"0\":\"a\"}", {"a", "1", "c", NULL}},
        {"\"label_names\":{\"1\":\"b\"},\"id2label\":null", {"0", "b", NULL}},
        {"\"id2label\":[\"a\",7]", {"a", "1", NULL}},
        {"\"id2label\":{\"a\":\"0\"}", {NULL}},
        {"\"id2label\":{\"\":\"0\"}", {NULL}},
        {"\"id2label\":{\"-1\":\"0\"}", {NULL}},
        {"\"id2label\":{\"65536\":\"0\"}", {NULL}},
        {"\"id2label\":{\"18446744073709551616\":\"0\"}", {NULL}},
        {"\"label_names\":5", {NULL}},
        {"\"label_names\":[]", {NULL}},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        char text[256];
        rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
        rvit_checkpoint *checkpoint;
        snprintf(text, sizeof text, "{\"architecture\":\"deit_tiny_patch16_224\",%s}", cases[i / 2].fields);
        bare(&deit_tiny);
        if (i % 2 == 0)
            write_config_file("config.json", text);
        else
            desc.config = text;
        /* Makes each allocation fail once. */
        counter memory = {0, 0, 0};
        const rvit_allocator allocator = {&memory, counter_allocate, counter_release};
        desc.allocator = &allocator;
        for (rvit_status status = RVIT_OUT_OF_HOST_MEMORY; status != RVIT_OK; memory.fail_at++) {
            memory.calls = 0;
            status = open_scratch(&desc, &checkpoint);
            assert_true(status == RVIT_OK || (status == RVIT_OUT_OF_HOST_MEMORY && memory.live == 0));
        }
        rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
        int32_t c = 0;
        assert_int_equal(rvit_checkpoint_get_info(checkpoint, &files), RVIT_OK);
        assert_string_equal(files.unsupported, "");
        for (; c < files.n_class_names && cases[i / 2].names[c] != NULL; c++)
            assert_string_equal(files.class_names[c], cases[i / 2].names[c]);
        assert_true(c == files.n_class_names && cases[i / 2].names[c] == NULL);
        rvit_checkpoint_destroy(checkpoint);
        assert_int_equal(memory.live, 0);
    }
    remove_config_files();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bare_files),
        cmocka_unit_test(moco_heads),
        cmocka_unit_test(rope_ape),
        cmocka_unit_test(rotary_options),
        cmocka_unit_test(no_table),
        cmocka_unit_test(mean_pooling),
        cmocka_unit_test(activations),
        cmocka_unit_test(hugging_face_needs_its_config),
        cmocka_unit_test(images_that_are_not_square),
        cmocka_unit_test(all_unsupported),
        cmocka_unit_test(lenient_ignores_only_unused_tensors),
        cmocka_unit_test(preprocessing_of_images),
        cmocka_unit_test(processors_of_several_inputs),
        cmocka_unit_test(prefixes_of_training_code),
        cmocka_unit_test(naflex_processors),
        cmocka_unit_test(bad_configs),
        cmocka_unit_test(given_config),
        cmocka_unit_test(class_names),
    };
    return cmocka_run_group_tests(tests, temp_setup, temp_teardown);
}
