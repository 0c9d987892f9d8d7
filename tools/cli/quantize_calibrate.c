/* Measures the inputs of the linear layers of a model's blocks on images. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "progress.h"
#include "quantize_parts.h"
#include "recipe.h"

/* Rows are sampled evenly from each batch. */
enum { BATCH = 2, SAMPLES = 64, SAMPLES_OF_BATCH = 4 };

struct calibration {
    struct engine engine;
    rvit_image_recipe recipe;
    struct inputs inputs;
    rvit_session *session;
    float *images;
};

static int64_t columns_of(const struct quantize *self, int32_t layer)
{
    return layer == RVIT_LAYER_FC2 ? self->info.mlp_dim : self->info.dim;
}

static bool prepare_inputs(const struct quantize *self)
{
    for (int32_t i = 0; i < 4 * self->info.depth; i++) {
        struct quantize_input *input = &self->inputs[i];
        input->columns = columns_of(self, i % 4);
        input->largest_of_columns = allocate((size_t)input->columns, sizeof *input->largest_of_columns);
        input->samples = allocate((size_t)(SAMPLES * input->columns), sizeof *input->samples);
        if (!input->largest_of_columns || !input->samples)
            return false;
    }
    return true;
}

/* Returns false if a value is not finite. */
static bool add_rows(struct quantize_input *input, const float *rows, int64_t n_rows, int64_t stride)
{
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t i = 0; i < input->columns; i++) {
            const float value = fabsf(rows[r * stride + i]);
            if (!isfinite(value))
                return false;
            input->largest_of_columns[i] = fmaxf(input->largest_of_columns[i], value);
            input->largest = fmaxf(input->largest, value);
        }
    for (int64_t s = 0; s < SAMPLES_OF_BATCH; s++, input->n_seen++) {
        const int64_t row = (2 * s + 1) * n_rows / (2 * SAMPLES_OF_BATCH);
        float *sample = input->samples + input->n_seen % SAMPLES * input->columns; /* the last samples stay */
        memcpy(sample, rows + row * stride, (size_t)input->columns * sizeof *sample);
    }
    input->n_samples = input->n_seen < SAMPLES ? input->n_seen : SAMPLES;
    return true;
}

static int add_batch(struct quantize *self, struct calibration *c, int32_t n)
{
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = n;
    run.input.data = c->images;
    rvit_status status = rvit_session_run(c->session, &run, NULL);
    for (int32_t i = 0; i < 4 * self->info.depth && status == RVIT_OK; i++) {
        rvit_result_view rows = RVIT_RESULT_VIEW_INIT;
        status = rvit_session_get(c->session, RVIT_TRACE_INPUT, i, &rows);
        const int64_t columns = columns_of(self, i % 4);
        if (status == RVIT_OK && !add_rows(&self->inputs[i], rows.data, rows.rows, (columns + 7) / 8 * 8))
            return fail_with(EXIT_FILE, self->options->images, "an image produces values that are not finite in block %d", (int)(i / 4));
    }
    self->n_images += n;
    return status == RVIT_OK ? EXIT_OK : complain_status(c->engine.name, status);
}

static int open_all(struct quantize *self, struct calibration *c)
{
    const struct options *options = self->options;
    const rvit_prune_desc dense = RVIT_PRUNE_DESC_INIT;
    int code = engine_open(options, options->backend, options->device, RVIT_TIER_AUTO, false, RVIT_PRECISION_F32, false, self->checkpoint,
                           &c->engine);
    if (code == EXIT_OK)
        code = recipe_resolve(&options->recipe, options->given, self->checkpoint, options->model, &c->recipe);
    if (code == EXIT_OK)
        code = inputs_open(options->paths, options->n_paths, &c->recipe, NULL, options->tiles, options->limit, &c->inputs);
    if (code == EXIT_OK && c->inputs.total == 0)
        code = fail_with(EXIT_FILE, options->images, "there are no calibration images");
    if (code == EXIT_OK)
        code = inputs_start(&c->inputs, options->threads, false, BATCH, false);
    if (code == EXIT_OK)
        code = engine_session(&c->engine, &dense, BATCH, RVIT_TRACE_INPUTS, 0, &c->session);
    c->images = allocate(BATCH * (size_t)engine_image_length(&c->engine), sizeof *c->images);
    return code == EXIT_OK && (!c->images || !prepare_inputs(self)) ? EXIT_FAULT : code;
}

static int run_all(struct quantize *self, struct calibration *c)
{
    int code = EXIT_OK;
    progress_begin(c->inputs.total, "images");
    for (bool ends = false; !ends && code == EXIT_OK;) {
        int32_t n = 0;
        for (struct input input; n < BATCH && !ends; n += !ends) {
            const enum input_result result = inputs_next(&c->inputs, true, c->images + n * engine_image_length(&c->engine), &input);
            ends = result != INPUT_READY;
            if (result == INPUT_LOST)
                code = EXIT_FAULT;
        }
        if (n > 0 && code == EXIT_OK)
            code = add_batch(self, c, n);
        progress_update(self->n_images);
    }
    progress_end();
    self->n_failed = c->inputs.n_failures;
    if (code == EXIT_OK && self->n_images == 0)
        code = fail_with(EXIT_FILE, self->options->images, "none of the calibration images can be read");
    return code;
}

int quantize_calibrate(struct quantize *self)
{
    struct calibration c = {.session = NULL};
    int code = open_all(self, &c);
    if (code == EXIT_OK)
        code = run_all(self, &c);
    rvit_session_destroy(c.session);
    inputs_close(&c.inputs);
    engine_close(&c.engine);
    free(c.images);
    return code;
}
