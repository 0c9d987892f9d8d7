#include "input_source.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image_file.h"

/* A JPEG is decoded at no less than this times its resized size, because the filter still passes some of the frequencies that libjpeg
   drops. */
#define MIN_REDUCED_SCALE 3

enum { ERROR_TEXT = 160 };

int input_source_open(const struct inputs *inputs, struct input_source *out)
{
    char text[ERROR_TEXT];
    int number;
    *out = (struct input_source){.inputs = inputs, .stream = inputs->video ? rvit_input_open(&number) : NULL};
    if (!inputs->video || out->stream)
        return EXIT_OK;
    return fail_with(EXIT_FAULT, NULL, "cannot create a pipe: %s", rvit_error_text(number, text, sizeof text));
}

static void sheet_release(struct input_sheet *sheet)
{
    if (!sheet || atomic_fetch_sub(&sheet->n_users, 1) > 1)
        return;
    image_free(&sheet->image);
    free(sheet);
}

void input_source_stop(struct input_source *self)
{
    if (self->stream)
        rvit_input_stop(self->stream);
}

void input_source_close(struct input_source *self)
{
    rvit_input_close(self->stream);
    sheet_release(self->sheet);
    *self = (struct input_source){0};
}

/* Video */

static bool next_frame(struct input_source *self, struct input_work *out)
{
    const size_t size = video_frame_size(self->inputs->video);
    const long long number = (long long)self->position;
    char text[ERROR_TEXT];
    size_t n_read = 0;
    int64_t n = 1;
    int failure = 0;
    *out = (struct input_work){.input = {self->inputs->files.paths[0], -1, self->position, self->position}, .frame = malloc(size)};
    self->ended = true;
    if (!out->frame) {
        out->is_bad = true;
        snprintf(out->error.text, sizeof out->error.text, "frame %lld: out of memory", number);
        return true;
    }
    for (; n > 0 && n_read<size; n_read += n> 0 ? (size_t)n : 0)
        n = rvit_input_read(self->stream, out->frame + n_read, size - n_read, &failure);
    if (n_read == size) {
        self->position++;
        self->ended = false;
        return true;
    }
    if (n == RVIT_INPUT_STOPPED || (n == 0 && n_read == 0 && number > 0)) {
        input_work_free(out);
        return false;
    }
    if (n == RVIT_INPUT_FAILED)
        snprintf(out->error.text, sizeof out->error.text, "frame %lld cannot be read: %s", number,
                 rvit_error_text(failure, text, sizeof text));
    else if (n_read > 0)
        snprintf(out->error.text, sizeof out->error.text, "ends inside frame %lld, after %zu of its %zu bytes", number, n_read, size);
    else
        snprintf(out->error.text, sizeof out->error.text, "ends before the first frame");
    out->is_bad = true;
    return true;
}

/* Files */

int64_t input_count_tiles(const struct inputs *inputs, const char *path)
{
    struct image_error error;
    int32_t width, height;
    if (inputs->tiles == 0)
        return 1;
    if (!image_load_size(path, &width, &height, &error) || width % inputs->tiles || height % inputs->tiles)
        return 0;
    return (int64_t)(width / inputs->tiles) * (height / inputs->tiles);
}

static bool load_file(const struct inputs *inputs, struct nvjpeg_decoder *decoder, const char *path, struct image *out,
                      struct image_error *error)
{
    return inputs->nvjpeg ? nvjpeg_load(inputs->nvjpeg, decoder, path, out, error) : image_load(path, out, error);
}

/* Skips a sheet that cannot be cut, with as many positions as its header has tiles. */
static void bad_sheet(struct input_source *self, struct input_work *out)
{
    out->is_bad = true;
    out->input.tile = -1;
    self->position += input_count_tiles(self->inputs, out->input.path);
    self->file++;
}

/* Loads the sheet at the read position. */
static bool load_sheet(struct input_source *self, struct nvjpeg_decoder *decoder, struct image_error *error)
{
    const int32_t size = self->inputs->tiles;
    struct image image;
    if (!load_file(self->inputs, decoder, self->inputs->files.paths[self->file], &image, error))
        return false;
    if (image.width % size || image.height % size) {
        snprintf(error->text, sizeof error->text, "%d x %d pixels cannot be cut into tiles of %d", image.width, image.height, size);
        image_free(&image);
        return false;
    }
    self->sheet = malloc(sizeof *self->sheet);
    if (!self->sheet) {
        image_free(&image);
        return image_fail(error, "out of memory");
    }
    self->sheet->image = image;
    atomic_init(&self->sheet->n_users, 1);
    self->tile = 0;
    return true;
}

static bool next_tile(struct input_source *self, struct nvjpeg_decoder *decoder, struct input_work *out)
{
    if (self->file == self->inputs->files.n)
        return false;
    *out = (struct input_work){.input = {self->inputs->files.paths[self->file], self->tile, -1, self->position}};
    if (!self->sheet && !load_sheet(self, decoder, &out->error)) {
        bad_sheet(self, out);
        return true;
    }
    const int32_t size = self->inputs->tiles;
    const int32_t n_tiles = (self->sheet->image.width / size) * (self->sheet->image.height / size);
    out->input.tile = self->tile++;
    if (shard_has(&self->inputs->shard, self->position++)) {
        out->sheet = self->sheet;
        atomic_fetch_add(&self->sheet->n_users, 1);
    }
    if (self->tile == n_tiles) {
        sheet_release(self->sheet);
        self->sheet = NULL;
        self->file++;
    }
    return true;
}

static bool next_file(struct input_source *self, struct input_work *out)
{
    if (self->file == self->inputs->files.n)
        return false;
    *out = (struct input_work){.input = {self->inputs->files.paths[self->file], -1, -1, self->position++}};
    self->file++;
    return true;
}

static bool next_of_all(struct input_source *self, struct nvjpeg_decoder *decoder, struct input_work *out)
{
    if (self->ended || self->position >= self->inputs->limit)
        return false;
    return self->inputs->video ? next_frame(self, out) : self->inputs->tiles ? next_tile(self, decoder, out) : next_file(self, out);
}

bool input_source_next(struct input_source *self, struct nvjpeg_decoder *decoder, struct input_work *out)
{
    while (next_of_all(self, decoder, out))
        if (shard_has(&self->inputs->shard, out->input.position))
            return true; /* images of other shards own no memory: they have no frame or sheet */
    return false;
}

/* Preparing */

struct image_view input_work_tile(const struct inputs *inputs, const struct input_work *work)
{
    struct image_view view = image_whole(&work->sheet->image);
    const int32_t columns = view.width / inputs->tiles;
    const int64_t row = work->input.tile / columns, column = work->input.tile % columns;
    view.pixels += row * inputs->tiles * view.stride + column * inputs->tiles * 3;
    view.width = view.height = inputs->tiles;
    return view;
}

bool input_load_reduced(const char *path, const rvit_image_recipe *recipe, const rvit_image *original, struct image *out,
                        struct image_error *error)
{
    rvit_image_geometry geometry = RVIT_IMAGE_GEOMETRY_INIT;
    if (!preprocess_image(recipe, original, NULL, &geometry, error))
        return false;
    const int64_t min_width = MIN_REDUCED_SCALE * geometry.width, min_height = MIN_REDUCED_SCALE * geometry.height;
    if (min_width > original->width || min_height > original->height)
        return image_load(path, out, error);
    return image_load_reduced(path, (int32_t)min_width, (int32_t)min_height, out, error);
}

static bool load(const struct inputs *inputs, struct nvjpeg_decoder *decoder, struct input_work *work, struct image *out,
                 rvit_image *out_original)
{
    *out_original = (rvit_image)RVIT_IMAGE_INIT;
    if (!work->frame && inputs->reduces)
        return image_load_size(work->input.path, &out_original->width, &out_original->height, &work->error) &&
               input_load_reduced(work->input.path, inputs->recipe, out_original, out, &work->error);
    if (!work->frame)
        return load_file(inputs, decoder, work->input.path, out, &work->error);
    if (!image_create(inputs->video->width, inputs->video->height, out, &work->error))
        return false;
    video_to_rgb(inputs->video, work->frame, out);
    return true;
}

bool input_work_prepare(const struct inputs *inputs, struct nvjpeg_decoder *decoder, struct input_work *work, float *out_values,
                        struct image *out_image)
{
    if (work->is_bad)
        return false;
    if (work->sheet) {
        const struct image_view view = input_work_tile(inputs, work);
        rvit_image tile = preprocess_source(view);
        tile.target_width = inputs->recipe->width;
        tile.target_height = inputs->recipe->height;
        return preprocess_image(inputs->recipe, &tile, out_values, NULL, &work->error) &&
               (!out_image || image_copy(view, out_image, &work->error));
    }
    rvit_image original;
    struct image image;
    if (!load(inputs, decoder, work, &image, &original))
        return false;
    rvit_image source = preprocess_source(image_whole(&image));
    source.original_width = original.width;
    source.original_height = original.height;
    const bool ok = preprocess_image(inputs->recipe, &source, out_values, NULL, &work->error);
    if (ok && out_image)
        *out_image = image;
    else
        image_free(&image);
    return ok;
}

void input_work_free(struct input_work *work)
{
    sheet_release(work->sheet);
    free(work->frame);
    work->sheet = NULL;
    work->frame = NULL;
}
