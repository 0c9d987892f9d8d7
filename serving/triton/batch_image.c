#include "batch_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "image_file.h"

/* Planes already have the size of their target. */
static bool target_of_planes(struct batch_image *self)
{
    const struct image_plan *plan = self->plan;
    const int32_t patch = plan->patch_size, lines = self->height / patch, columns = self->width / patch;
    if (!plan->variable_resolution) {
        self->target = (struct image_target){lines, columns, plan->model_tokens};
        return true;
    }
    self->target = (struct image_target){lines, columns, plan->n_prefix + lines * columns};
    if (self->height % patch == 0 && self->width % patch == 0 && (int64_t)lines * columns <= plan->max_patches)
        return true;
    return image_fail(&self->error, "%d x %d pixels, expected multiples of the patch size %d and at most %d patches", self->width,
                      self->height, patch, plan->max_patches);
}

static void measure(struct batch_image *self, int32_t width, int32_t height, rvit_image_format format)
{
    self->image = image_for_run(self->plan, width, height, format, self->target);
    self->size = image_bytes(&self->image);
}

bool batch_image_measure(struct batch_image *self, bool is_planes, int64_t share)
{
    const struct image_plan *plan = self->plan;
    if (is_planes && !target_of_planes(self))
        return false;
    if (!is_planes && !image_target_of(plan, self->width, self->height, &self->target, &self->error))
        return false;
    self->weights = 0;
    self->is_prepared = false;
    if (!is_planes) {
        measure(self, self->width, self->height, RVIT_IMAGE_RGB8);
        self->weights = plan->on_host ? -1 : image_weight_bytes(plan, &self->image);
        self->is_prepared = self->weights < 0 || self->size + self->weights > share;
        if (!self->is_prepared)
            return true;
        self->weights = 0;
    }
    measure(self, image_target_width(plan, self->target), image_target_height(plan, self->target), RVIT_IMAGE_PLANAR_F32);
    return true;
}

static uint8_t *pixels_of(const struct batch_image *self)
{
    return (uint8_t *)(uintptr_t)self->image.data;
}

/* image_taker: decodes directly into the session's memory. */
static uint8_t *take(void *user, int32_t width, int32_t height, struct image_error *error)
{
    const struct batch_image *self = user;
    if (width == self->width && height == self->height)
        return pixels_of(self);
    snprintf(error->text, sizeof error->text, "%d x %d pixels, but the header has %d x %d", width, height, self->width, self->height);
    return NULL;
}

static bool prepare(struct batch_image *self, struct image_view view)
{
    const rvit_image source = image_source(self->plan, view, false, self->target);
    return preprocess_image(&self->plan->recipe, &source, (float *)(void *)pixels_of(self), NULL, &self->error);
}

static bool fill(struct batch_image *self)
{
    struct image decoded = {0};
    const struct image_taker taker = {take, self};
    if (self->source_size == 0)
        return prepare(self, (struct image_view){self->source, 3 * (int64_t)self->width, self->width, self->height});
    if (!self->is_prepared)
        return image_decode_to(self->source, self->source_size, &taker, &self->error);
    if (!image_decode(self->source, self->source_size, &decoded, &self->error))
        return false;
    const bool ok = decoded.width == self->width && decoded.height == self->height
                        ? prepare(self, image_whole(&decoded))
                        : image_fail(&self->error, "the size differs from the header");
    image_free(&decoded);
    return ok;
}

void batch_image_fill(struct batch_image *self)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    self->is_bad = !fill(self);
    clock_gettime(CLOCK_MONOTONIC, &end);
    self->seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}
