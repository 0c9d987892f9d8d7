/* Checkpoints of every family: the same weights under other names become the same bytes on the device; parts that only some models have. */
#include "checkpoint_file.h"

#include <math.h>

#include "core/checkpoint.h"
#include "core/vit_model.h"

#include <raggedvit/raggedvit.h>

static model scratch;
static rvit_device *device;
static rvit_stream *stream;
static char config_path[128];

static rvit_checkpoint *open_with(const rvit_checkpoint_desc *desc)
{
    write_model(&scratch, WITH_VALUES);
    rvit_checkpoint *checkpoint = NULL;
    if (rvit_checkpoint_open(temp_path, desc, &checkpoint) != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    return checkpoint;
}

static void expect_bad(const rvit_checkpoint_desc *desc, rvit_status expected, const char *word)
{
    write_model(&scratch, WITH_VALUES);
    rvit_checkpoint *checkpoint = NULL;
    const rvit_status status = rvit_checkpoint_open(temp_path, desc, &checkpoint);
    if (status != expected || strstr(rvit_status_detail(), word) == NULL)
        fail_msg("expected %s with \"%s\", got %s: %s", rvit_status_name(expected), word, rvit_status_name(status), rvit_status_detail());
    assert_null(checkpoint);
}

static rvit_model_info info_of(const rvit_checkpoint *checkpoint)
{
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    assert_int_equal(rvit_checkpoint_get_info(checkpoint, &info), RVIT_OK);
    return info;
}

/* Opens, and leaves the info. */
static rvit_model_info good(void)
{
    rvit_checkpoint *checkpoint = open_with(NULL);
    const rvit_model_info info = info_of(checkpoint);
    rvit_checkpoint_destroy(checkpoint);
    return info;
}

static void *read_view(rvit_view view, int64_t size)
{
    void *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(rvit_stream_read(stream, view, bytes, size), RVIT_OK);
    assert_int_equal(rvit_stream_synchronize(stream), RVIT_OK);
    return bytes;
}

static rvit_model *load_model(const rvit_checkpoint_desc *desc, rvit_dtype dtype)
{
    rvit_checkpoint *checkpoint = open_with(desc);
    rvit_model_desc model_desc = RVIT_MODEL_DESC_INIT;
    model_desc.dtype = dtype;
    rvit_model *m = NULL;
    if (rvit_model_create(device, checkpoint, &model_desc, &m) != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    rvit_checkpoint_destroy(checkpoint);
    return m;
}

/* All the model's memory, its padding included, which nothing writes but what was there. */
static void *bytes_of(const rvit_model *m, int64_t *out_size)
{
    *out_size = rvit_buffer_size(m->weights);
    return read_view((rvit_view){m->weights, 0}, *out_size);
}

static void expect_same_weights(rvit_model *a, rvit_model *b)
{
    int64_t size_a, size_b;
    uint8_t *bytes_a = bytes_of(a, &size_a), *bytes_b = bytes_of(b, &size_b);
    assert_int_equal(size_a, size_b);
    const rvit_view views_a[] = {
        a->patch_weight,         a->embedding,          a->blocks[0].qkv_weight, a->blocks[1].qkv_bias, a->blocks[1].proj_weight,
        a->blocks[0].fc1_weight, a->blocks[1].fc2_bias, a->norm_gamma,           a->head_weight,        a->head_bias};
    const rvit_view views_b[] = {
        b->patch_weight,         b->embedding,          b->blocks[0].qkv_weight, b->blocks[1].qkv_bias, b->blocks[1].proj_weight,
        b->blocks[0].fc1_weight, b->blocks[1].fc2_bias, b->norm_gamma,           b->head_weight,        b->head_bias};
    for (size_t i = 0; i < sizeof views_a / sizeof *views_a; i++)
        assert_int_equal(views_a[i].offset, views_b[i].offset);
    assert_memory_equal(bytes_a, bytes_b, (size_t)size_a);
    free(bytes_a);
    free(bytes_b);
    rvit_model_destroy(a);
    rvit_model_destroy(b);
}

/* Replaces the beginning, or a whole tail, of names. */
static void rename_all(const char *from, const char *to)
{
    for (int i = 0; i < scratch.n; i++) {
        char *name = scratch.tensors[i].name, *place = strstr(name, from), tail[96];
        if (place == NULL)
            continue;
        strcpy(tail, place + strlen(from));
        snprintf(place, sizeof scratch.tensors[i].name - (size_t)(place - name), "%s%s", to, tail);
    }
}

/* timm's fused tensor of that suffix in each block as three. */
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
        /* Elsewhere in the file, and in another order. */
        scratch.tensors[scratch.n++] = parts[2];
        scratch.tensors[scratch.n++] = parts[1];
    }
}

typedef struct hf_kind {
    const char *prefix, *blocks, *head, *head_dist;
    int new_names;
} hf_kind;

/* From timm's names to those of Hugging Face. */
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

static void drop_name(const char *name)
{
    drop(&scratch, (int)(get(&scratch, name) - scratch.tensors));
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
            assert_int_equal(hf->info.n_parameters, timm->info.n_parameters);
            assert_int_equal(hf->info.n_unknown, 0);
            expect_same_weights(timm, hf);
        }
}

/* Every tensor of every kind but that of the head is missed by its name. */
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

/* A distillation token whose head is not there: Hugging Face's DeiTForImageClassification, and its bare encoder. */
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
        assert_int_equal(m->info.n_unknown, bare);
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
    expect_bad(NULL, RVIT_BAD_FILE, "a distillation token ('dist_token') without its head: tensor 'head_dist.weight' is missing");
    drop_name("head.weight");
    drop_name("head.bias");
    rvit_model_info info = good();
    assert_int_equal(info.n_prefix, 2);
    assert_int_equal(info.n_classes, 0);
    build(&scratch, &g, "F32");
    drop_name("dist_token");
    expect_bad(NULL, RVIT_BAD_FILE, "a distilled head ('head_dist.weight') without its token: tensor 'dist_token' is missing");
    build(&scratch, &g, "F32");
    drop_name("head.bias");
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'head.bias' is missing (1 missing in all)");
    build(&scratch, &g, "F32");
    add(&scratch, "reg_token", 3, 1, 4, 64, 0);
    expect_bad(NULL, RVIT_UNSUPPORTED, "a distillation token and register tokens");

    build(&scratch, &small_geometry, "F32");
    drop_name("head.weight");
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'head.weight' is missing (1 missing in all)");
    drop_name("head.bias");
    info = good();
    assert_int_equal(info.n_classes, 0);
    assert_int_equal(info.n_parameters, 150346 - 650);
}

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
    assert_int_equal(timm->info.n_parameters, 150346 + 4 * 64);
    const struct {
        rvit_view view;
        const char *name, *scale;
        int columns;
    } products[] = {
        {timm->blocks[1].proj_weight, "blocks.1.attn.proj.weight", "one", 64},
        {timm->blocks[1].proj_bias, "blocks.1.attn.proj.bias", "one", 1},
        {timm->blocks[0].fc2_weight, "blocks.0.mlp.fc2.weight", "two", 256},
        {timm->blocks[0].fc2_bias, "blocks.0.mlp.fc2.bias", "two", 1},
    };
    for (size_t p = 0; p < sizeof products / sizeof *products; p++) {
        float *values = read_view(products[p].view, (int64_t)64 * products[p].columns * 4);
        for (int i = 0; i < 64 * products[p].columns; i++) {
            const float scale = origin_value(origin_of(products[p].scale), i / products[p].columns);
            assert_true(values[i] == origin_value(origin_of(products[p].name), i) * scale);
        }
        free(values);
    }
    build(&scratch, &small_geometry, "F32");
    add_scales(deit3_names);
    rvit_model *deit3 = load_model(NULL, RVIT_F32);
    assert_string_equal(deit3->info.family, "deit3");
    expect_same_weights(timm, deit3);

    drop_name("blocks.1.gamma_2");
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'blocks.1.gamma_2' is missing (1 missing in all)");
    build(&scratch, &small_geometry, "F32");
    add_scales(timm_names);
    get(&scratch, "blocks.0.ls2.gamma")->shape[0] = 63;
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'blocks.0.ls2.gamma': expected the shape [64], found [63]");
}

/* Parts between the rows and the head: each tensor is missed by its name, a wrong shape is named, and none is passed over. */
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
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'norm.weight' is missing, and nothing says that the model has no norm after the last block");
    build(&scratch, &small_geometry, "F32");
    drop_name("cls_token");
    get(&scratch, "pos_embed")->shape[1]--;
    expect_bad(NULL, RVIT_BAD_FILE, "the head reads the CLS row");
}

/* A gate's tensor and the values' in place of the one that holds both. */
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

/* Of a width that is no multiple of 4: zeros follow. */
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
    float *fc1 = read_view(m->blocks[1].fc1_weight, 96 * 64 * 4), *bias = read_view(m->blocks[1].fc1_bias, 96 * 4);
    float *fc2 = read_view(m->blocks[0].fc2_weight, 64 * 48 * 4);
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

/* Which rows of the embedding get which token and which position: timm with positions for all, for patches only, and DINOv2's own. */
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
    /* 9 rows are 3 x 3 patches, or 2 x 2 and 5 prefix tokens: published models with registers have the former. */
    build(&scratch, &g, "F32");
    add(&scratch, "reg_token", 3, 1, 4, 64, 0);
    get(&scratch, "pos_embed")->shape[1] = 9;
    assert_int_equal(good().image_size, 3 * 14);
    build(&scratch, &g, "F32");
    add(&scratch, "register_tokens", 3, 1, 4, 64, 0);
    get(&scratch, "pos_embed")->shape[1] = 5 + 16;
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'pos_embed': 21 rows");

    build(&scratch, &g, "F32");
    add(&scratch, "reg_token", 3, 1, 4, 64, 0);
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'pos_embed': 17 rows, with or without 5 for prefix tokens, do not make a square grid");
    get(&scratch, "pos_embed")->shape[1] = 16;
    get(&scratch, "reg_token")->shape[2] = 32;
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'reg_token': expected the shape [1, 4, 64], found [1, 4, 32]");
    get(&scratch, "reg_token")->rank = 2;
    expect_bad(NULL, RVIT_BAD_FILE, "tensor 'reg_token': its shape does not give the number of register tokens");
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
    assert_int_equal(m->info.n_predictors, n);
    assert_string_equal(m->missing_predictor, missing);
    assert_int_equal(m->info.n_parameters, 150346);
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
        {"{\"num_attention_heads\":3" REST, 0, RVIT_BAD_FILE, "the width 64 cannot be cut into 3 heads (config.json: num_attention_heads)"},
        {"{\"num_attention_heads\":\"1\"" REST, 0, RVIT_BAD_FILE, "num_attention_heads is not an integer"},
        {"{\"num_attention_heads\":1e300" REST, 0, RVIT_BAD_FILE, "num_attention_heads is 1e+300, expected 0 to"},
        {"{\"layer_norm_eps\":0" ONE_HEAD, 0, RVIT_BAD_FILE, "layer_norm_eps is not a number above 0"},
        {"{\"layer_norm_eps\":\"1e-6\"" ONE_HEAD, 0, RVIT_BAD_FILE, "layer_norm_eps is not a number above 0"},
        {"{\"layer_norm_eps\":1e-60" ONE_HEAD, 0, RVIT_BAD_FILE, "layer_norm_eps is not a number above 0"},
        {"{\"layer_norm_eps\":1e39" ONE_HEAD, 0, RVIT_BAD_FILE, "layer_norm_eps is not a number above 0"},
        {"{\"layer_norm_eps\":", 0, RVIT_BAD_FILE, "config.json: is not valid JSON"},
        {"{}", 0, RVIT_BAD_FILE, "config.json: neither architecture (timm), model_type (Hugging Face) nor model_cfg (open_clip)"},
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
        assert_int_equal(m->info.trained_size, 48);
        assert_int_equal(m->info.tokens, 2 + 25);
        assert_string_equal(m->info.architecture, "vit_d64_h1_l2_distilled_patch16_80");
        float *embedding = read_view(m->embedding, 27 * 64 * 4);
        for (int i = 0; i < 64; i++) {
            assert_true(embedding[i] == origin_value(origin_of("cls_token"), i) + origin_value(origin_of("pos_embed"), i));
            assert_true(embedding[64 + i] == origin_value(origin_of("dist_token"), i) + origin_value(origin_of("pos_embed"), 64 + i));
            /* The middle of 5 is the middle of 3 for all but the smoothed one. */
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
        {0, 4, 0, "resample is 4"},
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

/* A config that is there but leads nowhere is not passed over. */
static void config_links(void **state)
{
    (void)state;
    static const struct {
        const char *target, *word;
    } cases[] = {{"nothing.json", "config.json: a link to a file that is not there"},
                 {"config.json", "config.json: links that lead to each other"}};
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

static int setup(void **state)
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    if (temp_setup(state) != 0 || rvit_device_create(&desc, &device) != RVIT_OK || rvit_stream_create(device, &stream) != RVIT_OK)
        return -1;
    snprintf(config_path, sizeof config_path, "%s/config.json", temp_folder);
    return 0;
}

static int teardown(void **state)
{
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
    (void)unlink(config_path);
    return temp_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hugging_face),
                                       cmocka_unit_test(hugging_face_missing),
                                       cmocka_unit_test(token_without_head),
                                       cmocka_unit_test(layer_scale),
                                       cmocka_unit_test(pooled_heads),
                                       cmocka_unit_test(gated),
                                       cmocka_unit_test(registers),
                                       cmocka_unit_test(predictors),
                                       cmocka_unit_test(configs),
                                       cmocka_unit_test(config_links),
                                       cmocka_unit_test(resampled),
                                       cmocka_unit_test(bad_descs)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
