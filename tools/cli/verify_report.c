/* Prints the results of verify, and decides whether they are within tolerance. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "verify_parts.h"

static double by_precision(rvit_precision a, rvit_precision b, const struct by_dtype *values)
{
    return a == b ? values->equal[a] : values->mixed[a > b ? a : b];
}

double verify_by_dtype(const struct verify *self, const struct by_dtype *values)
{
    return by_precision(self->a.choice.precision, self->b.choice.precision, values);
}

bool verify_is_same_device(const struct verify *self)
{
    const struct engine *a = &self->a, *b = &self->b;
    return a->device_info.backend == b->device_info.backend && a->device_info.index == b->device_info.index &&
           a->choice.precision == b->choice.precision && a->device_info.tier == b->device_info.tier && !b->is_oracle;
}

double verify_block_tolerance(rvit_precision a, rvit_precision b)
{
    static const struct by_dtype tolerances = {
        .equal = {1e-5, 2e-3, 1.6e-2, 1e-1, 2.4e-1},
        .mixed = {[RVIT_PRECISION_F16] = 1e-2, [RVIT_PRECISION_BF16] = 8e-2, [RVIT_PRECISION_INT8] = 5e-1, [RVIT_PRECISION_FP8] = 1}};
    return by_precision(a, b, &tolerances);
}

static double block_tolerance(const struct verify *self)
{
    return verify_block_tolerance(self->a.choice.precision, self->b.choice.precision);
}

bool verify_within_tolerance(const struct figures *figures)
{
    int64_t n_wrong = 0;
    for (int32_t s = 0; s < figures->n_stages; s++)
        n_wrong += figures->stages[s].given_differ + figures->stages[s].replay_differ;
    for (int32_t s = 0; s < figures->n_stages + figures->anchors; s++)
        n_wrong += figures->judgements[s].beyond;
    /* Some types skip many images, but their decisions are judged. */
    return figures->n_images > 0 && (figures->judged || 2 * figures->n_skipped <= figures->n_images) && n_wrong == 0 &&
           figures->largest <= figures->tolerance && figures->n_decided_equal == figures->n_decided;
}

void verify_explain(const struct figures *figures, char *out, size_t out_size)
{
    int64_t unlike = 0, beyond = 0;
    for (int32_t s = 0; s < figures->n_stages; s++)
        unlike += figures->stages[s].given_differ + figures->stages[s].replay_differ;
    for (int32_t s = 0; s < figures->n_stages + figures->anchors; s++)
        beyond += figures->judgements[s].beyond;
    out[0] = 0;
    if (!(figures->largest <= figures->tolerance))
        append_text(out, out_size, "logits differ by %.3g, the tolerance is %g; ", figures->largest, figures->tolerance);
    if (figures->n_decided_equal != figures->n_decided)
        append_text(out, out_size, "%lld images have another class; ", (long long)(figures->n_decided - figures->n_decided_equal));
    if (unlike > 0)
        append_text(out, out_size, "%lld rows are selected otherwise from the same scores; ", (long long)unlike);
    if (beyond > 0)
        append_text(out, out_size, "%lld decisions differ beyond the margin of their scores; ", (long long)beyond);
    if (!out[0] && !verify_within_tolerance(figures))
        append_text(out, out_size, "%lld of %lld images kept other tokens; ", (long long)figures->n_skipped, (long long)figures->n_images);
    if (out[0])
        out[strlen(out) - 2] = 0;
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

static void print_judgements(const struct verify *self)
{
    const struct figures *figures = &self->figures;
    printf("sets     %lld of %lld images kept different tokens somewhere\n", (long long)figures->n_sets_differ,
           (long long)figures->n_images);
    for (int32_t s = 0; s < figures->n_stages + figures->anchors; s++) {
        const struct judgement *j = &figures->judgements[s];
        if (s < figures->n_stages)
            printf("decided  block %d: ", self->prune.desc.blocks[s]);
        else
            printf("decided  anchors, block %d: ", self->prune.desc.object_block);
        printf("%lld decisions after the same tokens, %lld differ within the margin of %g, %lld beyond", (long long)j->decisions,
               (long long)j->within, figures->judge_tolerance, (long long)j->beyond);
        if (j->within + j->beyond)
            printf(" (largest %.2g)", j->largest_margin);
        if (j->n_scores)
            printf("; scores off by %.2g (root mean square), %.2g at most", sqrt(j->squares / (double)j->n_scores), j->largest_error);
        if (j->n_skipped)
            printf("; %lld images had different tokens", (long long)j->n_skipped);
        putchar('\n');
    }
    if (self->prune.desc.type == RVIT_PRUNE_ATS &&
        (self->a.choice.precision != RVIT_PRECISION_F32 || self->b.choice.precision != RVIT_PRECISION_F32))
        puts("         ats samples nearly as densely as there are tokens: 16-bit types keep other tokens on most images, f32 does not");
}

void verify_print_text(const struct verify *self)
{
    const struct figures *figures = &self->figures;
    const double tolerance = block_tolerance(self);
    const int32_t *blocks = self->prune.desc.blocks;
    if (figures->n_images == 0)
        return;
    if (figures->n_logits)
        printf("%-8s largest difference %.3g, mean %.3g; tolerance %g\n", figures->has_classes ? "logits" : "features", figures->largest,
               figures->sum / (double)figures->n_logits, figures->tolerance);
    if (figures->n_remasked)
        printf("         %lld image%s kept different tokens; B ran again with A's tokens. With its own tokens each: %.3g\n",
               (long long)figures->n_remasked, figures->n_remasked > 1 ? "s" : "", figures->largest_unmasked);
    if (figures->n_skipped)
        printf("skipped  %lld of %lld images that kept different tokens, because %s cannot run with A's tokens. Difference with these "
               "images: %.3g\n",
               (long long)figures->n_skipped, (long long)figures->n_images, self->prune.policy.name, figures->largest_unmasked);
    if (figures->has_classes)
        printf("top-1    equal for %lld of %lld; where B's margin is above %g: %lld of %lld\n", (long long)figures->n_equal,
               (long long)(figures->n_images - figures->n_skipped), 2 * figures->tolerance, (long long)figures->n_decided_equal,
               (long long)figures->n_decided);
    if (figures->n_expected)
        printf("right    A %.1f %%, B %.1f %% of %lld, each with its own tokens; equal for %lld\n",
               100 * (double)figures->n_right[0] / (double)figures->n_expected,
               100 * (double)figures->n_right[1] / (double)figures->n_expected, (long long)figures->n_expected,
               (long long)figures->n_equal_unmasked);
    for (int32_t s = 0; s < figures->n_stages; s++) {
        const struct stage_figures *stage = &figures->stages[s];
        printf("tokens   block %d: %lld kept by A, %lld differ end to end", blocks[s], (long long)stage->kept, (long long)stage->differ);
        if (figures->knows_rule)
            printf(", %lld with the same scores given", (long long)stage->given_differ);
        if (stage->replay_differ)
            printf(", %lld between B's select and its session", (long long)stage->replay_differ);
        putchar('\n');
    }
    if (figures->judged)
        print_judgements(self);
    print_blocks(figures, tolerance);
    printf("result   %s\n", verify_within_tolerance(figures) ? "within tolerance" : "BEYOND TOLERANCE");
    puts("note     A and B read the checkpoint in the same way; --reference compares with the model's own code");
}

static json_t *judgement_to_json(const struct figures *figures, int32_t stage)
{
    const struct judgement *j = &figures->judgements[stage];
    return json_pack("{s:I, s:I, s:I, s:f, s:I, s:o, s:o}", "decisions", (json_int_t)j->decisions, "differ_within_margin",
                     (json_int_t)j->within, "differ_beyond_margin", (json_int_t)j->beyond, "largest_margin", j->largest_margin,
                     "images_skipped", (json_int_t)j->n_skipped, "score_error_rms",
                     j->n_scores ? json_number(sqrt(j->squares / (double)j->n_scores)) : json_null(), "score_error_largest",
                     j->n_scores ? json_number(j->largest_error) : json_null());
}

static json_t *judgements_to_json(const struct figures *figures)
{
    json_int_t decisions = 0, within = 0, beyond = 0;
    for (int32_t s = 0; s < figures->n_stages + figures->anchors; s++) {
        decisions += figures->judgements[s].decisions;
        within += figures->judgements[s].within;
        beyond += figures->judgements[s].beyond;
    }
    return json_pack("{s:f, s:I, s:I, s:I, s:o}", "margin", figures->judge_tolerance, "decisions", decisions, "differ_within_margin",
                     within, "differ_beyond_margin", beyond, "anchors",
                     figures->anchors ? judgement_to_json(figures, figures->n_stages) : json_null());
}

static json_t *side_to_json(const struct engine *engine)
{
    return json_pack("{s:s, s:o, s:s, s:s, s:b}", "backend", rvit_enum_name(RVIT_ENUM_BACKEND, engine->device_info.backend), "device",
                     json_text(engine->device_info.name), "tier", rvit_enum_name(RVIT_ENUM_TIER, engine->device_info.tier), "dtype",
                     rvit_enum_name(RVIT_ENUM_PRECISION, engine->choice.precision), "oracle", engine->is_oracle);
}

void verify_print_json(const struct verify *self)
{
    const struct figures *figures = &self->figures;
    const int32_t *blocks = self->prune.desc.blocks;
    json_t *stages = json_array(), *block_differences = json_array();
    for (int32_t s = 0; s < figures->n_stages; s++) {
        const struct stage_figures *stage = &figures->stages[s];
        json_array_append_new(stages,
                              json_pack("{s:i, s:I, s:I, s:o, s:o}", "block", blocks[s], "kept", (json_int_t)stage->kept, "differ",
                                        (json_int_t)stage->differ, "differ_same_scores",
                                        figures->knows_rule ? json_integer(stage->given_differ + stage->replay_differ) : json_null(),
                                        "judged", figures->judged ? judgement_to_json(figures, s) : json_null()));
    }
    for (int32_t block = 0; block < figures->n_blocks; block++)
        json_array_append_new(block_differences, figures->blocks[block] < 0 ? json_null() : json_number(figures->blocks[block]));
    const int32_t first = first_diverging(figures, block_tolerance(self));
    json_t *object = json_pack("{s:o, s:o, s:o, s:s, s:s, s:I, s:f, s:o, s:o, s:o}", "model", json_text(self->options->model), "a",
                               side_to_json(&self->a), "b", side_to_json(&self->b), "dtype",
                               rvit_enum_name(RVIT_ENUM_PRECISION, self->a.choice.precision), "compared",
                               figures->has_classes ? "logits" : "features", "n_images", (json_int_t)figures->n_images, "tolerance",
                               figures->tolerance, "largest_difference", figures->n_logits ? json_number(figures->largest) : json_null(),
                               "mean_difference", figures->n_logits ? json_number(figures->sum / (double)figures->n_logits) : json_null(),
                               "largest_difference_own_tokens", json_number(figures->largest_unmasked));
    json_object_update_new(object, prune_to_json(&self->prune));
    json_t *rest = json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:b}", "top1_equal", (json_int_t)figures->n_equal, "top1_decided",
                             (json_int_t)figures->n_decided, "top1_decided_equal", (json_int_t)figures->n_decided_equal, "images_remasked",
                             (json_int_t)figures->n_remasked, "images_skipped", (json_int_t)figures->n_skipped, "stages", stages,
                             "block_differences", block_differences, "first_diverging_block", first < 0 ? json_null() : json_integer(first),
                             "within_tolerance", verify_within_tolerance(figures));
    json_object_set_new(rest, "compared_with", json_string("another device"));
    json_object_set_new(rest, "rms_difference",
                        figures->n_logits ? json_number(sqrt(figures->squares / (double)figures->n_logits)) : json_null());
    json_object_set_new(rest, "rms_difference_own_tokens",
                        json_number(sqrt(figures->squares_unmasked / ((double)figures->n_images * figures->n_values))));
    json_object_set_new(rest, "top1_equal_own_tokens", json_integer(figures->n_equal_unmasked));
    json_object_set_new(rest, "n_expected", json_integer(figures->n_expected));
    json_object_set_new(rest, "right_a", figures->n_expected ? json_integer(figures->n_right[0]) : json_null());
    json_object_set_new(rest, "right_b", figures->n_expected ? json_integer(figures->n_right[1]) : json_null());
    json_object_set_new(rest, "images_of_different_sets", json_integer(figures->n_sets_differ));
    json_object_set_new(rest, "judged", figures->judged ? judgements_to_json(figures) : json_null());
    json_object_update_new(object, rest);
    json_print_line(object);
}

void verify_print_prologue(const struct verify *self)
{
    char prune[512];
    prune_describe(&self->prune, prune, sizeof prune);
    print_line("model    ", self->a.model_info.architecture);
    print_line("A        ", self->a.name);
    print_line("B        ", self->b.name);
    print_line("prune    ", prune);
    if (self->options->n_paths) {
        printf("images   %lld%s of ", (long long)self->inputs.total, self->options->tiles ? " tiles" : "");
        print_line("", self->options->paths[0]);
        putchar('\n');
    } else {
        printf("images   %lld of seeded, smoothed noise\n\n", (long long)self->n_noise);
    }
    if (verify_is_same_device(self))
        complain(NULL, "A and B are the same device, so equal results prove little; --against oracle compares with float64 sums");
}
