/* Sessions that take images of any size give the same bits as sessions that take the preprocessed values. */
#include <math.h>

#include "model.h"
#include "tools/cli/session_results.h"

enum { N_IMAGES = 4, SIDE = 32, PATCH = 8, CLASSES = 6, RUNS = 12, ROOM = 90000 };

static const toy_spec spec = {.dim = 64,
                              .depth = 3,
                              .mlp = 128,
                              .image_size = SIDE,
                              .patch_size = PATCH,
                              .n_classes = CLASSES,
                              .distilled = 1,
                              .stored = RVIT_F32,
                              .seed = 91};

static rvit_image_recipe recipe_of(rvit_processor processor)
{
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    recipe.processor = processor;
    recipe.height = recipe.width = SIDE;
    recipe.resize_height = recipe.resize_width = SIDE + 4;
    for (int c = 0; c < 3; c++) {
        recipe.mean[c] = 0.4f + 0.05f * (float)c;
        recipe.std[c] = 0.25f - 0.01f * (float)c;
    }
    return recipe;
}

static rvit_image random_image(void)
{
    static const rvit_image_format formats[] = {RVIT_IMAGE_RGB8, RVIT_IMAGE_BGR8, RVIT_IMAGE_RGBA8, RVIT_IMAGE_GRAY8, RVIT_IMAGE_NV12};
    rvit_image image = RVIT_IMAGE_INIT;
    image.width = 1 + random_below(90);
    image.height = 1 + random_below(90);
    image.format = formats[random_below(5)];
    const size_t size = 4 * 92 * 92;
    uint8_t *data = scratch(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(random_bits() >> 24);
    image.data = data;
    return image;
}

/* The rows that the preprocess op writes for one image: f32 [n_rows, 3 * PATCH * PATCH]. */
static const float *rows_of(const rvit_image *image, const rvit_image_recipe *recipe, int32_t n_rows)
{
    const size_t size = (size_t)n_rows * 3 * PATCH * PATCH * sizeof(float);
    rvit_images_args args = RVIT_IMAGES_ARGS_INIT;
    rvit_preprocess_args op = RVIT_PREPROCESS_ARGS_INIT;
    rvit_buffer *source, *out;
    args.recipe = recipe;
    args.images = image;
    args.n_images = args.max_images = op.n_images = 1;
    args.max_rows = op.rows = n_rows;
    args.patch_size = op.patch_size = PATCH;
    expect_ok(rvit_images_write(&args, NULL, 0, &op.source_size));
    expect_ok(rvit_buffer_create(H.device[DEVICE], op.source_size, RVIT_BUFFER_UPLOAD, &source));
    expect_ok(rvit_buffer_create(H.device[DEVICE], (int64_t)size, RVIT_BUFFER_READBACK, &out));
    expect_ok(rvit_images_write(&args, rvit_buffer_host(source), op.source_size, &op.source_size));
    op.source.buffer = source;
    op.out.buffer = out;
    expect_ok(rvit_preprocess(H.stream[DEVICE], &op));
    expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
    float *rows = scratch(size);
    memcpy(rows, rvit_buffer_host(out), size);
    rvit_buffer_destroy(source);
    rvit_buffer_destroy(out);
    return rows;
}

/* Each image preprocessed separately, as float32 planes: [n, 3, SIDE, SIDE]. */
static float *planes_of(const rvit_image *images, int32_t n, const rvit_image_recipe *recipe)
{
    enum { LINE = SIDE / PATCH };
    float *planes = scratch((size_t)(n + 1) * 3 * SIDE * SIDE * sizeof *planes);
    for (int32_t i = 0; i < n; i++) {
        const float *rows = rows_of(&images[i], recipe, LINE * LINE);
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < SIDE; y++)
                for (int x = 0; x < SIDE; x++)
                    planes[((i * 3 + c) * SIDE + y) * SIDE + x] =
                        rows[((y / PATCH * LINE + x / PATCH) * 3 + c) * PATCH * PATCH + y % PATCH * PATCH + x % PATCH];
    }
    return planes;
}

static rvit_stats stats_of(const rvit_session *session)
{
    rvit_stats stats = RVIT_STATS_INIT;
    expect_ok(rvit_session_get_stats(session, &stats));
    return stats;
}

/* Submits per run. On CUDA, one of them copies the images to the device. */
static int64_t dispatches(void)
{
    return H.info.backend == RVIT_BACKEND_CUDA ? 2 : 1;
}

/* Runs with varying numbers and sizes of images replay one recording: no allocation, dispatches() submits, one wait. */
static void run_policy(const toy *m, rvit_model *model, rvit_prune_type type, rvit_processor processor, int fixed_batch)
{
    static const int32_t blocks[] = {0, 1};
    const rvit_image_recipe recipe = recipe_of(processor);
    rvit_session_desc desc = session_desc(N_IMAGES, type, type == RVIT_PRUNE_L2 ? 0.6 : -1, blocks, type == RVIT_PRUNE_NONE ? 0 : 2);
    desc.fixed_batch = fixed_batch;
    rvit_session *plain = open_session(model, &desc);
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = ROOM;
    desc.recipe = &recipe;
    rvit_session *session = open_session(model, &desc);
    for (int run = 0; run < (H.is_slow ? 4 : RUNS); run++) {
        rvit_image images[N_IMAGES];
        float got[N_IMAGES * CLASSES];
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        args.n_images = fixed_batch ? N_IMAGES : random_below(N_IMAGES + 1);
        for (int32_t i = 0; i < args.n_images; i++)
            images[i] = random_image();
        args.input.kind = RVIT_INPUT_IMAGES;
        args.input.data = images;
        const rvit_stats before = stats_of(session);
        expect_ok(rvit_session_run(session, &args, got));
        const rvit_stats after = stats_of(session);
        assert_int_equal(after.host_allocations, before.host_allocations);
        assert_int_equal(after.device_allocations, before.device_allocations);
        assert_int_equal(after.submits, before.submits + dispatches());
        assert_int_equal(after.synchronizations, before.synchronizations + 1);
        const float *wanted = run_session(plain, m, planes_of(images, args.n_images, &recipe), args.n_images, NULL);
        assert_memory_equal(got, wanted, (size_t)args.n_images * CLASSES * sizeof *got);
    }
}

static void images_equal_their_planes(void **state)
{
    (void)state;
    random_seed(17);
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    run_policy(m, model, RVIT_PRUNE_NONE, RVIT_PROCESSOR_TIMM, 0);
    run_policy(m, model, RVIT_PRUNE_L2, RVIT_PROCESSOR_HF, 0);
    run_policy(m, model, RVIT_PRUNE_TOME, RVIT_PROCESSOR_TIMM, 1);
}

/* A planar float32 image and an 8-bit image in one batch, with a float16 model. */
static void planar_images_in_mixed_batches(void **state)
{
    (void)state;
    random_seed(18);
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F16);
    const rvit_image_recipe recipe = recipe_of(RVIT_PROCESSOR_TIMM);
    rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1, NULL, 0);
    rvit_session *plain = open_session(model, &desc);
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = ROOM;
    desc.recipe = &recipe;
    rvit_session *session = open_session(model, &desc);
    rvit_image images[2] = {random_image(), random_image()};
    float *planes = planes_of(images, 2, &recipe), got[2 * CLASSES];
    images[1].format = RVIT_IMAGE_PLANAR_F32;
    images[1].width = images[1].height = SIDE;
    images[1].data = planes + 3 * SIDE * SIDE;
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    args.input.kind = RVIT_INPUT_IMAGES;
    args.input.data = images;
    expect_ok(rvit_session_run(session, &args, got));
    assert_memory_equal(got, run_session(plain, m, planes, 2, NULL), sizeof got);
}

/* A refused run leaves the session usable. */
static void bad_images_are_refused(void **state)
{
    (void)state;
    random_seed(19);
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    rvit_image_recipe recipe = recipe_of(RVIT_PROCESSOR_TIMM);
    rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1, NULL, 0);
    rvit_session *session = NULL;
    rvit_session *plain = open_session(model, &desc);
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = ROOM;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, "mean"); /* toy checkpoints have no recipe */
    desc.recipe = &recipe;
    desc.input_bytes = 64;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "input_bytes is 64");
    desc.input_bytes = -1;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "input_bytes is -1");
    desc.input = RVIT_INPUT_TENSOR;
    desc.input_bytes = 0;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "recipe is given, but input is TENSOR");
    desc.input_bytes = ROOM;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "input_bytes is given, but input is TENSOR");
    desc.input = (rvit_input_kind)3;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "input: 3 is not a valid input kind");
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_memory = RVIT_INPUT_RUN;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "input_memory is RUN, but input is IMAGES");
    desc.input_memory = RVIT_INPUT_HOST;
    recipe.width = SIDE + PATCH;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "width");
    recipe.width = SIDE;
    session = open_session(model, &desc);
    rvit_image images[2] = {random_image(), random_image()};
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    float got[2 * CLASSES];
    args.n_images = 2;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "input.kind is TENSOR, the session's input is IMAGES");
    args.input.kind = RVIT_INPUT_IMAGES;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "input.data is NULL");
    args.input.data = images;
    expect_status(rvit_session_run(plain, &args, got), RVIT_INVALID_ARGUMENT, "input.kind is IMAGES, the session's input is TENSOR");
    images[1].height = 30000;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "1");
    images[1].height = 20;
    images[1].target_width = images[1].target_height = SIDE;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "target");
    images[1].target_width = images[1].target_height = 0;
    expect_ok(rvit_session_run(session, &args, got));
    assert_memory_equal(got, run_session(plain, m, planes_of(images, 2, &recipe), 2, NULL), sizeof got);
}

/* One preprocessed image in the layout of RVIT_INPUT_PATCHES: patches line by line, the values of each in (y, x, channel) order. */
static void patches_of(const rvit_image *image, const rvit_image_recipe *recipe, float *patches)
{
    enum { WIDTH = 3 * PATCH * PATCH };
    const int32_t n_rows = image->target_height / PATCH * (image->target_width / PATCH);
    const float *rows = rows_of(image, recipe, n_rows);
    for (int32_t row = 0; row < n_rows; row++)
        for (int i = 0; i < WIDTH; i++)
            patches[row * WIDTH + i] = rows[row * WIDTH + i % 3 * PATCH * PATCH + i / 3];
}

/* Images with their own target sizes give the results of the same patches and grids, up to summation order, and each image gives the same
   bits as in a run by itself. */
static void variable_resolution_images(void **state)
{
    (void)state;
    enum { MOST = 5, MAX_LEN = 2 + MOST * MOST, MAX_TOKENS = 60, VALUES = 3 * PATCH * PATCH };
    static const int32_t block = 1;
    random_seed(20);
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    const rvit_image_recipe recipe = recipe_of(RVIT_PROCESSOR_HF);
    for (int pruned = 0; pruned < 2; pruned++) {
        rvit_session_desc desc = session_desc(N_IMAGES, pruned ? RVIT_PRUNE_L2 : RVIT_PRUNE_NONE, pruned ? 0.6 : -1, &block, pruned);
        desc.variable_resolution = 1;
        desc.input = RVIT_INPUT_PATCHES;
        desc.max_tokens = MAX_TOKENS;
        desc.max_len = MAX_LEN;
        rvit_session *plain = open_session(model, &desc);
        desc.input = RVIT_INPUT_IMAGES;
        desc.input_bytes = ROOM;
        desc.recipe = &recipe;
        rvit_session *session = open_session(model, &desc);
        for (int run = 0; run < (H.is_slow ? 3 : RUNS); run++) {
            rvit_image images[N_IMAGES];
            int32_t grids[2 * N_IMAGES], tokens = 0;
            float got[N_IMAGES * CLASSES], single[CLASSES], wanted[N_IMAGES * CLASSES];
            float *patches = scratch(MAX_TOKENS * VALUES * sizeof *patches), *end = patches;
            rvit_run_args args = RVIT_RUN_ARGS_INIT;
            for (const int32_t most = 1 + random_below(N_IMAGES); args.n_images < most; args.n_images++) {
                rvit_image *image = &images[args.n_images];
                int32_t *grid = &grids[2 * args.n_images];
                *image = random_image();
                grid[0] = 1 + random_below(MOST), grid[1] = 1 + random_below(MOST);
                if (tokens + 2 + grid[0] * grid[1] > MAX_TOKENS)
                    break;
                tokens += 2 + grid[0] * grid[1];
                image->target_height = grid[0] * PATCH, image->target_width = grid[1] * PATCH;
                patches_of(image, &recipe, end);
                end += grid[0] * grid[1] * VALUES;
            }
            args.input.kind = RVIT_INPUT_IMAGES;
            args.input.data = images;
            const rvit_stats before = stats_of(session);
            expect_ok(rvit_session_run(session, &args, got));
            const rvit_stats after = stats_of(session);
            assert_int_equal(after.host_allocations, before.host_allocations);
            assert_int_equal(after.device_allocations, before.device_allocations);
            assert_int_equal(after.submits, before.submits + dispatches());
            assert_int_equal(session_cu_seqlens(session, -1)[args.n_images], tokens);
            const int32_t n = args.n_images;
            if (!pruned) { /* a norm that differs in its last bits may change which token is kept */
                args.input = (rvit_input){.kind = RVIT_INPUT_PATCHES, .data = patches, .grids = grids};
                expect_ok(rvit_session_run(plain, &args, wanted));
                for (int32_t i = 0; i < n * CLASSES; i++)
                    if (!(fabsf(got[i] - wanted[i]) <= 2e-5f * (1 + fabsf(wanted[i]))))
                        fail_msg("image %d: %.9g from an image, %.9g from patches", (int)(i / CLASSES), got[i], wanted[i]);
            }
            for (int32_t i = 0; i < n; i++) {
                rvit_run_args one = RVIT_RUN_ARGS_INIT;
                one.n_images = 1;
                one.input.kind = RVIT_INPUT_IMAGES;
                one.input.data = &images[i];
                expect_ok(rvit_session_run(session, &one, single));
                assert_memory_equal(single, &got[i * CLASSES], sizeof single);
            }
        }
    }
}

enum { PIXELS = 40000 };

/* Copies the bytes of an image to offset `at` of the session's memory, or of pixels if not NULL, with gaps between lines if the image has
   one plane. Returns the next free offset. */
static int64_t move_image(rvit_image *image, uint8_t *memory, int64_t at, rvit_buffer *pixels)
{
    static const int32_t sizes[] = {[RVIT_IMAGE_RGB8] = 3, [RVIT_IMAGE_BGR8] = 3, [RVIT_IMAGE_RGBA8] = 4, [RVIT_IMAGE_GRAY8] = 1};
    const int nv12 = image->format == RVIT_IMAGE_NV12;
    const int64_t line = nv12 ? (image->width + 1) / 2 * 2 : (int64_t)image->width * sizes[image->format];
    const int64_t n_lines = image->height + (nv12 ? (image->height + 1) / 2 : 0), stride = line + (nv12 ? 0 : random_below(9));
    for (int64_t y = 0; y < n_lines; y++)
        memcpy(memory + at + y * stride, (const uint8_t *)image->data + y * line, (size_t)line);
    image->stride = stride;
    image->data = pixels == NULL ? memory + at : NULL;
    if (pixels != NULL)
        image->view = (rvit_view){pixels, 16 + at};
    return (at + (n_lines - 1) * stride + line + 3) / 4 * 4;
}

/* Wraps a buffer's memory as external memory: a CUDA pointer, a VkBuffer, or host memory on the CPU. */
static rvit_buffer *wrapped(rvit_buffer *own, int64_t size)
{
    rvit_buffer *out = NULL;
    rvit_memory_desc desc = RVIT_MEMORY_DESC_INIT;
    desc.type = H.info.backend == RVIT_BACKEND_CUDA     ? RVIT_MEMORY_CUDA
                : H.info.backend == RVIT_BACKEND_VULKAN ? RVIT_MEMORY_VULKAN
                                                        : RVIT_MEMORY_HOST;
    desc.size = size;
    expect_ok(rvit_buffer_handle(own, &desc.vk_buffer, &desc.offset));
    desc.address = (void *)(uintptr_t)desc.vk_buffer;
    desc.vk_buffer_size = desc.offset + (size + 15) / 16 * 16;
    desc.vk_usage = 0x20; /* VK_BUFFER_USAGE_STORAGE_BUFFER_BIT */
    expect_ok(rvit_buffer_wrap(H.device[DEVICE], &desc, &out));
    return out;
}

/* A batch with images in the session's staging buffer, in device memory and in other host memory gives the same bits as one with all images
   in other host memory. */
static void compare_image_locations(rvit_model *model, int variable_resolution)
{
    const rvit_image_recipe recipe = recipe_of(RVIT_PROCESSOR_TIMM);
    rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1, NULL, 0);
    rvit_buffer *own;
    expect_ok(rvit_buffer_create(H.device[DEVICE], 16 + PIXELS, RVIT_BUFFER_UPLOAD, &own));
    uint8_t *device = (uint8_t *)rvit_buffer_host(own) + 16;
    rvit_buffer *pixels = wrapped(own, 16 + PIXELS);
    desc.variable_resolution = variable_resolution;
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = ROOM;
    desc.recipe = &recipe;
    rvit_session *plain = open_session(model, &desc);
    desc.input_view = (rvit_view){pixels, 16};
    rvit_session *session = NULL;
    expect_ok(rvit_session_create(model, &desc, &session));
    int64_t room;
    uint8_t *memory = rvit_session_input_memory(session, &room), *before = scratch(ROOM);
    assert_true(memory != NULL && (uintptr_t)memory % 64 == 0 && room > ROOM - 8192 && room < ROOM);
    for (int run = 0; run < (H.is_slow ? 4 : RUNS); run++) {
        rvit_image images[N_IMAGES], moved[N_IMAGES];
        float got[N_IMAGES * CLASSES], wanted[N_IMAGES * CLASSES];
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        int64_t begin = 4 * random_below(50), end = 0, device_end = 4 * random_below(20);
        args.n_images = random_below(N_IMAGES + 1);
        for (int32_t i = 0; i < args.n_images; i++) {
            images[i] = random_image();
            images[i].width = 1 + (images[i].width - 1) % 48; /* so that all of them fit */
            if (variable_resolution) {
                images[i].target_width = PATCH * (1 + random_below(4));
                images[i].target_height = PATCH * (1 + random_below(4));
            }
            moved[i] = images[i];
            const int place = random_below(3);
            if (place == 0)
                begin = end = move_image(&moved[i], memory, begin, NULL);
            else if (place == 1 && device_end < PIXELS / 2)
                device_end = move_image(&moved[i], device, device_end, pixels);
        }
        memcpy(before, memory, (size_t)end);
        args.input.kind = RVIT_INPUT_IMAGES;
        args.input.data = images;
        expect_ok(rvit_session_run(plain, &args, wanted));
        args.input.kind = RVIT_INPUT_IMAGES;
        args.input.data = moved;
        const rvit_stats first = stats_of(session);
        expect_ok(rvit_session_run(session, &args, got));
        const rvit_stats last = stats_of(session);
        assert_int_equal(last.host_allocations, first.host_allocations);
        assert_int_equal(last.device_allocations, first.device_allocations);
        assert_int_equal(last.submits, first.submits + dispatches());
        assert_memory_equal(got, wanted, (size_t)args.n_images * CLASSES * sizeof *got);
        assert_memory_equal(memory, before, (size_t)end);
    }
    rvit_session_destroy(session);
    rvit_buffer_destroy(pixels);
    rvit_buffer_destroy(own);
}

static void images_are_read_in_place(void **state)
{
    (void)state;
    random_seed(22);
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    compare_image_locations(model, 0);
    compare_image_locations(model, 1);
}

static void bad_image_locations_are_refused(void **state)
{
    (void)state;
    random_seed(23);
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    const rvit_image_recipe recipe = recipe_of(RVIT_PROCESSOR_TIMM);
    rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1, NULL, 0);
    rvit_session *plain = open_session(model, &desc), *session = NULL;
    rvit_buffer *pixels, *other;
    int64_t room = 1;
    assert_non_null(rvit_session_input_memory(plain, &room));
    assert_int_equal(room, (int64_t)N_IMAGES * m->pixels * 4);
    assert_null(rvit_session_input_memory(NULL, NULL));
    expect_ok(rvit_buffer_create(H.device[DEVICE], PIXELS, RVIT_BUFFER_DEVICE, &pixels));
    expect_ok(rvit_buffer_create(H.device[DEVICE], PIXELS, RVIT_BUFFER_DEVICE, &other));
    desc.input_view.buffer = pixels;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "input_view is given, but input_memory is HOST");
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = ROOM;
    desc.recipe = &recipe;
    static const int64_t offsets[] = {8, -16, PIXELS};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        desc.input_view.offset = offsets[i];
        expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "input_view is at offset");
    }
    desc.input_view = (rvit_view){NULL, 0};
    session = open_session(model, &desc);

    uint8_t *memory = rvit_session_input_memory(session, &room);
    memset(memory, 9, (size_t)room);
    rvit_image images[2] = {random_image(), RVIT_IMAGE_INIT};
    rvit_image *one = &images[1];
    one->width = one->height = 20;
    const uint8_t *elsewhere = scratch(3 * 400);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    float got[2 * CLASSES], wanted[2 * CLASSES];
    args.n_images = 2;
    args.input.kind = RVIT_INPUT_IMAGES;
    args.input.data = images;
    const uint8_t *const places[] = {memory + 2, memory - 4, memory - 64, memory + room - 4 * 299, memory + room - 4};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        one->data = places[i];
        expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "image 1: data is in the staging buffer");
    }
    one->data = memory + room / 4 * 4 - 1200; /* leaves no room for the resize weights */
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "image");
    one->data = NULL;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "image 1: data is NULL");
    one->view.buffer = other;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "image 1: view is set, but");
    desc.input_view.buffer = pixels;
    rvit_session *with_pixels = NULL;
    expect_ok(rvit_session_create(model, &desc, &with_pixels));
    expect_status(rvit_session_run(with_pixels, &args, got), RVIT_INVALID_ARGUMENT, "image 1: view and pixels are in different buffers");
    one->view = (rvit_view){pixels, PIXELS - 1196};
    expect_status(rvit_session_run(with_pixels, &args, got), RVIT_INVALID_ARGUMENT, "image 1: view is at offset");
    one->view.offset = 2;
    expect_status(rvit_session_run(with_pixels, &args, got), RVIT_INVALID_ARGUMENT, "image 1: view is at offset 2");
    one->view.offset = 0;
    one->data = elsewhere;
    expect_status(rvit_session_run(with_pixels, &args, got), RVIT_INVALID_ARGUMENT, "image 1: both data and view");
    one->view.buffer = NULL;
    memset((void *)(uintptr_t)elsewhere, 9, 1200);
    expect_ok(rvit_session_run(with_pixels, &args, wanted));
    one->data = memory;
    expect_ok(rvit_session_run(session, &args, got));
    assert_memory_equal(got, wanted, sizeof got);
    rvit_session_destroy(with_pixels);
    rvit_buffer_destroy(pixels);
    rvit_buffer_destroy(other);
}

static void bad_variable_resolution_images(void **state)
{
    (void)state;
    random_seed(21);
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    const rvit_image_recipe recipe = recipe_of(RVIT_PROCESSOR_TIMM);
    rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1, NULL, 0);
    desc.variable_resolution = 1;
    desc.max_len = 2 + 16;
    desc.max_tokens = 2 * desc.max_len - 4;
    desc.input = RVIT_INPUT_IMAGES;
    desc.input_bytes = ROOM;
    desc.recipe = &recipe;
    rvit_session *session = open_session(model, &desc);
    rvit_image images[2] = {random_image(), random_image()};
    const int32_t grids[4] = {1, 1, 1, 1};
    float got[2 * CLASSES], again[CLASSES];
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    args.input.kind = RVIT_INPUT_IMAGES;
    args.input.data = images;
    args.input.grids = grids;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "input.grids is given");
    args.input.grids = NULL;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "image 1"); /* two of the recipe's size: too many tokens */
    images[1].target_height = 4 * PATCH, images[1].target_width = 5 * PATCH;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "image 1");
    images[1].target_height = 3 * PATCH + 1;
    expect_status(rvit_session_run(session, &args, got), RVIT_INVALID_ARGUMENT, "image 1: its target");
    images[1].target_height = 2 * PATCH;
    expect_ok(rvit_session_run(session, &args, got));
    args.n_images = 1;
    expect_ok(rvit_session_run(session, &args, again));
    assert_memory_equal(again, got, sizeof again);
}

SUITE(images_suite, MODEL_TEST(images_equal_their_planes), MODEL_TEST(planar_images_in_mixed_batches), MODEL_TEST(bad_images_are_refused),
      MODEL_TEST(variable_resolution_images), MODEL_TEST(bad_variable_resolution_images), MODEL_TEST(images_are_read_in_place),
      MODEL_TEST(bad_image_locations_are_refused));
