/* jpeg_files IMAGE FOLDER: writes the image to the folder as JPEG files of every kind that decoders treat differently. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "tools/cli/image_file.h"

struct file {
    unsigned char *data;
    size_t size;
};

struct kind {
    const char *name;
    int horizontal, vertical; /* luma samples per chroma sample */
    J_COLOR_SPACE space;      /* in the file */
    bool is_progressive;
    int restart; /* blocks between markers */
};

static const struct kind kinds[] = {
    {"444", 1, 1, JCS_YCbCr, false, 0},       {"422", 2, 1, JCS_YCbCr, false, 0},       {"440", 1, 2, JCS_YCbCr, false, 0},
    {"420", 2, 2, JCS_YCbCr, false, 0},       {"grey", 1, 1, JCS_GRAYSCALE, false, 0},  {"progressive", 2, 2, JCS_YCbCr, true, 0},
    {"restart", 2, 2, JCS_YCbCr, false, 5},   {"other_411", 4, 1, JCS_YCbCr, false, 0}, {"other_rgb", 1, 1, JCS_RGB, false, 0},
    {"other_cmyk", 1, 1, JCS_CMYK, false, 0},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static struct file encode(const struct image *image, const struct kind *kind)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr manager;
    struct file out = {NULL, 0};
    unsigned long size = 0;
    const bool is_cmyk = kind->space == JCS_CMYK;
    unsigned char *line = malloc(4 * (size_t)image->width);
    jpeg.err = jpeg_std_error(&manager);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &out.data, &size);
    jpeg.image_width = (JDIMENSION)image->width;
    jpeg.image_height = (JDIMENSION)image->height;
    jpeg.input_components = is_cmyk ? 4 : 3;
    jpeg.in_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_colorspace(&jpeg, kind->space);
    jpeg_set_quality(&jpeg, 85, TRUE);
    jpeg.comp_info[0].h_samp_factor = kind->horizontal;
    jpeg.comp_info[0].v_samp_factor = kind->vertical;
    jpeg.restart_interval = (unsigned)kind->restart;
    if (kind->is_progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (line && jpeg.next_scanline < jpeg.image_height) {
        unsigned char *row = image->pixels + 3 * (size_t)image->width * jpeg.next_scanline;
        for (int32_t x = 0; is_cmyk && x < image->width; x++) {
            memcpy(line + 4 * x, row + 3 * x, 3);
            line[4 * x + 3] = 255;
        }
        row = is_cmyk ? line : row;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    free(line);
    out.size = size;
    return out;
}

/* Writes part of another file's bytes, with inserted or appended bytes. */
static bool write_file(const char *folder, const char *name, const void *data, size_t size, const void *more, size_t more_size,
                       const void *rest, size_t rest_size)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.jpg", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    const bool ok = fwrite(data, 1, size, file) == size && fwrite(more, 1, more_size, file) == more_size &&
                    fwrite(rest, 1, rest_size, file) == rest_size;
    return fclose(file) == 0 && ok;
}

int main(int argc, char **argv)
{
    static const unsigned char exif[36] = {0xff, 0xe1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                                           0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   6,   0, 0,  0, 0, 0, 0};
    struct image image;
    struct image_error error;
    bool ok = argc == 3 && image_load(argv[1], &image, &error);
    for (int k = 0; ok && k < N_KINDS; k++) {
        const struct file file = encode(&image, &kinds[k]);
        ok = write_file(argv[2], kinds[k].name, file.data, file.size, NULL, 0, NULL, 0);
        if (strcmp(kinds[k].name, "420") == 0) {
            ok = ok && write_file(argv[2], "turned", file.data, 2, exif, sizeof exif, file.data + 2, file.size - 2);
            ok = ok && write_file(argv[2], "followed", file.data, file.size, file.data, file.size, "rest", 4);
            ok = ok && write_file(argv[2], "bad_cut", file.data, file.size / 2, NULL, 0, NULL, 0);
        }
        unsigned char *frame = strcmp(kinds[k].name, "444") == 0 ? memmem(file.data, file.size, "\xff\xc0", 2) : NULL;
        if (frame) {
            frame[4] = 12; /* bits */
            ok = ok && write_file(argv[2], "bad_12_bits", file.data, file.size, NULL, 0, NULL, 0);
        }
        free(file.data);
    }
    if (ok)
        image_free(&image);
    else
        fprintf(stderr, "jpeg_files: failed\n");
    return ok ? 0 : 1;
}
