/* Runs the library directly, one image at a time, for the expected answers. */
#include "scene.h"
#include "tools/cli/session_results.h"

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

static rvit_model *model_new(const char *checkpoint_path)
{
    rvit_checkpoint *checkpoint;
    rvit_model *model;
    if (!direct_state.device) {
        rvit_device_desc device = RVIT_DEVICE_DESC_INIT;
        device.backend = RVIT_BACKEND_CPU;
        device.n_threads = 1;
        need(rvit_device_create(&device, &direct_state.device));
    }
    need(rvit_checkpoint_open(checkpoint_path, NULL, &checkpoint));
    need(rvit_model_create(direct_state.device, checkpoint, NULL, &model));
    rvit_checkpoint_destroy(checkpoint);
    return model;
}

static rvit_model *reference(void)
{
    if (!direct_state.model)
        direct_state.model = model_new(RVIT_TEST_MODEL "/model.safetensors");
    return direct_state.model;
}

/* Has its pruning until the next call. */
static rvit_session_desc desc_of(const char *policy, double keep)
{
    static rvit_prune_desc prune;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    prune = (rvit_prune_desc)RVIT_PRUNE_DESC_INIT;
    if (policy) {
        int32_t type = RVIT_PRUNE_NONE;
        need(rvit_enum_from_name(RVIT_ENUM_PRUNE, policy, &type));
        prune.type = (rvit_prune_type)type;
        prune.keep = keep;
        prune.n_blocks = 1; /* block 0 */
        desc.prune = &prune;
    }
    return desc;
}

static rvit_image image_of(const struct test_image *source)
{
    rvit_image image = RVIT_IMAGE_INIT;
    image.data = source->pixels;
    image.width = source->width;
    image.height = source->height;
    return image;
}

static float *next_result(void)
{
    static float results[8][CLASSES];
    static int next;
    return results[next++ % 8];
}

static const float *run(rvit_model *model, const rvit_session_desc *desc, rvit_run_args *args)
{
    float *out = next_result();
    rvit_session *session;
    need(rvit_session_create(model, desc, &session));
    args->n_images = 1;
    need(rvit_session_run(session, args, desc->outputs ? NULL : out));
    if (desc->outputs)
        memcpy(out, session_floats(session, RVIT_RESULT_PROJECTED), CLASSES * sizeof *out);
    const int32_t *cu = session_cu_seqlens(session, session_n_stages(session) - 1);
    direct_state.kept = cu[1] - cu[0];
    rvit_session_destroy(session);
    return out;
}

const float *direct_logits(const char *policy, double keep, const struct test_image *source)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    rvit_session_desc desc = desc_of(policy, keep);
    const rvit_image image = image_of(source);
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = 32 << 20;
    args.input.kind = RVIT_INPUT_IMAGES;
    args.input.data = &image;
    return run(reference(), &desc, &args);
}

const float *direct_logits_of_pixels(const char *policy, double keep, const float *pixels)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    const rvit_session_desc desc = desc_of(policy, keep);
    args.input.data = pixels;
    return run(reference(), &desc, &args);
}

const float *direct_logits_variable(const char *policy, double keep, int32_t max_patches, const struct test_image *source)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    rvit_session_desc desc = desc_of(policy, keep);
    rvit_image image = image_of(source);
    int32_t grid[2];
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    recipe.patch_size = 8;
    recipe.max_patches = max_patches;
    need(rvit_image_recipe_grid(&recipe, source->height, source->width, grid));
    image.target_height = 8 * grid[0];
    image.target_width = 8 * grid[1];
    desc.variable_resolution = 1;
    desc.max_len = desc.max_tokens = max_patches + 1;
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = 32 << 20;
    args.input.kind = RVIT_INPUT_IMAGES;
    args.input.data = &image;
    return run(reference(), &desc, &args);
}

const float *direct_embedding(const char *checkpoint, const struct test_image *source)
{
    rvit_model *model = model_new(checkpoint);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    rvit_session_desc desc = desc_of(NULL, 0);
    const rvit_image image = image_of(source);
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = 32 << 20;
    desc.outputs = RVIT_OUTPUT_PROJECTED | RVIT_OUTPUT_NORMALIZED;
    args.input.kind = RVIT_INPUT_IMAGES;
    args.input.data = &image;
    const float *result = run(model, &desc, &args);
    rvit_model_destroy(model);
    return result;
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
