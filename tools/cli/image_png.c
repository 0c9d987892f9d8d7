/* Reads and writes PNG files. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "image_png.h"
#include "image_reader.h"
#include "orientation.h"
#include "output_file.h"

static void png_on_error(png_structp png, png_const_charp message)
{
    struct image_error *error = png_get_error_ptr(png);
    snprintf(error->text, sizeof error->text, "broken PNG: %s", message);
    png_longjmp(png, 1);
}

static void png_on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void png_read_memory(png_structp png, png_bytep out, size_t size)
{
    struct image_reader *input = png_get_io_ptr(png);
    if (size > input->size - input->offset)
        png_error(png, "the file ends too early");
    memcpy(out, input->data + input->offset, size);
    input->offset += size;
}

static bool png_read_all(png_structp png, png_infop info, struct image_reader *input)
{
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_set_read_fn(png, input, png_read_memory);
    /* -1: ignores all chunks that do not affect the pixels. Otherwise up to a thousand comments and colour profiles of 8 MB each would be
       decompressed. */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(png, info);
    const int32_t width = (int32_t)png_get_image_width(png, info), height = (int32_t)png_get_image_height(png, info);
    if (input->size_only)
        return image_reader_create(input, width, height);
    png_set_strip_16(png);
    png_set_expand(png); /* palette to RGB, grey of 1, 2 and 4 bits to 8, transparency to alpha */
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    const int n_passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != (size_t)width * 3)
        png_error(png, "unexpected pixel format");
    if (!image_reader_create(input, width, height))
        return false;
    for (int pass = 0; pass < n_passes; pass++)
        for (int32_t y = 0; y < height; y++)
            png_read_row(png, input->result.pixels + (size_t)y * (size_t)width * 3, NULL);
    png_read_end(png, NULL);
    return true;
}

bool image_read_png(struct image_reader *input)
{
    input->orientation = orientation_of_png(input->data, input->size);
    if (input->orientation == 0)
        return image_fail(input->error, "out of memory");
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, input->error, png_on_error, png_on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    const bool ok = info ? png_read_all(png, info, input) : image_fail(input->error, "out of memory");
    png_destroy_read_struct(&png, &info, NULL);
    return ok;
}

/* Encodes in memory, because libpng does not report why a file cannot be written. */
static bool encode_png(const struct image *image, void **out_data, size_t *out_size, struct image_error *error)
{
    png_image png = {
        .version = PNG_IMAGE_VERSION, .width = (png_uint_32)image->width, .height = (png_uint_32)image->height, .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
    *out_data = malloc(size);
    if (!*out_data)
        return image_fail(error, "cannot be written: out of memory");
    if (!png_image_write_to_memory(&png, *out_data, &size, 0, image->pixels, 0, NULL))
        return image_fail(error, "cannot be written: %s", png.message);
    *out_size = size;
    return true;
}

bool image_write_png(const char *path, const struct image *image, struct image_error *error)
{
    void *data;
    size_t size = 0;
    struct output_file file = {0};
    bool written = encode_png(image, &data, &size, error);
    if (written) {
        written = output_file_open(path, &file) && output_file_write(&file, data, size) && output_file_commit(&file);
        snprintf(error->text, sizeof error->text, "%s", file.reason);
        output_file_close(&file);
    }
    free(data);
    return written;
}
