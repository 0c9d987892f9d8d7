/* raggedvit verify --reference: compares a device with a dump of the model's own code. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "reference.h"
#include "verify_parts.h"
#include "session_results.h"

#define DEFAULT_BATCH 32

struct comparison {
    const struct options *options;
    struct engine engine;
    struct reference reference;
    rvit_session *session;
    int64_t n_images;
    int32_t batch;
    int same_file; /* result of reference_is_of_file */
    float *images, *expected;
};

static const float *values_of(const struct comparison *self, int output)
{
    return session_floats(self->session, output == REFERENCE_LOGITS   ? RVIT_RESULT_LOGITS
                                         : output == REFERENCE_POOLED ? RVIT_RESULT_POOLED
                                                                      : RVIT_RESULT_FEATURES);
}

static void add(struct reference_output *out, const float *values, const float *expected, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double difference = isfinite(values[i]) ? fabs((double)values[i] - (double)expected[i]) : INFINITY;
        out->largest_difference = fmax(out->largest_difference, difference);
        out->largest = fmax(out->largest, fabs((double)expected[i]));
        out->squares_of_differences += difference * difference;
        out->squares += (double)expected[i] * (double)expected[i];
    }
}

static int compare_batch(struct comparison *self, int64_t first, int32_t n)
{
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = n;
    run.input.data = self->images;
    int code = reference_images(&self->reference, first, n, self->images);
    if (code != EXIT_OK)
        return code;
    const rvit_status status = rvit_session_run(self->session, &run, NULL);
    if (status != RVIT_OK)
        return complain_status(self->engine.name, status);
    for (int i = 0; i < REFERENCE_OUTPUTS && code == EXIT_OK; i++) {
        struct reference_output *out = &self->reference.outputs[i];
        if (out->index < 0)
            continue;
        code = reference_values(&self->reference, i, first, n, self->expected);
        if (code == EXIT_OK)
            add(out, values_of(self, i), self->expected, n * out->length);
    }
    return code;
}

static int prepare(struct comparison *self, const rvit_checkpoint *checkpoint)
{
    const struct options *options = self->options;
    const rvit_prune_desc dense = RVIT_PRUNE_DESC_INIT;
    struct reference *reference = &self->reference;
    int code =
        engine_open(options, options->backend, options->device, options->tier, false, options->dtype, false, checkpoint, &self->engine);
    if (code == EXIT_OK)
        code = reference_open(options->reference, &self->engine.model_info, reference);
    if (code != EXIT_OK)
        return code;
    self->n_images = options->limit && options->limit < reference->n_images ? options->limit : reference->n_images;
    self->batch = options->batch ? options->batch : DEFAULT_BATCH;
    if (self->batch > self->n_images)
        self->batch = (int32_t)self->n_images;
    const int32_t outputs = (reference->outputs[REFERENCE_FEATURES].index >= 0 ? RVIT_OUTPUT_FEATURES : 0) |
                            (reference->outputs[REFERENCE_POOLED].index >= 0 ? RVIT_OUTPUT_POOLED : 0);
    if (!options->batch) {
        rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
        desc.max_images = self->batch, desc.outputs = outputs;
        engine_fit(&self->engine, 1, &desc);
        self->batch = desc.max_images;
    }
    int64_t longest = 0;
    for (int i = 0; i < REFERENCE_OUTPUTS; i++)
        longest = reference->outputs[i].length > longest ? reference->outputs[i].length : longest;
    self->images = allocate((size_t)self->batch * (size_t)reference->image_length, sizeof *self->images);
    self->expected = allocate((size_t)self->batch * (size_t)longest, sizeof *self->expected);
    if (!self->images || !self->expected)
        return EXIT_FAULT;
    self->same_file = reference_is_of_file(reference, options->model);
    return engine_session(&self->engine, &dense, self->batch, false, outputs, &self->session);
}

/* Infinite for a dump of zeros, which proves nothing. */
static double relative(const struct reference_output *out)
{
    return out->largest > 0 ? out->largest_difference / out->largest : INFINITY;
}

/* The same as a root mean square. */
static double relative_rms(const struct reference_output *out)
{
    return out->squares > 0 ? sqrt(out->squares_of_differences / out->squares) : INFINITY;
}

static bool is_right(const struct comparison *self)
{
    for (int i = 0; i < REFERENCE_OUTPUTS; i++)
        if (self->reference.outputs[i].index >= 0 &&
            !(relative(&self->reference.outputs[i]) <= reference_tolerance(&self->reference, i, self->engine.choice.precision)))
            return false;
    return true;
}

static const char *or_unknown(const char *text)
{
    return text[0] ? text : "unknown";
}

static void print_text(const struct comparison *self)
{
    const struct reference *reference = &self->reference;
    print_line("model    ", self->engine.model_info.architecture);
    print_line("device   ", self->engine.name);
    print_line("dump     ", self->options->reference);
    print_line("of       ", or_unknown(reference_text(reference, "model")));
    print_line("made by  ", or_unknown(reference_text(reference, "source")));
    printf("images   %lld\n", (long long)self->n_images);
    if (self->same_file >= 0)
        printf("weights  %s\n", self->same_file ? "the same file as the dump's" : "not the same file as the dump's");
    putchar('\n');
    for (int i = 0; i < REFERENCE_OUTPUTS; i++)
        if (reference->outputs[i].index >= 0)
            printf("%-8s largest difference %.3g of the largest value; tolerance %.3g; root mean square %.2g, PyTorch's %.2g\n",
                   reference_name(i), relative(&reference->outputs[i]), reference_tolerance(reference, i, self->engine.choice.precision),
                   relative_rms(&reference->outputs[i]), reference_rms(reference, i, self->engine.choice.precision));
    printf("result   %s\n",
           is_right(self) ? "right: as the model's own code computes it" : "NOT RIGHT: the model's own code computes something else");
}

static json_t *outputs_to_json(const struct comparison *self)
{
    json_t *object = json_object();
    for (int i = 0; i < REFERENCE_OUTPUTS; i++) {
        const struct reference_output *out = &self->reference.outputs[i];
        if (out->index >= 0)
            json_object_set_new(object, reference_name(i),
                                json_pack("{s:o, s:f, s:o, s:f}", "largest_relative_difference", json_number(relative(out)), "tolerance",
                                          reference_tolerance(&self->reference, i, self->engine.choice.precision), "relative_rms",
                                          json_number(relative_rms(out)), "pytorch_relative_rms",
                                          reference_rms(&self->reference, i, self->engine.choice.precision)));
    }
    return object;
}

static void print_json(const struct comparison *self)
{
    const struct reference *reference = &self->reference;
    const rvit_device_info *device = &self->engine.device_info;
    json_t *object = json_pack(
        "{s:o, s:s, s:o, s:s, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:b}", "model", json_text(self->options->model), "backend",
        rvit_enum_name(RVIT_ENUM_BACKEND, device->backend), "device", json_text(device->name), "tier",
        rvit_enum_name(RVIT_ENUM_TIER, device->tier), "dtype", rvit_enum_name(RVIT_ENUM_PRECISION, self->engine.choice.precision),
        "reference", json_text(self->options->reference), "reference_model", json_text(reference_text(reference, "model")),
        "reference_source", json_text(reference_text(reference, "source")), "n_images", (json_int_t)self->n_images, "same_weights_file",
        self->same_file < 0 ? json_null() : json_boolean(self->same_file), "outputs", outputs_to_json(self), "right", is_right(self));
    json_object_set_new(object, "compared_with", json_string("reference"));
    json_print_line(object);
}

int verify_reference(const struct options *options)
{
    struct comparison self = {.options = options};
    rvit_checkpoint *checkpoint;
    int code = engine_checkpoint(options, &checkpoint);
    if (code != EXIT_OK)
        return code;
    code = prepare(&self, checkpoint);
    rvit_checkpoint_destroy(checkpoint);
    progress_begin(self.n_images, "images");
    for (int64_t first = 0; first < self.n_images && code == EXIT_OK; first += self.batch) {
        const int64_t left = self.n_images - first;
        code = compare_batch(&self, first, left < self.batch ? (int32_t)left : self.batch);
        progress_update(first);
    }
    progress_end();
    if (code == EXIT_OK) {
        (options->json ? print_json : print_text)(&self);
        code = is_right(&self) ? EXIT_OK : EXIT_PARTLY;
    }
    rvit_session_destroy(self.session);
    engine_close(&self.engine);
    reference_close(&self.reference);
    free(self.images);
    free(self.expected);
    return code;
}
