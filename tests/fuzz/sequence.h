/* The objects of the target `sequence`, and what is known about each. */
#ifndef RVIT_TESTS_FUZZ_SEQUENCE_H
#define RVIT_TESTS_FUZZ_SEQUENCE_H

#include "small_model.h"

enum {
    N_DEVICES = 2,
    N_BUFFERS = 5,
    N_STREAMS = 3,
    N_PROGRAMS = 3,
    N_CHECKPOINTS = 2,
    N_MODELS = 2,
    N_SESSIONS = 3,
    MAX_IMAGES = 2,
    MAX_COPIES = 6,
    MAX_BUFFER = MAX_IMAGES * IMAGE * 4,
    N_KINDS = 6 /* kinds of images */
};

typedef struct buffer_slot {
    rvit_buffer *it;
    const rvit_device *device;
    int32_t size;
    int users;                /* programs, recordings and sessions that must be destroyed first */
    uint8_t data[MAX_BUFFER]; /* the contents, where known */
    uint8_t known[MAX_BUFFER];
} buffer_slot;

typedef struct copy_range {
    buffer_slot *from, *to;
    int32_t from_offset, to_offset, size;
} copy_range;

typedef struct copies {
    copy_range all[MAX_COPIES];
    int n;
} copies;

typedef struct stream_slot {
    rvit_stream *it;
    const rvit_device *device;
    int recording, users; /* users: sessions that must be destroyed first */
    copies recorded;
} stream_slot;

typedef struct program_slot {
    rvit_program *it;
    const rvit_device *device;
    copies made;
} program_slot;

typedef struct model_slot {
    rvit_model *it;
    const rvit_device *device;
} model_slot;

typedef struct session_slot {
    rvit_session *it;
    rvit_session_desc desc;
    rvit_prune_desc prune; /* at creation */
    stream_slot *stream;   /* NULL: its own */
    buffer_slot *images, *logits;
    int32_t n_stages, n_images, pending_images;
    int masked, merges, pending, has_results;
    int unsure;            /* the pending run may fail, because of its images */
    int kinds[MAX_IMAGES]; /* of the pending run's images; -1: unknown */
    int seen[N_KINDS];     /* an image of this kind was run; its logits are logits_of */
    float logits_of[N_KINDS][CLASSES];
} session_slot;

typedef struct world {
    choices c;
    rvit_device *devices[N_DEVICES];
    buffer_slot buffers[N_BUFFERS];
    stream_slot streams[N_STREAMS];
    program_slot programs[N_PROGRAMS];
    rvit_checkpoint *checkpoints[N_CHECKPOINTS];
    model_slot models[N_MODELS];
    session_slot sessions[N_SESSIONS];
} world;

/* The allocator of every device and checkpoint. After arm_failure(n) only the n-th allocation fails; 0: none. */
extern const rvit_allocator counting_allocator;
void arm_failure(int32_t n);

/* Aborts the program unless the call returned `wanted`, or ran out of memory after arm_failure. Returns whether it succeeded. */
int expect_given(rvit_status found, rvit_status wanted, const char *call);
#define EXPECT(call, wanted) expect_given((call), (wanted), #call)
#define REQUIRE(condition)                    \
    do {                                      \
        if (!(condition))                     \
            fuzz_fail("failed: " #condition); \
    } while (0)

/* The value of an out argument before a call, and after a failed one. */
#define UNTOUCHED ((void *)(uintptr_t)0x5a5a5a5a)

void session_create(world *w);
void session_destroy(session_slot *s);
void session_enqueue(world *w);
void session_wait(world *w);
void session_run(world *w);
/* Calls all functions that return results, with indices in and out of range. */
void session_look(world *w);

#endif
