/* Fuzzes ops on the CPU backend: the input provides the calls, their arguments and the contents of arrays. Each buffer has exactly the size
   of its array, so that the address sanitizer detects an access outside it. */
#include "drafts.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SIZE = 1 << 18, MAX_CALLS = 4 };

/* Fills an array. The library does not check the contents before the op runs. */
static void fill(choices *c, uint8_t *bytes, int64_t size)
{
    int32_t *ints = (int32_t *)(void *)bytes;
    const int32_t kind = choose(c, 7), step = choose_byte(c);
    uint32_t random = (uint32_t)step * 2654435761u + 1;
    for (int64_t i = 0; i < size / 4; i++) {
        random = random * 1664525u + 1013904223u;
        const float value = (float)(int32_t)(random >> 8) / 65536 - 100;
        switch (kind) {
        case 0: /* ascending lengths or row indices */
            ints[i] = (int32_t)(i * (step % 16));
            break;
        case 1: /* random lengths or row indices */
            ints[i] = (int32_t)(random >> 16) % (step + 1);
            break;
        case 2:
            memcpy(&ints[i], &value, sizeof value);
            break;
        case 3: /* any float16 and bfloat16 values */
            ints[i] = (int32_t)random;
            break;
        case 4:
            ints[i] = choose_int(c, -2, 60);
            break;
        case 5:
            memcpy(&ints[i], &(float){choose_float(c)}, sizeof value);
            break;
        default:
            ints[i] = step % 2 ? -1 : 0;
        }
    }
}

typedef struct memory {
    rvit_device *device;
    rvit_buffer *buffers[MAX_CALLS * MAX_VIEWS];
    int n;
} memory;

/* Sets each view of an op to a buffer of the required size, or to an invalid one. */
static int give_buffers(draft *d, choices *c, memory *m)
{
    static rvit_buffer marks[MAX_VIEWS];
    uint8_t plan[MAX_VIEWS];
    for (int i = 0; i < d->n_views; i++) {
        plan[i] = choose_byte(c);
        if (plan[i] % 4 != 3)
            d->views[i]->buffer = &marks[i];
    }
    rvit_op prepared = d->op;
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    const int n = rvit_op_prepare(&prepared) == RVIT_OK ? rvit_op_accesses(&prepared, accesses) : 0;
    for (int i = 0; i < d->n_views; i++) {
        if (d->views[i]->buffer == NULL)
            continue;
        int64_t size = 64;
        for (int j = 0; j < n; j++)
            if (accesses[j].view.buffer == &marks[i] && accesses[j].size <= MAX_SIZE)
                size = accesses[j].size > 0 ? accesses[j].size : 1;
        const uint8_t spoil = plan[i] >> 2;
        if (spoil == 60)
            size = size > 4 ? size - 4 : size;
        if (spoil == 61 && m->n > 0) {
            d->views[i]->buffer = m->buffers[choose(c, m->n)];
            continue;
        }
        const int64_t offset = spoil >= 32 && spoil < 40 ? 16 : 0;
        if (spoil == 62)
            d->views[i]->offset = choose_int(c, -16, 64);
        else if (spoil != 63)
            d->views[i]->offset = offset;
        rvit_buffer *buffer = NULL;
        if (expect_status_of(
                rvit_buffer_create(m->device, size + offset, spoil % 2 ? RVIT_BUFFER_UPLOAD : RVIT_BUFFER_READBACK, &buffer)) != RVIT_OK)
            return 0;
        m->buffers[m->n++] = buffer;
        d->views[i]->buffer = buffer;
        fill(c, rvit_buffer_host(buffer), size + offset);
    }
    return 1;
}

static rvit_device *device_of(int32_t kind)
{
    static rvit_device *devices[5];
    if (devices[kind] == NULL) {
        rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
        desc.backend = RVIT_BACKEND_CPU;
        desc.n_threads = 1;
        desc.allocator = &fuzz_allocator;
        desc.tier = kind == 1 ? RVIT_TIER_SCALAR : RVIT_TIER_AUTO;
        desc.vector_bits = kind == 2 ? 256 : 0;
        desc.oracle = kind == 3;
        desc.debug_checks = kind == 4;
        if (rvit_device_create(&desc, &devices[kind]) != RVIT_OK)
            fuzz_fail(rvit_status_detail());
    }
    return devices[kind];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    choices c = {data, size, 0};
    const int32_t how = choose_byte(&c);
    memory m = {.device = device_of(how % 5)};
    const int recording = how >> 3 & 1;
    rvit_stream *stream = NULL;
    if (rvit_stream_create(m.device, &stream) != RVIT_OK)
        fuzz_fail(rvit_status_detail());
    if (recording)
        (void)expect_status_of(rvit_record_begin(stream));
    for (int i = 0; i < MAX_CALLS && c.at < c.size; i++) {
        draft d;
        draft_op(&d, (rvit_op_type)choose(&c, RVIT_OP_COUNT), &c);
        if (give_buffers(&d, &c, &m))
            (void)expect_status_of(op_call(stream, &d.op));
    }
    if (recording) {
        rvit_program *program = NULL;
        if (expect_status_of(rvit_record_end(stream, &program)) == RVIT_OK) {
            (void)expect_status_of(rvit_program_launch(program, stream));
            (void)expect_status_of(rvit_program_launch(program, stream));
            (void)expect_status_of(rvit_stream_synchronize(stream));
        }
        rvit_program_destroy(program);
    }
    (void)expect_status_of(rvit_stream_synchronize(stream));
    rvit_stream_destroy(stream);
    for (int i = 0; i < m.n; i++)
        rvit_buffer_destroy(m.buffers[i]);
    return 0;
}
