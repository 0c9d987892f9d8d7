/* Finds and reads the config files beside a checkpoint. */
#include <stdio.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/file/file.h"
#include "core/file/json_file.h"
#include "core/model/config/read.h"
#include "core/model/config/timm_names.h"

enum { MAX_PATH = 4096, MAX_VALUES = 1 << 16, SHOWN_NAME = 64 };

static rvit_status read_model(const rvit_config_reader *r, const rvit_json *root)
{
    RVIT_TRY(rvit_config_quantization(r, root));
    RVIT_TRY(rvit_class_names_read(root, r->alloc, r->classes));
    if (rvit_json_get(root, "model_cfg") != NULL)
        return rvit_config_open_clip(r, root);
    if (rvit_json_get(root, "model_type") != NULL)
        return rvit_config_hf(r, root);
    if (rvit_json_get(root, "architecture") != NULL)
        return rvit_config_timm(r, root);
    return rvit_fail(RVIT_BAD_FILE, "%s: expected one of architecture (timm), model_type (Hugging Face) or model_cfg (open_clip)", r->path);
}

/* The model_type selects the processor class if preprocessor_config.json does not name one. */
static rvit_status read_model_type(const rvit_config_reader *r, const rvit_json *root)
{
    const char *model_type = NULL;
    RVIT_TRY(rvit_config_string(r, root, "model_type", &model_type));
    if (model_type != NULL)
        *r->processor = rvit_processor_of_model(model_type);
    return RVIT_OK;
}

/* The image processor inside a multimodal model's processor; transformers 5 prefers it to preprocessor_config.json. */
static rvit_status read_processor(const rvit_config_reader *r, const rvit_json *root)
{
    rvit_config_reader inner = *r;
    const rvit_json *images = NULL;
    RVIT_TRY(rvit_config_object(r, root, "image_processor", &images));
    if (images == NULL)
        return RVIT_OK;
    inner.section = "image_processor.";
    *r->has_processor = 1;
    return rvit_config_preprocessor(&inner, images);
}

typedef rvit_status (*read_function)(const rvit_config_reader *, const rvit_json *);

/* *out_found: whether the file exists. */
static rvit_status read_beside(const rvit_config_source *source, const char *name, read_function read, rvit_alloc *alloc,
                               rvit_config_reader *r, int32_t *out_found)
{
    char path[MAX_PATH], shown[RVIT_SHOWN_PATH];
    *out_found = 0;
    if (source->path == NULL)
        return RVIT_OK;
    RVIT_TRY(rvit_path_beside(path, sizeof path, source->path, name));
    if (!rvit_os_exists(path))
        return RVIT_OK;
    *out_found = 1;
    rvit_json_file file;
    RVIT_TRY(rvit_json_file_read(path, alloc, &file));
    rvit_printable(shown, sizeof shown, path);
    r->path = shown;
    r->name = name;
    const rvit_status status = read(r, file.root);
    rvit_json_file_free(alloc, &file);
    return status;
}

/* Reads the text of a config.json. path, name: its names in messages. */
static rvit_status read_text(const char *text, const char *path, const char *name, rvit_alloc *alloc, rvit_config_reader *r)
{
    r->path = path;
    r->name = name;
    const size_t size = strlen(text);
    char *copy = rvit_alloc_new(alloc, size + 1);
    RVIT_TRY_MEMORY(copy);
    memcpy(copy, text, size + 1);
    const rvit_json_input input = {r->path, "", copy, size, RVIT_JSON_MAX_DEPTH, MAX_VALUES};
    rvit_json *root = NULL;
    size_t end = 0;
    rvit_status status = rvit_json_parse(&input, alloc, &root, &end);
    if (status == RVIT_OK && (root->type != RVIT_JSON_OBJECT || end + strspn(copy + end, " \t\r\n") != size))
        status = rvit_fail(RVIT_BAD_FILE, "%s: is not one JSON object", r->path);
    /* It may contain the preprocessor's config. */
    const rvit_json *processor = NULL;
    if (status == RVIT_OK)
        status = rvit_config_object(r, root, "preprocessor_config", &processor);
    if (status == RVIT_OK && processor != NULL)
        status = rvit_config_preprocessor(r, processor);
    if (status == RVIT_OK)
        status = read_model(r, root);
    rvit_alloc_free(alloc, root);
    rvit_alloc_free(alloc, copy);
    return status;
}

static void read_name(const char *name, rvit_facts *facts)
{
    char where[RVIT_FACT_WHERE], shown[SHOWN_NAME];
    rvit_printable(shown, sizeof shown, name);
    snprintf(where, sizeof where, "metadata: architecture '%s'", shown);
    rvit_facts_set_text(facts, RVIT_FACT_ARCHITECTURE, shown, where);
    (void)rvit_timm_name_facts(name, facts, where);
}

rvit_status rvit_config_files(const rvit_config_source *source, rvit_alloc *alloc, rvit_facts *facts, rvit_unsupported *unsupported,
                              rvit_class_names *out_classes)
{
    const struct rvit_processor_class *processor = NULL;
    int32_t has_processor = 0, found, others;
    rvit_config_reader r = {NULL, NULL, "", facts, unsupported, &processor, &has_processor, alloc, out_classes};
    if (source->override != NULL)
        return read_text(source->override, "the given config", "given config", alloc, &r);
    /* open_clip's repositories may also have a config.json for transformers, whose weights have other names. */
    RVIT_TRY(read_beside(source, "config.json", read_model_type, alloc, &r, &found));
    RVIT_TRY(read_beside(source, "processor_config.json", read_processor, alloc, &r, &others));
    if (!has_processor)
        RVIT_TRY(read_beside(source, "preprocessor_config.json", rvit_config_preprocessor, alloc, &r, &others));
    RVIT_TRY(read_beside(source, "config.json", read_model, alloc, &r, &found));
    RVIT_TRY(read_beside(source, "hf_quant_config.json", rvit_config_modelopt, alloc, &r, &others));
    RVIT_TRY(read_beside(source, "open_clip_config.json", rvit_config_open_clip, alloc, &r, &others));
    if (!found && !others && source->config != NULL)
        return read_text(source->config, "the checkpoint's metadata: config", "metadata", alloc, &r);
    if (!found && !others && source->architecture != NULL)
        read_name(source->architecture, facts);
    return RVIT_OK;
}
