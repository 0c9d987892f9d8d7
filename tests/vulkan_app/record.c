/* Ops, programs and sessions recorded into the application's command buffer. */
#include "app.h"

#include "properties/pipeline.h"
#include "model/toy.h"
#include "tools/cli/session_results.h"

enum { HEADS = 3, HEAD_DIM = 64, DIM = HEADS * HEAD_DIM, ROWS = 60, MAX_LEN = 30 };

/* All results of a pipeline as one block of memory. */
static uint8_t *results(const pipeline *p)
{
    size_t n = 0;
    for (int o = 0; o < p->n_outputs; o++)
        n += (size_t)p->outputs[o].a->size;
    uint8_t *all = scratch(n), *at = all;
    for (int o = 0; o < p->n_outputs; o++) {
        memcpy(at, array_mapping(p->outputs[o].a, DEVICE), (size_t)p->outputs[o].a->size);
        at += p->outputs[o].a->size;
    }
    return all;
}

static size_t results_size(const pipeline *p)
{
    size_t n = 0;
    for (int o = 0; o < p->n_outputs; o++)
        n += (size_t)p->outputs[o].a->size;
    return n;
}

static pipeline *small_pipeline(rvit_dtype dtype, pipeline_prune prune, const int32_t *lengths, int32_t n)
{
    pipeline *p = pipeline_new(dtype, prune, 4, MAX_LEN, ROWS, 1);
    pipeline_set_lengths(p, lengths, n);
    for (int32_t i = 0; i < n; i++)
        pipeline_set_image(p, i, 40 + (uint64_t)i);
    pipeline_fill_unused(p, POISON);
    arrays_upload();
    return p;
}

static rvit_stats stats_of(const rvit_stream *stream)
{
    rvit_stats stats = RVIT_STATS_INIT;
    expect_ok(rvit_stream_get_stats(stream, &stats));
    return stats;
}

/* Every kind of op, one by one and as a program, gives the same bits in the application's command buffer as on the library's stream,
   also when the command buffer is submitted again with other lengths, and when the stream records into another one. */
static void ops_and_programs(void **state)
{
    (void)state;
    static const int32_t lengths[2][4] = {{17, 0, 30, 5}, {1, 30, 12, 16}};
    for (int prune = PRUNE_CLS; prune <= PRUNE_NOTHING; prune++)
        for (int half = 0; half < 2; half++) {
            pipeline *p = small_pipeline(half ? RVIT_F16 : RVIT_F32, (pipeline_prune)prune, lengths[0], 4);
            const size_t size = results_size(p);
            rvit_program *program = NULL;
            expect_ok(rvit_record_begin(H.stream[DEVICE]));
            expect_ok(pipeline_enqueue(p, H.stream[DEVICE]));
            expect_ok(rvit_record_end(H.stream[DEVICE], &program));
            rvit_stream *stream = NULL;
            const VkCommandBuffer commands[2] = {app_begin(APP), app_begin(APP)};
            expect_ok(rvit_stream_wrap(APP->rvit, commands[0], &stream));
            expect_ok(pipeline_enqueue(p, stream));
            app_end(APP, commands[0]);
            const rvit_stats ops = stats_of(stream);
            assert_int_equal(ops.submits, 0);
            assert_true(ops.launches > 5);
            for (int round = 0; round < 4; round++) {
                pipeline_set_lengths(p, lengths[round % 2], 4);
                for (int32_t i = 0; i < 4; i++)
                    pipeline_set_image(p, i, (uint64_t)(100 * round + i));
                pipeline_update_mapped(p);
                expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
                expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
                const uint8_t *wanted = results(p);
                pipeline_update_mapped(p);
                if (round == 2) { /* the rest uses the program, in the other command buffer */
                    expect_ok(rvit_stream_set(stream, commands[1]));
                    expect_ok(rvit_program_launch(program, stream));
                    app_end(APP, commands[1]);
                }
                app_run(APP, commands[round / 2]);
                assert_memory_equal(wanted, results(p), size);
            }
            rvit_stream_destroy(stream);
            rvit_program_destroy(program);
        }
}

/* Recording the same commands again allocates nothing. */
static void recording_again(void **state)
{
    (void)state;
    static const int32_t lengths[] = {9, 21};
    pipeline *p = small_pipeline(RVIT_F32, PRUNE_CLS, lengths, 2);
    rvit_stream *stream = NULL;
    expect_ok(rvit_stream_wrap(APP->rvit, NULL, &stream));
    expect_status(pipeline_enqueue(p, stream), RVIT_INVALID_ARGUMENT, "rvit_stream_set");
    const VkCommandBuffer commands = app_begin(APP);
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    long long allocations = 0;
    for (int frame = 0; frame < 20; frame++) {
        if (frame > 0)
            assert_int_equal(APP->vk.vkBeginCommandBuffer(commands, &begin), VK_SUCCESS);
        expect_ok(rvit_stream_set(stream, commands));
        for (int i = 0; i < 3; i++) /* more than the minimum number of descriptors */
            expect_ok(pipeline_enqueue(p, stream));
        app_end(APP, commands);
        app_run(APP, commands);
        if (frame == 0)
            allocations = stats_of(stream).host_allocations;
        assert_int_equal(stats_of(stream).host_allocations, allocations);
    }
    rvit_stream_destroy(stream);
}

/* The application's own commands before and after an op, with the barriers that vulkan.h requires. */
static void between_own_commands(void **state)
{
    (void)state;
    enum { N = 1024 };
    const VkBufferUsageFlags usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    app_buffer in = app_buffer_open(APP, N * 4, usage), out = app_buffer_open(APP, N * 4, usage), last = app_buffer_open(APP, N * 4, usage);
    rvit_buffer *wrapped[2] = {NULL, NULL};
    rvit_stream *stream = NULL;
    const rvit_memory_desc descs[2] = {app_buffer_desc(&in), app_buffer_desc(&out)};
    for (int i = 0; i < 2; i++)
        expect_ok(rvit_buffer_wrap(APP->rvit, &descs[i], &wrapped[i]));
    const VkCommandBuffer commands = app_begin(APP);
    APP->vk.vkCmdFillBuffer(commands, in.handle, 0, N * 4, 0x3f800000u); /* 1.0; the first op waits for transfers */
    expect_ok(rvit_stream_wrap(APP->rvit, commands, &stream));
    rvit_pack_args pack = RVIT_PACK_ARGS_INIT;
    pack.rows.capacity = pack.source_rows = N / 4;
    pack.row_size = 16;
    pack.source = (rvit_view){wrapped[0], 0};
    pack.destination = (rvit_view){wrapped[1], 0};
    app_buffer rows = app_buffer_open(APP, N, usage);
    rvit_buffer *wrapped_rows = NULL;
    const rvit_memory_desc rows_desc = app_buffer_desc(&rows);
    expect_ok(rvit_buffer_wrap(APP->rvit, &rows_desc, &wrapped_rows));
    for (int i = 0; i < N / 4; i++)
        ((int32_t *)rows.host)[i] = N / 4 - 1 - i;
    pack.src_rows = (rvit_view){wrapped_rows, 0};
    expect_ok(rvit_pack(stream, &pack));
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT};
    APP->vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 1, &barrier, 0, NULL, 0,
                                 NULL);
    const VkBufferCopy whole = {0, 0, N * 4};
    APP->vk.vkCmdCopyBuffer(commands, out.handle, last.handle, 1, &whole);
    app_end(APP, commands);
    app_run(APP, commands);
    for (int i = 0; i < N; i++)
        assert_true(((const float *)last.host)[i] == 1.0f);
    rvit_stream_destroy(stream);
    for (int i = 0; i < 2; i++)
        rvit_buffer_destroy(wrapped[i]);
    rvit_buffer_destroy(wrapped_rows);
    app_buffer_close(APP, &in);
    app_buffer_close(APP, &out);
    app_buffer_close(APP, &last);
    app_buffer_close(APP, &rows);
}

static rvit_session_desc pruned_desc(void)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = 3;
    prune_in(&desc)->type = RVIT_PRUNE_EVIT;
    prune_in(&desc)->keep = 0.5;
    prune_in(&desc)->n_blocks = 1;
    prune_in(&desc)->blocks[0] = 1;
    return desc;
}

static rvit_model *toy_model(const toy *m)
{
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    expect_ok(rvit_checkpoint_open(toy_write(m, "app.safetensors"), NULL, &checkpoint));
    expect_ok(rvit_model_create(APP->rvit, checkpoint, NULL, &model));
    rvit_checkpoint_destroy(checkpoint);
    return model;
}

static const toy_spec spec = {
    .dim = 64, .depth = 2, .mlp = 128, .image_size = 32, .patch_size = 8, .n_classes = 7, .stored = RVIT_F32, .seed = 5};

/* A pruned forward in the application's command buffer, with images from the host; the application waits before it reads results. */
static void session_runs(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = toy_model(m);
    rvit_session *own = NULL, *recorded = NULL;
    rvit_session_desc desc = pruned_desc();
    expect_ok(rvit_session_create(model, &desc, &own));
    rvit_stream *stream = NULL;
    expect_ok(rvit_stream_wrap(APP->rvit, NULL, &stream));
    desc.stream = stream;
    expect_ok(rvit_session_create(model, &desc, &recorded));
    for (int run = 0; run < 3; run++) {
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        float wanted[3 * 7];
        args.n_images = 3 - run;
        args.input.data = toy_images(m, 3, (uint64_t)run);
        expect_ok(rvit_session_run(own, &args, wanted));
        const VkCommandBuffer commands = app_begin(APP);
        expect_ok(rvit_stream_set(stream, commands));
        expect_ok(rvit_session_enqueue(recorded, &args));
        assert_null(session_floats(recorded, RVIT_RESULT_LOGITS));
        app_end(APP, commands);
        app_run(APP, commands);
        expect_ok(rvit_session_wait(recorded));
        assert_memory_equal(wanted, session_floats(recorded, RVIT_RESULT_LOGITS), (size_t)args.n_images * 7 * sizeof(float));
        const size_t cu_size = ((size_t)args.n_images + 1) * sizeof(int32_t);
        assert_memory_equal(session_cu_seqlens(own, 0), session_cu_seqlens(recorded, 0), cu_size);
        /* A run that fails to be recorded preserves the results of the previous one. */
        expect_ok(rvit_stream_set(stream, NULL));
        expect_status(rvit_session_enqueue(recorded, &args), RVIT_INVALID_ARGUMENT, "command");
        assert_non_null(session_floats(recorded, RVIT_RESULT_LOGITS));
        assert_memory_equal(wanted, session_floats(recorded, RVIT_RESULT_LOGITS), (size_t)args.n_images * 7 * sizeof(float));
    }
    rvit_session_destroy(recorded);
    rvit_session_destroy(own);
    rvit_stream_destroy(stream);
    rvit_model_destroy(model);
}

/* Recorded once and submitted repeatedly, with images and logits in the application's VkBuffers. */
static void session_on_device(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = toy_model(m);
    const size_t images_size = (size_t)3 * (size_t)m->pixels * sizeof(float);
    app_buffer images = app_buffer_open(APP, (int64_t)images_size, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
    app_buffer logits = app_buffer_open(APP, 96, VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
    const rvit_memory_desc descs[2] = {app_buffer_desc(&images), app_buffer_desc(&logits)};
    rvit_session_desc desc = pruned_desc();
    desc.fixed_batch = 1;
    rvit_session *own = NULL, *recorded = NULL;
    expect_ok(rvit_session_create(model, &desc, &own));
    const VkCommandBuffer commands = app_begin(APP);
    expect_ok(rvit_stream_wrap(APP->rvit, commands, &desc.stream));
    desc.input_memory = RVIT_INPUT_FIXED;
    expect_ok(rvit_buffer_wrap(APP->rvit, &descs[0], &desc.input_view.buffer));
    expect_ok(rvit_buffer_wrap(APP->rvit, &descs[1], &desc.logits.buffer));
    expect_ok(rvit_session_create(model, &desc, &recorded));
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 3;
    expect_ok(rvit_session_enqueue(recorded, &args));
    app_end(APP, commands);
    for (int run = 0; run < 3; run++) {
        float wanted[3 * 7];
        args.input.data = toy_images(m, 3, (uint64_t)run);
        expect_ok(rvit_session_run(own, &args, wanted));
        memcpy(images.host, args.input.data, images_size);
        app_run(APP, commands);
        assert_memory_equal(wanted, logits.host, sizeof wanted);
    }
    rvit_session_destroy(recorded);
    rvit_session_destroy(own);
    rvit_buffer_destroy(desc.input_view.buffer);
    rvit_buffer_destroy(desc.logits.buffer);
    rvit_stream_destroy(desc.stream);
    rvit_model_destroy(model);
    app_buffer_close(APP, &images);
    app_buffer_close(APP, &logits);
}

/* Calls that a recording stream does not support fail with a reason and change nothing. */
static void limits(void **state)
{
    (void)state;
    rvit_stream *stream = NULL, *cpu_stream = NULL;
    rvit_buffer *buffer = NULL;
    rvit_device *cpu = NULL;
    rvit_device_desc cpu_desc = RVIT_DEVICE_DESC_INIT;
    cpu_desc.backend = RVIT_BACKEND_CPU;
    expect_ok(rvit_device_create(&cpu_desc, &cpu));
    expect_ok(rvit_stream_create(cpu, &cpu_stream));
    expect_ok(rvit_buffer_create(APP->rvit, 64, RVIT_BUFFER_DEVICE, &buffer));
    const VkCommandBuffer commands = app_begin(APP);
    expect_ok(rvit_stream_wrap(APP->rvit, commands, &stream));
    uint32_t words[4] = {0};
    const rvit_view view = {buffer, 0};
    expect_status(rvit_stream_write(stream, view, words, sizeof words), RVIT_INVALID_ARGUMENT, "command");
    expect_status(rvit_stream_read(stream, view, words, sizeof words), RVIT_INVALID_ARGUMENT, "command");
    expect_ok(rvit_stream_synchronize(stream));
    expect_status(rvit_stream_wrap(NULL, commands, &stream), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_stream_wrap(cpu, commands, &stream), RVIT_UNSUPPORTED, "native");
    expect_status(rvit_stream_wrap(APP->rvit, commands, NULL), RVIT_INVALID_ARGUMENT, "out_stream");
    expect_status(rvit_stream_set(NULL, commands), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_stream_set(cpu_stream, commands), RVIT_INVALID_ARGUMENT, "wrapped");
    expect_status(rvit_stream_set(H.stream[DEVICE], commands), RVIT_INVALID_ARGUMENT, "wrapped");
    expect_ok(rvit_record_begin(stream));
    expect_status(rvit_stream_set(stream, commands), RVIT_INVALID_ARGUMENT, "recording");
    rvit_program *program = NULL;
    expect_status(rvit_record_end(stream, &program), RVIT_INVALID_ARGUMENT, "nothing");
    /* Op, program and stream belong to different devices. */
    expect_ok(rvit_record_begin(cpu_stream));
    rvit_buffer *cpu_buffer = NULL;
    expect_ok(rvit_buffer_create(cpu, 64, RVIT_BUFFER_DEVICE, &cpu_buffer));
    rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
    copy.source = (rvit_view){cpu_buffer, 0};
    copy.destination = (rvit_view){cpu_buffer, 32};
    copy.size = 16;
    expect_ok(rvit_copy(cpu_stream, &copy));
    expect_ok(rvit_record_end(cpu_stream, &program));
    expect_status(rvit_program_launch(program, stream), RVIT_INVALID_ARGUMENT, "devices");
    expect_status(rvit_copy(stream, &copy), RVIT_INVALID_ARGUMENT, "device");
    assert_int_equal(stats_of(stream).copies, 0);
    app_end(APP, commands);
    rvit_program_destroy(program);
    rvit_stream_destroy(stream);
    rvit_stream_destroy(cpu_stream);
    rvit_buffer_destroy(cpu_buffer);
    rvit_buffer_destroy(buffer);
    rvit_device_destroy(cpu);
}

SUITE(app_record_suite, APP_TEST(ops_and_programs), APP_TEST(recording_again), APP_TEST(between_own_commands), APP_TEST(session_runs),
      APP_TEST(session_on_device), APP_TEST(limits));
