/* Custom batching: decides when a batch closes. The server counts images, this file counts tokens. */
#include "failure.h"
#include "request.h"

/* The batcher is the model, which outlives its scheduler, so nothing is freed while the scheduler may still call. */
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

/* Batches use the memory of the model in turn. A scheduler builds one batch at a time, but does not finalise every one: not the last one of
   a model, nor one that starts to run while it grows. */
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

/* Always includes the first request, because a request that no batch includes would never be answered. Without a batch, when the server
   adds to one that is already executing, execute.c splits what does not fit into several runs. */
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
