/* Dispatch from an op to the function that records it, with its barriers; and the limits of the backend. */
#include "backend_vulkan/vulkan.h"

static rvit_status record(rvit_vk_recorder *recorder, const rvit_op *op)
{
    switch (op->type) {
#define RVIT_OP(TYPE, name) \
    case RVIT_OP_##TYPE:    \
        return rvit_vk_record_##name(recorder, &op->name);
#include "core/contract/ops.def"
    case RVIT_OP_COUNT:
        break;
    }
    return rvit_fail(RVIT_INTERNAL, "vulkan: %d is not the type of an op", (int)op->type);
}

/* select and bipartite_match write new layouts and, in a program, the sizes of the indirect dispatches that depend on them. */
static int makes_dispatch_sizes(const rvit_op *op)
{
    return op->type == RVIT_OP_SELECT || op->type == RVIT_OP_BIPARTITE_MATCH;
}

/* Compute-only barriers cover neither transfers nor memory that indirect dispatches read. */
static int needs_full_barrier(const rvit_vk_recorder *recorder, const rvit_op *op)
{
    return op->type == RVIT_OP_COPY || (makes_dispatch_sizes(op) && recorder->indirect != NULL && recorder->indirect->n_slots > 0);
}

/* Lists the arrays of the op, and the dispatch sizes if it writes or reads any. */
static void list_accesses(rvit_vk_recorder *recorder, const rvit_op *op)
{
    const int n = rvit_op_accesses(op, recorder->accesses);
    int reads_sizes = 0;
    for (int a = 0; a < n; a++)
        reads_sizes |= recorder->accesses[a].live && recorder->accesses[a].view.buffer != NULL && recorder->indirect != NULL;
    /* The fusing shader declares the scores that it reads as writable. */
    if (op->type == RVIT_OP_SELECT && op->select.fuse_x.buffer != NULL)
        recorder->accesses[RVIT_SLOT(select, scores)].writes = 1;
    recorder->n_accesses = n;
    if (!makes_dispatch_sizes(op) && !reads_sizes)
        return;
    recorder->accesses[n] = rvit_vk_dispatch_sizes_access(recorder);
    recorder->accesses[n].writes = (uint8_t)makes_dispatch_sizes(op);
    recorder->n_accesses = n + 1;
}

rvit_status rvit_vk_record_op(rvit_vk_recorder *recorder, const rvit_op *op)
{
    list_accesses(recorder, op);
    recorder->hints = &op->hints;
    const int needs_full = needs_full_barrier(recorder, op);
    rvit_vk_record_order(recorder, needs_full);
    RVIT_TRY(record(recorder, op));
    rvit_vk_record_remember(recorder, needs_full);
    recorder->op_index++;
    return RVIT_OK;
}

/* Workgroups have 32-bit indices and are spread over two dimensions. */
static int dispatch_fits(const rvit_vk_device *device, const rvit_op *op)
{
    const uint32_t *max_groups = device->physical.limits.maxComputeWorkGroupCount;
    double groups = 0.0;
    if (op->type == RVIT_OP_ATTENTION) {
        const rvit_attention_args *a = &op->attention;
        const int64_t len = a->max_len < a->rows ? a->max_len : a->rows;
        const int64_t queries = rvit_vk_shape_attention(device, a).queries;
        groups = (double)((len + queries - 1) / queries) * a->n_heads * a->n_images;
    } else if (op->type == RVIT_OP_ATTENTION_RECEIVED) {
        const rvit_attention_received_args *a = &op->attention_received;
        const int64_t len = a->max_len < a->rows ? a->max_len : a->rows;
        groups = (double)((len + RVIT_ATTENTION_RECEIVED_KEYS - 1) / RVIT_ATTENTION_RECEIVED_KEYS) * a->n_heads * a->n_images;
    } else if (op->type == RVIT_OP_HEAD) {
        groups = (double)op->head.n_images * ((op->head.n_classes + RVIT_MAX_THREADS - 1) / RVIT_MAX_THREADS);
    } else if (op->type == RVIT_OP_MEAN) {
        groups = (double)op->mean.n_images * (op->mean.dim / 4 / RVIT_MEAN_COLUMNS + 1);
    } else if (op->type == RVIT_OP_ATTENTION_POOL) {
        groups = (double)op->attention_pool.n_images * op->attention_pool.n_heads;
    } else if (op->type == RVIT_OP_PREPROCESS) {
        groups = (double)rvit_vk_preprocess_groups(&op->preprocess);
    } else if (op->type == RVIT_OP_PIXELPRUNE) {
        groups = (double)op->pixelprune.n_images * (double)rvit_vk_pixelprune_groups(&op->pixelprune);
    } else if (op->type == RVIT_OP_POOL) {
        groups = (double)op->pool.n_images * (op->pool.dim / 4 / RVIT_POOL_PLAIN_COLUMNS + 1);
    }
    /* For all other ops the sizes of the arrays limit the number of workgroups. */
    return groups <= (double)max_groups[0] * max_groups[1] && groups < 4294967296.0 - max_groups[0];
}

static const char *supports_copy(const rvit_copy_args *args)
{
    if ((((const rvit_vk_buffer *)args->source.buffer)->usage & VK_BUFFER_USAGE_TRANSFER_SRC_BIT) == 0)
        return "source is in a VkBuffer without VK_BUFFER_USAGE_TRANSFER_SRC_BIT";
    if ((((const rvit_vk_buffer *)args->destination.buffer)->usage & VK_BUFFER_USAGE_TRANSFER_DST_BIT) == 0)
        return "destination is in a VkBuffer without VK_BUFFER_USAGE_TRANSFER_DST_BIT";
    return NULL;
}

/* Number of arrays that the op's shader binds; RVIT_VK_MIN_STORAGE if every device can bind them. */
static uint32_t max_bound(const rvit_op *op)
{
    if (op->type == RVIT_OP_GRID_RELAYOUT)
        return RVIT_GRID_RELAYOUT_N_BINDINGS;
    if (op->type == RVIT_OP_LAYERNORM && op->layernorm.out_dtype == RVIT_I8)
        return RVIT_LAYERNORM_N_BINDINGS;
    return op->type == RVIT_OP_BIPARTITE_MATCH && op->bipartite_match.window_cu_seqlens.buffer != NULL ? RVIT_BIPARTITE_MATCH_N_BINDINGS
                                                                                                       : RVIT_VK_MIN_STORAGE;
}

const char *rvit_vk_supports(const rvit_device *base, const rvit_op *op)
{
    const rvit_vk_device *device = rvit_vk_device_of(base);
    if (op->type == RVIT_OP_ATTENTION_BACKWARD)
        return "the gradient of attention is not supported by the Vulkan backend";
    if (rvit_op_has_dtype(op, RVIT_E4M3))
        return "the Vulkan backend supports int8 rows, but not e4m3";
    if (op->type == RVIT_OP_COPY)
        return supports_copy(&op->copy);
    if (max_bound(op) > rvit_vk_max_bindings(device))
        return "it binds more arrays than the device supports (maxPerStageDescriptorStorageBuffers)";
    if (!dispatch_fits(device, op))
        return "it needs more workgroups than the device can dispatch";
    return rvit_vk_loops_fit(device, op);
}
