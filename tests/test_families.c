/* Tests checkpoints of every family: the same weights under other names become the same bytes on the device. */
#include "family_models.h"

/* Splits timm's fused tensor with that suffix into three, in each block. */
static void split_qkv(const char *suffix, const char *const names[3])
{
    for (int i = 0; i < scratch.n; i++) {
        tensor *t = &scratch.tensors[i];
        const size_t length = strlen(t->name), end = strlen(suffix);
        if (length < end || strcmp(t->name + length - end, suffix) != 0)
            continue;
        tensor parts[3];
        for (int p = 0; p < 3; p++) {
            parts[p] = *t;
            snprintf(parts[p].name + length - end, sizeof parts[p].name - (length - end), "%s", names[p]);
            parts[p].shape[0] /= 3;
            parts[p].start = p * n_elements(&parts[p]);
        }
        *t = parts[0];
        /* The parts go to the end of the file, in another order. */
        scratch.tensors[scratch.n++] = parts[2];
        scratch.tensors[scratch.n++] = parts[1];
    }
}

typedef struct hf_kind {
    const char *prefix, *blocks, *head, *head_dist;
    int new_names;
} hf_kind;

/* Converts timm's names to those of Hugging Face. */
static void to_hugging_face(const hf_kind *kind)
{
    char json[256];
    const int dim = (int)get(&scratch, "cls_token")->shape[2];
    snprintf(json, sizeof json,
             "{\"model_type\":\"%s\",\"hidden_size\":%d,\"num_attention_heads\":%d,\"num_hidden_layers\":2,\"intermediate_size\":256,"
             "\"image_size\":32}",
             kind->prefix[0] == 'd' ? "deit" : "vit", dim, dim / 64);
    set_config(&scratch, json);
    static const char *const old_weights[] = {"attention.attention.query.weight", "attention.attention.key.weight",
                                              "attention.attention.value.weight"};
    static const char *const old_biases[] = {"attention.attention.query.bias", "attention.attention.key.bias",
                                             "attention.attention.value.bias"};
    static const char *const new_weights[] = {"attention.q_proj.weight", "attention.k_proj.weight", "attention.v_proj.weight"};
    static const char *const new_biases[] = {"attention.q_proj.bias", "attention.k_proj.bias", "attention.v_proj.bias"};
    split_qkv("attn.qkv.weight", kind->new_names ? new_weights : old_weights);
    split_qkv("attn.qkv.bias", kind->new_names ? new_biases : old_biases);
    rename_all("head_dist.", kind->head_dist);
    rename_all("head.", kind->head);
    rename_all("attn.proj.", kind->new_names ? "attention.o_proj." : "attention.output.dense.");
    if (!kind->new_names) {
        rename_all("mlp.fc1.", "intermediate.dense.");
        rename_all("mlp.fc2.", "output.dense.");
    }
    rename_all("norm1.", "layernorm_before.");
    rename_all("norm2.", "layernorm_after.");
    rename_all("patch_embed.proj.", "embeddings.patch_embeddings.projection.");
    rename_all("cls_token", "embeddings.cls_token");
    rename_all("dist_token", "embeddings.distillation_token");
    rename_all("pos_embed", "embeddings.position_embeddings");
    rename_all("blocks.", kind->blocks);
    for (int i = 0; i < scratch.n; i++) {
        char *name = scratch.tensors[i].name, full[96];
        if (strncmp(name, "norm.", 5) == 0) {
            snprintf(full, sizeof full, "layernorm.%s", name + 5);
            strcpy(name, full);
        }
        if (strncmp(name, "embeddings.", 11) == 0 || strncmp(name, kind->blocks, strlen(kind->blocks)) == 0 ||
            strncmp(name, "layernorm.", 10) == 0) {
            const size_t length = (size_t)snprintf(full, sizeof full, "%s%s", kind->prefix, name);
            memcpy(name, full, length + 1);
        }
    }
}

static void hugging_face(void **state)
{
    (void)state;
    static const hf_kind kinds[] = {
        {.prefix = "vit.", .blocks = "encoder.layer.", .head = "classifier.", .head_dist = ""},
        {.prefix = "vit.", .blocks = "layers.", .head = "classifier.", .head_dist = "", .new_names = 1},
        {.prefix = "deit.", .blocks = "encoder.layer.", .head = "cls_classifier.", .head_dist = "distillation_classifier."},
        {.prefix = "deit.", .blocks = "layers.", .head = "cls_classifier.", .head_dist = "distillation_classifier.", .new_names = 1},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int dtype = RVIT_F32; dtype <= RVIT_BF16; dtype++) {
            geometry g = small_geometry;
            g.dim = 128;
            g.distilled = k >= 2;
            build(&scratch, &g, "F32");
            const int n_timm = scratch.n;
            rvit_model *timm = load_model(NULL, (rvit_dtype)dtype);
            to_hugging_face(&kinds[k]);
            assert_int_equal(scratch.n, n_timm + 4 * 2);
            rvit_model *hf = load_model(NULL, (rvit_dtype)dtype);
            assert_string_equal(hf->info.family, "hf");
            assert_true(hf->info.eps == 1e-12f && timm->info.eps == 1e-6f);
            assert_int_equal(hf->info.distilled, g.distilled);
            assert_int_equal(hf->files.n_parameters, timm->files.n_parameters);
            assert_int_equal(hf->files.n_unknown, 0);
            expect_same_weights(timm, hf);
        }
}

/* If any tensor is missing, the message names it. */
static void hugging_face_missing(void **state)
{
    (void)state;
    static const hf_kind kinds[] = {
        {.prefix = "vit.", .blocks = "encoder.layer.", .head = "classifier.", .head_dist = ""},
        {.prefix = "deit.", .blocks = "encoder.layer.", .head = "cls_classifier.", .head_dist = "distillation_classifier."},
        {.prefix = "", .blocks = "encoder.layer.", .head = "head.", .head_dist = ""},
    };
    for (int k = 0; k < 3; k++) {
        geometry g = small_geometry;
        g.distilled = k == 1;
        build(&scratch, &g, "F32");
        if (k == 2) {
            drop_name("head.weight");
            drop_name("head.bias");
        }
        to_hugging_face(&kinds[k]);
        const rvit_model_info info = good();
        assert_int_equal(info.n_classes, k == 2 ? 0 : 10);
        for (int i = 0; i < scratch.n; i++) {
            const tensor dropped = scratch.tensors[i];
            char word[128];
            snprintf(word, sizeof word, "tensor '%s' is missing", dropped.name);
            drop(&scratch, i);
            expect_bad(NULL, RVIT_BAD_FILE, word);
            memmove(&scratch.tensors[i + 1], &scratch.tensors[i], (size_t)(scratch.n - i) * sizeof *scratch.tensors);
            scratch.tensors[i] = dropped;
            scratch.n++;
        }
        (void)good();
    }
}

/* A distillation token without its head: Hugging Face's DeiTForImageClassification, and its bare encoder. */
static void token_without_head(void **state)
{
    (void)state;
    geometry g = small_geometry;
    g.distilled = 1;
    for (int bare = 0; bare < 2; bare++) {
        build(&scratch, &g, "F32");
        drop_name("head_dist.weight");
        drop_name("head_dist.bias");
        if (bare) {
            drop_name("head.weight");
            drop_name("head.bias");
        }
        const hf_kind kind = {.prefix = bare ? "" : "deit.", .blocks = "encoder.layer.", .head = "classifier.", .head_dist = ""};
        to_hugging_face(&kind);
        if (bare)
            add(&scratch, "pooler.dense.weight", 2, 64, 64, 0, 0);
        rvit_model *m = load_model(NULL, RVIT_F32);
        assert_int_equal(m->info.n_prefix, 2);
        assert_int_equal(m->info.distilled, 0);
        assert_int_equal(m->files.n_unknown, bare);
        assert_int_equal(m->info.n_classes, bare ? 0 : 10);
        assert_string_equal(m->info.architecture, "vit_d64_h1_l2_distilled_patch16_32");
        if (bare)
            assert_null(m->head_weight.buffer);
        else {
            float *head = read_view(m->head_weight, 10 * 64 * 4);
            for (int i = 0; i < 10 * 64; i++)
                assert_true(head[i] == origin_value(origin_of("head.weight"), i));
            free(head);
        }
        rvit_model_destroy(m);
    }

    build(&scratch, &g, "F32");
    drop_name("head_dist.weight");
    drop_name("head_dist.bias");
    expect_bad(NULL, RVIT_BAD_FILE, "distillation token ('dist_token') without its head: tensor 'head_dist.weight' is missing");
    drop_name("head.weight");
    drop_name("head.bias");
    const rvit_model_info info = good();
    assert_int_equal(info.n_prefix, 2);
    assert_int_equal(info.n_classes, 0);
    build(&scratch, &g, "F32");
    drop_name("dist_token");
    expect_bad(NULL, RVIT_BAD_FILE, "distillation head ('head_dist.weight') without its token: tensor 'dist_token' is missing");
    build(&scratch, &g, "F32");
    drop_name("head.bias");
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'head.bias' is missing (1 in total)");
    build(&scratch, &g, "F32");
    add(&scratch, "reg_token", 3, 1, 4, 64, 0);
    expect_bad(NULL, RVIT_UNSUPPORTED, "a distillation token and register tokens");

    build(&scratch, &small_geometry, "F32");
    drop_name("head.weight");
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'head.weight' is missing (1 in total)");
    drop_name("head.bias");
    rvit_checkpoint *checkpoint = open_with(NULL);
    rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
    assert_int_equal(info_of(checkpoint).n_classes, 0);
    assert_int_equal(rvit_checkpoint_get_info(checkpoint, &files), RVIT_OK);
    assert_int_equal(files.n_parameters, 150346 - 650);
    rvit_checkpoint_destroy(checkpoint);
}

static void write_config(const char *text)
{
    const int fd = open(config_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void configs(void **state)
{
    (void)state;
#define REST ",\"model_type\":\"vit\",\"hidden_size\":64,\"num_hidden_layers\":2,\"intermediate_size\":256,\"image_size\":32}"
#define ONE_HEAD ",\"num_attention_heads\":1" REST
    static const struct {
        const char *text;
        float eps;
        rvit_status status;
        const char *word;
    } cases[] = {
        {"{\"layer_norm_eps\":1e-05,\"hidden_act\":\"gelu\",\"id2label\":{\"0\":\"a\"}" ONE_HEAD, 1e-5f, RVIT_OK, ""},
        {"{\"a\":1" ONE_HEAD, 1e-12f, RVIT_OK, ""},
        {"{\"hidden_act\":\"gelu_python\",\"layer_norm_eps\":1" ONE_HEAD, 1, RVIT_OK, ""},
        {"{\"hidden_act\":\"quick_gelu\"" ONE_HEAD, 1e-12f, RVIT_OK, ""},
        {"{\"hidden_act\":\"gelu_new\"" ONE_HEAD, 1e-12f, RVIT_OK, ""},
        {"{\"hidden_act\":\"mish\"" ONE_HEAD, 0, RVIT_UNSUPPORTED, "config.json: hidden_act is 'mish'"},
        {"{\"hidden_act\":1" ONE_HEAD, 0, RVIT_BAD_FILE, "config.json: hidden_act is not a string"},
        {"{\"num_attention_heads\":3" REST, 0, RVIT_BAD_FILE,
         "the width 64 cannot be split into 3 heads (config.json: num_attention_heads)"},
        {"{\"num_attention_heads\":\"1\"" REST, 0, RVIT_BAD_FILE, "num_attention_heads is not an integer"},
        {"{\"num_attention_heads\":1e300" REST, 0, RVIT_BAD_FILE, "num_attention_heads is 1e+300, expected 0.."},
        {"{\"layer_norm_eps\":0" ONE_HEAD, 0, RVIT_BAD_FILE, "layer_norm_eps is not a number above 0"},
        {"{\"layer_norm_eps\":\"1e-6\"" ONE_HEAD, 0, RVIT_BAD_FILE, "layer_norm_eps is not a number above 0"},
        {"{\"layer_norm_eps\":1e-60" ONE_HEAD, 0, RVIT_BAD_FILE, "layer_norm_eps is not a number above 0"},
        {"{\"layer_norm_eps\":1e39" ONE_HEAD, 0, RVIT_BAD_FILE, "layer_norm_eps is not a number above 0"},
        {"{\"layer_norm_eps\":", 0, RVIT_BAD_FILE, "config.json: is not valid JSON"},
        {"{}", 0, RVIT_BAD_FILE, "config.json: expected one of architecture (timm), model_type (Hugging Face) or model_cfg (open_clip)"},
    };
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_config(cases[i].text);
        build(&scratch, &small_geometry, "F32");
        const hf_kind kind = {.prefix = "vit.", .blocks = "encoder.layer.", .head = "classifier.", .head_dist = ""};
        to_hugging_face(&kind);
        if (cases[i].status != RVIT_OK) {
            expect_bad(NULL, cases[i].status, cases[i].word);
            continue;
        }
        assert_true(good().eps == cases[i].eps);
        desc.eps = 1e-3f;
        rvit_checkpoint *checkpoint = open_with(&desc);
        assert_true(info_of(checkpoint).eps == 1e-3f);
        rvit_checkpoint_destroy(checkpoint);
    }
    assert_int_equal(unlink(config_path), 0);
}

static void resampled(void **state)
{
    (void)state;
    geometry g = small_geometry;
    g.grid = 3;
    g.distilled = 1;
    build(&scratch, &g, "F32");
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.image_size = 48;
    rvit_model *same = load_model(&desc, RVIT_F32);
    expect_same_weights(load_model(NULL, RVIT_F32), same);
    float *first = NULL;
    for (int way = RVIT_RESAMPLE_BICUBIC; way <= RVIT_RESAMPLE_TIMM; way++) {
        desc.image_size = 80;
        desc.resample = (rvit_resample)way;
        rvit_model *m = load_model(&desc, RVIT_F32);
        assert_int_equal(m->info.image_size, 80);
        assert_int_equal(m->files.trained_size, 48);
        assert_int_equal(m->info.tokens, 2 + 25);
        assert_string_equal(m->info.architecture, "vit_d64_h1_l2_distilled_patch16_80");
        float *embedding = read_view(m->embedding, 27 * 64 * 4);
        for (int i = 0; i < 64; i++) {
            assert_true(embedding[i] == origin_value(origin_of("cls_token"), i) + origin_value(origin_of("pos_embed"), i));
            assert_true(embedding[64 + i] == origin_value(origin_of("dist_token"), i) + origin_value(origin_of("pos_embed"), 64 + i));
            /* The centre of 5 x 5 equals the centre of 3 x 3, except with timm's antialiasing. */
            const double middle =
                origin_value(origin_of("patch_embed.proj.bias"), i) + origin_value(origin_of("pos_embed"), (2 + 4) * 64 + i);
            assert_true(way == RVIT_RESAMPLE_TIMM || fabs(embedding[(2 + 12) * 64 + i] - middle) < 1e-6);
        }
        assert_true(first == NULL || memcmp(first, embedding, 27 * 64 * 4) != 0);
        free(first);
        first = embedding;
        rvit_model_destroy(m);
    }
    free(first);
}

static void bad_descs(void **state)
{
    (void)state;
    build(&scratch, &small_geometry, "F32");
    const struct {
        int32_t image_size;
        int resample;
        float eps;
        const char *word;
    } cases[] = {
        {40, 0, 0, "image_size is 40, expected a multiple of the patch size 16"},
        {-16, 0, 0, "image_size is -16"},
        {1 << 15, 0, 0, "image_size is 32768"},
        {0, 7, 0, "resample is 7"},
        {0, -1, 0, "resample is -1"},
        {0, 0, -1e-6f, "eps is -1e-06"},
        {0, 0, NAN, "eps is"},
        {0, 0, INFINITY, "eps is inf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
        desc.image_size = cases[i].image_size;
        desc.resample = (rvit_resample)cases[i].resample;
        desc.eps = cases[i].eps;
        expect_bad(&desc, RVIT_INVALID_ARGUMENT, cases[i].word);
    }
}

/* A config that is a broken link is an error and is not ignored. */
static void config_links(void **state)
{
    (void)state;
    static const struct {
        const char *target, *word;
    } cases[] = {{"nothing.json", "config.json: a dangling symbolic link"},
                 {"config.json", "config.json: too many symbolic links, or a loop of them"}};
    const hf_kind kind = {.prefix = "vit.", .blocks = "encoder.layer.", .head = "classifier.", .head_dist = ""};
    build(&scratch, &small_geometry, "F32");
    to_hugging_face(&kind);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)unlink(config_path);
        assert_int_equal(symlink(cases[i].target, config_path), 0);
        expect_bad(NULL, RVIT_BAD_FILE, cases[i].word);
    }
    assert_int_equal(unlink(config_path), 0);
}

static void keep_debug(void *user, rvit_log_level level, const char *message)
{
    if (level == RVIT_LOG_DEBUG)
        snprintf(user, 512, "%s", message);
}

/* The log names the chosen family, and the reason why the next best was not chosen. */
static void detection(void **state)
{
    (void)state;
    char message[512] = "";
    const hf_kind kind = {.prefix = "vit.", .blocks = "encoder.layer.", .head = "classifier.", .head_dist = ""};
    rvit_log_set(keep_debug, message);
    build(&scratch, &small_geometry, "F32");
    (void)good();
    if (strstr(message,
               ": family 'timm' ('blocks.') matches 20 of its 49 names, counting one block; 'deit3' ('blocks.') matches equally many, "
               "but comes later") == NULL)
        fail_msg("%s", message);
    to_hugging_face(&kind);
    (void)good();
    rvit_log_set(NULL, NULL);
    if (strstr(message, "names, counting one block; 'hf' ('vit.encoder.layer.') matches 22 and has no name for 'vit.layernorm.weight'") ==
        NULL)
        fail_msg("%s", message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hugging_face),       cmocka_unit_test(hugging_face_missing),
                                       cmocka_unit_test(token_without_head), cmocka_unit_test(configs),
                                       cmocka_unit_test(config_links),       cmocka_unit_test(resampled),
                                       cmocka_unit_test(bad_descs),          cmocka_unit_test(detection)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
