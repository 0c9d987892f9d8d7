/* Makes each allocation of opening a checkpoint, creating a model and creating a session fail, one at a time. */
#include "failing_allocator.h"
#include "model.h"

static const toy_spec spec = {.dim = 64,
                              .depth = 2,
                              .mlp = 64,
                              .image_size = 32,
                              .patch_size = 16,
                              .n_classes = 5,
                              .distilled = 1,
                              .stored = RVIT_F16,
                              .seed = 51,
                              .n_predictors = 2};

typedef struct context {
    failing_allocator f;
    const char *path;
    const rvit_tensor_desc *tensors;
    int32_t n_tensors;
    rvit_device *device;
    rvit_checkpoint *checkpoint;
    rvit_model *model;
    rvit_session *session;
    rvit_session_desc desc;
} context;

static rvit_status open_it(void *argument)
{
    context *c = argument;
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.allocator = &c->f.allocator;
    return rvit_checkpoint_open(c->path, &desc, &c->checkpoint);
}

static rvit_status open_tensors(void *argument)
{
    context *c = argument;
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.allocator = &c->f.allocator;
    desc.architecture = "vit";
    desc.n_heads = 1;
    desc.tensors = c->tensors;
    desc.n_tensors = c->n_tensors;
    return rvit_checkpoint_open(NULL, &desc, &c->checkpoint);
}

static rvit_status update_model(void *argument)
{
    context *c = argument;
    return rvit_model_update(c->model, c->checkpoint);
}

static void close_it(void *argument)
{
    rvit_checkpoint_destroy(((context *)argument)->checkpoint);
}

static rvit_status create_model(void *argument)
{
    context *c = argument;
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    desc.dtype = RVIT_F16;
    return rvit_model_create(c->device, c->checkpoint, &desc, &c->model);
}

static void destroy_model(void *argument)
{
    rvit_model_destroy(((context *)argument)->model);
}

static rvit_status choose_precision(void *argument)
{
    context *c = argument;
    rvit_precision_choice choice = RVIT_PRECISION_CHOICE_INIT;
    return rvit_precision_choose(c->device, c->checkpoint, H.desc.backend == RVIT_BACKEND_CPU ? RVIT_PRECISION_FP8 : RVIT_PRECISION_AUTO,
                                 &choice);
}

static rvit_status ask_memory(void *argument)
{
    context *c = argument;
    rvit_memory_info info = RVIT_MEMORY_INFO_INIT;
    return rvit_session_memory(c->model, &c->desc, &info);
}

static void nothing(void *argument)
{
    (void)argument;
}

static rvit_status create_session(void *argument)
{
    context *c = argument;
    return rvit_session_create(c->model, &c->desc, &c->session);
}

static void destroy_session(void *argument)
{
    rvit_session_destroy(((context *)argument)->session);
}

static rvit_status prepare_image(void *argument)
{
    context *c = argument;
    static const uint8_t pixels[4 * 9 * 7];
    static float out[3 * 5 * 5];
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    rvit_image image = RVIT_IMAGE_INIT;
    recipe.height = recipe.width = 5;
    recipe.std[0] = recipe.std[1] = recipe.std[2] = 1;
    image.data = pixels;
    image.width = 9;
    image.height = 7;
    image.format = RVIT_IMAGE_RGBA8;
    return rvit_image_prepare(&recipe, &image, &c->f.allocator, out, NULL);
}

static void every_allocation(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    context *c = scratch(sizeof *c);
    failing_allocator_init(&c->f);
    c->path = toy_write(m, "allocation.safetensors");
    rvit_device_desc desc = H.desc;
    desc.allocator = &c->f.allocator;
    expect_ok(rvit_device_create(&desc, &c->device));
    const allocation_trial image = {"rvit_image_prepare", prepare_image, nothing, c};
    fail_every_allocation(&c->f, &image);
    const allocation_trial checkpoint = {"rvit_checkpoint_open", open_it, close_it, c};
    fail_every_allocation(&c->f, &checkpoint);
    rvit_tensor_desc descs[sizeof m->tensors / sizeof *m->tensors];
    for (int i = 0; i < m->n_tensors; i++) {
        const toy_tensor *t = &m->tensors[i];
        descs[i] = (rvit_tensor_desc)RVIT_TENSOR_DESC_INIT;
        descs[i].name = t->name;
        descs[i].rank = t->rank;
        descs[i].shape = t->shape;
        descs[i].data = t->values;
    }
    c->tensors = descs;
    c->n_tensors = m->n_tensors;
    const allocation_trial tensors = {"rvit_checkpoint_open of tensors", open_tensors, close_it, c};
    fail_every_allocation(&c->f, &tensors);
    expect_ok(open_it(c));
    const allocation_trial precision = {"rvit_precision_choose", choose_precision, nothing, c};
    fail_every_allocation(&c->f, &precision);
    const allocation_trial model = {"rvit_model_create", create_model, destroy_model, c};
    fail_every_allocation(&c->f, &model);
    expect_ok(create_model(c));
    const allocation_trial update = {"rvit_model_update", update_model, nothing, c};
    fail_every_allocation(&c->f, &update);
    static const int32_t blocks[] = {0, 1};
    for (int type = RVIT_PRUNE_NONE; type <= LAST_POLICY; type = next_policy(type)) {
        c->desc = session_desc(2, (rvit_prune_type)type, -1, blocks, type == RVIT_PRUNE_NONE ? 0 : type == RVIT_PRUNE_HIPRUNE ? 1 : 2);
        if (type == RVIT_PRUNE_L2_THRESHOLD)
            prune_in(&c->desc)->threshold = 8;
        c->desc.trace = type % 2;
        c->desc.outputs = type % 3 == 0 ? TOY_OUTPUTS : 0;
        c->desc.fixed_batch = type % 5 == 1;
        c->desc.dense_fallback = type == RVIT_PRUNE_EVIT;
        const allocation_trial session = {"rvit_session_create", create_session, destroy_session, c};
        fail_every_allocation(&c->f, &session);
    }
    c->desc = session_desc(2, RVIT_PRUNE_EVIT, 0.5, blocks, 2);
    const allocation_trial memory = {"rvit_session_memory", ask_memory, nothing, c};
    fail_every_allocation(&c->f, &memory);
    expect_ok(create_session(c));
    run_session(c->session, m, toy_images(m, 2, 1), 2, NULL);
    rvit_session_destroy(c->session);
    rvit_model_destroy(c->model);
    rvit_checkpoint_destroy(c->checkpoint);
    rvit_device_destroy(c->device);
    assert_int_equal(c->f.live, 0);
}

SUITE(model_allocation_suite, MODEL_TEST(every_allocation));
