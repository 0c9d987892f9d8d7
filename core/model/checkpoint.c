#include "core/model/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/model/config/read.h"
#include "core/model/config/timm_names.h"
#include "core/model/describe.h"
#include "core/model/layers.h"

enum { MAX_IMAGE = 1 << 14 };

/* Sets an image size that differs from the position table's. */
static rvit_status set_size(const rvit_checkpoint_desc *desc, rvit_vit_config *config)
{
    rvit_model_info *info = &config->info;
    if (desc->image_size == info->image_size)
        return RVIT_OK;
    if (!config->no_table && config->trained[0] != config->trained[1])
        return rvit_fail(RVIT_UNSUPPORTED,
                         "checkpoint desc: image_size is %d, but the position table has %d x %d patches, which is not square",
                         (int)desc->image_size, (int)config->trained[0], (int)config->trained[1]);
    if (desc->image_size % info->patch_size != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: image_size is %d, expected a multiple of the patch size %d",
                         (int)desc->image_size, (int)info->patch_size);
    const int32_t grid = desc->image_size / info->patch_size;
    info->image_size = info->image_height = info->image_width = desc->image_size;
    info->tokens = info->n_prefix + grid * grid;
    rvit_vit_name(config);
    return RVIT_OK;
}

/* path: NULL for in-memory tensors, which have no files beside them. */
static rvit_status describe(rvit_checkpoint *checkpoint, const char *path, const rvit_checkpoint_desc *desc)
{
    const rvit_tensor_set *set = checkpoint->tensors;
    const char *shown = rvit_tensor_set_path(set);
    rvit_unsupported *unsupported = &checkpoint->unsupported;
    const rvit_config_source source = {path, rvit_tensor_set_metadata(set, "config"), rvit_tensor_set_metadata(set, "architecture"),
                                       desc->config};
    const rvit_family *family = NULL;
    char prefix[RVIT_NAME_PREFIX], printable[RVIT_NAME_PREFIX];
    rvit_describe_options(desc, &checkpoint->facts);
    RVIT_TRY(rvit_family_detect(set, prefix, &family));
    if (prefix[0] != '\0') {
        rvit_printable(printable, sizeof printable, prefix);
        rvit_facts_set_text(&checkpoint->facts, RVIT_FACT_PREFIX, printable, "removed from the name of every tensor");
        rvit_tensor_set_skip_prefix(checkpoint->tensors, prefix);
    }
    RVIT_TRY(rvit_vit_config_infer(set, family, desc->lenient, checkpoint->used, &checkpoint->config, unsupported));
    RVIT_TRY(rvit_config_files(&source, &checkpoint->alloc, &checkpoint->facts, unsupported, &checkpoint->classes));
    const double size[2] = {desc->image_size, desc->image_size};
    if (checkpoint->config.no_table && desc->image_size > 0)
        rvit_facts_set_several(&checkpoint->facts, RVIT_FACT_IMAGE, size, 2, "given: image_size");
    RVIT_TRY(rvit_describe(shown, &checkpoint->config, &checkpoint->facts, unsupported));
    if (!desc->describe)
        RVIT_TRY(rvit_unsupported_status(unsupported, shown));
    if (desc->image_size == 0 || !checkpoint->config.measured)
        return RVIT_OK;
    RVIT_TRY(set_size(desc, &checkpoint->config));
    rvit_describe_recipe(&checkpoint->config, &checkpoint->facts);
    return RVIT_OK;
}

/* Finds the layer that each tensor belongs to. */
static void find_layers(rvit_checkpoint *checkpoint)
{
    const rvit_family *family = checkpoint->config.family;
    const int32_t n = rvit_tensor_set_count(checkpoint->tensors);
    for (int32_t i = 0; i < n; i++)
        checkpoint->layers[i] = -1;
    for (int32_t b = 0; b < checkpoint->config.info.depth; b++)
        for (rvit_block_linear i = 0; i < RVIT_N_BLOCK_LINEARS; i++) {
            rvit_role roles[RVIT_LAYER_PARTS];
            char name[RVIT_NAME_SIZE];
            const int n_parts = rvit_layer_parts(family, i, roles);
            for (int p = 0; p < n_parts; p++) {
                const int32_t tensor = rvit_tensor_set_find(checkpoint->tensors, rvit_family_name(family, roles[p], b, name));
                if (tensor >= 0)
                    checkpoint->layers[tensor] = b * RVIT_N_BLOCK_LINEARS + (int32_t)i;
            }
        }
}

/* The fields that callers see. */
static void list(rvit_checkpoint *checkpoint)
{
    rvit_checkpoint_info *info = &checkpoint->config.files;
    for (int i = 0; i < RVIT_FACT_COUNT; i++) {
        const rvit_fact_value *fact = &checkpoint->facts.of[i];
        if (fact->known)
            checkpoint->listed_facts[info->n_facts++] = (rvit_checkpoint_fact){rvit_fact_name((rvit_fact)i), fact->text, fact->where};
    }
    info->facts = checkpoint->listed_facts;
    info->tensors = &checkpoint->listing;
    info->unsupported = checkpoint->unsupported.text;
    info->class_names = (const char *const *)checkpoint->classes.names;
    info->n_class_names = checkpoint->classes.n;
}

static rvit_status load(rvit_checkpoint *checkpoint, const char *path, const rvit_checkpoint_desc *desc)
{
    if (path != NULL)
        RVIT_TRY(rvit_tensor_set_open(path, &checkpoint->alloc, &checkpoint->tensors));
    else
        RVIT_TRY(rvit_tensor_set_wrap(desc->tensors, desc->n_tensors, &checkpoint->alloc, &checkpoint->tensors));
    const size_t n = (size_t)rvit_tensor_set_count(checkpoint->tensors);
    checkpoint->used = rvit_alloc_new(&checkpoint->alloc, n);
    RVIT_TRY_MEMORY(checkpoint->used);
    checkpoint->layers = rvit_alloc_array(&checkpoint->alloc, n, sizeof *checkpoint->layers);
    RVIT_TRY_MEMORY(checkpoint->layers);
    checkpoint->listing.set = checkpoint->tensors;
    checkpoint->listing.used = checkpoint->used;
    checkpoint->listing.layers = checkpoint->layers;
    RVIT_TRY(describe(checkpoint, path, desc));
    find_layers(checkpoint);
    list(checkpoint);
    return RVIT_OK;
}

static rvit_status check_choice(const char *field, int value, int max)
{
    if (value >= 0 && value <= max)
        return RVIT_OK;
    return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: %s is %d, expected 0..%d", field, value, max);
}

static rvit_status check_desc(const rvit_checkpoint_desc *desc)
{
    if (desc->lenient != 0 && desc->lenient != 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: lenient is %d, expected 0 or 1", (int)desc->lenient);
    if (desc->allocator != NULL && (desc->allocator->allocate == NULL || desc->allocator->release == NULL))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: allocator lacks allocate or release");
    if (desc->image_size < 0 || desc->image_size > MAX_IMAGE)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: image_size is %d, expected 0..%d", (int)desc->image_size, MAX_IMAGE);
    RVIT_TRY(check_choice("resample", (int)desc->resample, RVIT_RESAMPLE_NEAREST));
    RVIT_TRY(check_choice("n_heads", desc->n_heads, 1 << 16));
    RVIT_TRY(check_choice("activation", (int)desc->activation, RVIT_ACTIVATION_SILU));
    RVIT_TRY(check_choice("pooling", (int)desc->pooling, RVIT_POOLING_NONE));
    RVIT_TRY(check_choice("position", (int)desc->position, RVIT_POSITION_NONE));
    RVIT_TRY(check_choice("describe", desc->describe, 1));
    if (desc->architecture != NULL && !rvit_timm_name_facts(desc->architecture, NULL, ""))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: architecture '%s' is not a Vision Transformer of timm",
                         rvit_shown(desc->architecture).text);
    if (!(desc->eps >= 0 && isfinite(desc->eps)))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: eps is %g, expected 0 or more", (double)desc->eps);
    return RVIT_OK;
}

static rvit_status check_source(const char *path, const rvit_checkpoint_desc *desc)
{
    if (path != NULL && desc->tensors == NULL && desc->n_tensors == 0)
        return RVIT_OK;
    if (path != NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: tensors and n_tensors are set, but there is a path");
    if (desc->tensors == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint: path is NULL, and so is tensors of the checkpoint desc");
    if (desc->n_tensors < 1 || desc->n_tensors > RVIT_SAFETENSORS_MAX_TENSORS)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint desc: n_tensors is %d, expected 1..%d", (int)desc->n_tensors,
                         RVIT_SAFETENSORS_MAX_TENSORS);
    /* Values in memory are read as little-endian, like those of a file. */
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return rvit_fail(RVIT_UNSUPPORTED, "checkpoint desc: tensors need a little-endian host");
    return RVIT_OK;
}

static rvit_status create(const char *path, const rvit_checkpoint_desc *desc, rvit_checkpoint **out)
{
    rvit_alloc alloc;
    rvit_alloc_init(&alloc, desc->allocator);
    rvit_checkpoint *checkpoint = rvit_alloc_new(&alloc, sizeof *checkpoint);
    RVIT_TRY_MEMORY(checkpoint);
    rvit_alloc_copy(&checkpoint->alloc, &alloc);
    const rvit_status status = load(checkpoint, path, desc);
    if (status != RVIT_OK) {
        rvit_checkpoint_destroy(checkpoint);
        return status;
    }
    const rvit_checkpoint_info *files = &checkpoint->config.files;
    rvit_log(RVIT_LOG_INFO, "%s: %s, %" PRId64 " parameters, %d tensors (%d unused)", rvit_tensor_set_path(checkpoint->tensors),
             checkpoint->config.info.architecture, files->n_parameters, (int)files->n_tensors, (int)files->n_unknown);
    *out = checkpoint;
    return RVIT_OK;
}

rvit_status rvit_checkpoint_open(const char *path, const rvit_checkpoint_desc *desc, rvit_checkpoint **out_checkpoint)
{
    RVIT_ENTRY;
    rvit_checkpoint_desc own = RVIT_CHECKPOINT_DESC_INIT;
    if (out_checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "checkpoint: out_checkpoint is NULL");
    if (desc != NULL)
        RVIT_TRY(rvit_args_copy(&own, sizeof own, desc, "checkpoint desc"));
    RVIT_TRY(check_desc(&own));
    RVIT_TRY(check_source(path, &own));
    return create(path, &own, out_checkpoint);
}

void rvit_checkpoint_destroy(rvit_checkpoint *checkpoint)
{
    RVIT_ENTRY;
    if (checkpoint == NULL)
        return;
    rvit_tensor_set_close(checkpoint->tensors);
    rvit_alloc_free(&checkpoint->alloc, checkpoint->used);
    rvit_alloc_free(&checkpoint->alloc, checkpoint->layers);
    rvit_class_names_free(&checkpoint->alloc, &checkpoint->classes);
    rvit_alloc alloc;
    rvit_alloc_copy(&alloc, &checkpoint->alloc);
    rvit_alloc_free(&alloc, checkpoint);
}

rvit_status rvit_checkpoint_get_info(const rvit_checkpoint *checkpoint, rvit_checkpoint_info *out_info)
{
    RVIT_ENTRY;
    if (checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_checkpoint_get_info: checkpoint is NULL");
    return rvit_args_return(out_info, &checkpoint->config.files, sizeof checkpoint->config.files, "checkpoint info");
}

rvit_status rvit_checkpoint_get_model_info(const rvit_checkpoint *checkpoint, rvit_model_info *out_info)
{
    RVIT_ENTRY;
    if (checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_checkpoint_get_model_info: checkpoint is NULL");
    return rvit_args_return(out_info, &checkpoint->config.info, sizeof checkpoint->config.info, "model info");
}

rvit_status rvit_checkpoint_get_recipe(const rvit_checkpoint *checkpoint, rvit_image_recipe *out_recipe)
{
    RVIT_ENTRY;
    if (checkpoint == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_checkpoint_get_recipe: checkpoint is NULL");
    return rvit_args_return(out_recipe, &checkpoint->config.recipe, sizeof checkpoint->config.recipe, "image recipe");
}

const char *rvit_checkpoint_metadata(const rvit_checkpoint *checkpoint, const char *key)
{
    return checkpoint == NULL || key == NULL ? NULL : rvit_tensor_set_metadata(checkpoint->tensors, key);
}
