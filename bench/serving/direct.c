#include "direct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

direct direct_open(const direct_options *options, int32_t index)
{
    direct d = {.info = RVIT_MODEL_INFO_INIT, .prune = policy_parse(options->prune)};
    rvit_device_desc device = options->device;
    rvit_checkpoint *checkpoint;
    rvit_model_desc precision = RVIT_MODEL_DESC_INIT;
    device.index = index;
    precision.dtype = options->dtype;
    bench_check(rvit_device_create(&device, &d.device), "device");
    bench_check(rvit_checkpoint_open(options->checkpoint, NULL, &checkpoint), "checkpoint");
    bench_check(rvit_model_create(d.device, checkpoint, &precision, &d.model), "model");
    bench_check(rvit_model_get_info(d.model, &d.info), "model");
    rvit_checkpoint_destroy(checkpoint);
    return d;
}

void direct_close(direct *d)
{
    rvit_model_destroy(d->model);
    rvit_device_destroy(d->device);
}

rvit_image direct_image(const image_set *p, int32_t index)
{
    rvit_image image = RVIT_IMAGE_INIT;
    image.data = p->pixels + p->at[index];
    image.width = p->widths[index];
    image.height = p->heights[index];
    return image;
}

/* Upper bound of the bytes that a run of any max_images images needs: each counts as the largest one. */
static int64_t region_size(const direct *d, const image_set *p, int32_t max_images)
{
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    bench_check(rvit_model_get_recipe(d->model, &recipe), "recipe");
    int64_t largest = 0;
    for (int32_t i = 0; i < p->n; i++) {
        const rvit_image image = direct_image(p, i);
        rvit_images_args args = RVIT_IMAGES_ARGS_INIT;
        args.recipe = &recipe;
        args.images = &image;
        args.n_images = 1;
        args.max_images = max_images;
        args.max_rows = (int64_t)max_images * d->info.tokens;
        args.patch_size = d->info.patch_size;
        args.n_prefix = d->info.n_prefix;
        int64_t size;
        bench_check(rvit_images_write(&args, NULL, 0, &size), "images");
        largest = size > largest ? size : largest;
    }
    return largest * max_images;
}

rvit_session *direct_session(const direct *d, const image_set *p, int32_t max_images)
{
    rvit_session *session;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = max_images;
    desc.prune = &d->prune.desc;
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = region_size(d, p, max_images);
    bench_check(rvit_session_create(d->model, &desc, &session), "session");
    return session;
}

float *direct_logits(const direct_options *options, const image_set *p, int32_t *out_n_classes)
{
    direct d = direct_open(options, options->n_devices > 0 ? options->devices[0] : -1);
    const size_t n_classes = (size_t)d.info.n_classes;
    float *logits = calloc((size_t)p->n * n_classes + 1, sizeof *logits);
    if (n_classes == 0 || logits == NULL) {
        fprintf(stderr, "bench: %s: %s\n", options->checkpoint, logits == NULL ? "out of memory" : "has no head, so there are no logits");
        exit(1);
    }
    rvit_session *session = direct_session(&d, p, options->max_images);
    for (int32_t i = 0; i < p->n; i++) {
        const rvit_image image = direct_image(p, i);
        rvit_run_args run = RVIT_RUN_ARGS_INIT;
        run.n_images = 1;
        run.input.kind = RVIT_INPUT_IMAGES;
        run.input.data = &image;
        bench_check(rvit_session_run(session, &run, logits + (size_t)i * n_classes), "run");
    }
    rvit_session_destroy(session);
    direct_close(&d);
    *out_n_classes = (int32_t)n_classes;
    return logits;
}

int has_equal_logits(const float *logits, int32_t n, int32_t n_classes)
{
    const size_t length = (size_t)n_classes;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++)
            if (memcmp(logits + (size_t)i * length, logits + (size_t)j * length, length * sizeof *logits) == 0) {
                fprintf(stderr, "bench: images %d and %d have the same logits\n", (int)j, (int)i);
                return 1;
            }
    return 0;
}
