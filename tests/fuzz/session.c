/* Fuzzes sessions of a small model: descs with any values, runs with any images and masks, and all functions that return results. */
#include "small_model.h"

#include <stdlib.h>
#include <string.h>

#include <raggedvit/experimental.h>
#include "tools/cli/session_results.h"

enum { MAX_IMAGES = 4 };

static rvit_device *device;

static rvit_model *model_of(int32_t kind)
{
    static rvit_model *models[2];
    static rvit_checkpoint *checkpoint;
    if (device == NULL) {
        rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
        desc.backend = RVIT_BACKEND_CPU;
        desc.n_threads = 1;
        desc.allocator = &fuzz_allocator;
        if (rvit_device_create(&desc, &device) != RVIT_OK || rvit_checkpoint_open(small_model(), NULL, &checkpoint) != RVIT_OK)
            fuzz_fail(rvit_status_detail());
    }
    if (models[kind] == NULL) {
        rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
        desc.dtype = kind ? RVIT_F16 : RVIT_F32;
        if (rvit_model_create(device, checkpoint, &desc, &models[kind]) != RVIT_OK)
            fuzz_fail(rvit_status_detail());
    }
    return models[kind];
}

static rvit_prune_desc prune_of(choices *c)
{
    rvit_prune_desc desc = RVIT_PRUNE_DESC_INIT;
    desc.type = (rvit_prune_type)choose_int(c, 0, 12);
    const uint8_t given = choose_byte(c);
    if (given & 1)
        desc.keep = choose_double(c);
    if (given & 2) {
        desc.n_blocks = choose_int(c, 0, 3);
        for (int i = 0; i < 4; i++)
            desc.blocks[i] = choose_int(c, 0, 3);
    } else {
        /* The default blocks of most policies are past the end of this small model. */
        desc.n_blocks = 2;
        desc.blocks[1] = 1;
    }
    if (given & 4)
        desc.threshold = choose_double(c);
    if (given & 8)
        desc.mass = choose_double(c);
    if (given & 16)
        desc.n_samples = choose_int(c, 0, 10);
    if (given & 32)
        desc.merges = choose_int(c, 0, 4);
    if (given & 64)
        desc.seed = choose_bits(c);
    if (given & 128)
        desc.n_blocks = 0;
    return desc;
}

static void look(rvit_session *session, int32_t n_images)
{
    const int32_t n_stages = session_n_stages(session);
    float grid[(TOKENS - 1) * DIM];
    for (int32_t stage = -2; stage <= n_stages; stage++) {
        const int32_t *cu = session_cu_seqlens(session, stage);
        if (cu != NULL && rvit_cu_seqlens_check(cu, n_images, TOKENS + 1, (int64_t)n_images * (TOKENS + 1)) != RVIT_OK)
            fuzz_fail(rvit_status_detail());
        for (int32_t image = -1; image <= n_images; image++) {
            uint8_t mask[TOKENS];
            const int32_t *kept = session_kept(session, stage, image);
            for (int32_t i = 0; kept != NULL && i < cu[image + 1] - cu[image]; i++)
                if (kept[i] < -1 || kept[i] >= TOKENS)
                    fuzz_fail("the index of a kept token is out of range");
            (void)session_sizes(session, stage, image);
            (void)expect_status_of(rvit_session_keep_mask(session, stage, image, mask));
            (void)expect_status_of(rvit_session_feature_grid(session, image, -1, grid));
        }
    }
    for (int32_t what = -1; what <= 2000; what += what == 20 ? 979 : what == 1010 ? 990 : 1)
        for (int32_t index = -2; index <= DEPTH; index++) {
            rvit_result_view view = RVIT_RESULT_VIEW_INIT;
            (void)expect_status_of(rvit_session_get(session, (rvit_result)what, index, &view));
        }
    rvit_session_info info = RVIT_SESSION_INFO_INIT;
    (void)expect_status_of(rvit_session_get_info(session, &info));
    rvit_stats stats = RVIT_STATS_INIT;
    (void)expect_status_of(rvit_session_get_stats(session, &stats));
}

/* Runs up to max_images images; the data has MAX_IMAGES. */
static void run(choices *c, rvit_session *session, int32_t max_images)
{
    static float images[MAX_IMAGES * IMAGE], logits[MAX_IMAGES * CLASSES];
    static uint8_t keep[RVIT_PRUNE_MAX_STAGES * MAX_IMAGES * TOKENS];
    const int32_t kind = choose(c, 4);
    uint32_t random = choose_byte(c);
    for (int i = 0; i < MAX_IMAGES * IMAGE; i++) {
        random = random * 1664525u + 1013904223u;
        images[i] = kind == 0 ? (float)(random >> 16) / 32768 - 1 : kind == 1 ? 0 : kind == 2 ? 1e30f : images[i];
    }
    if (kind == 3)
        images[choose_byte(c)] = choose_float(c);
    for (int i = 0; i < 4 * TOKENS; i++)
        keep[i] = i % TOKENS == 0 || choose(c, 8) != 0;
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = choose_int(c, 0, max_images < MAX_IMAGES ? max_images : MAX_IMAGES);
    if (args.n_images > MAX_IMAGES && args.n_images <= max_images)
        args.n_images = MAX_IMAGES;
    const uint8_t given = choose_byte(c);
    args.input.data = given % 8 == 7 ? NULL : images;
    args.keep = given % 2 ? keep : NULL;
    if (given & 64) {
        (void)expect_status_of(rvit_session_enqueue(session, &args));
        (void)expect_status_of(rvit_session_enqueue(session, &args));
        (void)expect_status_of(rvit_session_wait(session));
    }
    if (expect_status_of(rvit_session_run(session, &args, given & 128 ? NULL : logits)) == RVIT_OK)
        look(session, args.n_images);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    choices c = {data, size, 0};
    rvit_model *model = model_of(choose(&c, 2));
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = choose_int(&c, 1, MAX_IMAGES);
    const rvit_prune_desc prune = prune_of(&c);
    desc.prune = &prune;
    const uint8_t options = choose_byte(&c);
    desc.trace = options & 1;
    desc.outputs = options >> 1 & 3;
    desc.fixed_batch = options >> 3 & 1;
    desc.dense_fallback = options >> 4 & 1;
    /* dense_fallback times forwards with max_images images */
    if (desc.max_images > 64)
        desc.dense_fallback = 0;
    if (options & 32)
        desc.outputs = choose_int(&c, 0, 2 * RVIT_OUTPUT_RECEIVED_ATTENTION - 1);
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    if (options & 64 && rvit_stream_create(device, &stream) == RVIT_OK)
        desc.stream = stream;
    if (options & 128 && rvit_buffer_create(device, MAX_IMAGES * IMAGE * 4, RVIT_BUFFER_UPLOAD, &buffer) == RVIT_OK) {
        memset(rvit_buffer_host(buffer), 0, MAX_IMAGES * IMAGE * 4);
        if (choose(&c, 2)) {
            desc.input_memory = RVIT_INPUT_FIXED;
            desc.input_view.buffer = buffer;
        } else {
            desc.logits.buffer = buffer;
        }
        desc.input_view.offset = desc.logits.offset = choose(&c, 4) ? 0 : choose_int(&c, -16, 16);
    }
    rvit_session *session = NULL;
    if (expect_status_of(rvit_session_create(model, &desc, &session)) == RVIT_OK) {
        look(session, 0);
        run(&c, session, desc.max_images);
        run(&c, session, desc.max_images);
    }
    rvit_session_destroy(session);
    rvit_buffer_destroy(buffer);
    rvit_stream_destroy(stream);
    return 0;
}
