/* Runs a Vision Transformer on batches of video frames and keeps only the patches that differ from the previous frame. Each frame keeps a
   different number of tokens; the batch is ragged and nothing is padded.

   usage: video [MODEL.safetensors]     draws its own frames: a bright square moves over a still background */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <raggedvit/raggedvit.h>

enum { FRAMES = 24, BATCH = 8, SQUARE = 48 };

static void need(rvit_status status)
{
    if (status != RVIT_OK) {
        fprintf(stderr, "%s: %s\n", rvit_status_name(status), rvit_status_detail());
        exit(1);
    }
}

/* Returns milliseconds. */
static double timed_run(rvit_session *session, const rvit_run_args *run)
{
    struct timespec start, end;
    timespec_get(&start, TIME_UTC);
    need(rvit_session_run(session, run, NULL));
    timespec_get(&end, TIME_UTC);
    return (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) * 1e-6;
}

/* Draws frame `number`, f32 [channels, size, size], normalised. The square accelerates, so later frames change in more places. */
static void draw(int number, int channels, int size, float *out)
{
    const int left = number * number / 4 % (size - SQUARE), top = number * 3 % (size - SQUARE);
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < size; y++)
            for (int x = 0; x < size; x++) {
                const int inside = x >= left && x < left + SQUARE && y >= top && y < top + SQUARE;
                *out++ = inside ? 1.5f : sinf((float)(x * (c + 1)) * 0.1f) * cosf((float)y * 0.07f);
            }
}

/* Sets keep, uint8 [tokens], to 1 for the prefix tokens and for each patch in which a value changed; for all without a previous frame. */
static void mark_changes(const rvit_model_info *info, const float *frame, const float *before, uint8_t *keep)
{
    const int size = info->image_size, patch = info->patch_size, grid = size / patch;
    memset(keep, before == NULL, (size_t)info->tokens);
    memset(keep, 1, (size_t)info->n_prefix);
    if (before != NULL)
        for (int c = 0; c < info->channels; c++)
            for (int y = 0; y < size; y++)
                for (int x = 0; x < size; x++, frame++, before++)
                    if (fabsf(*frame - *before) > 0.1f)
                        keep[info->n_prefix + y / patch * grid + x / patch] = 1;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/data/deit_tiny_cifar10.safetensors";
    rvit_device *device = NULL;
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    need(rvit_device_create(NULL, &device));
    need(rvit_checkpoint_open(path, NULL, &checkpoint));
    need(rvit_model_create(device, checkpoint, NULL, &model));
    need(rvit_model_get_info(model, &info));
    rvit_checkpoint_destroy(checkpoint);

    /* Two sessions of the same model: one prunes after the first block by a mask passed to each run; the other does not prune. */
    rvit_session *masked = NULL, *dense = NULL;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = BATCH;
    need(rvit_session_create(model, &desc, &dense));
    rvit_prune_desc mask = RVIT_PRUNE_DESC_INIT;
    mask.type = RVIT_PRUNE_MASK;
    mask.n_blocks = 1;
    mask.blocks[0] = 0;
    desc.prune = &mask;
    need(rvit_session_create(model, &desc, &masked));

    const size_t tokens = (size_t)info.tokens, pixels = (size_t)info.channels * (size_t)info.image_size * (size_t)info.image_size;
    float *frames = malloc(FRAMES * pixels * sizeof *frames);
    uint8_t *keep = malloc((BATCH + 1) * tokens), *kept = keep + BATCH * tokens;
    if (frames == NULL || keep == NULL)
        return 1;
    for (int f = 0; f < FRAMES; f++)
        draw(f, info.channels, info.image_size, frames + (size_t)f * pixels);

    double masked_ms = 0, dense_ms = 0;
    int wrong = 0;
    for (int first = 0; first < FRAMES; first += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            const float *frame = frames + (size_t)(first + i) * pixels;
            mark_changes(&info, frame, first + i > 0 ? frame - pixels : NULL, keep + (size_t)i * tokens);
        }
        rvit_run_args run = RVIT_RUN_ARGS_INIT;
        run.n_images = BATCH;
        run.input.data = frames + (size_t)first * pixels;
        dense_ms += timed_run(dense, &run);
        run.keep = keep; /* the kept patches of each frame; the lengths follow from them on the device */
        masked_ms += timed_run(masked, &run);

        rvit_result_view layout = RVIT_RESULT_VIEW_INIT;
        need(rvit_session_get(masked, RVIT_RESULT_CU_SEQLENS, 0, &layout));
        const int32_t *cu_seqlens = layout.data;
        for (int i = 0; i < BATCH; i++) {
            need(rvit_session_keep_mask(masked, 0, i, kept));
            wrong += memcmp(kept, keep + (size_t)i * tokens, tokens) != 0;
            printf("frame %2d: %3d of %d tokens\n", first + i, (int)(cu_seqlens[i + 1] - cu_seqlens[i]), (int)info.tokens);
        }
    }
    printf("%.2f ms per frame, %.2f ms with all tokens\n", masked_ms / FRAMES, dense_ms / FRAMES);
    free(frames);
    free(keep);
    rvit_session_destroy(masked);
    rvit_session_destroy(dense);
    rvit_model_destroy(model);
    rvit_device_destroy(device);
    return wrong == 0 ? 0 : 1;
}
