/* Tests the application's device: its requirements, its queue's lock, and several devices in one process. */
#include "app.h"
#include "interop.h"

#include "failing_allocator.h"

enum { HEAD_DIM = 64, ROWS = 24 };

/* Attention with zero keys: a row's result is the mean of v over its image, here of 8 rows numbered from 0. */
static rvit_status run_attention(rvit_stream *stream, rvit_buffer *in, rvit_buffer *out)
{
    float *qkv = rvit_buffer_host(in);
    memset(qkv, 0, (size_t)rvit_buffer_size(in));
    for (int row = 0; row < ROWS; row++)
        for (int d = 0; d < HEAD_DIM; d++)
            qkv[row * 3 * HEAD_DIM + 2 * HEAD_DIM + d] = (float)(row % 8);
    int32_t *cu = (int32_t *)(qkv + ROWS * 3 * HEAD_DIM);
    for (int i = 0; i <= 3; i++)
        cu[i] = 8 * i;
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.n_images = 3;
    args.n_heads = 1;
    args.head_dim = HEAD_DIM;
    args.max_len = 8;
    args.rows = ROWS;
    args.q = (rvit_view){in, 0};
    args.k = (rvit_view){in, HEAD_DIM * 4};
    args.v = (rvit_view){in, 2 * HEAD_DIM * 4};
    args.q_stride = args.k_stride = args.v_stride = 3 * HEAD_DIM;
    args.cu_seqlens = (rvit_view){in, ROWS * 3 * HEAD_DIM * 4};
    args.out = (rvit_view){out, 0};
    return rvit_attention(stream, &args);
}

typedef struct work {
    rvit_stream *stream;
    rvit_buffer *in, *out;
} work;

static work work_open(rvit_device *device)
{
    work w = {NULL, NULL, NULL};
    expect_ok(rvit_stream_create(device, &w.stream));
    expect_ok(rvit_buffer_create(device, ROWS * 3 * HEAD_DIM * 4 + 16, RVIT_BUFFER_UPLOAD, &w.in));
    expect_ok(rvit_buffer_create(device, ROWS * HEAD_DIM * 4, RVIT_BUFFER_READBACK, &w.out));
    return w;
}

static int is_right(const work *w)
{
    const float *out = rvit_buffer_host(w->out);
    for (int i = 0; i < ROWS * HEAD_DIM; i++)
        if (!(out[i] > 3.4999f && out[i] < 3.5001f))
            return 0;
    return 1;
}

static void work_close(work *w)
{
    rvit_stream_destroy(w->stream);
    rvit_buffer_destroy(w->in);
    rvit_buffer_destroy(w->out);
}

static void expect_works(rvit_device *device)
{
    work w = work_open(device);
    expect_ok(run_attention(w.stream, w.in, w.out));
    expect_ok(rvit_stream_synchronize(w.stream));
    assert_true(is_right(&w));
    work_close(&w);
}

/* With the self-test: the lock is taken once per submit, and the device remains usable by the application afterwards. */
static void works_and_locks(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.tier = H.desc.tier;
    desc.backend = RVIT_BACKEND_VULKAN;
    const int before = APP->n_locks;
    expect_ok(rvit_vulkan_device_create(&APP->desc, &desc, &device));
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    expect_ok(rvit_device_get_info(device, &info));
    assert_int_equal(info.backend, RVIT_BACKEND_VULKAN);
    assert_string_equal(info.name, APP->properties.deviceName);
    const int created = APP->n_locks;
    assert_int_equal(created, before + 3); /* the runs of the self-test */
    work w = work_open(device);
    for (int i = 1; i <= 5; i++) {
        expect_ok(run_attention(w.stream, w.in, w.out));
        expect_ok(rvit_stream_synchronize(w.stream));
        rvit_stats stats = RVIT_STATS_INIT;
        expect_ok(rvit_stream_get_stats(w.stream, &stats));
        assert_int_equal(stats.submits, i);
        assert_int_equal(APP->n_locks - created, i);
    }
    assert_true(is_right(&w));
    work_close(&w);
    rvit_device_destroy(device);
    const VkCommandBuffer commands = app_begin(APP);
    app_end(APP, commands);
    app_run(APP, commands);
}

static void *submit_often(void *user)
{
    app *a = user;
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&a->lock);
        const VkResult result = a->vk.vkQueueSubmit(a->queue, 0, NULL, VK_NULL_HANDLE);
        pthread_mutex_unlock(&a->lock);
        if (result != VK_SUCCESS)
            return user;
    }
    return NULL;
}

/* The application submits from another thread at the same time. */
static void shared_queue(void **state)
{
    (void)state;
    pthread_t thread;
    void *failed = NULL;
    work w = work_open(APP->rvit);
    assert_int_equal(pthread_create(&thread, NULL, submit_often, APP), 0);
    for (int i = 0; i < 50; i++) {
        expect_ok(run_attention(w.stream, w.in, w.out));
        expect_ok(rvit_stream_synchronize(w.stream));
    }
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_true(is_right(&w));
    work_close(&w);
}

/* Two VkDevices of the application, one of the library, and a second rvit_device on the first VkDevice work independently. */
static void several_devices(void **state)
{
    (void)state;
    app second;
    app_open(&second, 1);
    rvit_device *devices[4] = {APP->rvit, NULL, NULL, NULL};
    rvit_device_desc own = H.desc;
    own.skip_self_test = 1;
    expect_ok(rvit_device_create(&own, &devices[1]));
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.tier = RVIT_TIER_SCALAR;
    expect_ok(rvit_vulkan_device_create(&second.desc, &desc, &devices[2]));
    expect_ok(app_create(APP, &devices[3]));
    work w[4];
    for (int i = 0; i < 4; i++)
        w[i] = work_open(devices[i]);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 4; i++)
            expect_ok(run_attention(w[i].stream, w[i].in, w[i].out));
    for (int i = 0; i < 4; i++) {
        expect_ok(rvit_stream_synchronize(w[i].stream));
        assert_true(is_right(&w[i]));
        expect_status(run_attention(w[i].stream, w[i].in, w[(i + 1) % 4].out), RVIT_INVALID_ARGUMENT, "another");
    }
    for (int i = 0; i < 4; i++)
        work_close(&w[i]);
    for (int i = 1; i < 4; i++)
        rvit_device_destroy(devices[i]);
    app_close(&second);
    expect_works(APP->rvit);
}

/* A device without any feature or extension, and without get_instance_proc_addr, which the library then finds itself. */
static void bare(void **state)
{
    (void)state;
    app a;
    app_open(&a, 1);
    a.desc.get_instance_proc_addr = NULL;
    a.desc.api_version = 0;
    a.desc.lock_queue = a.desc.unlock_queue = NULL;
    rvit_device *device = NULL;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    expect_ok(rvit_vulkan_device_create(&a.desc, NULL, &device));
    expect_works(device);
    rvit_buffer *buffer = NULL;
    rvit_semaphore *semaphore = NULL;
    expect_status(rvit_buffer_create(device, 64, RVIT_BUFFER_SHARED, &buffer), RVIT_UNSUPPORTED, "VK_KHR_external_memory_fd");
    expect_status(create_semaphore(device, 0, 1, &semaphore), RVIT_UNSUPPORTED, "VK_KHR_external_semaphore_fd");
    expect_status(create_semaphore(device, 1, 0, &semaphore), RVIT_UNSUPPORTED, "timelineSemaphore");
    rvit_device_destroy(device);
    desc.tier = RVIT_TIER_MATRIX; /* not enabled, whether or not the driver supports it */
    a.desc.api_version = VK_API_VERSION_1_3;
    expect_status(rvit_vulkan_device_create(&a.desc, &desc, &device), RVIT_UNSUPPORTED, "matrix");
    app_close(&a);
}

/* The application enables neither bfloat16 nor int8 matrices: the matrix tier works without them, and the note says so. */
static void without_bf16_and_int8(void **state)
{
    (void)state;
    if (H.desc.tier != RVIT_TIER_MATRIX)
        skip();
    rvit_device *device = NULL;
    expect_ok(app_create(APP, &device));
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    expect_ok(rvit_device_get_info(device, &info));
    assert_int_equal(info.tier, RVIT_TIER_MATRIX);
    assert_non_null(strstr(info.note, "not for bf16: "));
    assert_int_equal(info.native_dtypes, 0);
    rvit_device_destroy(device);
}

/* Leaves one feature of the tier after another out of the list of enabled ones. */
static void without_a_feature(void **state)
{
    (void)state;
    if (H.desc.tier != RVIT_TIER_MATRIX)
        skip();
    rvit_device *device = NULL;
    VkBool32 *const flags[] = {&APP->matrix.matrix,
                               &APP->vulkan12.shaderFloat16,
                               &APP->vulkan12.vulkanMemoryModel,
                               &APP->vulkan12.vulkanMemoryModelDeviceScope,
                               &APP->size.subgroupSizeControl,
                               &APP->size.computeFullSubgroups};
    static const char *const names[] = {"cooperativeMatrix",   "shaderFloat16",       "vulkanMemoryModel", "vulkanMemoryModelDeviceScope",
                                        "subgroupSizeControl", "computeFullSubgroups"};
    for (int i = 0; i < 6; i++) {
        *flags[i] = VK_FALSE;
        expect_status(app_create(APP, &device), RVIT_UNSUPPORTED, names[i]);
        if (i == 3) { /* no tier works without it once the model is enabled */
            *flags[i] = VK_TRUE;
            continue;
        }
        rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
        desc.skip_self_test = 1;
        expect_ok(rvit_vulkan_device_create(&APP->desc, &desc, &device)); /* any tier is fine */
        rvit_device_info info = RVIT_DEVICE_INFO_INIT;
        expect_ok(rvit_device_get_info(device, &info));
        assert_int_equal(info.tier, RVIT_TIER_SUBGROUP);
        assert_non_null(strstr(info.note, names[i]));
        rvit_device_destroy(device);
        *flags[i] = VK_TRUE;
    }
    rvit_vulkan_device_desc desc = APP->desc;
    desc.n_extensions = 0;
    rvit_device_desc tier = RVIT_DEVICE_DESC_INIT;
    tier.tier = RVIT_TIER_MATRIX;
    expect_status(rvit_vulkan_device_create(&desc, &tier, &device), RVIT_UNSUPPORTED, "VK_KHR_cooperative_matrix");
}

static PFN_vkVoidFunction VKAPI_CALL finds_no_function(VkInstance instance, const char *name)
{
    (void)instance, (void)name;
    return NULL;
}

static PFN_vkVoidFunction VKAPI_CALL no_device_function(VkDevice device, const char *name)
{
    (void)device, (void)name;
    return NULL;
}

static PFN_vkVoidFunction VKAPI_CALL finds_no_device_function(VkInstance instance, const char *name)
{
    return strcmp(name, "vkGetDeviceProcAddr") == 0 ? (PFN_vkVoidFunction)no_device_function : vkGetInstanceProcAddr(instance, name);
}

static void bad_descs(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    expect_status(rvit_vulkan_device_create(&APP->desc, NULL, NULL), RVIT_INVALID_ARGUMENT, "out_device");
    expect_status(rvit_vulkan_device_create(NULL, NULL, &device), RVIT_INVALID_ARGUMENT, "vulkan");
    rvit_vulkan_device_desc desc = RVIT_VULKAN_DEVICE_DESC_INIT;
    expect_status(rvit_vulkan_device_create(&desc, NULL, &device), RVIT_INVALID_ARGUMENT, "NULL");
    void **const handles[] = {&desc.instance, &desc.physical_device, &desc.device, &desc.queue};
    for (int i = 0; i < 4; i++) {
        desc = APP->desc;
        *handles[i] = NULL;
        expect_status(rvit_vulkan_device_create(&desc, NULL, &device), RVIT_INVALID_ARGUMENT, "NULL");
    }
#define BAD(change, status, word) \
    desc = APP->desc;             \
    change;                       \
    expect_status(rvit_vulkan_device_create(&desc, NULL, &device), status, word)
    BAD(desc.struct_size = 4, RVIT_INVALID_ARGUMENT, "struct_size");
    BAD(desc.api_version = VK_API_VERSION_1_0, RVIT_INVALID_ARGUMENT, "api_version");
    BAD(desc.queue_family = 1000, RVIT_INVALID_ARGUMENT, "queue_family");
    BAD(desc.lock_queue = NULL, RVIT_INVALID_ARGUMENT, "lock_queue");
    BAD(desc.unlock_queue = NULL, RVIT_INVALID_ARGUMENT, "unlock_queue");
    BAD((desc.extensions = NULL, desc.n_extensions = 2), RVIT_INVALID_ARGUMENT, "extensions");
    BAD(desc.get_instance_proc_addr = (rvit_vulkan_function)finds_no_function, RVIT_UNAVAILABLE, "vkEnumeratePhysicalDevices");
    BAD(desc.get_instance_proc_addr = (rvit_vulkan_function)finds_no_device_function, RVIT_UNAVAILABLE, "get_instance_proc_addr");
    const char *hole[2] = {"VK_KHR_external_memory_fd", NULL};
    BAD((desc.extensions = hole, desc.n_extensions = 2), RVIT_INVALID_ARGUMENT, "extensions");
    rvit_device_desc common = RVIT_DEVICE_DESC_INIT;
    common.backend = RVIT_BACKEND_CPU;
    expect_status(rvit_vulkan_device_create(&APP->desc, &common, &device), RVIT_INVALID_ARGUMENT, "backend");
    common.backend = RVIT_BACKEND_AUTO;
    common.index = 0;
    expect_status(rvit_vulkan_device_create(&APP->desc, &common, &device), RVIT_INVALID_ARGUMENT, "index");
    common.index = -1;
    common.tier = (rvit_tier)9;
    expect_status(rvit_vulkan_device_create(&APP->desc, &common, &device), RVIT_INVALID_ARGUMENT, "tier");
    assert_null(device);
}

/* Enabled features that the physical device lacks are rejected. Unknown ones are ignored. */
static void missing_features(void **state)
{
    (void)state;
    rvit_device *device = NULL;
    rvit_vulkan_device_desc desc = APP->desc;
    struct {
        VkStructureType type;
        const void *next;
        VkBool32 matrix, robust;
    } matrix = {(VkStructureType)1000506000, NULL, VK_TRUE, VK_FALSE};
    desc.features = &matrix;
    if (!app_has_extension(APP, "VK_KHR_cooperative_matrix")) {
        expect_status(rvit_vulkan_device_create(&desc, NULL, &device), RVIT_INVALID_ARGUMENT, "cooperativeMatrix");
        const char *const extension = "VK_KHR_cooperative_matrix";
        desc.features = NULL;
        desc.extensions = &extension;
        desc.n_extensions = 1;
        expect_status(rvit_vulkan_device_create(&desc, NULL, &device), RVIT_INVALID_ARGUMENT, "VK_KHR_cooperative_matrix");
    }
    if (!app_has_extension(APP, "VK_KHR_external_semaphore_fd")) {
        const char *const extension = "VK_KHR_external_semaphore_fd";
        desc = APP->desc;
        desc.extensions = &extension;
        desc.n_extensions = 1;
        expect_status(rvit_vulkan_device_create(&desc, NULL, &device), RVIT_INVALID_ARGUMENT, "VK_KHR_external_semaphore_fd");
    }
    const VkPhysicalDeviceFeatures2 unknown = {.sType = (VkStructureType)1999999999, .pNext = (void *)(uintptr_t)APP->desc.features};
    const char *const extensions[] = {"VK_EXT_of_the_future"};
    desc = APP->desc;
    desc.features = &unknown;
    desc.extensions = extensions;
    desc.n_extensions = 1;
    rvit_device_desc common = RVIT_DEVICE_DESC_INIT;
    common.skip_self_test = 1;
    expect_ok(rvit_vulkan_device_create(&desc, &common, &device));
    expect_works(device);
    rvit_device_destroy(device);
}

/* A damaged cache is ignored here, too. */
static void cache(void **state)
{
    (void)state;
    expect_works(APP->rvit);
    size_t size = 0;
    expect_ok(rvit_device_get_cache(APP->rvit, NULL, 0, &size));
    uint8_t *blob = scratch(size);
    expect_ok(rvit_device_get_cache(APP->rvit, blob, size, &size));
    blob[size / 2] ^= 1;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.skip_self_test = 1;
    desc.cache_data = blob;
    desc.cache_size = size;
    rvit_device *device = NULL;
    expect_ok(rvit_vulkan_device_create(&APP->desc, &desc, &device));
    expect_works(device);
    rvit_device_destroy(device);
}

typedef struct trial {
    failing_allocator failing;
    app_buffer in, out;
    VkCommandBuffer commands;
    rvit_device *device;
    rvit_stream *stream;
    rvit_buffer *buffers[3];
    rvit_semaphore *semaphore;
} trial;

static void undo(void *context)
{
    trial *t = context;
    (void)APP->vk.vkResetCommandBuffer(t->commands, 0);
    rvit_stream_destroy(t->stream);
    rvit_semaphore_destroy(t->semaphore);
    for (int i = 0; i < 3; i++) {
        rvit_buffer_destroy(t->buffers[i]);
        t->buffers[i] = NULL;
    }
    rvit_device_destroy(t->device);
    t->stream = NULL;
    t->semaphore = NULL;
    t->device = NULL;
}

static rvit_status attempt_all(trial *t)
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.skip_self_test = 1;
    desc.allocator = &t->failing.allocator;
    rvit_status status = rvit_vulkan_device_create(&APP->desc, &desc, &t->device);
    if (status == RVIT_OK)
        status = rvit_stream_wrap(t->device, t->commands, &t->stream);
    const rvit_memory_desc descs[2] = {app_buffer_desc(&t->in), app_buffer_desc(&t->out)};
    for (int i = 0; i < 2 && status == RVIT_OK; i++)
        status = rvit_buffer_wrap(t->device, &descs[i], &t->buffers[i]);
    if (status == RVIT_OK)
        status = create_semaphore(t->device, 0, 0, &t->semaphore);
    if (status == RVIT_OK)
        status = rvit_buffer_create(t->device, 64, RVIT_BUFFER_SHARED, &t->buffers[2]);
    if (status == RVIT_UNSUPPORTED)
        status = RVIT_OK;
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.rows.capacity = 4;
    args.in_features = args.out_features = 8;
    args.x = (rvit_view){t->buffers[0], 0};
    args.weight = (rvit_view){t->buffers[0], 128};
    args.out = (rvit_view){t->buffers[1], 0};
    return status == RVIT_OK ? rvit_linear(t->stream, &args) : status;
}

static rvit_status attempt(void *context)
{
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    assert_int_equal(APP->vk.vkBeginCommandBuffer(((trial *)context)->commands, &begin), VK_SUCCESS);
    const rvit_status status = attempt_all(context);
    if (status != RVIT_OK)
        undo(context);
    return status;
}

static void every_allocation_of_an_application(void **state)
{
    (void)state;
    trial t = {.commands = app_begin(APP)};
    app_end(APP, t.commands);
    t.in = app_buffer_open(APP, 512, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
    t.out = app_buffer_open(APP, 512, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
    failing_allocator_init(&t.failing);
    const allocation_trial all = {"a device, a stream, buffers and an op on the application's Vulkan device", attempt, undo, &t};
    fail_every_allocation(&t.failing, &all);
    app_buffer_close(APP, &t.in);
    app_buffer_close(APP, &t.out);
}

SUITE(app_device_suite, APP_TEST(works_and_locks), APP_TEST(shared_queue), APP_TEST(several_devices), APP_TEST(bare),
      APP_TEST(without_a_feature), APP_TEST(without_bf16_and_int8), APP_TEST(bad_descs), APP_TEST(missing_features), APP_TEST(cache),
      APP_TEST(every_allocation_of_an_application));
