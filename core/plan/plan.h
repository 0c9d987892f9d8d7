/* The plan of a session: what it computes and which memory it takes. It is made at once, before anything of the session, and never
   changes; the session, rvit_session_memory and the forward read it. */
#ifndef RVIT_CORE_PLAN_PLAN_H
#define RVIT_CORE_PLAN_PLAN_H

#include "core/plan/policy.h"
#include "core/weights/model.h"

/* Where an array lies. */
typedef enum rvit_arena {
    RVIT_ARENA_NONE, /* the session has no such array */
    /* buffers */
    RVIT_ARENA_DEVICE,
    RVIT_ARENA_UPLOAD,
    RVIT_ARENA_READBACK,
    RVIT_ARENA_TRACE, /* of the type READBACK, too */
    RVIT_N_BUFFERS,
    /* memory from the device's allocator */
    RVIT_ARENA_HOST = RVIT_N_BUFFERS,
    /* A part of the device's buffer, and again of a mapped one. One copy takes TABLES from UPLOAD to DEVICE when the session is created,
       one at the end of each run RESULTS from DEVICE to READBACK. */
    RVIT_ARENA_TABLES,
    RVIT_ARENA_RESULTS,
    RVIT_N_ARENAS
} rvit_arena;

typedef struct rvit_session_array {
    rvit_arena arena;
    int64_t offset, size; /* bytes; offset: in the arena */
} rvit_session_array;

/* The batch between two stages: segment 0 lasts until stage 0, segment i + 1 begins with stage i. */
typedef struct rvit_segment {
    int32_t max_len;      /* tokens of an image at most */
    int64_t rows;         /* max_images times that */
    int32_t reads_live;   /* 1: how many rows there are is read on the device */
    int32_t padded;       /* rvit_rows_padding */
    int32_t padding_rows; /* as rvit_op_hints */
} rvit_segment;

typedef struct rvit_stage_plan {
    rvit_select_args select;    /* as recorded, every view empty; unless the policy merges */
    const int32_t *count_table; /* what the array counts holds; NULL without it */
#define RVIT_STAGE_ARRAY(arena, name, type, when, n) rvit_session_array name;
#include "core/plan/arrays.def"
} rvit_stage_plan;

typedef struct rvit_session_plan {
    rvit_session_desc desc;   /* complete; blocks counted from 0; without recipe and prune */
    rvit_image_recipe recipe; /* of images */
    rvit_prune_schedule schedule;
    rvit_pixelprune_args pixelprune;                  /* of a schedule by pixels: as recorded, every view empty */
    rvit_segment segments[RVIT_PRUNE_MAX_STAGES + 1]; /* schedule.n_stages + 1 of them */
#define RVIT_SESSION_ARRAY(arena, name, type, when, n) rvit_session_array name;
#include "core/plan/arrays.def"
    int32_t max_windows, window_len; /* windows of attention, of a batch at most; their rows at most. 0: there are none */
    int64_t trace_stride;
    rvit_session_array tables, tables_upload;     /* all of RVIT_ARENA_TABLES: on the device, and where it is copied from */
    rvit_session_array results, results_readback; /* all of RVIT_ARENA_RESULTS: on the device, and where it is copied to */
    int64_t sizes[RVIT_N_ARENAS];                 /* bytes of each arena; 0: none is needed */
    int64_t plan_size;                            /* bytes of the plan itself: this struct, its stages, and behind them their tables */
    rvit_stage_plan stages[];                     /* schedule.n_stages of them */
} rvit_session_plan;

/* The plan of a session of this desc, which is complete and checked but for what it says of pruning. It depends on nothing but model and
   desc; rvit_session_plan_destroy with the same model frees it. */
rvit_status rvit_session_plan_create(const rvit_model *model, const rvit_session_desc *desc, const rvit_session_plan **out_plan);
void rvit_session_plan_destroy(const rvit_model *model, const rvit_session_plan *plan);

/* Bytes of the device memory in which images of runs may lie: up to the end of its buffer. 0: there is none. */
static inline int64_t rvit_session_pixels_size(const rvit_session_desc *desc)
{
    const rvit_buffer *buffer = desc->input == RVIT_INPUT_IMAGES ? desc->input_view.buffer : NULL;
    return buffer == NULL ? 0 : buffer->size - desc->input_view.offset;
}

/* How the session's images are prepared. */
rvit_status rvit_session_recipe(const rvit_model *model, const rvit_session_desc *desc, rvit_image_recipe *out_recipe);

/* The last stage before the rows of block `block` (-1: the embedding) come out: one inside a block or before it shows in its output, one
   after it does not. -1: none. */
int32_t rvit_stage_of_output(const rvit_prune_schedule *schedule, int32_t block);
/* The last stage before the attention of a block. */
int32_t rvit_stage_of_attention(const rvit_prune_schedule *schedule, int32_t block);

#endif
