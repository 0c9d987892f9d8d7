/* raggedvit quantize: writes a checkpoint with 8-bit weights in its blocks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command_list.h"
#include "core/base/os.h"
#include "quantize_parts.h"

/* Layers with a larger error of the weight, or of the output on the calibration images, are skipped. Rounding alone costs 0.01 to 0.02 in
   int8 and 0.04 in fp8. */
#define MAX_ERROR 0.1

static bool is_finite(const float *values, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

static int read_layer(struct quantize *self, struct quantize_layer *layer, const int64_t *shape)
{
    const int64_t n = shape[0] * shape[1];
    layer->rows = shape[0];
    layer->columns = shape[1];
    layer->n_scales = self->dtype == RVIT_I8 ? layer->rows : 1;
    layer->input = &self->inputs[4 * layer->block + (int32_t)layer->layer];
    layer->weight = allocate((size_t)n, sizeof *layer->weight);
    layer->quantized = allocate((size_t)n, 1);
    layer->scales = allocate((size_t)layer->n_scales, sizeof *layer->scales);
    if (!layer->weight || !layer->quantized || !layer->scales)
        return EXIT_FAULT;
    const rvit_status status = rvit_tensors_read(self->tensors, layer->tensor, 0, n, layer->weight);
    if (status != RVIT_OK)
        return complain_status(self->options->model, status);
    if (!is_finite(layer->weight, n))
        return fail_with(EXIT_FILE, self->options->model, "tensor '%s' has values that are not finite", layer->name);
    quantize_round_weight(self, layer);
    return EXIT_OK;
}

/* Reads the weights of the blocks, in the order of the file. */
static int read_layers(struct quantize *self)
{
    const int32_t n = rvit_tensors_count(self->tensors);
    self->layers = allocate((size_t)n, sizeof *self->layers);
    self->inputs = allocate(4 * (size_t)self->info.depth, sizeof *self->inputs);
    rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
    if (rvit_checkpoint_get_info(self->checkpoint, &files) != RVIT_OK)
        return fail_with(EXIT_FAULT, self->options->model, "%s", rvit_status_detail());
    int code = self->layers && self->inputs ? EXIT_OK : EXIT_FAULT;
    for (int32_t i = 0; i < n && code == EXIT_OK; i++) {
        struct quantize_layer *layer = &self->layers[self->n_layers];
        rvit_tensor_info known = RVIT_TENSOR_INFO_INIT, tensor = RVIT_TENSOR_INFO_INIT; /* the file's names may have a prefix */
        rvit_status status = rvit_tensors_get(files.tensors, i, &known);
        if (status == RVIT_OK)
            status = rvit_tensors_get(self->tensors, i, &tensor);
        if (status != RVIT_OK)
            return complain_status(self->options->model, status);
        if (known.block < 0)
            continue;
        if (strcmp(tensor.dtype, "I8") == 0 || strcmp(tensor.dtype, "F8_E4M3") == 0)
            return fail_with(EXIT_FILE, self->options->model, "tensor '%s' already has 8 bits (%s)", tensor.name, tensor.dtype);
        layer->block = known.block;
        layer->layer = known.layer;
        layer->name = tensor.name;
        layer->tensor = i;
        self->n_layers++;
        code = read_layer(self, layer, tensor.shape);
    }
    return code;
}

/* Applies the documented rule. Parts of a layer are skipped together, because the library needs one type per layer. */
static void skip_layers(struct quantize *self)
{
    for (int32_t i = 0; i < self->n_layers; i++) {
        struct quantize_layer *layer = &self->layers[i];
        if (self->dtype == RVIT_E4M3 && layer->layer == RVIT_LAYER_PROJ)
            layer->skipped = "fp8 models compute proj in 16 bits";
        else if (layer->weight_error > MAX_ERROR)
            layer->skipped = "the weight's error is above 0.1";
        else if (self->n_images > 0 && quantize_output_error(layer) > MAX_ERROR)
            layer->skipped = "the output's error is above 0.1";
    }
    for (int32_t i = 0; i < self->n_layers; i++)
        for (int32_t j = 0; j < self->n_layers; j++)
            if (self->layers[i].input == self->layers[j].input && self->layers[j].skipped && !self->layers[i].skipped)
                self->layers[i].skipped = "another part of the layer is skipped";
}

static int quantize(struct quantize *self)
{
    const struct options *options = self->options;
    rvit_status status = rvit_checkpoint_get_model_info(self->checkpoint, &self->info);
    if (status == RVIT_OK)
        status = rvit_tensors_open(options->model, NULL, &self->tensors);
    if (status != RVIT_OK)
        return complain_status(options->model, status);
    if (self->info.dim % 16 != 0)
        return fail_with(EXIT_FILE, options->model, "8-bit models need a width that is a multiple of 16, this one's is %d",
                         (int)self->info.dim);
    if (!output_file_open(options->output, &self->output))
        return fail_with(EXIT_FAULT, options->output, "%s", self->output.reason);
    int code = read_layers(self);
    if (code == EXIT_OK && options->images)
        code = quantize_calibrate(self);
    for (int32_t i = 0; i < self->n_layers && code == EXIT_OK && options->images; i++)
        code = quantize_compare_outputs(self, &self->layers[i]);
    skip_layers(self);
    if (code == EXIT_OK)
        code = quantize_write(self);
    if (code == EXIT_OK)
        code = quantize_report(self, options->output);
    return code;
}

static bool is_same_file(const char *a, const char *b)
{
    rvit_os_file_info first, second;
    int number;
    return rvit_os_look(a, 1, &first, &number) == RVIT_OS_OK && rvit_os_look(b, 1, &second, &number) == RVIT_OS_OK &&
           first.volume == second.volume && first.id == second.id;
}

int run_quantize(const struct options *options)
{
    if (is_same_file(options->output, options->model))
        return fail_with(EXIT_USAGE, options->output, "is the model's own file, which is not overwritten");
    const rvit_dtype dtype = options->dtype == RVIT_PRECISION_FP8 ? RVIT_E4M3 : RVIT_I8;
    const bool fixed = options->inputs == INPUTS_FIXED || (options->inputs == INPUTS_AUTO && options->images && dtype == RVIT_E4M3);
    struct quantize self = {.options = options, .info = RVIT_MODEL_INFO_INIT, .dtype = dtype, .fixed = fixed};
    int code = engine_checkpoint(options, &self.checkpoint);
    if (code == EXIT_OK)
        code = quantize(&self);
    output_file_close(&self.output);
    for (int32_t i = 0; i < self.n_layers; i++) {
        free(self.layers[i].weight);
        free(self.layers[i].quantized);
        free(self.layers[i].scales);
    }
    for (int32_t i = 0; self.inputs && i < 4 * self.info.depth; i++) {
        free(self.inputs[i].largest_of_columns);
        free(self.inputs[i].samples);
    }
    free(self.layers);
    free(self.inputs);
    rvit_tensors_destroy(self.tensors);
    rvit_checkpoint_destroy(self.checkpoint);
    return code;
}
