/* From a checkpoint to weights on a device. */
#include "core/vit_model.h"

#include <stdio.h>
#include <string.h>

#include "core/args.h"
#include "core/checkpoint.h"
#include "core/half.h"

/* Walks over all weights twice: first to place them in one buffer, then, with a stream, to read, convert and write them. */
typedef struct loader {
    const rvit_checkpoint *checkpoint;
    rvit_model *model;
    rvit_stream *stream; /* NULL in the first walk */
    int64_t size;        /* bytes placed so far */
    int64_t largest;     /* elements of the largest tensor */
    float *values, *more;
    void *converted;
} loader;

static rvit_status place(loader *l, int64_t n, rvit_dtype dtype, rvit_view *view)
{
    view->buffer = l->model->weights;
    view->offset = l->size;
    l->size += (n * rvit_dtype_size(dtype) + 255) / 256 * 256;
    if (n > l->largest)
        l->largest = n;
    return RVIT_OK;
}

static rvit_status write(loader *l, int64_t n, rvit_dtype dtype, rvit_view view)
{
    if (dtype == RVIT_F32)
        return rvit_stream_write(l->stream, view, l->values, n * 4);
    uint16_t *halves = l->converted;
    for (int64_t i = 0; i < n; i++)
        halves[i] = rvit_f32_to_f16(l->values[i]);
    /* A transfer is a multiple of 4 bytes; the placing leaves room for the odd element. */
    halves[n] = 0;
    return rvit_stream_write(l->stream, view, halves, (n * 2 + 3) / 4 * 4);
}

static rvit_status load(loader *l, const char *name, int64_t n, rvit_dtype dtype, rvit_view *view)
{
    RVIT_TRY(place(l, n, dtype, view));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_checkpoint_read(l->checkpoint, name, n, l->values));
    return write(l, n, dtype, *view);
}

static rvit_status load_block(loader *l, int32_t block)
{
    const int64_t dim = l->model->info.dim, mlp = l->model->info.mlp_dim;
    const rvit_dtype dtype = l->model->dtype;
    rvit_block_weights *w = &l->model->blocks[block];
    const struct {
        const char *name;
        int64_t n;
        rvit_dtype dtype;
        rvit_view *view;
    } tensors[] = {
        {"norm1.weight", dim, RVIT_F32, &w->norm1_gamma},          {"norm1.bias", dim, RVIT_F32, &w->norm1_beta},
        {"attn.qkv.weight", 3 * dim * dim, dtype, &w->qkv_weight}, {"attn.qkv.bias", 3 * dim, RVIT_F32, &w->qkv_bias},
        {"attn.proj.weight", dim * dim, dtype, &w->proj_weight},   {"attn.proj.bias", dim, RVIT_F32, &w->proj_bias},
        {"norm2.weight", dim, RVIT_F32, &w->norm2_gamma},          {"norm2.bias", dim, RVIT_F32, &w->norm2_beta},
        {"mlp.fc1.weight", mlp * dim, dtype, &w->fc1_weight},      {"mlp.fc1.bias", mlp, RVIT_F32, &w->fc1_bias},
        {"mlp.fc2.weight", dim * mlp, dtype, &w->fc2_weight},      {"mlp.fc2.bias", dim, RVIT_F32, &w->fc2_bias},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.%s", (int)block, tensors[i].name);
        RVIT_TRY(load(l, name, tensors[i].n, tensors[i].dtype, tensors[i].view));
    }
    return RVIT_OK;
}

static rvit_status load_embedding(loader *l)
{
    rvit_model *model = l->model;
    const int64_t dim = model->info.dim, tokens = model->info.tokens, n_prefix = model->info.n_prefix;
    const int64_t n = tokens * dim;
    RVIT_TRY(place(l, n, model->x_dtype, &model->embedding));
    if (l->stream == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_checkpoint_read(l->checkpoint, "pos_embed", n, l->values));
    RVIT_TRY(rvit_checkpoint_read(l->checkpoint, "cls_token", dim, l->more));
    if (n_prefix == 2)
        RVIT_TRY(rvit_checkpoint_read(l->checkpoint, "dist_token", dim, l->more + dim));
    RVIT_TRY(rvit_checkpoint_read(l->checkpoint, "patch_embed.proj.bias", dim, l->more + n_prefix * dim));
    for (int64_t t = 0; t < tokens; t++) {
        const float *addend = l->more + (t < n_prefix ? t : n_prefix) * dim;
        for (int64_t i = 0; i < dim; i++)
            l->values[t * dim + i] += addend[i];
    }
    return write(l, n, model->x_dtype, model->embedding);
}

/* A distilled model averages two heads: side by side, halved, they are one. Halving is exact. */
static rvit_status load_head(loader *l)
{
    rvit_model *model = l->model;
    const int64_t dim = model->info.dim, classes = model->info.n_classes;
    if (model->info.n_prefix == 1) {
        RVIT_TRY(load(l, "head.weight", classes * dim, model->dtype, &model->head_weight));
        return load(l, "head.bias", classes, RVIT_F32, &model->head_bias);
    }
    RVIT_TRY(place(l, classes * 2 * dim, model->dtype, &model->head_weight));
    RVIT_TRY(place(l, classes, RVIT_F32, &model->head_bias));
    if (l->stream == NULL)
        return RVIT_OK;
    static const char *const weights[] = {"head.weight", "head_dist.weight"};
    for (int64_t h = 0; h < 2; h++) {
        RVIT_TRY(rvit_checkpoint_read(l->checkpoint, weights[h], classes * dim, l->more));
        for (int64_t c = 0; c < classes; c++)
            for (int64_t i = 0; i < dim; i++)
                l->values[(c * 2 + h) * dim + i] = 0.5f * l->more[c * dim + i];
    }
    RVIT_TRY(write(l, classes * 2 * dim, model->dtype, model->head_weight));
    RVIT_TRY(rvit_checkpoint_read(l->checkpoint, "head.bias", classes, l->values));
    RVIT_TRY(rvit_checkpoint_read(l->checkpoint, "head_dist.bias", classes, l->more));
    for (int64_t c = 0; c < classes; c++)
        l->values[c] = 0.5f * (l->values[c] + l->more[c]);
    return write(l, classes, RVIT_F32, model->head_bias);
}

static rvit_status walk(loader *l)
{
    rvit_model *model = l->model;
    const rvit_model_info *info = &model->info;
    const int64_t patch = (int64_t)info->channels * info->patch_size * info->patch_size;
    l->size = 0;
    RVIT_TRY(load(l, "patch_embed.proj.weight", info->dim * patch, model->dtype, &model->patch_weight));
    RVIT_TRY(load_embedding(l));
    for (int32_t b = 0; b < info->depth; b++)
        RVIT_TRY(load_block(l, b));
    RVIT_TRY(load(l, "norm.weight", info->dim, RVIT_F32, &model->norm_gamma));
    RVIT_TRY(load(l, "norm.bias", info->dim, RVIT_F32, &model->norm_beta));
    return load_head(l);
}

static rvit_status fill(rvit_model *model, const rvit_checkpoint *checkpoint)
{
    rvit_alloc *alloc = &model->device->alloc;
    model->blocks = rvit_alloc_array(alloc, (size_t)model->info.depth, sizeof *model->blocks);
    if (model->blocks == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    loader l = {.checkpoint = checkpoint, .model = model};
    RVIT_TRY(walk(&l));
    RVIT_TRY(rvit_buffer_create(model->device, l.size, RVIT_BUFFER_DEVICE, &model->weights));
    const size_t n = (size_t)l.largest + 4;
    l.values = rvit_alloc_array(alloc, n, sizeof *l.values);
    l.more = rvit_alloc_array(alloc, n + 4 * (size_t)model->info.dim, sizeof *l.more);
    l.converted = rvit_alloc_array(alloc, n, sizeof(uint16_t));
    rvit_status status = l.values == NULL || l.more == NULL || l.converted == NULL ? RVIT_OUT_OF_HOST_MEMORY : RVIT_OK;
    if (status == RVIT_OK)
        status = rvit_stream_create(model->device, &l.stream);
    if (status == RVIT_OK)
        status = walk(&l);
    if (status == RVIT_OK)
        status = rvit_stream_synchronize(l.stream);
    rvit_stream_destroy(l.stream);
    rvit_alloc_free(alloc, l.values);
    rvit_alloc_free(alloc, l.more);
    rvit_alloc_free(alloc, l.converted);
    return status;
}

rvit_status rvit_model_create(rvit_device *device, const rvit_checkpoint *checkpoint, const rvit_model_desc *given, rvit_model **out_model)
{
    if (device == NULL || checkpoint == NULL || out_model == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_create: device, checkpoint or out_model is NULL");
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    if (given != NULL)
        RVIT_TRY(rvit_args_copy(&desc, sizeof desc, given, "model desc"));
    if (desc.dtype != RVIT_F32 && desc.dtype != RVIT_F16)
        return rvit_fail(desc.dtype == RVIT_BF16 ? RVIT_UNSUPPORTED : RVIT_INVALID_ARGUMENT, "model desc: dtype is %s, expected f32 or f16",
                         rvit_dtype_name(desc.dtype));
    rvit_model *model = rvit_alloc_new(&device->alloc, sizeof *model);
    if (model == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    model->device = device;
    rvit_device_retain(device);
    atomic_init(&model->references, 1);
    model->info = checkpoint->info;
    model->dtype = desc.dtype;
    /* With a float16 residual stream the demo's logits are off by 4e-3, with a float32 one by 2.4e-3. */
    model->x_dtype = RVIT_F32;
    const rvit_status status = fill(model, checkpoint);
    if (status != RVIT_OK) {
        rvit_model_destroy(model);
        return status;
    }
    *out_model = model;
    return RVIT_OK;
}

void rvit_model_retain(rvit_model *model)
{
    atomic_fetch_add(&model->references, 1);
}

void rvit_model_destroy(rvit_model *model)
{
    if (model == NULL || atomic_fetch_sub(&model->references, 1) != 1)
        return;
    rvit_device *device = model->device;
    rvit_buffer_destroy(model->weights);
    rvit_alloc_free(&device->alloc, model->blocks);
    rvit_alloc_free(&device->alloc, model);
    rvit_device_destroy(device);
}

rvit_status rvit_model_get_info(const rvit_model *model, rvit_model_info *out_info)
{
    if (model == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_model_get_info: model is NULL");
    return rvit_args_return(out_info, &model->info, sizeof model->info, "model info");
}
