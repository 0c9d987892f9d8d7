#include "backend_cuda/cu.h"

/* Keys to sort are in global memory if an image may exceed shared memory. */
static int64_t n_sorted(const rvit_select_args *args)
{
    const int sums_scores = args->mode == RVIT_SELECT_SAMPLE || args->mode == RVIT_SELECT_MASS;
    return sums_scores && args->max_len > RVIT_CU_SHARED_ROWS ? args->rows : 0;
}

rvit_status rvit_cu_select_reserve(rvit_cu_queue *queue, const rvit_select_args *args)
{
    return rvit_cu_layout_reserve(queue, args->n_images, n_sorted(args));
}

static int reads_rows(const rvit_select_args *args)
{
    return args->mode != RVIT_SELECT_MASK &&
           (args->score == RVIT_SCORE_L2 || args->score == RVIT_SCORE_CLS_NORM || args->score == RVIT_SCORE_PREDICTOR);
}

static rvit_cu_layout layout_of(const rvit_select_args *args, int32_t parts)
{
    return (rvit_cu_layout){
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .out_cu_seqlens = rvit_cu_at(args->out_cu_seqlens),
        .src_rows = rvit_cu_at(args->src_rows),
        .error = rvit_cu_at(args->error),
        .n_images = args->n_images,
        .max_len = args->max_len,
        .rows = (int32_t)args->rows,
        .n_prefix = args->n_prefix,
        .parts = parts,
        .error_stays = args->error_stays,
        .image_errors = args->image_errors,
    };
}

rvit_status rvit_cu_select(rvit_cu_queue *queue, const rvit_select_args *args)
{
    RVIT_TRY(rvit_cu_select_reserve(queue, args));
    const int32_t len = args->max_len < args->rows ? args->max_len : (int32_t)args->rows;
    const rvit_cu_image_tile tile = rvit_cu_tile_select(&queue->device->machine, args->n_images, len, reads_rows(args));
    rvit_cu_select_params params = {
        .layout = layout_of(args, tile.parts),
        .x = rvit_cu_at(args->x),
        .weight = rvit_cu_at(args->weight),
        .cls_probs = rvit_cu_at(args->cls_probs),
        .bias = rvit_cu_at(args->bias),
        .position_scores = rvit_cu_at(args->position_scores),
        .counts = rvit_cu_at(args->counts),
        .keep_in = rvit_cu_at(args->keep_in),
        .anchors = rvit_cu_at(args->anchors),
        .scores = rvit_cu_at(args->scores),
        .keep = rvit_cu_at(args->keep),
        .fuse_x = rvit_cu_at(args->fuse_x),
        .sorted = n_sorted(args) > 0 ? rvit_cu_layout_sorted(queue, args->n_images) : NULL,
        .x_stride = args->x_stride,
        .mode = (int32_t)args->mode,
        .score = (int32_t)args->score,
        .dtype = (int32_t)args->dtype,
        .dim = args->dim,
        .n_heads = args->n_heads,
        .prefix_competes = args->prefix_competes,
        .k_min = args->k_min,
        .n_samples = args->n_samples,
        .mass = args->mass < 1.0 ? (uint32_t)(args->mass * 0x1p32) : 0u,
        .all_mass = args->mass >= 1.0,
        .fuse_dtype = (int32_t)args->fuse_dtype,
        .fuse_dim = args->fuse_dim,
        .anchor_columns = args->anchor_columns,
        .group_size = args->group_size,
        .threshold = args->threshold,
        .factor = args->n_heads > 0 ? 1.0f / (float)args->n_heads : 0.0f,
    };
    rvit_cu_layout_attach(queue, &params.layout);
    const int64_t ctas = args->n_images > 0 ? (int64_t)args->n_images * tile.parts : 1;
    return rvit_cu_launch(queue, RVIT_CU_select_rows, ctas, tile.threads, 0, &params);
}
