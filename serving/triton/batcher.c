/* When a batch closes: custom batching functions. The server counts images; tokens are counted here. */
#include "failure.h"
#include "request.h"

/* The batcher is the model itself, which outlives its scheduler. So nothing is freed while the scheduler may still call. */
TRITONSERVER_Error *TRITONBACKEND_ModelBatcherInitialize(TRITONBACKEND_Batcher **batcher, TRITONBACKEND_Model *model)
{
    *batcher = (TRITONBACKEND_Batcher *)model_of(model);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatcherFinalize(TRITONBACKEND_Batcher *batcher)
{
    (void)batcher;
    return NULL;
}

/* The memory is the model's, in turns: a scheduler puts one batch together at a time, and does not end each that it begins, neither the one
   that a model leaves behind nor one that began to run while it grew. */
TRITONSERVER_Error *TRITONBACKEND_ModelBatchInitialize(const TRITONBACKEND_Batcher *batcher, void **user)
{
    struct model *model = (struct model *)(uintptr_t)batcher;
    *user = NULL;
    if (!model)
        return NULL;
    struct batch *batch = &model->batches[atomic_fetch_add(&model->n_batches, 1) % MODEL_BATCHES];
    *batch = (struct batch){.model = model};
    *user = batch;
    return NULL;
}

/* The first request is always taken, however large: a request that no batch takes would never be answered. Without a batch, which the
   server has where it adds to one that it has already handed over, execute.c makes several runs of what does not fit in one. */
TRITONSERVER_Error *TRITONBACKEND_ModelBatchIncludeRequest(TRITONBACKEND_Request *request, void *user, bool *include)
{
    struct batch *batch = user;
    int64_t images = 0, tokens = 0;
    *include = true;
    if (!batch || !request_size(request, batch->model, &images, &tokens))
        return NULL;
    const struct image_plan *plan = &batch->model->plan;
    *include = batch->images == 0 || (images <= plan->max_images - batch->images && tokens <= plan->max_tokens - batch->tokens);
    if (*include) {
        batch->images += images;
        batch->tokens += tokens;
    }
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatchFinalize(void *user)
{
    (void)user;
    return NULL;
}
