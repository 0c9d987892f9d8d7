/* The plan of a session: what it computes and its memory. It is complete before the session is created and never changes. The session,
   rvit_session_memory and the forward read it. */
#ifndef RVIT_CORE_PLAN_PLAN_H
#define RVIT_CORE_PLAN_PLAN_H

#include "core/plan/policy.h"
#include "core/weights/model.h"

/* The memory that holds an array. */
typedef enum rvit_arena {
    RVIT_ARENA_NONE, /* the session has no such array */
    /* buffers */
    RVIT_ARENA_DEVICE,
    RVIT_ARENA_UPLOAD,
    RVIT_ARENA_READBACK,
    RVIT_ARENA_TRACE, /* a READBACK buffer, too */
    RVIT_N_BUFFERS,
    /* memory from the device's allocator */
    RVIT_ARENA_HOST = RVIT_N_BUFFERS,
    /* Parts of the DEVICE arena with a copy in a mapped one. One copy moves TABLES from UPLOAD to DEVICE when the session is created; one
       copy at the end of each run moves RESULTS from DEVICE to READBACK. */
    RVIT_ARENA_TABLES,
    RVIT_ARENA_RESULTS,
    RVIT_N_ARENAS
} rvit_arena;

typedef struct rvit_session_array {
    rvit_arena arena;
    int64_t offset, size; /* bytes; offset: from the start of the arena */
} rvit_session_array;

/* The batch between two stages: segment 0 ends at stage 0, segment i + 1 begins after stage i. */
typedef struct rvit_segment {
    int32_t max_len;      /* the most tokens of an image */
    int64_t rows;         /* the most rows of a batch */
    int32_t reads_live;   /* 1: the device reads the number of rows */
    int32_t padded;       /* rvit_rows_padding */
    int32_t padding_rows; /* as rvit_op_hints */
} rvit_segment;

typedef struct rvit_stage_plan {
    rvit_select_args select;    /* as recorded, with empty views; not set if the policy merges */
    const int32_t *count_table; /* the contents of the array counts; NULL if there is none */
#define RVIT_STAGE_ARRAY(arena, name, type, when, n) rvit_session_array name;
#include "core/plan/arrays.def"
} rvit_stage_plan;

typedef struct rvit_session_plan {
    rvit_session_desc desc;   /* complete; blocks are counted from 0; recipe and prune are NULL */
    rvit_image_recipe recipe; /* if the input is images */
    rvit_prune_schedule schedule;
    rvit_pixelprune_args pixelprune;                  /* of pixelprune: as recorded, with empty views */
    rvit_segment segments[RVIT_PRUNE_MAX_STAGES + 1]; /* schedule.n_stages + 1 of them */
#define RVIT_SESSION_ARRAY(arena, name, type, when, n) rvit_session_array name;
#include "core/plan/arrays.def"
    int32_t max_windows, window_len; /* the most attention windows of a batch, and rows of a window; 0: no windows */
    int64_t trace_stride;
    rvit_session_array tables, tables_upload;     /* RVIT_ARENA_TABLES: on the device, and its source */
    rvit_session_array results, results_readback; /* RVIT_ARENA_RESULTS: on the device, and its copy */
    int64_t sizes[RVIT_N_ARENAS];                 /* bytes of each arena; 0: it is not needed */
    int64_t plan_size;                            /* bytes of the plan itself: this struct, its stages, then their tables */
    rvit_stage_plan stages[];                     /* schedule.n_stages of them */
} rvit_session_plan;

/* Makes the plan of a session. desc must be complete and checked, except for its pruning. The plan depends only on model and desc; free it
   with rvit_session_plan_destroy and the same model. */
rvit_status rvit_session_plan_create(const rvit_model *model, const rvit_session_desc *desc, const rvit_session_plan **out_plan);
void rvit_session_plan_destroy(const rvit_model *model, const rvit_session_plan *plan);

/* Bytes of the device memory that may hold the images of runs, up to the end of its buffer. 0: there is none. */
static inline int64_t rvit_session_pixels_size(const rvit_session_desc *desc)
{
    const rvit_buffer *buffer = desc->input == RVIT_INPUT_IMAGES ? desc->input_view.buffer : NULL;
    return buffer == NULL ? 0 : buffer->size - desc->input_view.offset;
}

/* The recipe by which the session prepares images. */
rvit_status rvit_session_recipe(const rvit_model *model, const rvit_session_desc *desc, rvit_image_recipe *out_recipe);

/* The last stage that affects the output of a block (-1: the embedding): stages before and inside the block do, a stage after it does not.
   -1: none. */
int32_t rvit_stage_of_output(const rvit_prune_schedule *schedule, int32_t block);
/* The last stage before the attention of a block; -1: none. */
int32_t rvit_stage_of_attention(const rvit_prune_schedule *schedule, int32_t block);

#endif
