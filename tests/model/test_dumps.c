/* Whole models against timm and Hugging Face in float64: the dumps of tools/dump_reference.py, which says how they are made.

     test_dumps [--data FOLDER] [--dumps FOLDER] and what every test program takes

   --data says where the committed dumps lie now, --dumps which others to take in their place. */
#include "harness.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>

#include <jansson.h>

static const char *data, *folder;

/* Largest difference allowed by storage. In 16 bits: twice that of the library that made the dump, which the dump says. */
static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
static const double tolerance = 1e-4;

enum { IMAGE_STREAM = 1 << 20, MAX_DUMPS = 256 };

/* -1 to 1, in steps that a float16 holds. */
static float noise(uint64_t stream, uint64_t i)
{
    uint64_t x = (stream << 32) + i + UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return (float)((int)(x >> 53) - 1024) / 1024;
}

static int64_t integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no integer", key);
    return json_integer_value(value);
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (value == NULL)
        fail_msg("%s is no text", key);
    return value;
}

static rvit_dtype type_of(const char *name)
{
    return strcmp(name, "F32") == 0 ? RVIT_F32 : strcmp(name, "F16") == 0 ? RVIT_F16 : RVIT_BF16;
}

static void write_all(FILE *file, const void *bytes, size_t size)
{
    assert_int_equal(fwrite(bytes, 1, size, file), size);
}

/* The tensors [name, shape, offset, shift] as a checkpoint file. */
static void write_checkpoint(const json_t *dump, const char *path)
{
    const json_t *tensors = json_object_get(dump, "tensors");
    const rvit_dtype dtype = type_of(text(dump, "dtype"));
    json_t *header = json_object();
    int64_t end = 0;
    size_t index;
    json_t *tensor;
    json_array_foreach((json_t *)tensors, index, tensor)
    {
        int64_t n = rvit_dtype_size(dtype);
        size_t axis;
        json_t *extent;
        json_array_foreach(json_array_get(tensor, 1), axis, extent) n *= json_integer_value(extent);
        json_object_set_new(header, json_string_value(json_array_get(tensor, 0)),
                            json_pack("{s:s, s:O, s:[I, I]}", "dtype", text(dump, "dtype"), "shape", json_array_get(tensor, 1),
                                      "data_offsets", (json_int_t)end, (json_int_t)(end + n)));
        end += n;
    }
    char *head = json_dumps(header, JSON_COMPACT);
    assert_non_null(head);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    const uint64_t length = strlen(head);
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> 8 * i);
    write_all(file, bytes, 8);
    write_all(file, head, length);
    json_array_foreach((json_t *)tensors, index, tensor)
    {
        const json_t *place = json_object_get(json_object_get(header, json_string_value(json_array_get(tensor, 0))), "data_offsets");
        const int64_t size = json_integer_value(json_array_get(place, 1)) - json_integer_value(json_array_get(place, 0));
        const float offset = (float)json_number_value(json_array_get(tensor, 2));
        const float scale = ldexpf(1, -(int)json_integer_value(json_array_get(tensor, 3)));
        uint8_t *values = malloc((size_t)size);
        assert_non_null(values);
        for (int64_t i = 0; i < size / rvit_dtype_size(dtype); i++)
            store(dtype, values, i, offset + scale * noise(index, (uint64_t)i));
        write_all(file, values, (size_t)size);
        free(values);
    }
    assert_int_equal(fclose(file), 0);
    free(head);
    json_decref(header);
}

/* Where the checkpoint of a dump lies; made if it has none. */
static const char *checkpoint_of(const json_t *dump)
{
    if (json_object_get(dump, "file") != NULL)
        return text(dump, "file");
    const char *path = temporary_path("model.safetensors");
    write_checkpoint(dump, path);
    assert_int_equal(json_dump_file(json_object_get(dump, "config"), temporary_path("config.json"), 0), 0);
    return path;
}

static void fill_images(const rvit_model_info *info, int32_t n_images, float *images)
{
    const int64_t pixels = (int64_t)info->channels * info->image_height * info->image_width;
    for (int32_t n = 0; n < n_images; n++)
        for (int64_t i = 0; i < pixels; i++)
            images[n * pixels + i] = 2 * noise((uint64_t)IMAGE_STREAM + (uint64_t)n, (uint64_t)i);
}

/* Runs the model and returns the largest difference from the dump's outputs: logits, or the features of the CLS token. */
static double run(const json_t *dump, const rvit_checkpoint *checkpoint, rvit_dtype dtype)
{
    rvit_model_desc model_desc = RVIT_MODEL_DESC_INIT;
    model_desc.dtype = dtype;
    rvit_model *model = NULL;
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, &model_desc, &model));
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_model_get_info(model, &info));
    const int32_t n_images = (int32_t)integer(dump, "n_images"), with_features = (int32_t)integer(dump, "features");
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = n_images;
    desc.outputs = with_features ? RVIT_OUTPUT_FEATURES : 0;
    rvit_session *session = NULL;
    expect_ok(rvit_session_create(model, &desc, &session));
    fill_images(&info, n_images, rvit_session_input(session));
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = n_images;
    expect_ok(rvit_session_run(session, &args, NULL));

    const int32_t width = with_features ? info.dim : info.n_classes;
    const float *got = with_features ? rvit_session_features(session) : rvit_session_logits(session);
    assert_non_null(got);
    assert_true(width > 0 && with_features == (info.n_classes == 0));
    double largest = 0;
    for (int32_t n = 0; n < n_images; n++) {
        const json_t *wanted = json_array_get(json_object_get(dump, "outputs"), (size_t)n);
        assert_int_equal(json_array_size(wanted), width);
        const float *row = got + (int64_t)n * (with_features ? info.tokens : 1) * width;
        for (int32_t c = 0; c < width; c++) {
            const double difference = fabs(row[c] - json_number_value(json_array_get(wanted, (size_t)c)));
            largest = difference <= largest ? largest : difference; /* NaN passes through */
        }
    }
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    return largest;
}

static json_t *load_dump(const char *in, const char *file_name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", in, file_name);
    json_error_t error;
    json_t *dump = json_load_file(path, 0, &error);
    if (dump == NULL)
        fail_msg("%s: %s", path, error.text);
    return dump;
}

static double tolerance_of(const json_t *dump, rvit_dtype dtype)
{
    if (dtype == RVIT_F32)
        return tolerance;
    const json_t *error = json_object_get(json_object_get(dump, "torch_errors"), rvit_dtype_name(dtype));
    if (!json_is_number(error))
        fail_msg("%s: torch_errors has no number for %s", text(dump, "name"), rvit_dtype_name(dtype));
    return 2 * json_number_value(error);
}

static int check(const char *file_name)
{
    json_t *dump = load_dump(folder, file_name);
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.image_size = (int32_t)integer(dump, "image_size");
    desc.resample = (rvit_resample)integer(dump, "resample");
    rvit_checkpoint *checkpoint = NULL;
    expect_ok(rvit_checkpoint_open(checkpoint_of(dump), &desc, &checkpoint));
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_checkpoint_get_info(checkpoint, &info));
    int good = 1;
    printf("%-28s %-38s %-7s", text(dump, "name"), info.architecture, info.family);
    for (int t = 0; t < n_types(); t++) {
        const double difference = run(dump, checkpoint, types[t]), most = tolerance_of(dump, types[t]);
        const int within = difference <= most;
        good &= within;
        printf("  %s %.2e of %.2e%s", rvit_dtype_name(types[t]), difference, most, within ? "" : " TOO MUCH");
    }
    printf("\n");
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
    return good;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void dumps(void **state)
{
    (void)state;
    DIR *entries = opendir(folder);
    if (entries == NULL)
        fail_msg("%s: cannot be opened", folder);
    char *names[MAX_DUMPS];
    int n = 0, n_bad = 0;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (strstr(entry->d_name, ".json") != NULL) {
            assert_true(n < MAX_DUMPS);
            names[n] = scratch(strlen(entry->d_name) + 1);
            strcpy(names[n++], entry->d_name);
        }
    closedir(entries);
    assert_true(n > 0);
    qsort(names, (size_t)n, sizeof *names, compare_names);
    for (int i = 0; i < n; i++)
        n_bad += !check(names[i]);
    if (n_bad > 0)
        fail_msg("%d of %d models differ", n_bad, n);
}

/* Choices that the tensors do not tell: the outputs show each wrong one. */
static void choices(void **state)
{
    (void)state;
    static const struct {
        const char *file_name;
        int32_t resample;
        float eps;
        int32_t n_heads, pooling;
    } wrong[] = {
        {"timm_resampled.json", RVIT_RESAMPLE_BICUBIC, 0, 0, 0},
        {"timm_resampled.json", RVIT_RESAMPLE_BILINEAR, 0, 0, 0},
        {"timm_bicubic.json", RVIT_RESAMPLE_TIMM, 0, 0, 0},
        {"timm_bicubic.json", RVIT_RESAMPLE_BILINEAR, 0, 0, 0},
        {"timm_bilinear.json", RVIT_RESAMPLE_TIMM, 0, 0, 0},
        {"timm_bilinear.json", RVIT_RESAMPLE_BICUBIC, 0, 0, 0},
        {"timm_resampled_down.json", RVIT_RESAMPLE_BICUBIC, 0, 0, 0},
        {"timm_heads_32.json", RVIT_RESAMPLE_DEFAULT, 0, 2, 0},
        {"timm_heads_72.json", RVIT_RESAMPLE_DEFAULT, 0, 3, 0},
        {"hf_vit_resampled.json", RVIT_RESAMPLE_TIMM, 0, 0, 0},
        {"hf_vit_eps.json", RVIT_RESAMPLE_DEFAULT, 1e-12f, 0, 0},
        {"hf_dinov2_resampled.json", RVIT_RESAMPLE_TIMM, 0, 0, 0},
        {"hf_dinov2_registers_resampled.json", RVIT_RESAMPLE_BICUBIC, 0, 0, 0},
        {"timm_mean.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_CLS},
        {"timm_mean.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN_RAW},
        {"timm_mean_fc_norm.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_CLS},
        {"timm_mean_fc_norm.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN_RAW},
        {"timm_mean_no_norm.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_CLS},
        {"timm_cls_no_norm.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN},
        {"timm_gap_registers.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN_RAW},
        {"timm_map.json", RVIT_RESAMPLE_DEFAULT, 0, 1, 0},
        {"hf_siglip.json", RVIT_RESAMPLE_DEFAULT, 0, 2, 0},
        {"hf_siglip_classifier.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MAP},
        {"hf_clip_classifier.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_CLS},
        {"hf_clip_classifier.json", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *dump = load_dump(data, wrong[i].file_name);
        rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
        desc.image_size = (int32_t)integer(dump, "image_size");
        desc.resample = (rvit_resample)wrong[i].resample;
        desc.eps = wrong[i].eps;
        desc.n_heads = wrong[i].n_heads;
        desc.pooling = (rvit_pooling)wrong[i].pooling;
        rvit_checkpoint *checkpoint = NULL;
        expect_ok(rvit_checkpoint_open(checkpoint_of(dump), &desc, &checkpoint));
        const double difference = run(dump, checkpoint, RVIT_F32);
        if (difference <= 10 * tolerance)
            fail_msg("%s: a wrong choice (%d, %g, %d, %d) is within %g", wrong[i].file_name, (int)wrong[i].resample, (double)wrong[i].eps,
                     (int)wrong[i].n_heads, (int)wrong[i].pooling, difference);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

static void activations(void **state)
{
    (void)state;
    static const struct {
        const char *file_name;
        rvit_activation activation;
        double tolerances; /* the two GELUs are 4.7e-4 apart at most */
    } wrong[] = {
        {"timm_quick_gelu.json", RVIT_ACTIVATION_GELU, 10},         {"timm_gelu_tanh.json", RVIT_ACTIVATION_GELU, 5},
        {"timm_gelu_tanh.json", RVIT_ACTIVATION_QUICK_GELU, 10},    {"timm_silu.json", RVIT_ACTIVATION_QUICK_GELU, 10},
        {"open_clip_quick_gelu.json", RVIT_ACTIVATION_GELU, 10},    {"timm_gated.json", RVIT_ACTIVATION_GELU, 10},
        {"hf_clip_quick_gelu.json", RVIT_ACTIVATION_GELU_TANH, 10},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *dump = load_dump(data, wrong[i].file_name);
        rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
        desc.activation = wrong[i].activation;
        rvit_checkpoint *checkpoint = NULL;
        expect_ok(rvit_checkpoint_open(checkpoint_of(dump), &desc, &checkpoint));
        const double difference = run(dump, checkpoint, RVIT_F32);
        if (difference <= wrong[i].tolerances * tolerance)
            fail_msg("%s: a wrong activation (%d) is within %g", wrong[i].file_name, (int)wrong[i].activation, difference);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

/* A tensor of a float32 dump. */
static double *tensor_of(const json_t *dump, const char *name)
{
    size_t index, axis;
    json_t *tensor, *extent;
    json_array_foreach(json_object_get(dump, "tensors"), index, tensor)
    {
        if (strcmp(json_string_value(json_array_get(tensor, 0)), name) != 0)
            continue;
        int64_t n = 1;
        json_array_foreach(json_array_get(tensor, 1), axis, extent) n *= json_integer_value(extent);
        const float offset = (float)json_number_value(json_array_get(tensor, 2));
        const float scale = ldexpf(1, -(int)json_integer_value(json_array_get(tensor, 3)));
        double *values = scratch((size_t)n * sizeof *values);
        for (int64_t i = 0; i < n; i++)
            values[i] = (double)(offset + scale * noise(index, (uint64_t)i));
        return values;
    }
    fail_msg("there is no tensor %s", name);
    return NULL;
}

/* out = weight x + bias of the tensors name.weight and name.bias. */
static void apply(const json_t *dump, const char *name, int64_t first_row, int64_t rows, int64_t columns, const double *x, double *out)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    const double *weight = tensor_of(dump, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const double *bias = tensor_of(dump, full);
    for (int64_t r = 0; r < rows; r++) {
        out[r] = bias[first_row + r];
        for (int64_t c = 0; c < columns; c++)
            out[r] += weight[(first_row + r) * columns + c] * x[c];
    }
}

static void normalise(const json_t *dump, const char *name, int64_t dim, double eps, const double *x, double *out)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    const double *gamma = tensor_of(dump, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const double *beta = tensor_of(dump, full);
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < dim; i++)
        mean += x[i] / (double)dim;
    for (int64_t i = 0; i < dim; i++)
        variance += (x[i] - mean) * (x[i] - mean) / (double)dim;
    for (int64_t i = 0; i < dim; i++)
        out[i] = (x[i] - mean) / sqrt(variance + eps) * gamma[i] + beta[i];
}

/* The rows that a run leaves an image, after the final norm, and how many tokens each stands for (NULL: one). */
typedef struct left_rows {
    const float *features, *sizes;
    int32_t n, n_prefix, dim, n_heads;
    double eps;
} left_rows;

static void plain_mean(const left_rows *r, double *out)
{
    double total = 0;
    memset(out, 0, (size_t)r->dim * sizeof *out);
    for (int32_t t = r->n_prefix; t < r->n; t++) {
        const double size = r->sizes == NULL ? 1 : (double)r->sizes[t];
        total += size;
        for (int32_t i = 0; i < r->dim; i++)
            out[i] += size * (double)r->features[t * r->dim + i];
    }
    for (int32_t i = 0; i < r->dim; i++)
        out[i] /= total;
}

/* timm's AttentionPoolLatent as it is written, with keys and values of each row. */
static void plain_map(const json_t *dump, const left_rows *r, double *out)
{
    const int32_t dim = r->dim, head_dim = dim / r->n_heads;
    double *query = scratch((size_t)dim * sizeof *query), *kv = scratch(2 * (size_t)dim * (size_t)r->n * sizeof *kv);
    double *p = scratch((size_t)r->n * sizeof *p), *mixed = scratch((size_t)dim * sizeof *mixed), *x = scratch((size_t)dim * sizeof *x);
    apply(dump, "attn_pool.q", 0, dim, dim, tensor_of(dump, "attn_pool.latent"), query);
    for (int32_t t = 0; t < r->n; t++) {
        for (int32_t i = 0; i < dim; i++)
            x[i] = (double)r->features[t * dim + i];
        apply(dump, "attn_pool.kv", 0, 2 * dim, dim, x, kv + 2 * (int64_t)t * dim);
    }
    for (int32_t h = 0; h < r->n_heads; h++) {
        double sum = 0;
        for (int32_t t = 0; t < r->n; t++) {
            double dot = 0;
            for (int32_t j = h * head_dim; j < (h + 1) * head_dim; j++)
                dot += query[j] * kv[2 * (int64_t)t * dim + j];
            p[t] = exp(dot / sqrt(head_dim)) * (r->sizes == NULL ? 1 : (double)r->sizes[t]);
            sum += p[t];
        }
        for (int32_t j = h * head_dim; j < (h + 1) * head_dim; j++) {
            mixed[j] = 0;
            for (int32_t t = 0; t < r->n; t++)
                mixed[j] += p[t] / sum * kv[(2 * (int64_t)t + 1) * dim + j];
        }
    }
    double *hidden = scratch(4 * (size_t)dim * sizeof *hidden);
    apply(dump, "attn_pool.proj", 0, dim, dim, mixed, out);
    normalise(dump, "attn_pool.norm", dim, r->eps, out, x);
    apply(dump, "attn_pool.mlp.fc1", 0, 4 * dim, dim, x, hidden);
    for (int32_t i = 0; i < 4 * dim; i++)
        hidden[i] *= 0.5 * (1 + erf(hidden[i] / sqrt(2)));
    apply(dump, "attn_pool.mlp.fc2", 0, dim, 4 * dim, hidden, x);
    for (int32_t i = 0; i < dim; i++)
        out[i] += x[i];
}

/* What the head makes of the rows that are left. */
static const double *plain_head(const json_t *dump, const rvit_model_info *info, const left_rows *r)
{
    double *pooled = scratch(2 * (size_t)r->dim * sizeof *pooled), *logits = scratch((size_t)info->n_classes * sizeof *logits);
    const int both = info->pooling == RVIT_POOLING_CLS_MEAN;
    if (info->pooling == RVIT_POOLING_MAP) {
        plain_map(dump, r, pooled);
        return pooled;
    }
    for (int32_t i = 0; i < r->dim && both; i++)
        pooled[i] = (double)r->features[i];
    plain_mean(r, pooled + (both ? r->dim : 0));
    if (info->pooling == RVIT_POOLING_MEAN_NORM)
        normalise(dump, "fc_norm", r->dim, r->eps, pooled, pooled);
    apply(dump, both ? "classifier" : "head", 0, info->n_classes, both ? 2 * r->dim : r->dim, pooled, logits);
    return logits;
}

/* Every image's logits are those of the rows that it has left. */
static void expect_plain(const json_t *dump, const rvit_model_info *info, const rvit_session *session)
{
    const int32_t last = rvit_session_n_stages(session) - 1, *cu = rvit_session_cu_seqlens(session, last);
    for (int32_t n = 0; n < 2; n++) {
        const left_rows rows = {.features = rvit_session_features(session) + (int64_t)cu[n] * info->dim,
                                .sizes = rvit_session_sizes(session, last, n),
                                .n = cu[n + 1] - cu[n],
                                .n_prefix = info->n_prefix,
                                .dim = info->dim,
                                .n_heads = info->n_heads,
                                .eps = (double)info->eps};
        assert_in_range(rows.n, info->n_prefix + 1, info->tokens - 1);
        const double *wanted = plain_head(dump, info, &rows);
        for (int32_t c = 0; c < info->n_classes; c++) {
            const double got = (double)rvit_session_logits(session)[n * info->n_classes + c];
            if (!(fabs(got - wanted[c]) <= tolerance))
                fail_msg("%s, image %d: value %d is %g, should be %g", text(dump, "name"), (int)n, (int)c, got, wanted[c]);
        }
    }
}

/* One policy in both blocks. */
static void check_policy(const json_t *dump, rvit_model *model, rvit_prune_type type)
{
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_model_get_info(model, &info));
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = 3;
    desc.outputs = RVIT_OUTPUT_FEATURES;
    desc.prune.type = type;
    desc.prune.n_blocks = 2;
    desc.prune.blocks[1] = 1;
    if (type == RVIT_PRUNE_TOME)
        desc.prune.merges = 3;
    rvit_session *session = NULL;
    if (info.n_prefix == info.n_registers && (type == RVIT_PRUNE_EVIT || type == RVIT_PRUNE_ATS)) {
        expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, "the CLS token, but the model has none");
        return;
    }
    expect_ok(rvit_session_create(model, &desc, &session));
    fill_images(&info, 2, rvit_session_input(session));
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    expect_ok(rvit_session_run(session, &args, NULL));
    assert_true((rvit_session_sizes(session, 1, 0) != NULL) == (type == RVIT_PRUNE_TOME));
    expect_plain(dump, &info, session);
    rvit_session_destroy(session);
}

/* Heads that read more than the CLS row, on what pruning leaves; merged rows count as often as they have tokens. */
static void pruned_heads(void **state)
{
    (void)state;
    static const char *const files[] = {"timm_mean.json", "timm_mean_fc_norm.json",  "timm_mean_no_norm.json",   "timm_gap.json",
                                        "timm_map.json",  "timm_gap_registers.json", "hf_dinov2_classifier.json"};
    static const rvit_prune_type policies[] = {RVIT_PRUNE_L2, RVIT_PRUNE_RANDOM, RVIT_PRUNE_EVIT, RVIT_PRUNE_ATS, RVIT_PRUNE_TOME};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        json_t *dump = load_dump(data, files[i]);
        rvit_checkpoint *checkpoint = NULL;
        rvit_model *model = NULL;
        expect_ok(rvit_checkpoint_open(checkpoint_of(dump), NULL, &checkpoint));
        expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
        for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
            check_policy(dump, model, policies[p]);
        rvit_model_destroy(model);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

/* The other half as the gate: the outputs show it. */
static void gate_halves(void **state)
{
    (void)state;
    json_t *dump = load_dump(data, "timm_gated_apart.json");
    size_t index;
    json_t *tensor;
    int n = 0;
    json_array_foreach(json_object_get(dump, "tensors"), index, tensor)
    {
        char name[96];
        snprintf(name, sizeof name, "%s", json_string_value(json_array_get(tensor, 0)));
        char *kind = strstr(name, "mlp.fc1_");
        if (kind == NULL)
            continue;
        kind[8] = kind[8] == 'g' ? 'x' : 'g';
        assert_int_equal(json_array_set_new(tensor, 0, json_string(name)), 0);
        n++;
    }
    assert_true(n > 0);
    rvit_checkpoint *checkpoint = NULL;
    expect_ok(rvit_checkpoint_open(checkpoint_of(dump), NULL, &checkpoint));
    const double difference = run(dump, checkpoint, RVIT_F32);
    if (difference <= 10 * tolerance)
        fail_msg("the other half as the gate is within %g", difference);
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
}

/* Without prefix tokens a mask must leave one. */
static void masked_heads(void **state)
{
    (void)state;
    json_t *dump = load_dump(data, "timm_gap.json");
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    expect_ok(rvit_checkpoint_open(checkpoint_of(dump), NULL, &checkpoint));
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_model_get_info(model, &info));
    assert_int_equal(info.n_prefix, 0);
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = 2;
    desc.outputs = RVIT_OUTPUT_FEATURES | RVIT_OUTPUT_CLS_ATTENTION;
    desc.prune.type = RVIT_PRUNE_MASK;
    desc.prune.n_blocks = 2;
    desc.prune.blocks[1] = 1;
    rvit_session *session = NULL;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, "the CLS token, but the model has none");
    desc.outputs = RVIT_OUTPUT_FEATURES;
    expect_ok(rvit_session_create(model, &desc, &session));
    fill_images(&info, 2, rvit_session_input(session));
    uint8_t keep[2][2][16] = {{{0}}};
    assert_int_equal(info.tokens, 16);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    args.keep = keep[0][0];
    for (int t = 3; t < 9; t++)
        keep[0][0][t] = keep[1][0][t] = keep[0][1][t] = 1;
    keep[1][1][2] = 1; /* dropped before */
    expect_status(rvit_session_run(session, &args, NULL), RVIT_INVALID_ARGUMENT, "keep leaves no token of image 1");
    keep[1][1][5] = 1;
    expect_ok(rvit_session_run(session, &args, NULL));
    assert_int_equal(rvit_session_cu_seqlens(session, 1)[2], 7);
    expect_plain(dump, &info, session);
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
}

/* Opens a dump's model with one member of its config changed; value: as JSON. */
static double run_with(const char *file_name, const char *section, const char *key, const char *value)
{
    json_t *dump = load_dump(data, file_name), *config = json_object_get(dump, "config");
    config = section == NULL ? config : json_object_get(config, section);
    assert_int_equal(json_object_set_new(config, key, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.image_size = (int32_t)integer(dump, "image_size");
    rvit_checkpoint *checkpoint = NULL;
    expect_ok(rvit_checkpoint_open(checkpoint_of(dump), &desc, &checkpoint));
    const double difference = run(dump, checkpoint, RVIT_F32);
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
    return difference;
}

/* How rotary positions turn: each wrong choice shows. */
static void rotations(void **state)
{
    (void)state;
    static const char hf[] = "hf_dinov3.json", dinov3[] = "timm_dinov3.json", rope[] = "timm_rope.json", ape[] = "timm_rope_ape.json",
                      reference[] = "timm_rope_reference.json", args[] = "model_args";
    static const struct {
        const char *file_name, *section, *key, *value;
    } wrong[] = {
        {hf, NULL, "rope_theta", "10000"},
        {dinov3, args, "rope_temperature", "10000"},
        {dinov3, args, "rope_grid_indexing", "\"xy\""},
        {dinov3, args, "rope_rotate_half", "false"},
        {dinov3, args, "rope_type", "\"cat\""},
        {dinov3, args, "rope_grid_offset", "1"},
        {rope, args, "rope_grid_indexing", "\"ij\""},
        {rope, args, "rope_rotate_half", "true"},
        {rope, args, "rope_type", "\"dinov3\""},
        {rope, args, "ref_feat_shape", "[14, 14]"},
        {ape, args, "rope_temperature", "10000"},
        {ape, args, "rope_grid_indexing", "\"ij\""},
        {ape, args, "rope_rotate_half", "true"},
        {reference, args, "ref_feat_shape", "null"},
        {reference, args, "ref_feat_shape", "[6, 16]"},
        {reference, args, "rope_temperature", "100"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const double difference = run_with(wrong[i].file_name, wrong[i].section, wrong[i].key, wrong[i].value);
        if (difference <= 10 * tolerance)
            fail_msg("%s: a wrong %s is within %g", wrong[i].file_name, wrong[i].key, difference);
    }
    /* Turning all rows by the same shift of their coordinates changes no product of patches, but those with the prefix. */
    assert_true(run_with(reference, args, "rope_grid_offset", "0") > 10 * tolerance);
}

/* The names that transformers 5 gives DINOv3's blocks in memory, and not in files. */
static void names_in_memory(void **state)
{
    (void)state;
    json_t *dump = load_dump(data, "hf_dinov3.json"), *tensor;
    size_t index;
    int n = 0;
    json_array_foreach(json_object_get(dump, "tensors"), index, tensor)
    {
        char name[96];
        const char *own = json_string_value(json_array_get(tensor, 0));
        if (strncmp(own, "layer.", 6) != 0)
            continue;
        snprintf(name, sizeof name, "model.%s", own);
        assert_int_equal(json_array_set_new(tensor, 0, json_string(name)), 0);
        n++;
    }
    assert_true(n > 0);
    rvit_checkpoint *checkpoint = NULL;
    expect_ok(rvit_checkpoint_open(checkpoint_of(dump), NULL, &checkpoint));
    assert_true(run(dump, checkpoint, RVIT_F32) <= tolerance);
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
}

SUITE(dumps_suite, TEST(dumps), TEST(choices), TEST(activations), TEST(gate_halves), TEST(pruned_heads), TEST(masked_heads),
      TEST(rotations), TEST(names_in_memory));

int main(int argc, char **argv)
{
    data = harness_first_option(&argc, &argv, "--data", RVIT_DUMPS);
    folder = harness_first_option(&argc, &argv, "--dumps", data);
    const suite *const suites[] = {&dumps_suite};
    return harness_main(argc, argv, 0, suites, 1);
}
