/* Reads JPEG files with libjpeg. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "image_reader.h"
#include "orientation.h"

/* Encoders write about ten scans, at most about twenty. The largest image may have that many. */
#define JPEG_MAX_SCANS 500
#define JPEG_MAX_SCANNED_PIXELS (20 * IMAGE_MAX_PIXELS)

struct jpeg_decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr manager;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    struct image_reader *input;
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

/* Limits the work, because a scan of a few bytes may cover the whole image. Called for every row of blocks. */
static void jpeg_on_progress(j_common_ptr common)
{
    const j_decompress_ptr jpeg = (j_decompress_ptr)common;
    struct jpeg_decoder *self = jpeg->client_data;
    struct image_error *error = self->input->error;
    const int64_t n_scans = jpeg->input_scan_number, n_pixels = (int64_t)jpeg->image_width * jpeg->image_height;
    if (n_scans <= JPEG_MAX_SCANS && n_scans * n_pixels <= JPEG_MAX_SCANNED_PIXELS)
        return;
    if (n_scans > JPEG_MAX_SCANS)
        snprintf(error->text, sizeof error->text, "JPEG with more than %d scans", JPEG_MAX_SCANS);
    else
        snprintf(error->text, sizeof error->text,
                 "JPEG with %lld or more scans of %lld pixels; at most %lld pixels are decoded in all scans together", (long long)n_scans,
                 (long long)n_pixels, (long long)JPEG_MAX_SCANNED_PIXELS);
    longjmp(self->escape, 1);
}

/* Converts Adobe's inverted CMYK with Pillow's arithmetic: products of 8-bit values are divided by 255 with rounding. */
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

/* Lets libjpeg decode at a smaller scale. Only if it divides the size, because otherwise the smaller image would cover slightly more than
   the whole one. */
static void reduce(j_decompress_ptr jpeg, const struct image_reader *input)
{
    const int64_t width = jpeg->image_width, height = jpeg->image_height;
    const bool swaps = orientation_swaps(input->orientation);
    const int64_t min_width = swaps ? input->min_height : input->min_width;
    const int64_t min_height = swaps ? input->min_width : input->min_height;
    if (min_width <= 0 || min_height <= 0)
        return;
    for (int64_t factor = 2; factor <= 8; factor *= 2)
        if (width % factor == 0 && height % factor == 0 && width >= factor * min_width && height >= factor * min_height)
            jpeg->scale_denom = (unsigned)factor;
}

static bool jpeg_read_all(struct jpeg_decoder *self)
{
    j_decompress_ptr jpeg = &self->jpeg;
    struct image_reader *input = self->input;
    if (setjmp(self->escape))
        return false;
    jpeg_create_decompress(jpeg);
    self->progress.progress_monitor = jpeg_on_progress;
    jpeg->progress = &self->progress;
    jpeg_mem_src(jpeg, input->data, (unsigned long)input->size);
    jpeg_read_header(jpeg, TRUE);
    const int32_t width = (int32_t)jpeg->image_width, height = (int32_t)jpeg->image_height;
    if (input->size_only)
        return image_reader_create(input, width, height);
    const int n_components = jpeg->num_components;
    if (n_components != 1 && n_components != 3 && n_components != 4)
        return image_fail(input->error, "JPEG with %d colour components; supported: 1, 3 and 4", n_components);
    reduce(jpeg, input);
    jpeg_calc_output_dimensions(jpeg);
    const int32_t out_width = (int32_t)jpeg->output_width, out_height = (int32_t)jpeg->output_height;
    jpeg->out_color_space = n_components == 1 ? JCS_GRAYSCALE : n_components == 3 ? JCS_RGB : JCS_CMYK;
    if (!image_reader_create(input, out_width, out_height))
        return false;
    self->line = malloc((size_t)out_width * 4);
    if (!self->line)
        return image_fail(input->error, "out of memory");
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

bool image_read_jpeg(struct image_reader *input)
{
    struct jpeg_decoder self = {.input = input};
    input->orientation = orientation_of_jpeg(input->data, input->size);
    if (input->orientation == 0)
        return image_fail(input->error, "out of memory");
    self.jpeg.err = jpeg_std_error(&self.manager);
    self.jpeg.client_data = &self;
    self.manager.error_exit = jpeg_on_error;
    self.manager.emit_message = jpeg_on_message;
    const bool ok = jpeg_read_all(&self);
    jpeg_destroy_decompress(&self.jpeg);
    free(self.line);
    return ok;
}
