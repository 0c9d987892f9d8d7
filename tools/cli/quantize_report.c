/* Prints the report of raggedvit quantize. */
#include "quantize_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const float left = *(const float *)a, right = *(const float *)b;
    return (left > right) - (left < right);
}

/* The largest channel of an input divided by the median one, or 0 if unknown. */
static double outlier(const struct quantize_input *input)
{
    float *sorted = input->largest_of_columns ? allocate((size_t)input->columns, sizeof *sorted) : NULL;
    if (!sorted)
        return 0;
    memcpy(sorted, input->largest_of_columns, (size_t)input->columns * sizeof *sorted);
    qsort(sorted, (size_t)input->columns, sizeof *sorted, compare);
    const float median = sorted[input->columns / 2];
    free(sorted);
    return median > 0 ? (double)input->largest / (double)median : 0;
}

static const char *layer_name(rvit_block_layer layer)
{
    static const char *const names[] = {"qkv", "proj", "fc1", "fc2"};
    return names[layer];
}

/* Sorts layers by block and in the order of computation. The file has the order of names. */
static int by_position(const void *a, const void *b)
{
    const struct quantize_layer *left = *(const struct quantize_layer *const *)a, *right = *(const struct quantize_layer *const *)b;
    const int position = 4 * left->block + (int)left->layer, other = 4 * right->block + (int)right->layer;
    return position != other ? (position > other) - (position < other) : strcmp(left->name, right->name);
}

static int32_t n_skipped(const struct quantize *self)
{
    int32_t n = 0;
    for (int32_t i = 0; i < self->n_layers; i++)
        n += self->layers[i].skipped != NULL;
    return n;
}

static void print_json(const struct quantize *self, const struct quantize_layer *const *sorted, const char *path)
{
    json_t *layers = json_array();
    for (int32_t i = 0; i < self->n_layers; i++) {
        const struct quantize_layer *layer = sorted[i];
        json_t *object = json_pack("{s:o, s:i, s:s, s:o, s:o}", "weight", json_text(layer->name), "block", layer->block, "layer",
                                   layer_name(layer->layer), "weight_error", json_number(layer->weight_error), "skipped",
                                   layer->skipped ? json_text(layer->skipped) : json_null());
        if (self->n_images > 0) {
            json_object_set_new(object, "input_largest", json_number((double)layer->input->largest));
            json_object_set_new(object, "input_outlier", json_number(outlier(layer->input)));
            json_object_set_new(object, "output_error", json_number(quantize_output_error(layer)));
        }
        json_array_append_new(layers, object);
    }
    json_print_line(json_pack("{s:o, s:o, s:s, s:s, s:I, s:i, s:i, s:o}", "model", json_text(self->options->model), "output",
                              json_text(path), "dtype", self->dtype == RVIT_I8 ? "int8" : "fp8", "inputs", self->fixed ? "fixed" : "row",
                              "n_images", (json_int_t)self->n_images, "n_layers", (int)self->n_layers, "n_skipped", (int)n_skipped(self),
                              "layers", layers));
}

static void print_text(const struct quantize *self, const struct quantize_layer *const *sorted, const char *path)
{
    print_line("model    ", self->options->model);
    print_line("written  ", path);
    printf("dtype    %s, input scales %s\n", self->dtype == RVIT_I8 ? "int8" : "fp8",
           self->fixed                ? "from the calibration images"
           : self->dtype == RVIT_E4M3 ? "bounded by the weights"
                                      : "per row");
    printf("images   %lld\n", (long long)self->n_images);
    printf("layers   %d, %d of them skipped\n\n", (int)self->n_layers, (int)n_skipped(self));
    puts("error: relative root mean square; outlier: largest channel of the input divided by the median one");
    printf("%-5s %-5s %8s %8s %8s %8s  %s\n", "block", "layer", "weight", "input", "outlier", "output", "tensor");
    for (int32_t i = 0; i < self->n_layers; i++) {
        const struct quantize_layer *layer = sorted[i];
        printf("%-5d %-5s %8.2g ", (int)layer->block, layer_name(layer->layer), layer->weight_error);
        if (self->n_images > 0)
            printf("%8.3g %8.3g %8.2g  ", (double)layer->input->largest, outlier(layer->input), quantize_output_error(layer));
        else
            printf("%8s %8s %8s  ", "-", "-", "-");
        print_line(layer->skipped ? "skipped: " : "", layer->skipped ? layer->skipped : layer->name);
    }
}

int quantize_report(const struct quantize *self, const char *path)
{
    const struct quantize_layer **sorted = allocate((size_t)self->n_layers, sizeof *sorted);
    if (!sorted)
        return EXIT_FAULT;
    for (int32_t i = 0; i < self->n_layers; i++)
        sorted[i] = &self->layers[i];
    qsort(sorted, (size_t)self->n_layers, sizeof *sorted, by_position);
    (self->options->json ? print_json : print_text)(self, sorted, path);
    free(sorted);
    return self->n_failed > 0 ? EXIT_PARTLY : EXIT_OK;
}
