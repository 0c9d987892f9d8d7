#include "image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>
#include <png.h>

#include "orientation.h"
#include "output_file.h"
#include "regular_file.h"

/* Encoders write about ten scans, at most about twenty; the largest picture may have as many. */
#define JPEG_MAX_SCANS 500
#define JPEG_MAX_SCANNED_PIXELS (20 * IMAGE_MAX_PIXELS)
#define MAX_FILE_SIZE ((int64_t)2 << 30) /* larger than the largest uncompressed picture, with 16 bits and alpha */

/* Functions that call setjmp keep everything they change in this struct, so that longjmp leaves no local indeterminate. */
struct decoder {
    const uint8_t *data;
    size_t size, offset;
    bool size_only;
    int32_t least_width, least_height; /* of the pixels as they lie in the file; 0: the whole size */
    const struct image_taker *taker;   /* of pixels that lie upright in the file; NULL: they get memory of their own */
    struct image result;               /* owned until the decoder returns it */
    struct image_error *error;
};

static bool fail(struct image_error *error, const char *text)
{
    snprintf(error->text, sizeof error->text, "%s", text);
    return false;
}

bool image_check_size(int32_t width, int32_t height, struct image_error *error)
{
    if (width > 0 && height > 0 && (int64_t)width * height <= IMAGE_MAX_PIXELS)
        return true;
    snprintf(error->text, sizeof error->text, "%d x %d pixels; 1 to %lld in all are handled", width, height, (long long)IMAGE_MAX_PIXELS);
    return false;
}

bool image_create(int32_t width, int32_t height, struct image *out, struct image_error *error)
{
    if (!image_check_size(width, height, error))
        return false;
    uint8_t *pixels = malloc((size_t)width * (size_t)height * 3);
    if (!pixels)
        return fail(error, "out of memory");
    *out = (struct image){width, height, pixels};
    return true;
}

void image_free(struct image *picture)
{
    free(picture->pixels);
    *picture = (struct image){0, 0, NULL};
}

struct image_view image_whole(const struct image *picture)
{
    return (struct image_view){picture->pixels, (int64_t)picture->width * 3, picture->width, picture->height};
}

/* The memory of the result. */
static bool create_result(struct decoder *input, int32_t width, int32_t height)
{
    if (!input->taker)
        return image_create(width, height, &input->result, input->error);
    if (!image_check_size(width, height, input->error))
        return false;
    uint8_t *pixels = input->taker->take(input->taker->user, width, height, input->error);
    if (pixels)
        input->result = (struct image){width, height, pixels};
    return pixels != NULL;
}

/* PNG */

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
    struct decoder *input = png_get_io_ptr(png);
    if (size > input->size - input->offset)
        png_error(png, "the file ends too early");
    memcpy(out, input->data + input->offset, size);
    input->offset += size;
}

static bool png_read_all(png_structp png, png_infop info, struct decoder *input)
{
    if (setjmp(png_jmpbuf(png)))
        return false;
    png_set_read_fn(png, input, png_read_memory);
    /* -1: ignore all chunks that do not affect the pixels. Comments and colour profiles would be decompressed, up to 8 MB each and a
       thousand of them. */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(png, info);
    const int32_t width = (int32_t)png_get_image_width(png, info), height = (int32_t)png_get_image_height(png, info);
    if (input->size_only) {
        input->result.width = width;
        input->result.height = height;
        return image_check_size(width, height, input->error);
    }
    png_set_strip_16(png);
    png_set_expand(png); /* palette to RGB, grey of 1, 2 and 4 bits to 8, transparency to alpha */
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    const int n_passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != (size_t)width * 3)
        png_error(png, "unexpected pixel format");
    if (!create_result(input, width, height))
        return false;
    for (int pass = 0; pass < n_passes; pass++)
        for (int32_t y = 0; y < height; y++)
            png_read_row(png, input->result.pixels + (size_t)y * (size_t)width * 3, NULL);
    png_read_end(png, NULL);
    return true;
}

static bool png_decode(struct decoder *input)
{
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, input->error, png_on_error, png_on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    const bool ok = info ? png_read_all(png, info, input) : fail(input->error, "out of memory");
    png_destroy_read_struct(&png, &info, NULL);
    return ok;
}

/* JPEG */

struct jpeg_decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr manager;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    struct decoder *input;
    uint8_t *line; /* CMYK */
};

static void jpeg_on_error(j_common_ptr jpeg)
{
    struct jpeg_decoder *self = jpeg->client_data;
    char message[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, message);
    snprintf(self->input->error->text, sizeof self->input->error->text, "broken JPEG: %s", message);
    longjmp(self->escape, 1);
}

/* libjpeg only warns about damaged data and invents pixels. Stray bytes between markers and the like are harmless. */
static void jpeg_on_message(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC))
        jpeg_on_error(jpeg);
}

/* A scan of a few bytes may cover every block of the picture. Called for every line of blocks. */
static void jpeg_on_progress(j_common_ptr common)
{
    const j_decompress_ptr jpeg = (j_decompress_ptr)common;
    struct jpeg_decoder *self = jpeg->client_data;
    struct image_error *error = self->input->error;
    const int64_t n_scans = jpeg->input_scan_number, n_pixels = (int64_t)jpeg->image_width * jpeg->image_height;
    if (n_scans <= JPEG_MAX_SCANS && n_scans * n_pixels <= JPEG_MAX_SCANNED_PIXELS)
        return;
    if (n_scans > JPEG_MAX_SCANS)
        snprintf(error->text, sizeof error->text, "a JPEG of more than %d scans", JPEG_MAX_SCANS);
    else
        snprintf(error->text, sizeof error->text, "a JPEG of %lld or more scans of %lld pixels; %lld pixels in all are gone over",
                 (long long)n_scans, (long long)n_pixels, (long long)JPEG_MAX_SCANNED_PIXELS);
    longjmp(self->escape, 1);
}

/* Adobe's inverted CMYK, in Pillow's arithmetic: products of bytes are divided by 255 with rounding. */
static void cmyk_to_rgb(const uint8_t *in, int32_t n, uint8_t *out)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t black = in[4 * i + 3];
        for (int c = 0; c < 3; c++) {
            const int32_t product = (255 - in[4 * i + c]) * black + 128;
            const int32_t value = black - (((product >> 8) + product) >> 8);
            out[3 * i + c] = (uint8_t)(value < 0 ? 0 : value);
        }
    }
}

/* Lets libjpeg make a smaller picture from fewer frequencies. Only where no line or column is left over: else the smaller picture would
   cover a little more than the whole. */
static void reduce(j_decompress_ptr jpeg, const struct decoder *input)
{
    const int64_t width = jpeg->image_width, height = jpeg->image_height;
    if (input->least_width <= 0 || input->least_height <= 0)
        return;
    for (int64_t factor = 2; factor <= 8; factor *= 2)
        if (width % factor == 0 && height % factor == 0 && width >= factor * input->least_width && height >= factor * input->least_height)
            jpeg->scale_denom = (unsigned)factor;
}

static bool jpeg_read_all(struct jpeg_decoder *self)
{
    j_decompress_ptr jpeg = &self->jpeg;
    struct decoder *input = self->input;
    if (setjmp(self->escape))
        return false;
    jpeg_create_decompress(jpeg);
    self->progress.progress_monitor = jpeg_on_progress;
    jpeg->progress = &self->progress;
    jpeg_mem_src(jpeg, input->data, (unsigned long)input->size);
    jpeg_read_header(jpeg, TRUE);
    const int32_t width = (int32_t)jpeg->image_width, height = (int32_t)jpeg->image_height;
    if (input->size_only) {
        input->result.width = width;
        input->result.height = height;
        return image_check_size(width, height, input->error);
    }
    const int n_components = jpeg->num_components;
    if (n_components != 1 && n_components != 3 && n_components != 4) {
        snprintf(input->error->text, sizeof input->error->text, "a JPEG of %d colour components; 1, 3 and 4 are read", n_components);
        return false;
    }
    reduce(jpeg, input);
    jpeg_calc_output_dimensions(jpeg);
    const int32_t out_width = (int32_t)jpeg->output_width, out_height = (int32_t)jpeg->output_height;
    jpeg->out_color_space = n_components == 1 ? JCS_GRAYSCALE : n_components == 3 ? JCS_RGB : JCS_CMYK;
    if (!create_result(input, out_width, out_height))
        return false;
    self->line = malloc((size_t)out_width * 4);
    if (!self->line)
        return fail(input->error, "out of memory");
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *out = input->result.pixels + (size_t)jpeg->output_scanline * (size_t)out_width * 3;
        JSAMPROW row = n_components == 3 ? out : self->line;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (n_components == 4)
            cmyk_to_rgb(self->line, out_width, out);
        else if (n_components == 1)
            for (int32_t x = 0; x < out_width; x++)
                memset(out + 3 * (size_t)x, self->line[x], 3);
    }
    return true;
}

static bool jpeg_decode(struct decoder *input)
{
    struct jpeg_decoder self = {.input = input};
    self.jpeg.err = jpeg_std_error(&self.manager);
    self.jpeg.client_data = &self;
    self.manager.error_exit = jpeg_on_error;
    self.manager.emit_message = jpeg_on_message;
    const bool ok = jpeg_read_all(&self);
    jpeg_destroy_decompress(&self.jpeg);
    free(self.line);
    return ok;
}

/* Either */

/* How much of a picture is wanted. */
struct wanted {
    bool size_only;
    int32_t least_width, least_height; /* of the upright picture, of which smaller ones will do; 0: none will */
    const struct image_taker *taker;   /* NULL: out gets memory of its own */
};

/* A picture that lay on its side is handed over when it is upright. */
static bool hand_over(const struct image_taker *taker, struct image *picture, struct image_error *error)
{
    uint8_t *pixels = taker->take(taker->user, picture->width, picture->height, error);
    if (pixels)
        memcpy(pixels, picture->pixels, 3 * (size_t)picture->width * (size_t)picture->height);
    image_free(picture);
    picture->pixels = pixels;
    return pixels != NULL;
}

static bool decode(const void *data, size_t size, struct wanted wanted, struct image *out, struct image_error *error)
{
    static const uint8_t png_magic[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const uint8_t jpeg_magic[3] = {0xff, 0xd8, 0xff};
    struct decoder input = {.data = data, .size = size, .size_only = wanted.size_only, .error = error};
    int orientation;
    bool ok;
    if (size == 0)
        return fail(error, "the file is empty");
    if (size >= sizeof png_magic && memcmp(data, png_magic, sizeof png_magic) == 0) {
        orientation = orientation_of_png(data, size);
        input.taker = orientation == 1 ? wanted.taker : NULL;
        ok = png_decode(&input);
    } else if (size >= sizeof jpeg_magic && memcmp(data, jpeg_magic, sizeof jpeg_magic) == 0) {
        orientation = orientation_of_jpeg(data, size);
        input.taker = orientation == 1 ? wanted.taker : NULL;
        input.least_width = orientation_swaps(orientation) ? wanted.least_height : wanted.least_width;
        input.least_height = orientation_swaps(orientation) ? wanted.least_width : wanted.least_height;
        ok = jpeg_decode(&input);
    } else {
        return fail(error, "neither a PNG nor a JPEG image");
    }
    if (input.taker)
        return ok;
    if (ok && wanted.size_only && orientation_swaps(orientation))
        input.result = (struct image){input.result.height, input.result.width, NULL};
    else if (ok && !wanted.size_only)
        ok = orientation_apply(orientation, &input.result, error);
    if (!ok)
        free(input.result.pixels);
    else if (wanted.taker)
        ok = hand_over(wanted.taker, &input.result, error);
    else
        *out = input.result;
    return ok;
}

bool image_decode(const void *data, size_t size, struct image *out, struct image_error *error)
{
    return decode(data, size, (struct wanted){0}, out, error);
}

bool image_read_file(const char *path, char **out_data, size_t *out_size, struct image_error *error)
{
    return regular_file_read(path, MAX_FILE_SIZE, out_data, out_size, error->text, sizeof error->text) == REGULAR_FILE_READ;
}

static bool load(const char *path, struct wanted wanted, struct image *out, struct image_error *error)
{
    char *data = NULL;
    size_t size = 0;
    if (!image_read_file(path, &data, &size, error))
        return false;
    const bool ok = decode(data, size, wanted, out, error);
    free(data);
    return ok;
}

bool image_load(const char *path, struct image *out, struct image_error *error)
{
    return load(path, (struct wanted){0}, out, error);
}

bool image_decode_to(const void *data, size_t size, const struct image_taker *taker, struct image_error *error)
{
    return decode(data, size, (struct wanted){.taker = taker}, NULL, error);
}

bool image_load_to(const char *path, const struct image_taker *taker, struct image_error *error)
{
    return load(path, (struct wanted){.taker = taker}, NULL, error);
}

bool image_load_reduced(const char *path, int32_t least_width, int32_t least_height, struct image *out, struct image_error *error)
{
    return load(path, (struct wanted){.least_width = least_width, .least_height = least_height}, out, error);
}

bool image_load_size(const char *path, int32_t *out_width, int32_t *out_height, struct image_error *error)
{
    struct image header;
    if (!load(path, (struct wanted){.size_only = true}, &header, error))
        return false;
    *out_width = header.width;
    *out_height = header.height;
    return true;
}

bool image_decode_size(const void *data, size_t size, int32_t *out_width, int32_t *out_height, struct image_error *error)
{
    struct image header = {0};
    if (!decode(data, size, (struct wanted){.size_only = true}, &header, error))
        return false;
    *out_width = header.width;
    *out_height = header.height;
    return true;
}

/* Writing */

/* Encoded in memory: libpng does not say why a file cannot be written. */
static bool encode_png(const struct image *picture, void **out_data, size_t *out_size, struct image_error *error)
{
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)picture->width,
                     .height = (png_uint_32)picture->height,
                     .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
    *out_data = malloc(size);
    if (!*out_data) {
        snprintf(error->text, sizeof error->text, "cannot be written: out of memory");
        return false;
    }
    if (!png_image_write_to_memory(&png, *out_data, &size, 0, picture->pixels, 0, NULL)) {
        snprintf(error->text, sizeof error->text, "cannot be written: %s", png.message);
        return false;
    }
    *out_size = size;
    return true;
}

bool image_write_png(const char *path, const struct image *picture, struct image_error *error)
{
    void *data;
    size_t size;
    struct output_file file = {0};
    bool written = encode_png(picture, &data, &size, error);
    if (written) {
        written = output_file_open(path, &file) && output_file_write(&file, data, size) && output_file_commit(&file);
        snprintf(error->text, sizeof error->text, "%s", file.reason);
        output_file_close(&file);
    }
    free(data);
    return written;
}
