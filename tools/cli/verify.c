/* raggedvit verify. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "json.h"
#include "noise.h"
#include "progress.h"
#include "verify_compare.h"
#include "verify_select.h"

#define NOISE_IMAGES 8
#define DEFAULT_BATCH 32

struct verify {
    const struct options *options;
    struct engine a, b;
    rvit_session *run_a, *run_b, *masked_b; /* masked_b: B with the tokens that A kept; made when it is first needed */
    struct selector select_a, select_b;
    struct inputs inputs; /* no paths: noise */
    int64_t n_noise, n_noise_done;
    int32_t batch, tokens;
    float *images;
    uint8_t *masks, *keep; /* [n_stages, batch, tokens], [batch * tokens] */
    int32_t *layout;       /* [batch + 1] */
    struct figures figures;
};

/* By storage: both f32, both f16, one of each. */
static double by_dtype(const struct verify *self, double f32, double f16, double mixed)
{
    return self->a.dtype != self->b.dtype ? mixed : self->a.dtype == RVIT_F32 ? f32 : f16;
}

/* Above this a block counts as diverged, relative to its largest value: some ten times what sound devices differ by. */
static double block_tolerance(const struct verify *self)
{
    return by_dtype(self, 1e-5, 2e-3, 1e-2);
}

static int32_t fill_batch(struct verify *self)
{
    const rvit_model_info *info = &self->a.model_info;
    const size_t image_length = (size_t)info->channels * (size_t)info->image_size * (size_t)info->image_size;
    for (int32_t n = 0; n < self->batch; n++) {
        float *out = self->images + (size_t)n * image_length;
        struct input input;
        if (self->inputs.n_paths) {
            const int found = inputs_next_prepared(&self->inputs, info->image_size, out, &input, NULL);
            if (found <= 0)
                return found < 0 ? -1 : n;
        } else if (self->n_noise_done == self->n_noise) {
            return n;
        } else if (!noise_image(self->n_noise_done++, info->channels, info->image_size, out)) {
            complain(NULL, "out of memory");
            return -1;
        }
    }
    return self->batch;
}

static int run_session(rvit_session *session, const struct engine *engine, const float *images, const uint8_t *masks, int32_t n_images)
{
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = n_images;
    run.images = images;
    run.keep = masks;
    const rvit_status status = rvit_session_run(session, &run, NULL);
    if (status == RVIT_OK)
        return EXIT_OK;
    const int code = complain_status(engine->name, status);
    return status == RVIT_INVALID_ARGUMENT ? EXIT_PARTLY : code;
}

/* B again, with the tokens A kept. */
static int run_masked(struct verify *self, int32_t n_images)
{
    if (!self->masked_b) {
        rvit_prune_desc prune = RVIT_PRUNE_DESC_INIT;
        prune.type = RVIT_PRUNE_MASK;
        prune.n_blocks = options_blocks(self->options, prune.blocks);
        const int code = engine_session(&self->b, &prune, self->batch, true, &self->masked_b);
        if (code != EXIT_OK)
            return code;
    }
    session_masks(self->run_a, n_images, self->tokens, self->masks);
    return run_session(self->masked_b, &self->b, self->images, self->masks, n_images);
}

static int64_t count_different(const uint8_t *a, const uint8_t *b, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += !a[i] != !b[i];
    return count;
}

/* Gives B's scores to both devices' select, and compares the outcome with each other and with what B's session kept. */
static int compare_selections(struct verify *self, int32_t n_images)
{
    for (int32_t s = 0; s < self->figures.n_stages; s++) {
        const void *scores;
        rvit_dtype dtype;
        int64_t rows;
        const uint8_t *keep_a, *keep_b;
        const rvit_status status = rvit_session_trace(self->run_b, RVIT_TRACE_SCORES, s, &scores, &dtype, &rows);
        if (status != RVIT_OK)
            return complain_status(self->b.name, status);
        const int32_t *layout = session_layout_before(self->run_b, s, n_images, self->tokens, self->layout);
        int code = selector_run(&self->select_a, scores, layout, n_images, &keep_a);
        if (code == EXIT_OK)
            code = selector_run(&self->select_b, scores, layout, n_images, &keep_b);
        if (code != EXIT_OK)
            return code;
        session_keep_bytes(self->run_b, s, n_images, self->tokens, self->keep);
        self->figures.stages[s].given_differ += count_different(keep_a, keep_b, layout[n_images]);
        self->figures.stages[s].replay_differ += count_different(keep_b, self->keep, layout[n_images]);
    }
    return EXIT_OK;
}

static double largest_difference(const float *a, const float *b, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, isfinite(a[i]) && isfinite(b[i]) ? fabs((double)a[i] - b[i]) : INFINITY);
    return largest;
}

static int compare_batch(struct verify *self, int32_t n)
{
    struct figures *figures = &self->figures;
    const int32_t n_classes = self->a.model_info.n_classes;
    const rvit_session *reference = self->run_b;
    int code = run_session(self->run_a, &self->a, self->images, NULL, n);
    if (code == EXIT_OK)
        code = run_session(self->run_b, &self->b, self->images, NULL, n);
    if (code != EXIT_OK)
        return code;
    const int32_t n_different = figures_add_kept(figures, self->run_a, self->run_b, n);
    if (n_different > 0) {
        code = run_masked(self, n);
        if (code != EXIT_OK)
            return code;
        reference = self->masked_b;
        figures->n_remasked += n_different;
    }
    if (figures->knows_rule)
        code = compare_selections(self, n);
    if (code != EXIT_OK)
        return code;
    const float *logits = rvit_session_logits(self->run_a);
    figures_add_logits(figures, logits, rvit_session_logits(reference), n, n_classes);
    figures->largest_unmasked =
        fmax(figures->largest_unmasked, largest_difference(logits, rvit_session_logits(self->run_b), (int64_t)n * n_classes));
    const rvit_status status = figures_add_blocks(figures, self->run_a, reference, self->a.model_info.dim);
    return status == RVIT_OK ? EXIT_OK : complain_status(NULL, status);
}

static bool within_tolerance(const struct figures *figures)
{
    int64_t n_wrong = 0;
    for (int32_t s = 0; s < figures->n_stages; s++)
        n_wrong += figures->stages[s].given_differ + figures->stages[s].replay_differ;
    return figures->n_images > 0 && n_wrong == 0 && figures->largest <= figures->tolerance &&
           figures->n_decided_equal == figures->n_decided;
}

static int32_t first_diverging(const struct figures *figures, double tolerance)
{
    for (int32_t block = 0; block < figures->n_blocks; block++)
        if (figures->blocks[block] > tolerance)
            return block;
    return -1;
}

static void print_blocks(const struct figures *figures, double tolerance)
{
    const int32_t first = first_diverging(figures, tolerance);
    int32_t worst = -1;
    for (int32_t block = 0; block < figures->n_blocks; block++)
        if (figures->blocks[block] >= 0 && (worst < 0 || figures->blocks[block] > figures->blocks[worst]))
            worst = block;
    if (worst < 0)
        return;
    printf("blocks   largest relative difference %.2g, of block %d's output; ", figures->blocks[worst], worst);
    if (first < 0)
        printf("none above %g\n", tolerance);
    else
        printf("block %d is the first above %g (%.2g)\n", first, tolerance, figures->blocks[first]);
}

static void print_text(const struct verify *self)
{
    const struct figures *figures = &self->figures;
    const double tolerance = block_tolerance(self);
    int32_t blocks[RVIT_PRUNE_MAX_STAGES];
    options_blocks(self->options, blocks);
    if (figures->n_images == 0)
        return;
    printf("logits   largest difference %.3g, mean %.3g; tolerance %g\n", figures->largest, figures->sum / (double)figures->n_logits,
           figures->tolerance);
    if (figures->n_remasked)
        printf("         %lld image%s kept different tokens; B ran again with A's for this. Each with its own: %.3g\n",
               (long long)figures->n_remasked, figures->n_remasked > 1 ? "s" : "", figures->largest_unmasked);
    printf("top-1    equal for %lld of %lld; where B's margin is above %g: %lld of %lld\n", (long long)figures->n_equal,
           (long long)figures->n_images, 2 * figures->tolerance, (long long)figures->n_decided_equal, (long long)figures->n_decided);
    for (int32_t s = 0; s < figures->n_stages; s++) {
        const struct stage_figures *stage = &figures->stages[s];
        printf("tokens   block %d: %lld kept by A, %lld differ end to end", blocks[s], (long long)stage->kept, (long long)stage->differ);
        if (figures->knows_rule)
            printf(", %lld with the same scores given", (long long)stage->given_differ);
        if (stage->replay_differ)
            printf(", %lld between B's select and its session", (long long)stage->replay_differ);
        putchar('\n');
    }
    print_blocks(figures, tolerance);
    printf("result   %s\n", within_tolerance(figures) ? "within tolerance" : "BEYOND TOLERANCE");
}

static json_t *side_to_json(const struct engine *engine)
{
    return json_pack("{s:s, s:o, s:s, s:s, s:b}", "backend", rvit_backend_name(engine->device_info.backend), "device",
                     json_text(engine->device_info.name), "tier", tier_name(engine->device_info.tier), "dtype",
                     rvit_dtype_name(engine->dtype), "oracle", engine->is_oracle);
}

static void print_json(const struct verify *self)
{
    const struct figures *figures = &self->figures;
    int32_t blocks[RVIT_PRUNE_MAX_STAGES];
    options_blocks(self->options, blocks);
    json_t *stages = json_array(), *block_differences = json_array();
    for (int32_t s = 0; s < figures->n_stages; s++) {
        const struct stage_figures *stage = &figures->stages[s];
        json_array_append_new(stages,
                              json_pack("{s:i, s:I, s:I, s:o}", "block", blocks[s], "kept", (json_int_t)stage->kept, "differ",
                                        (json_int_t)stage->differ, "differ_same_scores",
                                        figures->knows_rule ? json_integer(stage->given_differ + stage->replay_differ) : json_null()));
    }
    for (int32_t block = 0; block < figures->n_blocks; block++)
        json_array_append_new(block_differences, figures->blocks[block] < 0 ? json_null() : json_number(figures->blocks[block]));
    const int32_t first = first_diverging(figures, block_tolerance(self));
    const double n_logits = figures->n_logits ? (double)figures->n_logits : 1;
    json_t *object =
        json_pack("{s:o, s:o, s:o, s:s, s:s, s:f, s:I, s:f, s:o, s:o, s:o}", "model", json_text(self->options->model), "a",
                  side_to_json(&self->a), "b", side_to_json(&self->b), "dtype", rvit_dtype_name(self->options->dtype), "prune",
                  self->options->prune_name, "keep", options_keep(self->options), "n_images", (json_int_t)figures->n_images, "tolerance",
                  figures->tolerance, "largest_difference", json_number(figures->largest), "mean_difference",
                  json_number(figures->sum / n_logits), "largest_difference_own_tokens", json_number(figures->largest_unmasked));
    json_t *rest = json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:b}", "top1_equal", (json_int_t)figures->n_equal, "top1_decided",
                             (json_int_t)figures->n_decided, "top1_decided_equal", (json_int_t)figures->n_decided_equal, "images_remasked",
                             (json_int_t)figures->n_remasked, "stages", stages, "blocks", block_differences, "first_diverging_block",
                             first < 0 ? json_null() : json_integer(first), "within_tolerance", within_tolerance(figures));
    json_object_update(object, rest);
    json_decref(rest);
    json_print(object);
    putchar('\n');
}

static bool is_same_device(const struct engine *a, const struct engine *b)
{
    return a->device_info.backend == b->device_info.backend && a->device_info.index == b->device_info.index && a->dtype == b->dtype &&
           a->device_info.tier == b->device_info.tier && !b->is_oracle;
}

static int open_engines(struct verify *self, const rvit_checkpoint *checkpoint)
{
    const struct options *options = self->options;
    int code = engine_open(options, options->backend, options->device, options->tier, false, options->dtype, checkpoint, &self->a);
    if (code == EXIT_OK)
        code = engine_open(options, options->against, options->against_device, RVIT_TIER_AUTO, options->against_oracle,
                           options->against_dtype, checkpoint, &self->b);
    if (code == EXIT_OK && !options->against_given && is_same_device(&self->a, &self->b)) {
        engine_close(&self->b);
        code = engine_open(options, RVIT_BACKEND_CPU, -1, RVIT_TIER_AUTO, true, options->against_dtype, checkpoint, &self->b);
    }
    return code;
}

static int prepare(struct verify *self, const rvit_checkpoint *checkpoint)
{
    const struct options *options = self->options;
    int code = open_engines(self, checkpoint);
    if (code == EXIT_OK && options->n_paths)
        code = inputs_open(options->paths, options->n_paths, options->tiles, options->limit, &self->inputs);
    if (code != EXIT_OK)
        return code;
    const rvit_model_info *info = &self->a.model_info;
    self->n_noise = options->limit ? options->limit : NOISE_IMAGES;
    const int64_t total = options->n_paths ? self->inputs.total : self->n_noise;
    self->batch = options->batch ? options->batch : DEFAULT_BATCH;
    if (self->batch > total)
        self->batch = total > 0 ? (int32_t)total : 1;
    self->tokens = info->tokens;
    code = engine_session(&self->a, &options->prune, self->batch, true, &self->run_a);
    if (code == EXIT_OK)
        code = engine_session(&self->b, &options->prune, self->batch, true, &self->run_b);
    if (code != EXIT_OK)
        return code;
    struct figures *figures = &self->figures;
    figures->tolerance = by_dtype(self, 1e-4, 4e-3, 2e-2);
    figures->n_stages = rvit_session_n_stages(self->run_a);
    figures->knows_rule = selector_knows(options->prune.type);
    figures->n_blocks = info->depth;
    figures->blocks = allocate((size_t)info->depth, sizeof *figures->blocks);
    const size_t batch = (size_t)self->batch, rows = batch * (size_t)self->tokens;
    self->images = allocate(batch * (size_t)info->channels * (size_t)info->image_size * (size_t)info->image_size, sizeof *self->images);
    self->masks = allocate((size_t)figures->n_stages * rows, 1);
    self->keep = allocate(rows, 1);
    self->layout = allocate(batch + 1, sizeof *self->layout);
    if (!figures->blocks || !self->images || !self->masks || !self->keep || !self->layout)
        return EXIT_FAULT;
    for (int32_t block = 0; block < figures->n_blocks; block++)
        figures->blocks[block] = -1;
    if (figures->knows_rule)
        code = selector_open(&self->a, options->prune.type, options_keep(options), self->batch, &self->select_a);
    if (code == EXIT_OK && figures->knows_rule)
        code = selector_open(&self->b, options->prune.type, options_keep(options), self->batch, &self->select_b);
    return code;
}

static void print_prologue(const struct verify *self)
{
    char prune[256];
    options_describe_prune(self->options, prune, sizeof prune);
    printf("model    %s\nA        %s\nB        %s\nprune    %s\n", self->a.model_info.architecture, self->a.name, self->b.name, prune);
    if (self->options->n_paths)
        printf("images   %lld%s of %s\n\n", (long long)self->inputs.total, self->options->tiles ? " tiles" : "", self->options->paths[0]);
    else
        printf("images   %lld of seeded, smoothed noise\n\n", (long long)self->n_noise);
    if (is_same_device(&self->a, &self->b))
        complain(NULL, "A and B are the same device, which proves little; --against oracle compares with float64 sums");
}

static int run_batches(struct verify *self)
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
    return within_tolerance(&self->figures) && self->inputs.n_failures == 0 ? EXIT_OK : EXIT_PARTLY;
}

static void clean_up(struct verify *self)
{
    rvit_session_destroy(self->run_a);
    rvit_session_destroy(self->run_b);
    rvit_session_destroy(self->masked_b);
    selector_close(&self->select_a);
    selector_close(&self->select_b);
    engine_close(&self->a);
    engine_close(&self->b);
    inputs_close(&self->inputs);
    free(self->images);
    free(self->masks);
    free(self->keep);
    free(self->layout);
    free(self->figures.blocks);
}

int run_verify(const struct options *options)
{
    struct verify self = {.options = options};
    rvit_checkpoint *checkpoint;
    int code = engine_checkpoint(options->model, &checkpoint);
    if (code != EXIT_OK)
        return code;
    code = prepare(&self, checkpoint);
    rvit_checkpoint_destroy(checkpoint);
    if (code == EXIT_OK) {
        if (!options->json)
            print_prologue(&self);
        code = run_batches(&self);
        progress_end();
        if (code == EXIT_OK) {
            if (options->json)
                print_json(&self);
            else
                print_text(&self);
            code = judge(&self);
        }
    }
    clean_up(&self);
    return code;
}
