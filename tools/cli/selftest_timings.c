/* The five timings of selftest: attention, and forwards of a random DeiT-Tiny, dense and pruned. */
#include <stdlib.h>
#include <string.h>

#include "noise.h"
#include "progress.h"
#include "random_model.h"
#include "selftest_parts.h"
#include "timed.h"

enum { N_IMAGES = 64, LENGTH = 197, N_HEADS = 3, WIDTH = N_HEADS * 64, LARGE_BATCH = 32 };
#define SECONDS 0.3
#define SLOW 0.1 /* seconds per image: then fewer samples do */

static const char of_attention[] = "attention of 64 images of 197 tokens, 3 heads";

static rvit_status time_attention(rvit_device *device, rvit_dtype dtype, struct times *times)
{
    const int64_t rows = N_IMAGES * LENGTH, size = rvit_dtype_size(dtype);
    rvit_buffer *buffers[3] = {NULL}; /* qkv, cu_seqlens, out */
    rvit_stream *stream = NULL;
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    rvit_status status = rvit_stream_create(device, &stream);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, rows * 3 * WIDTH * size, RVIT_BUFFER_DEVICE, &buffers[0]);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, (N_IMAGES + 1) * 4, RVIT_BUFFER_UPLOAD, &buffers[1]);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, rows * WIDTH * size, RVIT_BUFFER_DEVICE, &buffers[2]);
    char *zeros = allocate((size_t)(rows * 3 * WIDTH * size), 1);
    if (status == RVIT_OK)
        status = zeros ? rvit_stream_write(stream, (rvit_view){buffers[0], 0}, zeros, rows * 3 * WIDTH * size) : RVIT_OUT_OF_HOST_MEMORY;
    free(zeros);
    int32_t *cu_seqlens = status == RVIT_OK ? rvit_buffer_host(buffers[1]) : NULL;
    for (int32_t i = 0; i <= N_IMAGES && cu_seqlens; i++)
        cu_seqlens[i] = i * LENGTH;
    args.dtype = dtype;
    args.n_images = N_IMAGES;
    args.n_heads = N_HEADS;
    args.head_dim = 64;
    args.max_len = LENGTH;
    args.rows = rows;
    args.q = (rvit_view){buffers[0], 0};
    args.k = (rvit_view){buffers[0], WIDTH * size};
    args.v = (rvit_view){buffers[0], 2 * WIDTH * size};
    args.q_stride = args.k_stride = args.v_stride = 3 * WIDTH;
    args.cu_seqlens.buffer = buffers[1];
    args.out.buffer = buffers[2];
    double end = 0;
    for (int turn = -2; status == RVIT_OK && turn < MAX_SAMPLES && (turn < 3 || now() < end); turn++) {
        const double start = now();
        if (turn == 0)
            end = start + SECONDS;
        status = rvit_attention(stream, &args);
        if (status == RVIT_OK)
            status = rvit_stream_synchronize(stream);
        if (turn >= 0)
            times->seconds[times->n++] = now() - start;
    }
    rvit_stream_destroy(stream);
    for (int i = 0; i < 3; i++)
        rvit_buffer_destroy(buffers[i]);
    return status;
}

/* Two timings: of the dense and of the pruned forward. Returns an exit code. *seconds: of the dense one. */
static int time_forwards(struct selftest *self, struct engine *engine, int32_t batch, const float *images, int min, double *seconds)
{
    static const char *const names[2][2] = {{"DeiT-T, batch 1, dense", "DeiT-T, batch 1, l2 keep 0.5"},
                                            {"DeiT-T, batch 32, dense", "DeiT-T, batch 32, l2 keep 0.5"}};
    const char *dtype = rvit_enum_name(RVIT_ENUM_PRECISION, engine->choice.precision);
    rvit_prune_desc prunes[2] = {RVIT_PRUNE_DESC_INIT, RVIT_PRUNE_DESC_INIT};
    prunes[1].type = RVIT_PRUNE_L2;
    struct timed *both = allocate(2, sizeof *both);
    int code = both ? EXIT_OK : EXIT_FAULT;
    selftest_begin(self, dtype, names[batch > 1][0]);
    for (int i = 0; i < 2 && code == EXIT_OK; i++)
        code = timed_open(engine, &prunes[i], batch, images, &both[i]);
    if (code == EXIT_OK)
        code = timed_measure(&both[0], &both[1], SECONDS, min, 1);
    for (int i = 0; i < 2 && code == EXIT_OK; i++)
        selftest_timing(self, dtype, names[batch > 1][i], times_to_json(&both[i].times));
    *seconds = code == EXIT_OK ? times_median(&both[0].times) : 0;
    for (int i = 0; i < 2 && both; i++)
        rvit_session_destroy(both[i].session);
    free(both);
    if (code == EXIT_OK)
        return code;
    (void)check_complained(self, NULL);
    selftest_end(self, dtype, names[batch > 1][0], CHECK_FAILED, 0);
    return code;
}

static int load_deit(struct selftest *self, rvit_precision precision, struct engine *out)
{
    struct random_model random = {.file = NULL};
    struct options options = self->options;
    rvit_checkpoint *checkpoint = NULL;
    int code = random_model_open(3, &random);
    options.model = random.path;
    options.checkpoint = (rvit_checkpoint_desc)RVIT_CHECKPOINT_DESC_INIT;
    if (code == EXIT_OK)
        code = engine_checkpoint(&options, &checkpoint);
    const rvit_status status = code == EXIT_OK ? engine_load(out, checkpoint, precision) : RVIT_OK;
    rvit_checkpoint_destroy(checkpoint);
    random_model_close(&random);
    return status == RVIT_OK ? code : complain_status(NULL, status);
}

void selftest_timings(struct selftest *self)
{
    rvit_precision_choice choice = RVIT_PRECISION_CHOICE_INIT;
    const bool takes_f16 = self->engine.device_info.backend != RVIT_BACKEND_CPU &&
                           rvit_precision_choose(self->engine.device, self->small, RVIT_PRECISION_F16, &choice) == RVIT_OK;
    const rvit_precision precision = takes_f16 ? RVIT_PRECISION_F16 : RVIT_PRECISION_F32;
    const char *dtype = rvit_enum_name(RVIT_ENUM_PRECISION, precision);
    struct engine deit = self->engine;
    struct times *times = allocate(1, sizeof *times);
    float *images = NULL;
    double seconds = 0;
    selftest_begin(self, dtype, of_attention);
    int code = times ? load_deit(self, precision, &deit) : EXIT_FAULT;
    const rvit_status status = code == EXIT_OK ? time_attention(deit.device, deit.choice.dtype, times) : RVIT_OK;
    if (code == EXIT_OK && status == RVIT_OK)
        selftest_timing(self, dtype, of_attention, times_to_json(times));
    const rvit_model_info *info = &deit.model_info;
    const int64_t length = engine_image_length(&deit);
    if (code == EXIT_OK && status == RVIT_OK)
        images = allocate((size_t)(LARGE_BATCH * length), sizeof *images);
    bool ready = images != NULL;
    for (int32_t i = 0; i < LARGE_BATCH && ready; i++)
        ready = noise_image(i, 3, info->image_width, info->image_height, images + i * length);
    if (!ready) {
        if (status != RVIT_OK)
            (void)check_status_fails(self, NULL, status);
        else
            (void)check_complained(self, NULL);
        selftest_end(self, dtype, of_attention, CHECK_FAILED, 0);
    } else if (time_forwards(self, &deit, 1, images, 5, &seconds) == EXIT_OK) {
        (void)time_forwards(self, &deit, LARGE_BATCH, images, seconds > SLOW ? 1 : 3, &seconds);
    }
    rvit_model_destroy(deit.model);
    free(times);
    free(images);
}
