/* Tests the model families with updated weights and with memory provided by each run, and files that must be refused. */
#include "dumps.h"
#include "reference/hiprune.h"
#include "tools/cli/session_results.h"

static const char *const pooled[] = {"timm_mean",    "timm_mean_fc_norm", "timm_map",   "timm_map_head", "hf_dinov2_classifier",
                                     "timm_pe_core", "hf_aimv2",          "timm_aimv2", "timm_eva02",    "open_clip"};

/* Changes values, but not their magnitude. */
static void reverse(const char *name, int32_t rank, const int64_t *shape, float *values)
{
    (void)name;
    int64_t n = 1;
    for (int32_t i = 0; i < rank; i++)
        n *= shape[i];
    for (int64_t i = 0; i < n / 2; i++) {
        const float value = values[i];
        values[i] = values[n - 1 - i];
        values[n - 1 - i] = value;
    }
}

static rvit_model *model_of(const json_t *dump, rvit_dtype dtype)
{
    rvit_checkpoint *checkpoint = dump_open(dump, NULL);
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    desc.dtype = dtype;
    rvit_model *model = NULL;
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model));
    rvit_checkpoint_destroy(checkpoint);
    return model;
}

static rvit_model_info info_of(const rvit_model *model)
{
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_model_get_info(model, &info));
    return info;
}

static rvit_session *session_of(rvit_model *model, int run_views)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = 2;
    desc.input_memory = run_views ? RVIT_INPUT_RUN : RVIT_INPUT_HOST;
    rvit_session *session = NULL;
    expect_ok(rvit_session_create(model, &desc, &session));
    return session;
}

/* Logits of two images, in scratch memory. */
static float *logits_of(rvit_session *session, const rvit_model_info *info)
{
    float *logits = scratch(2 * (size_t)info->n_classes * sizeof *logits);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    dump_images(info, 2, rvit_session_input_memory(session, NULL));
    expect_ok(rvit_session_run(session, &args, logits));
    return logits;
}

/* A model with updated weights gives the same bits as a model created with them. */
static void updates(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pooled / sizeof *pooled; i++)
        for (int type = RVIT_F32; type <= RVIT_F16; type++) {
            json_t *dump = dump_load(dump_file, pooled[i]);
            rvit_model *model = model_of(dump, (rvit_dtype)type);
            const rvit_model_info info = info_of(model);
            const size_t size = 2 * (size_t)info.n_classes * sizeof(float);
            rvit_session *session = session_of(model, 0);
            const float *before = logits_of(session, &info);
            dump_change = reverse;
            rvit_model *fresh = model_of(dump, (rvit_dtype)type);
            rvit_session *fresh_session = session_of(fresh, 0);
            const float *wanted = logits_of(fresh_session, &info);
            assert_memory_not_equal(before, wanted, size);
            rvit_checkpoint *checkpoint = dump_open(dump, NULL);
            dump_change = NULL;
            expect_ok(rvit_model_update(model, checkpoint));
            assert_memory_equal(logits_of(session, &info), wanted, size);
            rvit_session_destroy(session);
            rvit_session_destroy(fresh_session);
            rvit_model_destroy(model);
            rvit_model_destroy(fresh);
            rvit_checkpoint_destroy(checkpoint);
            json_decref(dump);
        }
}

/* An update is refused if its pooling differs, even if its tensors have the same shapes. */
static void other_pooling(void **state)
{
    (void)state;
    static const struct {
        const char *name, *key, *value, *word;
    } cases[] = {{"timm_mean", "global_pool", "token", "pooling is 1 in the checkpoint, but 2 in the model"},
                 {"timm_pe_core", "attn_pool_num_heads", "4", "number of heads of the attention pooling is 4 in the checkpoint, but"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *dump = dump_load(dump_file, cases[i].name), *args = json_object_get(json_object_get(dump, "config"), "model_args");
        rvit_model *model = model_of(dump, RVIT_F32);
        const rvit_model_info info = info_of(model);
        rvit_session *session = session_of(model, 0);
        const float *before = logits_of(session, &info);
        json_t *value = i == 0 ? json_string(cases[i].value) : json_integer(4);
        assert_int_equal(json_object_set_new(args, cases[i].key, value), 0);
        rvit_checkpoint *checkpoint = dump_open(dump, NULL);
        expect_status(rvit_model_update(model, checkpoint), RVIT_INVALID_ARGUMENT, cases[i].word);
        assert_memory_equal(logits_of(session, &info), before, 2 * (size_t)info.n_classes * sizeof(float));
        rvit_checkpoint_destroy(checkpoint);
        rvit_session_destroy(session);
        rvit_model_destroy(model);
        json_decref(dump);
    }
}

/* Runs with their own device memory give the same bits as runs that copy from the host. */
static void views(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pooled / sizeof *pooled; i++) {
        json_t *dump = dump_load(dump_file, pooled[i]);
        rvit_model *model = model_of(dump, RVIT_F32);
        const rvit_model_info info = info_of(model);
        const int64_t images_size = 2 * (int64_t)info.channels * info.image_height * info.image_width * 4;
        const int64_t logits_size = 2 * (int64_t)info.n_classes * 4;
        rvit_session *plain = session_of(model, 0), *session = session_of(model, 1);
        rvit_stream *stream = NULL;
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        float *images = scratch((size_t)images_size), *logits = scratch((size_t)logits_size);
        dump_images(&info, 2, images);
        expect_ok(rvit_stream_create(H.device[DEVICE], &stream));
        expect_ok(rvit_buffer_create(H.device[DEVICE], images_size, RVIT_BUFFER_DEVICE, &args.input.view.buffer));
        expect_ok(rvit_buffer_create(H.device[DEVICE], logits_size, RVIT_BUFFER_DEVICE, &args.logits.buffer));
        expect_ok(rvit_stream_write(stream, args.input.view, images, images_size));
        expect_ok(rvit_stream_synchronize(stream));
        args.n_images = 2;
        expect_ok(rvit_session_run(session, &args, NULL));
        expect_ok(rvit_stream_read(stream, args.logits, logits, logits_size));
        expect_ok(rvit_stream_synchronize(stream));
        assert_memory_equal(logits, logits_of(plain, &info), (size_t)logits_size);
        rvit_session_destroy(session);
        rvit_session_destroy(plain);
        rvit_stream_destroy(stream);
        rvit_buffer_destroy(args.input.view.buffer);
        rvit_buffer_destroy(args.logits.buffer);
        rvit_model_destroy(model);
        json_decref(dump);
    }
}

/* If the config does not match the tensors, or is not supported, the message names the field or tensor. */
static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *key, *value, *dropped; /* a config field to set, and its value as JSON; or a tensor to leave out */
        rvit_status status;
        const char *word;
    } cases[] = {
        {"hf_dinov2_gated", "use_swiglu_ffn", "null", NULL, RVIT_BAD_FILE,
         "the tensors have MLPs with a gate (SwiGLU), but the model has none"},
        {"hf_aimv2", "is_native", "true", "embeddings.position_embedding.weight", RVIT_UNSUPPORTED,
         "the model has sinusoidal positions, which is not supported (config.json: is_native)"},
        {"hf_aimv2", NULL, NULL, "embeddings.position_embedding.weight", RVIT_BAD_FILE,
         "tensor 'embeddings.position_embedding.weight' is missing"},
        {"hf_aimv2", NULL, NULL, "head.v_proj.weight", RVIT_BAD_FILE, "tensor 'head.v_proj.weight' is missing"},
        {"hf_aimv2", "use_head", "false", NULL, RVIT_BAD_FILE, "the weights have attention pooling, but pooling is none"},
        {"hf_aimv2_no_head", "use_head", "true", NULL, RVIT_BAD_FILE, "the model has attention pooling"},
        {"hf_siglip", "model_type", "\"siglip2_vision_model\"", NULL, RVIT_BAD_FILE,
         "tensor 'embeddings.patch_embedding.weight' belongs to a convolution, but the model has a linear layer (config.json"},
        {"naflex_siglip2", "model_type", "\"siglip_vision_model\"", NULL, RVIT_BAD_FILE,
         "tensor 'embeddings.patch_embedding.weight' belongs to a linear layer, but the model has a convolution (config.json"},
        {"naflex_siglip2", "num_patches", "20", NULL, RVIT_BAD_FILE, "num_patches is 20, expected a square"},
        {"naflex_siglip2", "num_patches", "16", NULL, RVIT_BAD_FILE,
         "the position table is for 25 patches, but images have 16 x 16 pixels (config.json: num_patches"},
        {"naflex_timm_gap", "architecture", "\"naflexvit_base_patch16_par_gap\"", NULL, RVIT_UNSUPPORTED,
         "a position table that keeps its aspect ratio for all images, which is not supported"},
        {"naflex_timm_siglip", "architecture", "\"vit_of_nobody\"", NULL, RVIT_UNSUPPORTED, "how the position table is resampled"},
        {"naflex_timm_gap", NULL, NULL, "embeds.reg_token", RVIT_BAD_FILE,
         "the number of register tokens is 0 in the tensors, but should be 3"},
        {"hf_dinov3", NULL, NULL, "embeddings.cls_token", RVIT_BAD_FILE, "the weights have no CLS token"},
        {"timm_dinov3", NULL, NULL, "cls_token", RVIT_BAD_FILE, "the weights have no CLS token"},
        {"timm_dinov3_biases", NULL, NULL, "cls_token", RVIT_BAD_FILE, "tensor 'cls_token' is missing, but the model has a CLS token"},
        {"hf_aimv2", NULL, NULL, "embeddings.rms_norm.weight", RVIT_BAD_FILE, "tensor 'embeddings.rms_norm.weight' is missing"},
        {"timm_dinov3", NULL, NULL, "reg_token", RVIT_BAD_FILE, "the number of register tokens is 0 in the tensors, but should be 4"},
        {"timm_aimv2", NULL, NULL, "patch_embed.norm.weight", RVIT_BAD_FILE, "tensor 'patch_embed.norm.weight' is missing"},
        {"timm_mean", "model_args",
         "{\"num_heads\":1,\"embed_dim\":64,\"depth\":2,\"img_size\":64,\"global_pool\":\"avg\",\"pool_include_prefix\":true}", NULL,
         RVIT_UNSUPPORTED, "the model has a mean that includes prefix tokens"},
        {"timm_pe_core", "architecture", "\"vit_of_nobody\"", NULL, RVIT_UNSUPPORTED, "(the name 'vit_of_nobody' does not say)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *dump = dump_load(dump_file, cases[i].name), *config = json_object_get(dump, "config"), *tensor;
        json_t *tensors = json_object_get(dump, "tensors");
        size_t index;
        if (cases[i].key != NULL)
            assert_int_equal(json_object_set_new(config, cases[i].key, json_loads(cases[i].value, JSON_DECODE_ANY, NULL)), 0);
        json_array_foreach(tensors, index, tensor) if (cases[i].dropped != NULL &&
                                                       strcmp(json_string_value(json_array_get(tensor, 0)), cases[i].dropped) == 0)
        {
            assert_int_equal(json_array_remove(tensors, index), 0);
            break;
        }
        rvit_checkpoint *checkpoint = NULL;
        const rvit_status status = rvit_checkpoint_open(dump_checkpoint(dump), NULL, &checkpoint);
        if (status != cases[i].status || strstr(rvit_status_detail(), cases[i].word) == NULL)
            fail_msg("%s, %s: expected \"%s\", got %s: %s", cases[i].name, cases[i].key != NULL ? cases[i].key : cases[i].dropped,
                     cases[i].word, rvit_status_name(status), status == RVIT_OK ? "" : rvit_status_detail());
        json_decref(dump);
    }
}

/* hiprune takes the neighbours of a patch from the grid's number of columns, here 3, and not from its number of lines, 4. */
static void hiprune_in_a_tall_image(void **state)
{
    (void)state;
    enum { PATCHES = 12, COLUMNS = 3, LINES = 4, IMAGES = 4 };
    json_t *dump = dump_load(dump_file, "timm_high");
    rvit_model *model = model_of(dump, RVIT_F32);
    const rvit_model_info info = info_of(model);
    assert_int_equal(info.tokens - info.n_prefix, PATCHES);
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = IMAGES;
    desc.outputs = RVIT_OUTPUT_RECEIVED_ATTENTION;
    desc.received_block = 0;
    prune_in(&desc)->type = RVIT_PRUNE_HIPRUNE; /* prunes after block 0, which is also the object block */
    prune_in(&desc)->keep = 0.5;
    prune_in(&desc)->alpha = 1;
    rvit_session *session = NULL;
    expect_ok(rvit_session_create(model, &desc, &session));
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = IMAGES;
    dump_images(&info, IMAGES, rvit_session_input_memory(session, NULL));
    expect_ok(rvit_session_run(session, &args, info.n_classes > 0 ? scratch((size_t)(IMAGES * info.n_classes) * 4) : NULL));
    const rvit_result_view view = session_result(session, RVIT_RESULT_RECEIVED_ATTENTION, 0);
    const float *received = view.data;
    assert_int_equal(view.stage, -1);
    int n_other = 0;
    for (int32_t image = 0; image < IMAGES; image++) {
        double scores[PATCHES] = {0};
        for (int32_t t = 0; t < PATCHES; t++)
            for (int32_t h = 0; h < info.n_heads; h++)
                scores[t] += (double)received[(image * info.tokens + info.n_prefix + t) * info.n_heads + h];
        uint8_t anchors[2][PATCHES] = {0}, wanted[PATCHES] = {0}, other[PATCHES] = {0}, kept[PATCHES] = {0};
        hiprune_problem p = {.n = PATCHES, .columns = COLUMNS, .keep = 0.5, .alpha = 1, .object = scores, .last = scores};
        assert_true(hiprune_plainly(&p, anchors[0], wanted) > 1e-5);
        p.columns = LINES;
        (void)hiprune_plainly(&p, anchors[1], other);
        n_other += memcmp(other, wanted, PATCHES) != 0;
        const int32_t *cu = session_cu_seqlens(session, 0), *tokens = session_kept(session, 0, image);
        for (int32_t i = info.n_prefix; i < cu[image + 1] - cu[image]; i++)
            kept[tokens[i] - info.n_prefix] = 1;
        assert_memory_equal(kept, wanted, PATCHES);
    }
    assert_true(n_other > 0); /* lines taken for columns would give other tokens */
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    json_decref(dump);
}

SUITE(dump_sessions_suite, TEST(hiprune_in_a_tall_image), TEST(updates), TEST(other_pooling), TEST(views), TEST(refused));
