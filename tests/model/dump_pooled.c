/* Compares pooled rows and projections of whole models with timm and Hugging Face in float64. */
#include "dumps.h"

#include <math.h>
#include "tools/cli/session_results.h"

static const double TOLERANCE = 1e-4; /* the float32 tolerance of test_dumps.c, times 10 */

/* The head of a dump, or both heads of a distilled model. weight is NULL if the model's output is the pooled row. */
typedef struct plain_head {
    const double *weight[2], *bias[2];
    int32_t transposed;
} plain_head;

static const double *find_tensor(const json_t *dump, const char *name)
{
    size_t index;
    json_t *tensor;
    json_array_foreach(json_object_get(dump, "tensors"), index,
                       tensor) if (strcmp(json_string_value(json_array_get(tensor, 0)), name) == 0) return dump_tensor(dump, name);
    return NULL;
}

static plain_head head_of(const json_t *dump)
{
    static const char *const names[][4] = {
        {"head.weight", "head.bias", "head_dist.weight", "head_dist.bias"},
        {"classifier.weight", "classifier.bias", NULL, NULL},
        {"cls_classifier.weight", "cls_classifier.bias", "distillation_classifier.weight", "distillation_classifier.bias"},
        {"heads.head.weight", "heads.head.bias", NULL, NULL},
        {"visual_projection.weight", NULL, NULL, NULL},
        {"visual.proj", NULL, NULL, NULL}};
    plain_head head = {{NULL, NULL}, {NULL, NULL}, 0};
    for (size_t i = 0; i < sizeof names / sizeof *names && head.weight[0] == NULL; i++) {
        head.weight[0] = find_tensor(dump, names[i][0]);
        for (int h = 0; h < 2 && head.weight[0] != NULL; h++) {
            head.weight[h] = names[i][2 * h] == NULL ? NULL : find_tensor(dump, names[i][2 * h]);
            head.bias[h] = names[i][2 * h + 1] == NULL ? NULL : find_tensor(dump, names[i][2 * h + 1]);
        }
        head.transposed = head.weight[0] != NULL && strcmp(names[i][0], "visual.proj") == 0;
    }
    return head;
}

/* Output c of the head for a pooled row. With two heads: the mean of both, each applied to its half of the row. */
static double apply(const plain_head *head, const float *row, int32_t width, int32_t n_classes, int32_t c)
{
    const int32_t n = head->weight[1] == NULL ? 1 : 2, columns = width / n;
    double sum = 0;
    if (head->weight[0] == NULL)
        return (double)row[c];
    for (int32_t h = 0; h < n; h++) {
        sum += head->bias[h] == NULL ? 0 : head->bias[h][c];
        for (int32_t d = 0; d < columns; d++)
            sum += (double)row[h * columns + d] * head->weight[h][head->transposed ? d * n_classes + c : c * columns + d];
    }
    return sum / n;
}

/* Applies the head to the pooled rows, and returns the largest difference from the dump's outputs. */
static double largest_difference_of(const json_t *dump, const rvit_model_info *info, const rvit_session *session)
{
    const rvit_result_view view = session_result(session, RVIT_RESULT_POOLED, 0);
    const int32_t width = view.width;
    const float *pooled = view.data;
    assert_non_null(pooled);
    if (info->n_classes == 0 && info->pooling != RVIT_POOLING_CLS)
        return 0; /* the dump's outputs are the CLS rows */
    const plain_head head = head_of(dump);
    const int32_t n_outputs = info->n_classes > 0 ? info->n_classes : info->dim;
    double largest = 0;
    for (int64_t n = 0; n < dump_integer(dump, "n_images"); n++)
        for (int32_t c = 0; c < n_outputs; c++) {
            const json_t *wanted = json_array_get(json_array_get(json_object_get(dump, "outputs"), (size_t)n), (size_t)c);
            const double difference = fabs(apply(&head, pooled + n * width, width, info->n_classes, c) - json_number_value(wanted));
            largest = difference <= largest ? largest : difference; /* NaN passes through */
        }
    return largest;
}

static double run_pooled(const json_t *dump, const rvit_model_info *info, rvit_model *model)
{
    rvit_session_desc desc = dump_session_desc(dump, info);
    desc.outputs = RVIT_OUTPUT_POOLED | (info->embedding_dim > 0 ? RVIT_OUTPUT_PROJECTED : 0);
    rvit_session *session = NULL;
    if (info->pooling == RVIT_POOLING_UNKNOWN || info->pooling == RVIT_POOLING_NONE) {
        expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, "asks for pooled rows");
        return 0;
    }
    expect_ok(rvit_session_create(model, &desc, &session));
    dump_run_all(dump, info, session);
    const double largest = largest_difference_of(dump, info, session);
    if (info->embedding_dim > 0)
        assert_memory_equal(session_floats(session, RVIT_RESULT_PROJECTED), session_floats(session, RVIT_RESULT_LOGITS),
                            (size_t)(desc.max_images * info->embedding_dim) * sizeof(float));
    rvit_session_destroy(session);
    return largest;
}

/* The heads of timm and Hugging Face, applied to the pooled rows, give the logits of the dump. */
static int check_pooled(const char *name)
{
    json_t *dump = dump_load(dump_file, name);
    double largest = 0;
    if (strcmp(dump_text(dump, "dtype"), "F32") == 0) {
        rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
        desc.image_size = (int32_t)dump_integer(dump, "image_size");
        desc.resample = (rvit_resample)dump_integer(dump, "resample");
        rvit_checkpoint *checkpoint = NULL;
        rvit_model *model = NULL;
        rvit_model_info info = RVIT_MODEL_INFO_INIT;
        expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), &desc, &checkpoint));
        expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
        expect_ok(rvit_model_get_info(model, &info));
        assert_true(info.embedding_dim == 0 || info.embedding_dim == info.n_classes);
        largest = run_pooled(dump, &info, model);
        rvit_model_destroy(model);
        rvit_checkpoint_destroy(checkpoint);
    }
    json_decref(dump);
    if (!(largest <= TOLERANCE))
        printf("%s: the largest error of the pooled rows is %g\n", name, largest);
    return largest <= TOLERANCE;
}

static void pooled_rows(void **state)
{
    (void)state;
    int n = 0, n_bad = 0;
    for (const char *name; (name = dump_name(dump_file, n)) != NULL; n++)
        n_bad += !check_pooled(name);
    assert_true(n > 0);
    if (n_bad > 0)
        fail_msg("%d models were checked, %d differ", n, n_bad);
}

static void embedding_dims(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t width;
        const char *architecture; /* NULL: the model of the dump, unchanged */
    } models[] = {{"timm_map", 0, "vit_base_patch16_224"},
                  {"timm_clip", 0, "vit_base_patch16_224"},
                  {"hf_clip", 24, NULL},
                  {"open_clip", 10, NULL},
                  {"timm_clip", 10, NULL},
                  {"timm_inner_norms", 10, NULL},
                  {"hf_siglip", 96, NULL},
                  {"timm_map", 64, NULL},
                  {"hf_clip_bare", 0, NULL},
                  {"timm_clip_bare", 0, NULL},
                  {"hf_clip_classifier", 0, NULL},
                  {"hf_siglip_classifier", 0, NULL},
                  {"timm_map_head", 0, NULL},
                  {"timm_plain", 0, NULL},
                  {"hf_dinov2", 0, NULL}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        json_t *dump = dump_load(dump_file, models[i].name);
        if (models[i].architecture != NULL) {
            json_t *config = json_object_get(dump, "config");
            json_object_set_new(config, "architecture", json_string(models[i].architecture));
            if (strcmp(models[i].name, "timm_map") == 0) {
                json_object_set_new(json_object_get(config, "model_args"), "class_token", json_false());
                json_object_set_new(json_object_get(config, "model_args"), "global_pool", json_string("map"));
            } else {
                json_object_set_new(json_object_get(config, "model_args"), "pre_norm", json_true());
            }
        }
        rvit_checkpoint *checkpoint = NULL;
        rvit_model_info info = RVIT_MODEL_INFO_INIT;
        expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), NULL, &checkpoint));
        expect_ok(rvit_checkpoint_get_model_info(checkpoint, &info));
        if (info.embedding_dim != models[i].width)
            fail_msg("%s: embedding_dim is %d, expected %d", models[i].name, (int)info.embedding_dim, (int)models[i].width);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

SUITE(dump_pooled_suite, TEST(pooled_rows), TEST(embedding_dims));
