/* Compares heads with mean or attention pooling, after pruning, with a plain float64 computation. */
#include "dumps.h"

#include <math.h>
#include "tools/cli/session_results.h"

/* out = weight x + bias, with rows of the tensors name.weight and name.bias. */
static void apply(const json_t *dump, const char *name, int64_t first_row, int64_t rows, int64_t columns, const double *x, double *out)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    const double *weight = dump_tensor(dump, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const double *bias = dump_tensor(dump, full);
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
    const double *gamma = dump_tensor(dump, full);
    snprintf(full, sizeof full, "%s.bias", name);
    const double *beta = dump_tensor(dump, full);
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < dim; i++)
        mean += x[i] / (double)dim;
    for (int64_t i = 0; i < dim; i++)
        variance += (x[i] - mean) * (x[i] - mean) / (double)dim;
    for (int64_t i = 0; i < dim; i++)
        out[i] = (x[i] - mean) / sqrt(variance + eps) * gamma[i] + beta[i];
}

/* The rows of an image after pruning and the final norm, and the number of tokens merged into each (NULL: one). */
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

/* timm's AttentionPoolLatent, computed directly. */
static void plain_map(const json_t *dump, const left_rows *r, double *out)
{
    const int32_t dim = r->dim, head_dim = dim / r->n_heads;
    double *query = scratch((size_t)dim * sizeof *query), *kv = scratch(2 * (size_t)dim * (size_t)r->n * sizeof *kv);
    double *p = scratch((size_t)r->n * sizeof *p), *mixed = scratch((size_t)dim * sizeof *mixed), *x = scratch((size_t)dim * sizeof *x);
    apply(dump, "attn_pool.q", 0, dim, dim, dump_tensor(dump, "attn_pool.latent"), query);
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

/* The output of the head for the remaining rows. */
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

/* Checks each image's logits against the plain head. */
static void expect_plain(const json_t *dump, const rvit_model_info *info, const rvit_session *session)
{
    const int32_t last = session_n_stages(session) - 1, *cu = session_cu_seqlens(session, last);
    for (int32_t n = 0; n < 2; n++) {
        const left_rows rows = {.features = session_floats(session, RVIT_RESULT_FEATURES) + (int64_t)cu[n] * info->dim,
                                .sizes = session_sizes(session, last, n),
                                .n = cu[n + 1] - cu[n],
                                .n_prefix = info->n_prefix,
                                .dim = info->dim,
                                .n_heads = info->n_heads,
                                .eps = (double)info->eps};
        assert_in_range(rows.n, info->n_prefix + 1, info->tokens - 1);
        const double *wanted = plain_head(dump, info, &rows);
        for (int32_t c = 0; c < info->n_classes; c++) {
            const double got = (double)session_floats(session, RVIT_RESULT_LOGITS)[n * info->n_classes + c];
            if (!(fabs(got - wanted[c]) <= DUMP_TOLERANCE))
                fail_msg("%s, image %d: value %d is %g, should be %g", dump_text(dump, "name"), (int)n, (int)c, got, wanted[c]);
        }
    }
}

/* Prunes in both blocks. */
static void check_policy(const json_t *dump, rvit_model *model, rvit_prune_type type)
{
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_model_get_info(model, &info));
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = 3;
    desc.outputs = RVIT_OUTPUT_FEATURES;
    prune_in(&desc)->type = type;
    prune_in(&desc)->n_blocks = 2;
    prune_in(&desc)->blocks[1] = 1;
    if (type == RVIT_PRUNE_TOME)
        prune_in(&desc)->merges = 3;
    rvit_session *session = NULL;
    if (info.n_prefix == info.n_registers && (type == RVIT_PRUNE_EVIT || type == RVIT_PRUNE_ATS)) {
        expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, "the CLS token, but the model has none");
        return;
    }
    expect_ok(rvit_session_create(model, &desc, &session));
    dump_images(&info, 2, rvit_session_input_memory(session, NULL));
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    expect_ok(rvit_session_run(session, &args, NULL));
    assert_true((session_sizes(session, 1, 0) != NULL) == (type == RVIT_PRUNE_TOME));
    expect_plain(dump, &info, session);
    rvit_session_destroy(session);
}

/* Merged rows have the weight of all their tokens. */
static void pruned_heads(void **state)
{
    (void)state;
    static const char *const files[] = {"timm_mean", "timm_mean_fc_norm",  "timm_mean_no_norm",   "timm_gap",
                                        "timm_map",  "timm_gap_registers", "hf_dinov2_classifier"};
    static const rvit_prune_type policies[] = {RVIT_PRUNE_L2, RVIT_PRUNE_RANDOM, RVIT_PRUNE_EVIT, RVIT_PRUNE_ATS, RVIT_PRUNE_TOME};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        json_t *dump = dump_load(dump_file, files[i]);
        rvit_checkpoint *checkpoint = NULL;
        rvit_model *model = NULL;
        expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), NULL, &checkpoint));
        expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
        for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
            check_policy(dump, model, policies[p]);
        rvit_model_destroy(model);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

/* In a model without prefix tokens, a mask must keep a patch. */
static void masked_heads(void **state)
{
    (void)state;
    json_t *dump = dump_load(dump_file, "timm_gap");
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), NULL, &checkpoint));
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_model_get_info(model, &info));
    assert_int_equal(info.n_prefix, 0);
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = 2;
    desc.outputs = RVIT_OUTPUT_FEATURES | RVIT_OUTPUT_CLS_ATTENTION;
    prune_in(&desc)->type = RVIT_PRUNE_MASK;
    prune_in(&desc)->n_blocks = 2;
    prune_in(&desc)->blocks[1] = 1;
    rvit_session *session = NULL;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, "the CLS token, but the model has none");
    desc.outputs = RVIT_OUTPUT_FEATURES;
    expect_ok(rvit_session_create(model, &desc, &session));
    dump_images(&info, 2, rvit_session_input_memory(session, NULL));
    uint8_t keep[2][2][16] = {{{0}}};
    assert_int_equal(info.tokens, 16);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    args.keep = keep[0][0];
    for (int t = 3; t < 9; t++)
        keep[0][0][t] = keep[1][0][t] = keep[0][1][t] = 1;
    keep[1][1][2] = 1; /* the first stage dropped this token */
    expect_status(rvit_session_run(session, &args, NULL), RVIT_INVALID_ARGUMENT, "keep leaves no token of image 1");
    keep[1][1][5] = 1;
    expect_ok(rvit_session_run(session, &args, NULL));
    assert_int_equal(session_cu_seqlens(session, 1)[2], 7);
    expect_plain(dump, &info, session);
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
}

SUITE(dump_heads_suite, TEST(pruned_heads), TEST(masked_heads));
