/* Fuzzes sequences of calls on objects that are created and destroyed in any order. An input is a list of calls and arguments, some of them
   invalid. A model of the objects predicts which calls succeed, the contents of buffers and the bits of logits. Failed calls must change
   nothing, and no memory may remain allocated at the end. */
#include "sequence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int64_t live;
    int32_t fail_in;
    int failed; /* an allocation failed during this call */
} A;

static void *allocate(void *user, size_t size, size_t alignment)
{
    (void)user;
    if (size > (size_t)64 << 20 || (A.fail_in > 0 && --A.fail_in == 0)) {
        A.failed = 1;
        return NULL;
    }
    void *memory = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    A.live += memory != NULL;
    return memory;
}

static void release(void *user, void *pointer)
{
    (void)user;
    A.live -= pointer != NULL;
    free(pointer);
}

const rvit_allocator counting_allocator = {NULL, allocate, release};

void arm_failure(int32_t n)
{
    A.fail_in = n;
    A.failed = 0;
}

int expect_given(rvit_status found, rvit_status wanted, const char *call)
{
    (void)expect_status_of(found);
    if (found == wanted || (A.failed && (found == RVIT_OUT_OF_HOST_MEMORY || found == RVIT_OUT_OF_DEVICE_MEMORY)))
        return found == RVIT_OK;
    fprintf(stderr, "%s returns %s (%s), expected %s\n", call, rvit_status_name(found), rvit_status_detail(), rvit_status_name(wanted));
    fuzz_fail("the status differs from the prediction");
}

static void device_create(world *w)
{
    rvit_device **slot = &w->devices[choose(&w->c, N_DEVICES)];
    rvit_device *made = UNTOUCHED;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    desc.n_threads = 1;
    desc.allocator = &counting_allocator;
    rvit_status wanted = RVIT_OK;
    const uint8_t kind = choose_byte(&w->c);
    desc.tier = kind % 4 == 1 ? RVIT_TIER_SCALAR : RVIT_TIER_AUTO;
    desc.oracle = kind % 4 == 2;
    desc.debug_checks = kind % 4 == 3;
    if (*slot != NULL)
        return;
    if (kind >> 2 == 63)
        wanted = (desc.index = 1, RVIT_UNAVAILABLE);
    else if (kind >> 2 == 62)
        wanted = (desc.tier = RVIT_TIER_MATRIX, RVIT_UNSUPPORTED);
    else if (kind >> 2 == 61)
        wanted = (desc.n_threads = -1, RVIT_INVALID_ARGUMENT);
    else if (kind >> 2 == 60)
        wanted = (desc.struct_size = 0, RVIT_INVALID_ARGUMENT);
    if (EXPECT(rvit_device_create(&desc, &made), wanted))
        *slot = made;
    else
        REQUIRE(made == UNTOUCHED);
}

static void device_end(world *w)
{
    rvit_device **slot = &w->devices[choose(&w->c, N_DEVICES)];
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    size_t size = 1;
    EXPECT(rvit_device_get_info(*slot, &info), *slot ? RVIT_OK : RVIT_INVALID_ARGUMENT);
    EXPECT(rvit_device_get_cache(*slot, NULL, 0, &size), *slot ? RVIT_OK : RVIT_INVALID_ARGUMENT);
    REQUIRE(size == (*slot ? 0 : 1));
    rvit_device_destroy(*slot);
    *slot = NULL;
}

static void buffer_create(world *w)
{
    rvit_device *device = w->devices[choose(&w->c, N_DEVICES)];
    buffer_slot *slot = &w->buffers[choose(&w->c, N_BUFFERS)];
    const uint8_t kind = choose_byte(&w->c);
    const int32_t type = kind % 8 < 6 ? kind % 3 : kind % 8 == 6 ? 1 : 3;
    const int64_t size = kind >> 3 == 31 ? 0 : kind >> 3 == 30 ? (int64_t)1 << 40 : kind >> 3 >= 16 ? MAX_BUFFER : 1 + (kind >> 3) * 16;
    if (slot->it != NULL)
        return;
    rvit_buffer *made = UNTOUCHED;
    const int fits = size <= MAX_BUFFER || type == 3 || device == NULL;
    const rvit_status wanted = device && size > 0 && type < 3 ? RVIT_OK : RVIT_INVALID_ARGUMENT;
    if (!EXPECT(rvit_buffer_create(device, size, (rvit_buffer_type)type, &made), fits ? wanted : RVIT_OUT_OF_DEVICE_MEMORY)) {
        REQUIRE(made == UNTOUCHED);
        return;
    }
    memset(slot, 0, sizeof *slot);
    slot->it = made;
    slot->device = device;
    slot->size = (int32_t)size;
    REQUIRE(rvit_buffer_size(made) == size);
    REQUIRE((rvit_buffer_host(made) != NULL) == (type != RVIT_BUFFER_DEVICE));
    REQUIRE((uintptr_t)rvit_buffer_host(made) % 64 == 0);
}

static void buffer_destroy(world *w)
{
    buffer_slot *slot = &w->buffers[choose(&w->c, N_BUFFERS)];
    if (slot->users > 0)
        return;
    rvit_buffer_destroy(slot->it);
    slot->it = NULL;
}

/* Writes to a mapped buffer from the host. */
static void host_write(world *w)
{
    buffer_slot *slot = &w->buffers[choose(&w->c, N_BUFFERS)];
    uint8_t *host = rvit_buffer_host(slot->it), byte = choose_byte(&w->c);
    if (host == NULL)
        return;
    memset(host, byte, (size_t)slot->size);
    memset(slot->data, byte, (size_t)slot->size);
    memset(slot->known, 1, (size_t)slot->size);
}

static void stream_create(world *w)
{
    rvit_device *device = w->devices[choose(&w->c, N_DEVICES)];
    stream_slot *slot = &w->streams[choose(&w->c, N_STREAMS)];
    if (slot->it != NULL)
        return;
    rvit_stream *made = UNTOUCHED;
    if (!EXPECT(rvit_stream_create(device, &made), device ? RVIT_OK : RVIT_INVALID_ARGUMENT)) {
        REQUIRE(made == UNTOUCHED);
        return;
    }
    memset(slot, 0, sizeof *slot);
    slot->it = made;
    slot->device = device;
}

static void forget_copies(copies *c)
{
    for (int i = 0; i < c->n; i++) {
        c->all[i].from->users--;
        c->all[i].to->users--;
    }
    c->n = 0;
}

static void stream_destroy(stream_slot *slot)
{
    if (slot->it == NULL || slot->users > 0)
        return;
    rvit_stream_destroy(slot->it);
    forget_copies(&slot->recorded);
    memset(slot, 0, sizeof *slot);
}

static void stream_query(world *w)
{
    const stream_slot *slot = &w->streams[choose(&w->c, N_STREAMS)];
    rvit_stats stats = RVIT_STATS_INIT;
    EXPECT(rvit_stream_synchronize(slot->it), slot->it ? RVIT_OK : RVIT_INVALID_ARGUMENT);
    EXPECT(rvit_stream_get_stats(slot->it, &stats), slot->it ? RVIT_OK : RVIT_INVALID_ARGUMENT);
    REQUIRE(stats.device_size >= 0 && stats.upload_size >= 0 && stats.readback_size >= 0 && stats.working_size >= 0);
}

static int fits(const buffer_slot *b, const rvit_device *device, int32_t offset, int32_t size)
{
    return b->it != NULL && b->device == device && offset >= 0 && offset % 4 == 0 && size % 4 == 0 && size <= b->size &&
           offset <= b->size - size;
}

/* Mostly a small multiple of 4. */
static int32_t choose_offset(world *w)
{
    const uint8_t byte = choose_byte(&w->c);
    return byte < 250 ? byte % 32 * 4 : byte == 250 ? 2 : byte == 251 ? -4 : byte == 252 ? MAX_BUFFER : byte == 253 ? INT32_MAX - 3 : 0;
}

static void transfer(world *w)
{
    const uint8_t how = choose_byte(&w->c);
    const stream_slot *stream = &w->streams[how % 8 % N_STREAMS];
    buffer_slot *buffer = &w->buffers[choose(&w->c, N_BUFFERS)];
    const int32_t offset = choose_offset(w), size = 4 + (choose_offset(w) & (MAX_BUFFER - 1));
    const int works = stream->it != NULL && !stream->recording && fits(buffer, stream->device, offset, size);
    const rvit_status wanted = works ? RVIT_OK : RVIT_INVALID_ARGUMENT;
    const rvit_view view = {buffer->it, offset};
    uint8_t host[2 * MAX_BUFFER];
    memset(host, how, sizeof host);
    if (how >= 128) {
        if (EXPECT(rvit_stream_write(stream->it, view, host, size), wanted)) {
            memset(buffer->data + offset, how, (size_t)size);
            memset(buffer->known + offset, 1, (size_t)size);
        }
        return;
    }
    const int ok = EXPECT(rvit_stream_read(stream->it, view, host, size), wanted);
    for (int32_t i = 0; i < size; i++)
        if (ok ? buffer->known[offset + i] && host[i] != buffer->data[offset + i] : host[i] != how)
            fuzz_fail(ok ? "a buffer does not contain what was written" : "a failed read wrote to the host array");
}

static void run_copies(const copies *c)
{
    for (int i = 0; i < c->n; i++) {
        const copy_range *r = &c->all[i];
        memcpy(r->to->data + r->to_offset, r->from->data + r->from_offset, (size_t)r->size);
        memcpy(r->to->known + r->to_offset, r->from->known + r->from_offset, (size_t)r->size);
    }
}

static void copy(world *w)
{
    stream_slot *stream = &w->streams[choose(&w->c, N_STREAMS)];
    const uint8_t which = choose_byte(&w->c);
    const copy_range r = {&w->buffers[which % N_BUFFERS], &w->buffers[which / N_BUFFERS % N_BUFFERS], choose_offset(w), choose_offset(w),
                          choose_offset(w)};
    if (stream->recording && stream->recorded.n == MAX_COPIES)
        return;
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = (rvit_view){r.from->it, r.from_offset};
    args.destination = (rvit_view){r.to->it, r.to_offset};
    args.size = r.size;
    const int apart =
        r.from != r.to || r.size == 0 || (int64_t)r.from_offset + r.size <= r.to_offset || (int64_t)r.to_offset + r.size <= r.from_offset;
    const int works = stream->it != NULL && r.size >= 0 && fits(r.from, stream->device, r.from_offset, r.size) &&
                      fits(r.to, stream->device, r.to_offset, r.size) && apart;
    if (!EXPECT(rvit_copy(stream->it, &args), works ? RVIT_OK : RVIT_INVALID_ARGUMENT))
        return;
    const copies one = {{r}, 1};
    if (!stream->recording) {
        run_copies(&one);
        return;
    }
    stream->recorded.all[stream->recorded.n++] = r;
    r.from->users++;
    r.to->users++;
}

static void record_begin(world *w)
{
    stream_slot *stream = &w->streams[choose(&w->c, N_STREAMS)];
    if (EXPECT(rvit_record_begin(stream->it), stream->it && !stream->recording ? RVIT_OK : RVIT_INVALID_ARGUMENT))
        stream->recording = 1;
}

static void record_end(world *w)
{
    stream_slot *stream = &w->streams[choose(&w->c, N_STREAMS)];
    program_slot *program = &w->programs[choose(&w->c, N_PROGRAMS)];
    if (program->it != NULL)
        return;
    rvit_program *made = UNTOUCHED;
    const int works = stream->it != NULL && stream->recording && stream->recorded.n > 0;
    if (EXPECT(rvit_record_end(stream->it, &made), works ? RVIT_OK : RVIT_INVALID_ARGUMENT)) {
        program->it = made;
        program->device = stream->device;
        program->made = stream->recorded;
    } else {
        REQUIRE(made == UNTOUCHED);
        forget_copies(&stream->recorded);
    }
    stream->recording = stream->recorded.n = 0;
}

static void launch(world *w)
{
    const stream_slot *stream = &w->streams[choose(&w->c, N_STREAMS)];
    const program_slot *program = &w->programs[choose(&w->c, N_PROGRAMS)];
    const int works = stream->it != NULL && program->it != NULL && stream->device == program->device && !stream->recording;
    if (EXPECT(rvit_program_launch(program->it, stream->it), works ? RVIT_OK : RVIT_INVALID_ARGUMENT))
        run_copies(&program->made);
}

static void program_destroy(program_slot *program)
{
    rvit_program_destroy(program->it);
    forget_copies(&program->made);
    program->it = NULL;
}

/* Opened only once, for inputs that begin with the usual objects, because opening it is the slowest call. */
static rvit_checkpoint *lasting;
static const char *path;

static void open_lasting(void)
{
    if (lasting != NULL)
        return;
    path = small_model();
    if (rvit_checkpoint_open(path, NULL, &lasting) != RVIT_OK)
        fuzz_fail(rvit_status_detail());
}

static void checkpoint_destroy(rvit_checkpoint **slot)
{
    if (*slot != lasting)
        rvit_checkpoint_destroy(*slot);
    *slot = NULL;
}

static void checkpoint_open(world *w)
{
    rvit_checkpoint **slot = &w->checkpoints[choose(&w->c, N_CHECKPOINTS)], *made = UNTOUCHED;
    const uint8_t kind = choose_byte(&w->c);
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.allocator = &counting_allocator;
    desc.image_size = kind == 255 ? 7 : kind == 254 ? -4 : 0;
    if (*slot != NULL)
        return;
    const char *name = kind == 253 ? "/nonexistent" : kind == 252 ? NULL : path;
    const rvit_status wanted = kind == 253 ? RVIT_BAD_FILE : kind >= 252 ? RVIT_INVALID_ARGUMENT : RVIT_OK;
    if (EXPECT(rvit_checkpoint_open(name, &desc, &made), wanted))
        *slot = made;
    else
        REQUIRE(made == UNTOUCHED);
}

static void checkpoint_end(world *w)
{
    rvit_checkpoint **slot = &w->checkpoints[choose(&w->c, N_CHECKPOINTS)];
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    if (EXPECT(rvit_checkpoint_get_model_info(*slot, &info), *slot ? RVIT_OK : RVIT_INVALID_ARGUMENT))
        REQUIRE(info.tokens == TOKENS && info.depth == DEPTH && info.n_classes == CLASSES);
    rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
    if (EXPECT(rvit_checkpoint_get_info(*slot, &files), *slot ? RVIT_OK : RVIT_INVALID_ARGUMENT))
        REQUIRE(files.n_predictors == DEPTH);
    checkpoint_destroy(slot);
}

static void model_create(world *w)
{
    rvit_device *device = w->devices[choose(&w->c, N_DEVICES)];
    const rvit_checkpoint *checkpoint = w->checkpoints[choose(&w->c, N_CHECKPOINTS)];
    model_slot *slot = &w->models[choose(&w->c, N_MODELS)];
    const uint8_t kind = choose_byte(&w->c);
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    desc.dtype = kind == 255 ? RVIT_BF16 : kind == 254 ? RVIT_I8 : (rvit_dtype)(kind % 2); /* models cannot be int8 */
    desc.quantization = kind % 16 == 6 ? RVIT_QUANTIZATION_INT8 : kind % 16 == 7 ? RVIT_QUANTIZATION_FP8 : RVIT_QUANTIZATION_NONE;
    if (slot->it != NULL)
        return;
    rvit_model *made = UNTOUCHED;
    if (EXPECT(rvit_model_create(device, checkpoint, &desc, &made), device && checkpoint && kind != 254 ? RVIT_OK : RVIT_INVALID_ARGUMENT))
        *slot = (model_slot){made, device};
    else
        REQUIRE(made == UNTOUCHED);
}

static void model_end(world *w)
{
    model_slot *slot = &w->models[choose(&w->c, N_MODELS)];
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    EXPECT(rvit_model_get_info(slot->it, &info), slot->it ? RVIT_OK : RVIT_INVALID_ARGUMENT);
    rvit_model_destroy(slot->it);
    slot->it = NULL;
}

static void step(world *w)
{
    static void (*const calls[])(world *) = {
        device_create,  device_end,     buffer_create, buffer_destroy, host_write,      stream_create,  stream_query, transfer,
        copy,           record_begin,   record_end,    launch,         checkpoint_open, checkpoint_end, model_create, model_end,
        session_create, session_create, session_run,   session_run,    session_enqueue, session_wait,   session_look,
    };
    enum { N_CALLS = sizeof calls / sizeof *calls };
    const uint8_t byte = choose_byte(&w->c);
    const int32_t call = byte & 31;
    /* In an eighth of the calls, one of the first 48 allocations fails. */
    arm_failure(byte >> 5 == 7 ? 1 + choose(&w->c, 48) : 0);
    if (call < N_CALLS)
        calls[call](w);
    else if (call == 28)
        stream_destroy(&w->streams[choose(&w->c, N_STREAMS)]);
    else if (call == 29)
        program_destroy(&w->programs[choose(&w->c, N_PROGRAMS)]);
    else if (call == 30)
        session_destroy(&w->sessions[choose(&w->c, N_SESSIONS)]);
    arm_failure(0);
}

/* Destroys all objects; devices and models, which may be destroyed in any order, first or last. */
static void end_all(world *w, int devices_first)
{
    for (int i = 0; i < N_DEVICES && devices_first; i++)
        rvit_device_destroy(w->devices[i]);
    for (int i = 0; i < N_MODELS && devices_first; i++)
        rvit_model_destroy(w->models[i].it);
    for (int i = 0; i < N_SESSIONS; i++)
        session_destroy(&w->sessions[i]);
    for (int i = 0; i < N_PROGRAMS; i++)
        program_destroy(&w->programs[i]);
    for (int i = 0; i < N_STREAMS; i++)
        stream_destroy(&w->streams[i]);
    for (int i = 0; i < N_BUFFERS; i++) {
        REQUIRE(w->buffers[i].users == 0 || w->buffers[i].it == NULL);
        rvit_buffer_destroy(w->buffers[i].it);
    }
    for (int i = 0; i < N_CHECKPOINTS; i++)
        checkpoint_destroy(&w->checkpoints[i]);
    for (int i = 0; i < N_MODELS && !devices_first; i++)
        rvit_model_destroy(w->models[i].it);
    for (int i = 0; i < N_DEVICES && !devices_first; i++)
        rvit_device_destroy(w->devices[i]);
}

enum { MAX_CALLS = 48 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static world w;
    memset(&w, 0, sizeof w);
    w.c = (choices){data, size, 0};
    open_lasting();
    A.live = 0;
    const int how = choose_byte(&w.c);
    /* Most inputs begin with a device, a stream and a model. */
    if (how & 2) {
        static const uint8_t usual[] = {0, 0, 0, 5, 0, 0, 14, 0, 0, 0, 0};
        w.checkpoints[0] = lasting;
        const choices rest = w.c;
        w.c = (choices){usual, sizeof usual, 0};
        while (w.c.at < w.c.size)
            step(&w);
        w.c = rest;
    }
    for (int i = 0; i < MAX_CALLS && w.c.at < w.c.size; i++)
        step(&w);
    end_all(&w, how & 1);
    REQUIRE(A.live == 0);
    return 0;
}
