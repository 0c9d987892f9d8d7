#include "model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "failure.h"
#include "recipe.h"

enum { DEFAULT_TOP = 5 };

static TRITONSERVER_Error *open_checkpoint(struct model *self, const char *folder)
{
    char path[4096];
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    self->info = (rvit_model_info)RVIT_MODEL_INFO_INIT;
    desc.image_size = self->config.image_size;
    desc.architecture = self->config.architecture;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, self->config.checkpoint) >= sizeof path)
        return invalid("parameter checkpoint: the path is too long");
    rvit_status status = rvit_checkpoint_open(path, &desc, &self->checkpoint);
    if (status == RVIT_OK)
        status = rvit_checkpoint_get_model_info(self->checkpoint, &self->info);
    if (status != RVIT_OK)
        return failure_of_status(status, NULL);
    if (self->info.merge > 0)
        return failure(TRITONSERVER_ERROR_UNSUPPORTED,
                       "%s is the vision encoder of a language model, which merges groups of patches; only encoders for classes and "
                       "embeddings are supported",
                       path);
    if (self->info.channels != 3)
        return failure(TRITONSERVER_ERROR_UNSUPPORTED, "%s takes images with %d channels; only 3 are supported", path, self->info.channels);
    return NULL;
}

/* The recipe of the model's images, and the maximum patches of one; 0: all have one size. */
static TRITONSERVER_Error *find_recipe(struct model *self, int32_t *out_max_patches)
{
    const struct config *config = &self->config;
    const bool has_mean = config->given & RECIPE_MEAN, has_deviation = config->given & RECIPE_DEVIATION;
    rvit_image_recipe known = RVIT_IMAGE_RECIPE_INIT;
    const rvit_status status = rvit_checkpoint_get_recipe(self->checkpoint, &known);
    if (status != RVIT_OK)
        return failure_of_status(status, NULL);
    *out_max_patches = config->max_patches > 0 ? config->max_patches : known.max_patches;
    if (!recipe_geometry(&config->recipe, &known, &self->recipe)) {
        const char *fact = known.filter == RVIT_FILTER_OTHER && known.fit != RVIT_FIT_OTHER ? "filter" : "fit";
        return failure(
            TRITONSERVER_ERROR_UNSUPPORTED,
            "the model's image preparation is not supported (%s: %s, from %s); choose another with the parameters fit and filter", fact,
            recipe_value(self->checkpoint, fact), recipe_origin(self->checkpoint, fact));
    }
    if (!(known.std[0] > 0) && !(has_mean && has_deviation))
        return invalid("the mean and standard deviation of the images are unknown: add a config.json or "
                       "preprocessor_config.json beside the checkpoint, or set the parameters mean and std");
    for (int c = 0; c < 3; c++) {
        self->recipe.mean[c] = has_mean ? config->recipe.mean[c] : known.mean[c];
        self->recipe.std[c] = has_deviation ? config->recipe.deviation[c] : known.std[c];
    }
    return NULL;
}

/* Plans the limits of images and tokens of a run. */
static TRITONSERVER_Error *plan_run(struct model *self, int32_t max_patches)
{
    const struct config *config = &self->config;
    self->max_len = max_patches > 0 ? max_patches + self->info.n_prefix : self->info.tokens;
    const int64_t max = (int64_t)config->max_batch_size * self->max_len;
    const int64_t max_tokens = config->max_tokens > 0 ? config->max_tokens : max;
    if (max_tokens < self->max_len)
        return invalid("parameter max_tokens is %" PRId64 ", but one image has up to %d tokens", max_tokens, self->max_len);
    if (max_tokens > INT32_MAX)
        return invalid("max_batch_size %d images of up to %d tokens are too many: limit a run with the parameter max_tokens",
                       config->max_batch_size, self->max_len);
    const int64_t fitting = max_patches > 0 ? config->max_batch_size : max_tokens / self->max_len;
    const int32_t max_images = fitting < config->max_batch_size ? (int32_t)fitting : config->max_batch_size;
    image_plan_make(&self->recipe, &self->info, max_images, max_patches > 0 ? (int32_t)(max_tokens < max ? max_tokens : max) : 0,
                    max_patches, &self->plan);
    return NULL;
}

/* Makes room for every image as planes of the input's size, so that every request within max_images and max_tokens fits. */
static TRITONSERVER_Error *plan_memory(struct model *self)
{
    const struct image_plan *plan = &self->plan;
    const int64_t patch = self->info.patch_size;
    const int64_t planes = plan->variable_resolution ? plan->max_tokens * patch * patch * 12
                                                     : (int64_t)plan->max_images * 12 * self->info.image_height * self->info.image_width;
    const int64_t min = planes + (int64_t)plan->max_images * IMAGE_ALIGNMENT;
    if (self->config.max_image_bytes > 0 && self->config.max_image_bytes < min)
        return invalid("parameter max_image_bytes is %" PRId64 ", but the inputs of a run of %d images take %" PRId64
                       ": increase it, or reduce max_batch_size or max_tokens",
                       self->config.max_image_bytes, plan->max_images, min);
    if (self->config.max_image_bytes > 0)
        self->plan.memory = self->config.max_image_bytes;
    else if (self->plan.memory < min)
        self->plan.memory = min;
    return NULL;
}

static TRITONSERVER_Error *plan_small(struct model *self, int32_t max_patches)
{
    const int32_t n = self->config.small_batch;
    if (n >= self->plan.max_images)
        return invalid("parameter small_batch is %d, expected less than the %d images of a run", n, self->plan.max_images);
    const int64_t tokens = (int64_t)n * self->max_len;
    if (n > 0)
        image_plan_make(&self->recipe, &self->info, n,
                        self->plan.variable_resolution ? (int32_t)(tokens < self->plan.max_tokens ? tokens : self->plan.max_tokens) : 0,
                        max_patches, &self->small);
    return NULL;
}

static TRITONSERVER_Error *name_classes(struct model *self, const char *folder)
{
    char path[4096];
    if (self->config.labels && (size_t)snprintf(path, sizeof path, "%s%s%s", self->config.labels[0] == '/' ? "" : folder,
                                                self->config.labels[0] == '/' ? "" : "/", self->config.labels) >= sizeof path)
        return invalid("parameter labels: the path is too long");
    if (self->n_classes == 0)
        return self->config.labels ? invalid("parameter labels: the model has no classes") : NULL;
    return names_make(&self->names, self->config.labels ? path : NULL, self->checkpoint, self->n_classes);
}

static TRITONSERVER_Error *read_model(struct model *self, const char *folder)
{
    const struct config *config = &self->config;
    TRY(config_read(self->handle, &self->config));
    TRY(settings_make(&self->settings, config->policy, &config->first, config->further));
    TRY(open_checkpoint(self, folder));
    int32_t max_patches = 0;
    TRY(find_recipe(self, &max_patches));
    const int32_t top = config->top > 0 ? config->top : DEFAULT_TOP;
    self->n_classes = self->info.embedding_dim > 0 ? 0 : self->info.n_classes;
    self->top = top < self->n_classes ? top : self->n_classes;
    tensors_of_model(&self->info, max_patches > 0, self->n_classes, self->top, &self->tensors);
    TRY(tensors_declare(&self->tensors, self->handle, &self->config));
    TRY(plan_run(self, max_patches));
    TRY(plan_memory(self));
    TRY(plan_small(self, max_patches));
    TRY(name_classes(self, folder));
    const int32_t half = config_processors() / 2;
    return worker_pool_create(config->decode_threads > 0 ? config->decode_threads : half > 0 ? half : 1, &self->workers);
}

TRITONSERVER_Error *model_create(TRITONBACKEND_Model *handle, const struct metric_families *families, struct model **out)
{
    TRITONBACKEND_ArtifactType type;
    const char *name, *location;
    uint64_t version;
    char folder[4096];
    TRY(TRITONBACKEND_ModelName(handle, &name));
    TRY(TRITONBACKEND_ModelVersion(handle, &version));
    TRY(TRITONBACKEND_ModelRepository(handle, &type, &location));
    if (type != TRITONBACKEND_ARTIFACT_FILESYSTEM)
        return failure(TRITONSERVER_ERROR_UNSUPPORTED, "the model repository is not in the file system");
    if ((size_t)snprintf(folder, sizeof folder, "%s/%" PRIu64, location, version) >= sizeof folder)
        return invalid("the path of the model repository is too long");
    struct model *self = calloc(1, sizeof *self);
    if (!self)
        return failure_out_of_memory();
    self->handle = handle;
    self->name = name;
    pthread_mutex_init(&self->lock, NULL);
    TRITONSERVER_Error *error = read_model(self, folder);
    if (error) {
        model_destroy(self);
        return error;
    }
    metrics_make(&self->metrics, families, name, version);
    *out = self;
    return NULL;
}

void model_destroy(struct model *self)
{
    if (!self)
        return;
    metrics_free(&self->metrics);
    worker_pool_destroy(self->workers);
    names_free(&self->names);
    rvit_checkpoint_destroy(self->checkpoint);
    config_free(&self->config);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

struct model *model_of(TRITONBACKEND_Model *handle)
{
    void *state = NULL;
    failure_log(TRITONBACKEND_ModelState(handle, &state), "the model's state is not known");
    return state;
}
