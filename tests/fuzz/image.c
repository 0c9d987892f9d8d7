/* Fuzzes the tool's input files: PNG, JPEG, WebP and BMP images, recognised by their first bytes, and masks as .npy or JSON. */
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/image_file.h"
#include "tools/cli/mask.h"
#include "tools/cli/npy.h"
#include "tools/cli/preprocess.h"

/* Replace the tool's functions, which print. */
void complain(const char *subject, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (subject == NULL || text[0] == '\0')
        fuzz_fail("an empty error message");
}

void *allocate(size_t n, size_t size)
{
    return n > ((size_t)256 << 20) / (size > 0 ? size : 1) ? NULL : calloc(n > 0 ? n : 1, size);
}

void prune_resolve(struct prune *self, const rvit_model_info *model)
{
    (void)self;
    (void)model;
}

static void preprocess(const struct image *image)
{
    static const struct recipe {
        rvit_fit fit;
        rvit_processor processor;
        int32_t height, edge[2], target;
    } recipes[] = {{RVIT_FIT_CROP, RVIT_PROCESSOR_TIMM, 32, {35, 35}, 0},
                   {RVIT_FIT_CROP, RVIT_PROCESSOR_TIMM, 32, {35, 35}, 32},
                   {RVIT_FIT_BORDER, RVIT_PROCESSOR_TIMM, 20, {30, 30}, 0},
                   {RVIT_FIT_CROP, RVIT_PROCESSOR_HF, 20, {24, 24}, 0},
                   {RVIT_FIT_SQUASH, RVIT_PROCESSOR_HF_FLOAT, 20, {20, 32}, 0}};
    static float values[3 * 32 * 32];
    struct image_error error = {""};
    if ((int64_t)image->width * image->height > 1 << 16)
        return;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
        rvit_image source = preprocess_source(image_whole(image));
        recipe.fit = recipes[i].fit;
        recipe.processor = recipes[i].processor;
        recipe.height = recipes[i].height;
        recipe.width = 32;
        recipe.resize_height = recipes[i].edge[0];
        recipe.resize_width = recipes[i].edge[1];
        recipe.std[0] = recipe.std[1] = recipe.std[2] = 1;
        source.target_width = source.target_height = recipes[i].target;
        if (!preprocess_image(&recipe, &source, values, NULL, &error) && strstr(error.text, "too thin") == NULL)
            fuzz_fail(error.text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The tool allows 600 MB of pixels; limiting them here saves time. */
    struct image image;
    struct image_error error = {""};
    const char *path = memory_file(data, size, 0);
    int32_t width, height;
    if (image_load_size(path, &width, &height, &error)) {
        if (width < 1 || height < 1 || (int64_t)width * height > IMAGE_MAX_PIXELS)
            fuzz_fail("an invalid image size");
        error.text[0] = '\0';
        if ((int64_t)width * height <= 1 << 20) {
            if (image_decode(data, size, &image, &error)) {
                if (image.width != width || image.height != height)
                    fuzz_fail("the size of an image changes");
                preprocess(&image);
                image_free(&image);
            } else if (error.text[0] == '\0') {
                fuzz_fail("an error without a message");
            }
        }
        return 0;
    }
    if (error.text[0] == '\0')
        fuzz_fail("an error without a message");

    struct mask mask;
    for (int32_t n_patches = 4; n_patches <= 196; n_patches += 192)
        if (mask_read(path, n_patches, &mask) == EXIT_OK) {
            const int64_t positions[2] = {0, mask.n_images > 1 ? mask.n_images - 1 : 0};
            uint8_t *keep = malloc((size_t)mask.n_stages * 2 * (size_t)(n_patches + 1));
            if (keep != NULL)
                mask_fill(&mask, positions, 2, 1, keep);
            free(keep);
            mask_free(&mask);
        }
    return 0;
}
