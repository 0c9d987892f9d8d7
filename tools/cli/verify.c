/* raggedvit verify: compares two devices on the same images. */
#include <stdlib.h>
#include <string.h>

#include <raggedvit/experimental.h>

#include "command_list.h"
#include "feature_file.h"
#include "noise.h"
#include "progress.h"
#include "verify_parts.h"
#include "session_results.h"

#define NOISE_IMAGES 8
#define DEFAULT_BATCH 32

static int32_t fill_batch(struct verify *self)
{
    const rvit_model_info *info = &self->a.model_info;
    const size_t image_length = (size_t)engine_image_length(&self->a);
    for (int32_t n = 0; n < self->batch; n++) {
        float *out = self->images + (size_t)n * image_length;
        struct input input = {.position = self->n_noise_done};
        if (self->inputs.files.n) {
            const enum input_result result = inputs_next(&self->inputs, true, out, &input);
            if (result != INPUT_READY)
                return result == INPUT_LOST ? -1 : n;
        } else if (self->n_noise_done == self->n_noise) {
            return n;
        } else if (!noise_image(self->n_noise_done++, info->channels, info->image_width, info->image_height, out)) {
            complain(NULL, "out of memory");
            return -1;
        }
        self->positions[n] = input.position;
    }
    return self->batch;
}

/* Session outputs to compare: for a model without a head, features instead of logits. */
static int32_t outputs(const struct verify *self)
{
    return self->figures.has_classes ? 0 : RVIT_OUTPUT_FEATURES;
}

/* Whether --prune mask can reproduce the policy, because it drops tokens after a block. */
static bool can_mask(const struct verify *self)
{
    const bool before = strcmp(self->prune.policy.site, "before the block") == 0;
    return self->figures.knows_rule && !self->fused && !(before && self->prune.desc.blocks[0] == 0);
}

/* Runs B again with the tokens that A kept. */
static int run_masked(struct verify *self, int32_t n_images)
{
    if (!self->masked_b) {
        rvit_prune_desc prune = RVIT_PRUNE_DESC_INIT;
        prune.type = RVIT_PRUNE_MASK;
        prune.n_blocks = self->prune.desc.n_blocks;
        for (int32_t i = 0; i < prune.n_blocks; i++)
            prune.blocks[i] = self->prune.desc.blocks[i] - (strcmp(self->prune.policy.site, "before the block") == 0);
        const int code = engine_session(&self->b, &prune, self->batch, true, outputs(self), &self->masked_b);
        if (code != EXIT_OK)
            return code;
    }
    session_masks(self->run_a, n_images, self->tokens, self->masks);
    return session_run(self->masked_b, &self->b, self->images, self->masks, n_images);
}

/* The number of rows of a stage in which two selections from the same scores differ. */
static int64_t count_different(const struct selection *a, const struct selection *b, const int32_t *layout, int32_t n_images)
{
    int64_t count = 0;
    for (int64_t i = 0; i < layout[n_images]; i++)
        count += !a->keep[i] != !b->keep[i];
    for (int32_t i = 0; i <= n_images && count == 0; i++)
        count += a->cu_seqlens[i] != b->cu_seqlens[i];
    for (int64_t i = 0; count == 0 && i < b->cu_seqlens[n_images]; i++)
        count += a->src_rows[i] != b->src_rows[i];
    return count;
}

/* Runs select on both devices with B's scores, and compares the results with each other and with what B's session kept. */
static int compare_selections(struct verify *self, int32_t n_images)
{
    for (int32_t s = 0; s < self->figures.n_stages; s++) {
        rvit_result_view scores = RVIT_RESULT_VIEW_INIT;
        struct selection a, b;
        const rvit_status status = rvit_session_get(self->run_b, RVIT_TRACE_SCORES, s, &scores);
        if (status != RVIT_OK)
            return complain_status(self->b.name, status);
        const int32_t *layout = session_cu_seqlens(self->run_b, s - 1);
        int code = selector_run(&self->select_a, self->run_a, s, scores.data, layout, n_images, &a);
        if (code == EXIT_OK)
            code = selector_run(&self->select_b, self->run_b, s, scores.data, layout, n_images, &b);
        if (code != EXIT_OK)
            return code;
        self->figures.stages[s].given_differ += count_different(&a, &b, layout, n_images);
        self->figures.stages[s].replay_differ += session_count_unlike(self->run_b, s, n_images, &b, layout, self->fused);
    }
    return EXIT_OK;
}

/* The values of the last run to compare: [n_images, n_values]. scratch has room for them. */
static const float *values_of(const struct verify *self, const rvit_session *session, int32_t n_images, float *scratch)
{
    const int32_t n = self->figures.n_values;
    if (self->figures.has_classes)
        return session_floats(session, RVIT_RESULT_LOGITS);
    for (int32_t i = 0; i < n_images; i++)
        memcpy(scratch + (int64_t)i * n, feature_cls(session, i, n), (size_t)n * sizeof *scratch);
    return scratch;
}

static int compare_batch(struct verify *self, int32_t n)
{
    struct figures *figures = &self->figures;
    const rvit_session *reference = self->run_b;
    if (self->mask.keep)
        mask_fill(&self->mask, self->positions, n, self->a.model_info.n_prefix, self->given);
    const uint8_t *given = self->mask.keep ? self->given : NULL;
    int code = session_run(self->run_a, &self->a, self->images, given, n);
    if (code == EXIT_OK)
        code = session_run(self->run_b, &self->b, self->images, given, n);
    if (code != EXIT_OK)
        return code;
    const int32_t n_different = figures_add_kept(figures, self->run_a, self->run_b, n, self->differs);
    if (figures->knows_rule)
        code = compare_selections(self, n);
    const float *a = values_of(self, self->run_a, n, self->values[0]), *b = values_of(self, self->run_b, n, self->values[1]);
    for (int32_t i = 0; self->expected && i < n; i++)
        self->right[i] = self->expected[self->positions[i]];
    figures_add_own(figures, a, b, n, self->expected ? self->right : NULL);
    figures->n_sets_differ += n_different;
    if (code == EXIT_OK)
        code = decisions_judge(self, n, n_different > 0);
    const bool leave_out = n_different > 0 && !self->can_mask;
    if (n_different > 0 && self->can_mask && code == EXIT_OK) {
        code = run_masked(self, n);
        reference = self->masked_b;
        figures->n_remasked += n_different;
    }
    if (code != EXIT_OK)
        return code;
    figures_add_logits(figures, a, values_of(self, reference, n, self->values[1]), n, leave_out ? self->differs : NULL);
    if (leave_out)
        return EXIT_OK; /* the rows of the blocks differ */
    const rvit_status status = figures_add_blocks(figures, self->run_a, reference, self->a.model_info.dim);
    return status == RVIT_OK ? EXIT_OK : complain_status(NULL, status);
}

static int open_engines(struct verify *self, const rvit_checkpoint *checkpoint)
{
    const struct options *options = self->options;
    int code = engine_open(options, options->backend, options->device, options->tier, false, options->dtype, false, checkpoint, &self->a);
    if (code == EXIT_OK)
        code = engine_open(options, options->against, options->against_device, RVIT_TIER_AUTO, options->against_oracle,
                           options->against_dtype, false, checkpoint, &self->b);
    if (code == EXIT_OK && !options->against_given && verify_is_same_device(self)) {
        engine_close(&self->b);
        code = engine_open(options, RVIT_BACKEND_CPU, -1, RVIT_TIER_AUTO, true, options->against_dtype, false, checkpoint, &self->b);
    }
    return code;
}

static int read_expected(struct verify *self, const rvit_checkpoint *checkpoint)
{
    const struct options *options = self->options;
    struct labels labels;
    if (!self->figures.has_classes)
        return fail_with(EXIT_FILE, options->model, "the model has no head, which --expect needs");
    int code = labels_load(options->labels, checkpoint, NULL, self->a.model_info.n_classes, &labels);
    if (code == EXIT_OK)
        code = labels_read_expected(&labels, options->expect, self->inputs.n_given, &self->expected);
    labels_free(&labels);
    return code;
}

int verify_open(struct verify *self, const rvit_checkpoint *checkpoint)
{
    const struct options *options = self->options;
    int code = EXIT_OK;
    if (options->n_paths)
        code = recipe_resolve(&options->recipe, options->given, checkpoint, options->model, &self->recipe);
    if (code == EXIT_OK && options->n_paths)
        code = inputs_open(options->paths, options->n_paths, &self->recipe, NULL, options->tiles, options->limit, &self->inputs);
    if (code == EXIT_OK)
        code = engine_decoder(&self->a, options);
    self->inputs.nvjpeg = self->a.nvjpeg;
    if (code != EXIT_OK)
        return code;
    const rvit_model_info *info = &self->a.model_info;
    self->n_noise = options->limit ? options->limit : NOISE_IMAGES;
    const int64_t total = options->n_paths ? self->inputs.total : self->n_noise;
    self->batch = options->batch ? options->batch : DEFAULT_BATCH;
    if (self->batch > total)
        self->batch = total > 0 ? (int32_t)total : 1;
    self->tokens = info->tokens;
    struct figures *figures = &self->figures;
    figures->has_classes = info->n_classes > 0;
    figures->n_values = figures->has_classes ? info->n_classes : info->dim;
    if (!options->batch) {
        rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
        desc.max_images = self->batch, desc.prune = &self->prune.desc, desc.trace = 1, desc.outputs = outputs(self);
        engine_fit(&self->a, 1, &desc);
        engine_fit(&self->b, 1, &desc);
        self->batch = desc.max_images;
    }
    code = mask_open(&self->prune, info, total, options->n_paths ? self->inputs.n_given : total, &self->mask);
    if (code == EXIT_OK && options->expect)
        code = read_expected(self, checkpoint);
    if (code == EXIT_OK && options->n_paths)
        code = inputs_start(&self->inputs, options->threads, false, self->batch, false);
    if (code == EXIT_OK)
        code = engine_session(&self->a, &self->prune.desc, self->batch, true, outputs(self), &self->run_a);
    if (code == EXIT_OK)
        code = engine_session(&self->b, &self->prune.desc, self->batch, true, outputs(self), &self->run_b);
    if (code != EXIT_OK)
        return code;
    const rvit_select_args *select = session_select(self->run_a, 0);
    static const struct by_dtype tolerances = {
        .equal = {1e-4, 4e-3, 3.2e-2, 2e-1, 5e-1},
        .mixed = {[RVIT_PRECISION_F16] = 2e-2, [RVIT_PRECISION_BF16] = 1.6e-1, [RVIT_PRECISION_INT8] = 3e-1, [RVIT_PRECISION_FP8] = 6e-1}};
    figures->tolerance = verify_by_dtype(self, &tolerances);
    figures->n_stages = session_n_stages(self->run_a);
    figures->knows_rule = figures->n_stages > 0 && selector_knows(self->run_a);
    self->fused = select && select->fuse_dim > 0;
    self->can_mask = can_mask(self);
    figures->n_blocks = info->depth;
    figures->blocks = allocate((size_t)info->depth, sizeof *figures->blocks);
    const size_t batch = (size_t)self->batch, masks = (size_t)figures->n_stages * batch * (size_t)self->tokens;
    self->images = allocate(batch * (size_t)engine_image_length(&self->a), sizeof *self->images);
    self->positions = allocate(batch, sizeof *self->positions);
    self->right = allocate(batch, sizeof *self->right);
    self->differs = allocate(batch, sizeof *self->differs);
    self->masks = allocate(masks, 1);
    self->given = allocate(masks, 1);
    if (!figures->blocks || !self->images || !self->positions || !self->right || !self->differs || !self->masks || !self->given)
        return EXIT_FAULT;
    for (int i = 0; i < 2; i++) {
        figures->kept[i] = allocate((size_t)self->tokens, sizeof *figures->kept[i]);
        self->values[i] = allocate(figures->has_classes ? 0 : batch * (size_t)figures->n_values, sizeof *self->values[i]);
        if (!figures->kept[i] || !self->values[i])
            return EXIT_FAULT;
    }
    for (int32_t block = 0; block < figures->n_blocks; block++)
        figures->blocks[block] = -1;
    if (figures->knows_rule)
        code = selector_open(&self->a, self->batch, &self->select_a);
    if (code == EXIT_OK && figures->knows_rule)
        code = selector_open(&self->b, self->batch, &self->select_b);
    return code == EXIT_OK ? decisions_open(self) : code;
}

int verify_run(struct verify *self)
{
    const int64_t total = self->options->n_paths ? self->inputs.total : self->n_noise;
    progress_begin(total, "images");
    int code = EXIT_OK;
    while (code == EXIT_OK) {
        const int32_t n = fill_batch(self);
        if (n <= 0)
            return n < 0 ? EXIT_FAULT : EXIT_OK;
        code = compare_batch(self, n);
        progress_update(self->figures.n_images);
    }
    return code;
}

static int judge(const struct verify *self)
{
    if (self->figures.n_images == 0)
        return EXIT_FILE;
    return verify_within_tolerance(&self->figures) && self->inputs.n_failures == 0 ? EXIT_OK : EXIT_PARTLY;
}

void verify_close(struct verify *self)
{
    rvit_session_destroy(self->run_a);
    rvit_session_destroy(self->run_b);
    rvit_session_destroy(self->masked_b);
    decisions_close(self);
    selector_close(&self->select_a);
    selector_close(&self->select_b);
    inputs_close(&self->inputs);
    mask_free(&self->mask);
    free(self->images);
    free(self->positions);
    free(self->expected);
    free(self->right);
    free(self->differs);
    free(self->masks);
    free(self->given);
    for (int i = 0; i < 2; i++) {
        free(self->figures.kept[i]);
        free(self->values[i]);
    }
    free(self->figures.blocks);
}

int run_verify(const struct options *options)
{
    struct verify self = {.options = options, .prune = options->prune};
    rvit_checkpoint *checkpoint;
    if (options->reference)
        return verify_reference(options);
    int code = engine_checkpoint(options, &checkpoint);
    if (code != EXIT_OK)
        return code;
    code = open_engines(&self, checkpoint);
    if (code == EXIT_OK)
        code = verify_open(&self, checkpoint);
    rvit_checkpoint_destroy(checkpoint);
    if (code == EXIT_OK) {
        if (!options->json)
            verify_print_prologue(&self);
        code = verify_run(&self);
        progress_end();
        if (code == EXIT_OK) {
            if (options->json)
                verify_print_json(&self);
            else
                verify_print_text(&self);
            code = judge(&self);
        }
    }
    verify_close(&self);
    engine_close(&self.a);
    engine_close(&self.b);
    return code;
}
