#include "zero_shot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"

#include <raggedvit/model.h>

#define CLIP_SCALE 100.0 /* limit in CLIP's training, and value of published models */

static bool is_matrix(const rvit_tensors *file, int32_t index, const int64_t **out_shape)
{
    rvit_tensor_info tensor = RVIT_TENSOR_INFO_INIT;
    const bool found = rvit_tensors_get(file, index, &tensor) == RVIT_OK;
    *out_shape = tensor.shape;
    return found && tensor.rank == 2;
}

/* The index of the tensor with the embeddings: the named one, or the only one with two dimensions. Prints a message and returns -1 on
   failure. */
static int32_t find_texts(const struct options *options, const rvit_tensors *file, const int64_t **out_shape)
{
    const char *path = options->text_embeddings, *wanted = options->text_tensor;
    int32_t found = -1, n = 0;
    if (wanted) {
        found = rvit_tensors_find(file, wanted);
        if (found >= 0 && is_matrix(file, found, out_shape))
            return found;
        complain(path, found < 0 ? "there is no tensor '%s'" : "tensor '%s' does not have two dimensions, [texts, width]", wanted);
        return -1;
    }
    for (int32_t i = 0; i < rvit_tensors_count(file); i++) {
        if (!is_matrix(file, i, out_shape))
            continue;
        found = n++ == 0 ? i : found;
    }
    if (n == 1 && is_matrix(file, found, out_shape))
        return found;
    rvit_tensor_info first = RVIT_TENSOR_INFO_INIT;
    if (n == 0)
        complain(path, "has no tensor with two dimensions, [texts, width]");
    else if (rvit_tensors_get(file, found, &first) == RVIT_OK)
        complain(path, "has %d tensors with two dimensions, '%s' is the first; choose one with --text-tensor", n, first.name);
    return -1;
}

/* Normalises each row to length 1. Returns an exit code. */
static int normalize(struct zero_shot *self)
{
    for (int32_t t = 0; t < self->n_texts; t++) {
        float *row = self->texts + (int64_t)t * self->width;
        double sum = 0;
        for (int32_t i = 0; i < self->width; i++)
            sum += (double)row[i] * (double)row[i];
        if (!isfinite(sum) || sum == 0)
            return fail_with(EXIT_FILE, self->path, "the embedding of text %d is %s", t, sum == 0 ? "zero" : "not finite");
        for (int32_t i = 0; i < self->width; i++)
            row[i] = (float)((double)row[i] / sqrt(sum));
    }
    return EXIT_OK;
}

static int read_texts(const struct options *options, const rvit_tensors *file, const rvit_model_info *model, struct zero_shot *out)
{
    const int64_t *shape = NULL;
    const int32_t index = find_texts(options, file, &shape);
    if (index < 0)
        return EXIT_FILE;
    if (shape[1] != model->embedding_dim)
        return fail_with(EXIT_FILE, out->path, "the text embeddings are %lld wide, the model's image embeddings %d", (long long)shape[1],
                         model->embedding_dim);
    if (shape[0] < 1 || shape[0] > 1 << 20)
        return fail_with(EXIT_FILE, out->path, "has embeddings of %lld texts; expected 1 to %d", (long long)shape[0], 1 << 20);
    out->n_texts = (int32_t)shape[0];
    out->width = (int32_t)shape[1];
    out->texts = allocate((size_t)out->n_texts * (size_t)out->width, sizeof *out->texts);
    if (!out->texts)
        return EXIT_FAULT;
    const rvit_status status = rvit_tensors_read(file, index, 0, (int64_t)out->n_texts * out->width, out->texts);
    return status == RVIT_OK ? normalize(out) : complain_status(out->path, status);
}

/* Reads a number from the model's file or else the texts' file. *out_from: the file that has it, or NULL. Returns an exit code. */
static int read_number(const char *name, const char *const paths[2], const rvit_tensors *const files[2], double *out, const char **out_from)
{
    *out_from = NULL;
    for (int i = 0; i < 2 && !*out_from; i++) {
        float value = 0;
        rvit_tensor_info tensor = RVIT_TENSOR_INFO_INIT;
        const int32_t index = rvit_tensors_find(files[i], name);
        if (index < 0)
            continue;
        rvit_status status = rvit_tensors_get(files[i], index, &tensor);
        if (status == RVIT_OK && tensor.rank <= 1 && (tensor.rank == 0 || tensor.shape[0] == 1)) {
            status = rvit_tensors_read(files[i], index, 0, 1, &value);
            if (status != RVIT_OK)
                return complain_status(paths[i], status);
            *out = (double)value;
            *out_from = paths[i];
        }
        if (!*out_from || !isfinite(value))
            return fail_with(EXIT_FILE, paths[i], "tensor '%s' is not a single finite number", name);
    }
    return EXIT_OK;
}

/* Whether the image embedding is the output of attention pooling, without a projection. */
static bool is_siglip(const rvit_tensors *model_file, const rvit_model_info *model)
{
    return model->pooling == RVIT_POOLING_MAP && rvit_tensors_find(model_file, "head.weight") < 0 &&
           rvit_tensors_find(model_file, "visual.trunk.head.weight") < 0;
}

static int read_scale(const struct options *options, const rvit_tensors *text_file, const rvit_model_info *model, struct zero_shot *out)
{
    rvit_tensors *model_file = NULL;
    const rvit_status status = rvit_tensors_open(options->model, NULL, &model_file);
    if (status != RVIT_OK)
        return complain_status(options->model, status);
    const char *const paths[2] = {options->model, out->path};
    const rvit_tensors *const files[2] = {model_file, text_file};
    const char *bias_from = NULL;
    double logarithm = 0;
    int code = read_number("logit_scale", paths, files, &logarithm, &out->scale_from);
    if (code == EXIT_OK)
        code = read_number("logit_bias", paths, files, &out->bias, &bias_from);
    out->scale = out->scale_from ? exp(logarithm) : CLIP_SCALE;
    if (code == EXIT_OK && !isfinite((float)out->scale))
        code = fail_with(EXIT_FILE, out->scale_from, "tensor 'logit_scale' is %g, whose exponential is not finite", logarithm);
    out->scores = bias_from || is_siglip(model_file, model) ? ZERO_SHOT_SIGMOID : ZERO_SHOT_SOFTMAX;
    if (out->scores == ZERO_SHOT_SIGMOID && (!out->scale_from || !bias_from)) {
        out->scores = ZERO_SHOT_COSINE;
        out->scale = 1;
        out->bias = 0;
    }
    rvit_tensors_destroy(model_file);
    return code;
}

int zero_shot_open(const struct options *options, const rvit_model_info *model, struct zero_shot *out)
{
    *out = (struct zero_shot){.path = options->text_embeddings};
    if (model->embedding_dim == 0)
        return fail_with(EXIT_DEVICE, options->model,
                         "has no embedding to compare with texts: it is neither a CLIP with its projection nor a SigLIP with its "
                         "attention pooling");
    rvit_tensors *file = NULL;
    const rvit_status status = rvit_tensors_open(out->path, NULL, &file);
    if (status != RVIT_OK)
        return complain_status(out->path, status);
    int code = read_texts(options, file, model, out);
    if (code == EXIT_OK)
        code = read_scale(options, file, model, out);
    rvit_tensors_destroy(file);
    return code;
}

void zero_shot_free(struct zero_shot *self)
{
    free(self->texts);
    self->texts = NULL;
}

void zero_shot_score(const struct zero_shot *self, const float *image, float *out)
{
    for (int32_t t = 0; t < self->n_texts; t++) {
        const float *row = self->texts + (int64_t)t * self->width;
        double cosine = 0;
        for (int32_t i = 0; i < self->width; i++)
            cosine += (double)row[i] * (double)image[i];
        out[t] = (float)(self->scale * cosine + self->bias);
    }
}

const char *zero_shot_scores_name(const struct zero_shot *self)
{
    static const char *const names[] = {[ZERO_SHOT_SOFTMAX] = "softmax", [ZERO_SHOT_SIGMOID] = "sigmoid", [ZERO_SHOT_COSINE] = "cosine"};
    return names[self->scores];
}

void zero_shot_describe(const struct zero_shot *self, char *out, size_t size)
{
    const int n = snprintf(out, size, "%d, %d wide; ", self->n_texts, self->width);
    if (n < 0 || (size_t)n >= size)
        return;
    out += n;
    size -= (size_t)n;
    if (self->scores == ZERO_SHOT_COSINE)
        snprintf(out, size, "cosine, not a probability: no file has both logit_scale and logit_bias");
    else if (self->scores == ZERO_SHOT_SIGMOID)
        snprintf(out, size, "sigmoid of %.6g x cosine %+.6g", self->scale, self->bias);
    else
        snprintf(out, size, "softmax of %.6g x cosine%s", self->scale, self->scale_from ? "" : " (no file has logit_scale)");
}
