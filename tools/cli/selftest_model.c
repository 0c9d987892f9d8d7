/* The checks of selftest on whole forwards of a small random model, dense and with every policy. */
#include <stdlib.h>
#include <string.h>

#include "noise.h"
#include "selftest_parts.h"
#include "session_results.h"
#include "verify_parts.h"

enum { N_IMAGES = 4 };
static const int32_t reordered[N_IMAGES] = {2, 0, 3, 1};

/* The next policy that the model supports, with its defaults; starts at *index = 0. Returns false after the last. */
static bool next_policy(const struct selftest *self, int *index, struct prune *out)
{
    for (; prune_name(*index); ++*index) {
        prune_init(out, RVIT_PRUNE_NONE);
        out->index = *index;
        prune_resolve_policy(out, 0);
        const rvit_prune_type type = out->desc.type;
        /* mask has a check of its own; the others need attention pooling and images of any size */
        if (type == RVIT_PRUNE_NONE || type == RVIT_PRUNE_MASK || type == RVIT_PRUNE_MAP_PROBE || type == RVIT_PRUNE_PIXELPRUNE)
            continue;
        if (type == RVIT_PRUNE_L2_THRESHOLD) /* near the median of the model's norms after block 3 */
            out->desc.threshold = 30;
        prune_resolve(out, &self->engine.model_info);
        ++*index;
        return true;
    }
    return false;
}

static bool as_cpu(struct selftest *self, const struct prune *prune)
{
    const bool is_reference = self->engine.device_info.backend == RVIT_BACKEND_CPU && self->engine.choice.precision == RVIT_PRECISION_F32;
    struct verify run = {.options = &self->options, .prune = *prune, .a = self->engine, .b = is_reference ? self->oracle : self->reference};
    char what[256];
    int code = verify_open(&run, self->small);
    if (code == EXIT_OK)
        code = verify_run(&run);
    bool passed = code == EXIT_OK ? verify_within_tolerance(&run.figures) : check_complained(self, prune->policy.name);
    if (code == EXIT_OK && !passed) {
        verify_explain(&run.figures, what, sizeof what);
        passed = check_fails(self, "%s: %s", prune->policy.name, what);
    }
    verify_close(&run);
    return passed;
}

static bool dense_as_cpu(struct selftest *self)
{
    struct prune none;
    prune_init(&none, RVIT_PRUNE_NONE);
    return as_cpu(self, &none);
}

static bool policies_as_cpu(struct selftest *self)
{
    struct prune prune;
    bool passed = true;
    for (int index = 0; next_policy(self, &index, &prune) && !self->lost;)
        passed &= as_cpu(self, &prune);
    return passed;
}

/* A session and its images. */
struct forward {
    rvit_session *session;
    float *images, *logits; /* [N_IMAGES]; logits of the last run */
    size_t image_length, n_classes;
};

static void forward_close(struct forward *self)
{
    rvit_session_destroy(self->session);
    free(self->images);
    free(self->logits);
}

/* Close out also after a failure. Prints a message on failure; returns an exit code. */
static int forward_open(struct selftest *self, const rvit_prune_desc *prune, bool fixed_batch, struct forward *out)
{
    const rvit_model_info *info = &self->engine.model_info;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    *out = (struct forward){.image_length = (size_t)engine_image_length(&self->engine), .n_classes = (size_t)info->n_classes};
    out->images = allocate(N_IMAGES * out->image_length, sizeof *out->images);
    out->logits = allocate(N_IMAGES * out->n_classes, sizeof *out->logits);
    if (!out->images || !out->logits)
        return EXIT_FAULT;
    for (int32_t i = 0; i < N_IMAGES; i++)
        if (!noise_image(i, info->channels, info->image_width, info->image_height, out->images + (size_t)i * out->image_length))
            return fail_with(EXIT_FAULT, NULL, "out of memory");
    desc.max_images = N_IMAGES;
    desc.prune = prune;
    desc.fixed_batch = fixed_batch;
    return engine_session_of(&self->engine, &desc, &out->session);
}

static rvit_status forward_run(struct forward *self, const float *images, int32_t n, const uint8_t *masks)
{
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = n;
    run.input.data = images;
    run.keep = masks;
    return rvit_session_run(self->session, &run, self->logits);
}

/* The tokens after each stage with the defaults of the policy and 1 + 49 tokens, by the rules of prune.h; l2 may keep the CLS token in
   addition. */
static const struct {
    rvit_prune_type type;
    int32_t least[3], spread;
} counts[] = {{RVIT_PRUNE_L2, {25}, 1},
              {RVIT_PRUNE_EVIT, {1 + 35, 1 + 25, 1 + 18}, 0},
              {RVIT_PRUNE_EVIT_FUSED, {1 + 35 + 1, 1 + 26 + 1, 1 + 19 + 1}, 0},
              {RVIT_PRUNE_EVIT_PAPER, {1 + 24}, 0},
              {RVIT_PRUNE_DYNAMICVIT, {1 + 34, 1 + 24, 1 + 16}, 0},
              {RVIT_PRUNE_TOME, {50 - 8, 50 - 16, 50 - 24}, 0},
              {RVIT_PRUNE_RANDOM, {1 + 24}, 0},
              {RVIT_PRUNE_RECEIVED, {1 + 24}, 0},
              {RVIT_PRUNE_FASTERVLM, {1 + 24}, 0},
              {RVIT_PRUNE_HIPRUNE, {1 + 24}, 0}};

static bool check_counts(struct selftest *self, const struct forward *forward, const struct prune *prune)
{
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int32_t s = 0; counts[c].type == prune->desc.type && s < 3 && counts[c].least[s] > 0; s++)
            for (int32_t i = 0; i < N_IMAGES; i++) {
                const int32_t *cu_seqlens = session_cu_seqlens(forward->session, s), least = counts[c].least[s];
                const int32_t n = cu_seqlens[i + 1] - cu_seqlens[i];
                if (n < least || n > least + counts[c].spread)
                    return check_fails(self, "%s keeps %d tokens of an image after stage %d, expected %d", prune->policy.name, n, s, least);
            }
    return true;
}

/* Whether the rows that stay are exactly those of a mask. */
static bool mask_decides(struct selftest *self)
{
    struct forward forward;
    struct prune prune;
    prune_init(&prune, RVIT_PRUNE_MASK);
    prune_resolve(&prune, &self->engine.model_info);
    const int32_t tokens = self->engine.model_info.tokens;
    uint8_t *mask = allocate((size_t)(2 * N_IMAGES * tokens), 1), *kept = mask ? mask + N_IMAGES * tokens : NULL;
    const int code = forward_open(self, &prune.desc, false, &forward);
    bool passed = code == EXIT_OK && mask ? true : check_complained(self, "mask");
    for (int32_t at = 0; at < N_IMAGES * tokens && passed; at++)
        mask[at] = at % tokens == 0 || (at * 7 + at / tokens) % 5 < 2;
    rvit_status status = passed ? forward_run(&forward, forward.images, N_IMAGES, mask) : RVIT_OK;
    for (int32_t i = 0; i < N_IMAGES && passed && status == RVIT_OK; i++)
        status = rvit_session_keep_mask(forward.session, 0, i, kept + i * tokens);
    if (status != RVIT_OK)
        passed = check_status_fails(self, "mask", status);
    if (passed && memcmp(mask, kept, (size_t)(N_IMAGES * tokens)) != 0)
        passed = check_fails(self, "mask: other tokens stay than those of the mask");
    forward_close(&forward);
    free(mask);
    return passed;
}

static bool counts_of_policies(struct selftest *self)
{
    struct prune prune;
    bool passed = mask_decides(self);
    for (int index = 0; next_policy(self, &index, &prune) && !self->lost;) {
        struct forward forward;
        const int code = forward_open(self, &prune.desc, false, &forward);
        const rvit_status status = code == EXIT_OK ? forward_run(&forward, forward.images, N_IMAGES, NULL) : RVIT_OK;
        passed &= code != EXIT_OK     ? check_complained(self, prune.policy.name)
                  : status != RVIT_OK ? check_status_fails(self, prune.policy.name, status)
                                      : check_counts(self, &forward, &prune);
        forward_close(&forward);
    }
    return passed;
}

/* Whether each image keeps its bits: in a second run, in another order, and alone. */
static bool keeps_bits(struct selftest *self, const struct prune *prune)
{
    struct forward forward;
    const int code = forward_open(self, &prune->desc, false, &forward);
    const size_t n = forward.n_classes, length = forward.image_length;
    float *logits = allocate(N_IMAGES * n, sizeof *logits), *permuted = allocate(N_IMAGES * length, sizeof *permuted);
    bool passed = code == EXIT_OK && logits && permuted ? true : check_complained(self, prune->policy.name);
    rvit_status status = passed ? forward_run(&forward, forward.images, N_IMAGES, NULL) : RVIT_OK;
    if (passed && status == RVIT_OK) {
        memcpy(logits, forward.logits, N_IMAGES * n * sizeof *logits);
        status = forward_run(&forward, forward.images, N_IMAGES, NULL);
        if (status == RVIT_OK && memcmp(logits, forward.logits, N_IMAGES * n * sizeof *logits) != 0)
            passed = check_fails(self, "%s: a second run has other bits", prune->policy.name);
    }
    for (int32_t i = 0; i < N_IMAGES && passed; i++)
        memcpy(permuted + (size_t)i * length, forward.images + (size_t)reordered[i] * length, length * sizeof *permuted);
    if (passed && status == RVIT_OK)
        status = forward_run(&forward, permuted, N_IMAGES, NULL);
    for (int32_t i = 0; i < N_IMAGES && passed && status == RVIT_OK; i++)
        if (memcmp(forward.logits + (size_t)i * n, logits + (size_t)reordered[i] * n, n * sizeof *logits) != 0)
            passed = check_fails(self, "%s: an image has other bits in another place of the batch", prune->policy.name);
    for (int32_t i = 0; i < N_IMAGES && passed && status == RVIT_OK; i++) {
        status = forward_run(&forward, forward.images + (size_t)i * length, 1, NULL);
        if (status == RVIT_OK && memcmp(forward.logits, logits + (size_t)i * n, n * sizeof *logits) != 0)
            passed = check_fails(self, "%s: an image has other bits alone than in a batch", prune->policy.name);
    }
    if (status != RVIT_OK)
        passed = check_status_fails(self, prune->policy.name, status);
    forward_close(&forward);
    free(logits);
    free(permuted);
    return passed;
}

static bool batches_do_not_matter(struct selftest *self)
{
    struct prune prune;
    prune_init(&prune, RVIT_PRUNE_NONE);
    bool passed = keeps_bits(self, &prune);
    for (int index = 0; next_policy(self, &index, &prune) && !self->lost;)
        passed &= keeps_bits(self, &prune);
    return passed;
}

/* Whether pruning that keeps everything gives the bits of no pruning, which fixed_batch promises. */
static bool keeping_all_is_dense(struct selftest *self)
{
    struct prune prune;
    struct forward dense;
    prune_init(&prune, RVIT_PRUNE_NONE);
    int code = forward_open(self, &prune.desc, true, &dense);
    rvit_status status = code == EXIT_OK ? forward_run(&dense, dense.images, N_IMAGES, NULL) : RVIT_OK;
    bool passed =
        code != EXIT_OK ? check_complained(self, "none") : status == RVIT_OK || check_status_fails(self, prune.policy.name, status);
    for (int index = 0; passed && next_policy(self, &index, &prune) && !self->lost;) {
        struct forward forward;
        if (!(prune.policy.parameters & RVIT_PRUNE_KEEP))
            continue;
        prune.desc.keep = 1;
        code = forward_open(self, &prune.desc, true, &forward);
        status = code == EXIT_OK ? forward_run(&forward, dense.images, N_IMAGES, NULL) : RVIT_OK;
        if (code != EXIT_OK)
            passed = check_complained(self, prune.policy.name);
        else if (status != RVIT_OK)
            passed = check_status_fails(self, prune.policy.name, status);
        else if (memcmp(forward.logits, dense.logits, N_IMAGES * dense.n_classes * sizeof *dense.logits) != 0)
            passed = check_fails(self, "%s: keep 1 has other bits than no pruning", prune.policy.name);
        forward_close(&forward);
    }
    forward_close(&dense);
    return passed;
}

const struct check selftest_model_checks[SELFTEST_MODEL_CHECKS] = {
    {"dense forward: as on the CPU", dense_as_cpu},
    {"forward of each policy: logits and kept tokens as on the CPU", policies_as_cpu},
    {"kept tokens: as many as the policy says, those of a mask", counts_of_policies},
    {"forward of each policy: same bits again, alone, reordered", batches_do_not_matter},
    {"keeping all tokens: the bits of the dense forward", keeping_all_is_dense}};
