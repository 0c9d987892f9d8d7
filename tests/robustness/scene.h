/* A scene: one op of a small shape with its arrays, allocated once. What the op reads as lengths, row numbers, counts and masks lies in
   mapped memory and may be rewritten for each call; all else lies in one buffer of the device, with guards around each array. */
#ifndef RVIT_TESTS_ROBUSTNESS_SCENE_H
#define RVIT_TESTS_ROBUSTNESS_SCENE_H

#include "fuzz/drafts.h"
#include "harness.h"

/* What an array holds: LENGTHS, ROW_NUMBERS, LINKS (next_rows), COUNTS, LIVE, MASK, GRIDS and CELLS are written for each call. */
typedef enum scene_content { DATA, LENGTHS, ROW_NUMBERS, LINKS, COUNTS, LIVE, MASK, GRIDS, CELLS } scene_content;

typedef struct scene_array {
    const char *name;
    scene_content content;
    int64_t offset, size; /* in device or, unless it holds data, in upload */
    int32_t limit;        /* the largest value that has a meaning; of LENGTHS, the rows there are */
    int written;
} scene_array;

typedef struct scene {
    draft d;
    scene_array arrays[RVIT_OP_MAX_ACCESSES];
    int n_arrays;
    int32_t max_len;              /* of the op's images */
    rvit_buffer *device, *upload; /* upload NULL: there is nothing to be written for a call */
    rvit_buffer *snapshot;        /* of device, mapped */
    int64_t device_size, upload_size;
    uint8_t *pristine; /* device before its first call */
    uint8_t *good;     /* upload of a call that keeps the rules */
    uint8_t *first;    /* device after that call */
    uint8_t *given;    /* upload as last written */
} scene;

/* Draws shapes for an op, which one follows from the number, until one is legal and the device has it; then makes a good call and keeps
   what it gave. */
void scene_make(scene *s, int number, uint64_t seed);
void scene_free(scene *s);
/* Writes what is read for each call: garbage. */
void scene_scramble(scene *s, uint64_t seed);
/* The op, and a copy of the device's buffer into the snapshot; waits for nothing. */
rvit_status scene_enqueue(const scene *s);
/* Waits for nothing either. NULL, or what the calls so far have broken: a guard, an input, what was written for the call. */
const char *scene_damage(const scene *s);
/* Makes the good call once more, on arrays as they were at first. NULL, or what was broken or differs. */
const char *scene_good_call(scene *s);
/* The good call on other bytes of the device's buffer. NULL, or what was broken. */
const char *scene_call_with(scene *s, uint8_t *bytes);

/* Spoils the rows of one image with NaN, infinity, huge or negative numbers or zeros, and makes the good call (neighbours.c). NULL, or what
   was broken: what the other images get must be what they got at first, bit for bit, and what is left of the image must have room. */
const char *scene_spoiled_call(scene *s, uint64_t seed);
/* How many such calls of each mode of select have met each value, as text; 0: some never have. */
int scene_spoiled_all(char *text, size_t size);
const char *scene_op(const scene *s);
void scene_print(const scene *s);

#endif
