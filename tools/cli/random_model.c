#include "random_model.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/base/os_program.h"
#include "json.h"

enum { DEPTH = 12, PATCH_VALUES = 768 };

static const struct shape {
    int32_t n_heads;
    const char *architecture; /* of timm; "": the reader says it */
    int32_t tokens, n_classes, n_predictors;
    int exponent; /* biased, of the smaller half of the random values */
} shapes[] = {{RANDOM_MODEL_SMALL, "", 50, 10, 3, 10},
              {3, "deit_tiny_patch16_224", 197, 1000, 0, 8},
              {6, "deit_small_patch16_224", 197, 1000, 0, 8},
              {12, "deit_base_patch16_224", 197, 1000, 0, 8}};
enum { ZERO = 0, ONE = 0x3c00, RANDOM = -1 }; /* f16 bits of all values, or random values */

struct writer {
    const struct shape *shape;
    json_t *header;
    int64_t size; /* bytes of the tensors so far */
    FILE *file;   /* NULL while the header is made */
    uint64_t state;
};

/* Adds a tensor of up to four dimensions; 0 ends the shape. */
static void add(struct writer *self, const char *name, int value, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t shape[] = {a, b, c, d};
    json_t *dims = json_array();
    int64_t n = 1;
    for (int i = 0; i < 4 && shape[i] > 0; i++) {
        json_array_append_new(dims, json_integer(shape[i]));
        n *= shape[i];
    }
    if (!self->file) {
        const json_int_t begin = self->size, end = begin + 2 * n;
        json_object_set_new(self->header, name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F16", "shape", dims, "data_offsets", begin, end));
        self->size = end;
        return;
    }
    json_decref(dims);
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits = (uint16_t)value;
        if (value == RANDOM) { /* a factor of 4 between the smallest and the largest, with random sign */
            self->state ^= self->state << 13, self->state ^= self->state >> 7, self->state ^= self->state << 17;
            bits = (uint16_t)((self->state >> 63) << 15 | ((uint64_t)self->shape->exponent + (self->state >> 40 & 1)) << 10 |
                              (self->state >> 20 & 1023));
        }
        fputc(bits & 255, self->file);
        fputc(bits >> 8, self->file);
    }
}

static void add_layer(struct writer *self, const char *prefix, const char *name, int64_t out, int64_t in)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s.weight", prefix, name);
    add(self, full, in > 0 ? RANDOM : ONE, out, in, 0, 0);
    snprintf(full, sizeof full, "%s%s.bias", prefix, name);
    add(self, full, ZERO, out, 0, 0, 0);
}

/* DynamicViT's. */
static void add_predictor(struct writer *self, int index, int64_t dim)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "score_predictor.%d.", index);
    add_layer(self, prefix, "in_conv.0", dim, 0);
    add_layer(self, prefix, "in_conv.1", dim, dim);
    add_layer(self, prefix, "out_conv.0", dim / 2, dim);
    add_layer(self, prefix, "out_conv.2", dim / 4, dim / 2);
    add_layer(self, prefix, "out_conv.4", 2, dim / 4);
}

static void add_all(struct writer *self)
{
    const int64_t dim = 64 * (int64_t)self->shape->n_heads;
    add(self, "cls_token", RANDOM, 1, 1, dim, 0);
    add(self, "pos_embed", RANDOM, 1, self->shape->tokens, dim, 0);
    add(self, "patch_embed.proj.weight", RANDOM, dim, 3, 16, PATCH_VALUES / (3 * 16));
    add(self, "patch_embed.proj.bias", ZERO, dim, 0, 0, 0);
    for (int i = 0; i < DEPTH; i++) {
        char block[32];
        snprintf(block, sizeof block, "blocks.%d.", i);
        add_layer(self, block, "norm1", dim, 0);
        add_layer(self, block, "attn.qkv", 3 * dim, dim);
        add_layer(self, block, "attn.proj", dim, dim);
        add_layer(self, block, "norm2", dim, 0);
        add_layer(self, block, "mlp.fc1", 4 * dim, dim);
        add_layer(self, block, "mlp.fc2", dim, 4 * dim);
    }
    add_layer(self, "", "norm", dim, 0);
    add_layer(self, "", "head", self->shape->n_classes, dim);
    for (int i = 0; i < self->shape->n_predictors; i++)
        add_predictor(self, i, dim);
}

static bool write_all(FILE *file, int32_t n_heads)
{
    struct writer self = {.shape = shapes, .header = json_object(), .state = 0x9e3779b97f4a7c15u};
    while (self.shape->n_heads != n_heads)
        self.shape++;
    if (self.shape->architecture[0])
        json_object_set_new(self.header, "__metadata__", json_pack("{s:s}", "architecture", self.shape->architecture));
    add_all(&self);
    char *text = json_dumps(self.header, JSON_COMPACT);
    json_decref(self.header);
    if (!text)
        return false;
    const uint64_t length = strlen(text);
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> 8 * i & 255), file);
    fputs(text, file);
    free(text);
    self.file = file;
    add_all(&self);
    return !ferror(file);
}

int random_model_open(int32_t n_heads, struct random_model *out)
{
    char text[160];
    int number;
    out->file = rvit_temporary_file(out->path, sizeof out->path, &number);
    if (out->file && write_all(out->file, n_heads) && fflush(out->file) == 0)
        return EXIT_OK;
    complain(NULL, "random weights cannot be written: %s", out->file ? strerror(errno) : rvit_error_text(number, text, sizeof text));
    random_model_close(out);
    return EXIT_FAULT;
}

void random_model_close(struct random_model *self)
{
    if (self->file)
        fclose(self->file);
    self->file = NULL;
}
