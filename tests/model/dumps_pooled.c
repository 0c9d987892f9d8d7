/* Pooled rows and projections of whole models, against timm and Hugging Face in float64. */
#include "dumps.h"

#include <dirent.h>
#include <math.h>

static const double TOLERANCE = 1e-4; /* as test_dumps.c has it for float32 */

/* The values of a tensor of a dump whose name is `name` or ends with it after a dot; NULL: there is none. */
static float *values_of(const json_t *dump, const char *name)
{
    const rvit_dtype dtype = type_of(text(dump, "dtype"));
    size_t index;
    json_t *tensor;
    json_array_foreach(json_object_get(dump, "tensors"), index, tensor)
    {
        const char *own = json_string_value(json_array_get(tensor, 0)), *last = strstr(own, name);
        if (last == NULL || strcmp(last, name) != 0 || (last != own && last[-1] != '.'))
            continue;
        size_t axis, n = 1;
        json_t *extent;
        json_array_foreach(json_array_get(tensor, 1), axis, extent) n *= (size_t)json_integer_value(extent);
        const float offset = (float)json_number_value(json_array_get(tensor, 2));
        const float scale = ldexpf(1, -(int)json_integer_value(json_array_get(tensor, 3)));
        float *values = scratch(n * sizeof *values);
        for (size_t i = 0; i < n; i++) {
            uint32_t stored = 0;
            store(dtype, &stored, 0, offset + scale * noise(index, i));
            values[i] = (float)load(dtype, &stored, 0);
        }
        return values;
    }
    return NULL;
}

static const char *const heads[] = {
    "head.weight",           "classifier.weight", "visual_projection.weight", "visual.proj",         "head_dist.weight",
    "cls_classifier.weight", "head.bias",         "classifier.bias",          "cls_classifier.bias", "head_dist.bias"};

/* Output c of the dump's head, in float64, of one pooled row; of a distilled model the mean of two heads on two rows. */
static double head_in_float64(const json_t *dump, const rvit_model_info *info, const float *row, int32_t width, int32_t c)
{
    const float *weight = NULL, *second = values_of(dump, "head_dist.weight"), *bias = NULL,
                *second_bias = values_of(dump, "head_dist.bias");
    for (int i = 0; i < 6 && weight == NULL; i++)
        weight = i == 4 ? NULL : values_of(dump, heads[i]);
    for (int i = 6; i < 9 && bias == NULL; i++)
        bias = values_of(dump, heads[i]);
    if (weight == NULL)
        return (double)row[c];
    if (second == NULL)
        second = values_of(dump, "distillation_classifier.weight"), second_bias = values_of(dump, "distillation_classifier.bias");
    const int transposed = values_of(dump, "visual.proj") != NULL, two = second != NULL;
    const int32_t columns = two ? width / 2 : width;
    double sum = bias == NULL ? 0 : (double)bias[c];
    for (int32_t d = 0; d < columns; d++)
        sum += (double)row[d] * (transposed ? weight[d * info->n_classes + c] : weight[c * columns + d]);
    if (!two)
        return sum;
    sum += (double)second_bias[c];
    for (int32_t d = 0; d < columns; d++)
        sum += (double)row[columns + d] * second[c * columns + d];
    return sum / 2;
}

/* The pooled rows are what timm's and Hugging Face's heads read: their heads redone on them give their logits. */
static int check_pooled(const char *file_name)
{
    json_t *dump = load_dump(data, file_name);
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.image_size = (int32_t)integer(dump, "image_size");
    desc.resample = (rvit_resample)integer(dump, "resample");
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    rvit_session *session = NULL;
    expect_ok(rvit_checkpoint_open(checkpoint_of(dump), &desc, &checkpoint));
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_model_get_info(model, &info));
    rvit_session_desc session_desc = RVIT_SESSION_DESC_INIT;
    session_desc.max_images = (int32_t)integer(dump, "n_images");
    session_desc.outputs = RVIT_OUTPUT_POOLED | (info.embedding_dim > 0 ? RVIT_OUTPUT_PROJECTED : 0);
    /* A headless model whose file does not say how it pools has only rows. */
    const int unknown = info.pooling == RVIT_POOLING_UNKNOWN || info.pooling == RVIT_POOLING_NONE;
    double largest = 0;
    if (unknown) {
        expect_status(rvit_session_create(model, &session_desc, &session), RVIT_UNSUPPORTED, "asks for pooled rows");
    } else {
        expect_ok(rvit_session_create(model, &session_desc, &session));
        fill_images(&info, session_desc.max_images, rvit_session_input(session));
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        args.n_images = session_desc.max_images;
        expect_ok(rvit_session_run(session, &args, NULL));
        int32_t width = 0;
        const float *pooled = rvit_session_pooled(session, &width);
        assert_non_null(pooled);
        const int compared = info.n_classes > 0 || info.pooling == RVIT_POOLING_CLS;
        for (int32_t n = 0; n < args.n_images && compared; n++) {
            const json_t *wanted = json_array_get(json_object_get(dump, "outputs"), (size_t)n);
            for (int32_t c = 0; c < (info.n_classes > 0 ? info.n_classes : info.dim); c++) {
                const double got = head_in_float64(dump, &info, pooled + (int64_t)n * width, width, c);
                const double difference = fabs(got - json_number_value(json_array_get(wanted, (size_t)c)));
                largest = difference <= largest ? largest : difference;
            }
        }
        if (info.embedding_dim > 0)
            assert_memory_equal(rvit_session_projected(session), rvit_session_logits(session),
                                (size_t)(args.n_images * info.embedding_dim) * sizeof(float));
    }
    assert_true(info.embedding_dim == 0 || info.embedding_dim == info.n_classes);
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
    if (largest > TOLERANCE)
        printf("%s: pooled rows are off by %g\n", file_name, largest);
    return largest <= TOLERANCE;
}

static void pooled_rows(void **state)
{
    (void)state;
    DIR *entries = opendir(data);
    assert_non_null(entries);
    int n = 0, n_bad = 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (strstr(entry->d_name, ".json") != NULL) {
            n++;
            n_bad += !check_pooled(entry->d_name);
        }
    closedir(entries);
    if (n_bad > 0)
        fail_msg("of %d models %d differ", n, n_bad);
}

static void what_projects(void **state)
{
    (void)state;
    static const struct {
        const char *file_name;
        int32_t width;
    } models[] = {{"hf_clip.json", 24},           {"open_clip.json", 10},
                  {"timm_clip.json", 10},         {"timm_inner_norms.json", 10},
                  {"hf_siglip.json", 96},         {"timm_map.json", 64},
                  {"hf_clip_bare.json", 0},       {"timm_clip_bare.json", 0},
                  {"hf_clip_classifier.json", 0}, {"hf_siglip_classifier.json", 0},
                  {"timm_map_head.json", 0},      {"timm_plain.json", 0},
                  {"hf_dinov2.json", 0}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        json_t *dump = load_dump(data, models[i].file_name);
        rvit_checkpoint *checkpoint = NULL;
        rvit_model_info info = RVIT_MODEL_INFO_INIT;
        expect_ok(rvit_checkpoint_open(checkpoint_of(dump), NULL, &checkpoint));
        expect_ok(rvit_checkpoint_get_info(checkpoint, &info));
        if (info.embedding_dim != models[i].width)
            fail_msg("%s: embedding_dim is %d, expected %d", models[i].file_name, (int)info.embedding_dim, (int)models[i].width);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

SUITE(pooled_suite, TEST(pooled_rows), TEST(what_projects));
