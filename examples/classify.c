/* Classifies a PNG with a checkpoint, dense and with half of the patches dropped after block 3.

   usage: classify MODEL.safetensors IMAGE.png [CLASS]     exits 1 if CLASS, a number, is not the best class both times */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <png.h>
#include <raggedvit/raggedvit.h>

static void need(rvit_status status)
{
    if (status != RVIT_OK) {
        fprintf(stderr, "%s: %s\n", rvit_status_name(status), rvit_status_detail());
        exit(1);
    }
}

/* 8-bit RGB, freed by the caller. */
static unsigned char *read_png(const char *path, int *out_width, int *out_height)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    unsigned char *pixels = NULL;
    if (png_image_begin_read_from_file(&image, path)) {
        image.format = PNG_FORMAT_RGB;
        pixels = malloc(PNG_IMAGE_SIZE(image));
    }
    if (pixels == NULL || !png_image_finish_read(&image, NULL, pixels, 0, NULL)) {
        fprintf(stderr, "%s: %s\n", path, image.message);
        exit(1);
    }
    *out_width = (int)image.width;
    *out_height = (int)image.height;
    return pixels;
}

/* Writes the input of the model: f32 [3, size, size], normalised by channel. Crops the central square and resizes it by averaging the
   pixels under each new one; the command line tool has timm's exact resampling. */
static void prepare(const unsigned char *pixels, int width, int height, int size, float *out)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
    const int side = width < height ? width : height, left = (width - side) / 2, top = (height - side) / 2;
    for (int channel = 0; channel < 3; channel++)
        for (int y = 0; y < size; y++)
            for (int x = 0; x < size; x++) {
                const int y0 = y * side / size, y1 = (y + 1) * side / size, x0 = x * side / size, x1 = (x + 1) * side / size;
                float sum = 0;
                int n = 0;
                for (int v = y0; v < y1 || v == y0; v++)
                    for (int u = x0; u < x1 || u == x0; u++, n++)
                        sum += pixels[((size_t)(top + v) * (size_t)width + (size_t)(left + u)) * 3 + (size_t)channel];
                *out++ = (sum / (float)n / 255 - mean[channel]) / deviation[channel];
            }
}

static int classify(rvit_model *model, const rvit_model_info *info, rvit_prune_type type, const float *image)
{
    /* A session holds a forward, recorded once with one policy, and its memory. */
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    rvit_prune_desc prune = RVIT_PRUNE_DESC_INIT;
    prune.type = type;
    if (type == RVIT_PRUNE_L2)
        prune.keep = 0.5;
    desc.prune = &prune;
    rvit_session *session = NULL;
    need(rvit_session_create(model, &desc, &session));

    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = 1;
    run.input.data = image;
    need(rvit_session_run(session, &run, NULL));

    /* A result is valid until the next run. l2 has one prune stage, number 0; stage -1 is the unpruned image. */
    rvit_result_view result = RVIT_RESULT_VIEW_INIT, layout = RVIT_RESULT_VIEW_INIT;
    need(rvit_session_get(session, RVIT_RESULT_LOGITS, 0, &result));
    need(rvit_session_get(session, RVIT_RESULT_CU_SEQLENS, type == RVIT_PRUNE_NONE ? -1 : 0, &layout));
    const float *logits = result.data;
    const int32_t *cu_seqlens = layout.data;
    int best = 0;
    double sum = 0;
    for (int c = 1; c < info->n_classes; c++)
        best = logits[c] > logits[best] ? c : best;
    for (int c = 0; c < info->n_classes; c++)
        sum += exp((double)logits[c] - logits[best]);
    printf("%3d of %d tokens: class %d with probability %.2f\n", (int)(cu_seqlens[1] - cu_seqlens[0]), (int)info->tokens, best, 1 / sum);
    rvit_session_destroy(session);
    return best;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: classify MODEL.safetensors IMAGE.png [CLASS]\n");
        return 2;
    }
    rvit_device *device = NULL;
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    need(rvit_device_create(NULL, &device));
    need(rvit_checkpoint_open(argv[1], NULL, &checkpoint));
    need(rvit_model_create(device, checkpoint, NULL, &model));
    need(rvit_model_get_info(model, &info));
    rvit_checkpoint_destroy(checkpoint); /* the weights are on the device now */
    if (info.channels != 3 || info.n_classes < 1) {
        fprintf(stderr, "%s: the model must take colour images and have a head\n", argv[1]);
        return 1;
    }

    int width, height;
    unsigned char *pixels = read_png(argv[2], &width, &height);
    float *image = malloc((size_t)3 * (size_t)info.image_size * (size_t)info.image_size * sizeof *image);
    if (image == NULL)
        return 1;
    prepare(pixels, width, height, info.image_size, image);
    const int dense = classify(model, &info, RVIT_PRUNE_NONE, image), pruned = classify(model, &info, RVIT_PRUNE_L2, image);

    free(image);
    free(pixels);
    rvit_model_destroy(model);
    rvit_device_destroy(device);
    return argc > 3 && (dense != atoi(argv[3]) || pruned != dense) ? 1 : 0;
}
