/* The library itself, one picture at a time. */
#include "scene.h"

static struct {
    rvit_device *device;
    rvit_model *model;
    int32_t kept;
} direct_state;

static void need(rvit_status status)
{
    if (status != RVIT_OK)
        fail_msg("%s: %s", rvit_status_name(status), rvit_status_detail());
}

static rvit_session *session_new(const char *policy, double keep, int64_t picture_bytes)
{
    if (!direct_state.model) {
        rvit_device_desc device = RVIT_DEVICE_DESC_INIT;
        rvit_checkpoint *checkpoint;
        device.backend = RVIT_BACKEND_CPU;
        device.n_threads = 1;
        need(rvit_device_create(&device, &direct_state.device));
        need(rvit_checkpoint_open(RVIT_TEST_MODEL "/model.safetensors", NULL, &checkpoint));
        need(rvit_model_create(direct_state.device, checkpoint, NULL, &direct_state.model));
        rvit_checkpoint_destroy(checkpoint);
    }
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    rvit_session *session;
    if (policy) {
        need(rvit_prune_from_name(policy, &desc.prune.type));
        desc.prune.keep = keep;
        desc.prune.n_blocks = 1; /* block 0 */
    }
    desc.max_picture_bytes = picture_bytes;
    need(rvit_session_create(direct_state.model, &desc, &session));
    return session;
}

static const float *run(rvit_session *session, rvit_run_args *args)
{
    static float logits[8][CLASSES];
    static int next;
    float *out = logits[next++ % 8];
    args->n_images = 1;
    need(rvit_session_run(session, args, out));
    const int32_t *cu = rvit_session_cu_seqlens(session, rvit_session_n_stages(session) - 1);
    direct_state.kept = cu[1] - cu[0];
    rvit_session_destroy(session);
    return out;
}

const float *direct_logits(const char *policy, double keep, const struct picture *picture)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    rvit_image image = RVIT_IMAGE_INIT;
    image.data = picture->pixels;
    image.width = picture->width;
    image.height = picture->height;
    args.pictures = &image;
    return run(session_new(policy, keep, 32 << 20), &args);
}

const float *direct_logits_of_pixels(const char *policy, double keep, const float *pixels)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.images = pixels;
    return run(session_new(policy, keep, 0), &args);
}

int32_t direct_kept(void)
{
    return direct_state.kept;
}

void direct_end(void)
{
    rvit_model_destroy(direct_state.model);
    rvit_device_destroy(direct_state.device);
    direct_state.model = NULL;
    direct_state.device = NULL;
}
