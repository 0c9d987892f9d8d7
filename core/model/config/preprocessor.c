/* Hugging Face's preprocessor_config.json: how images are prepared by transformers 5, whose processors run on torchvision. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"
#include "core/model/config/model_type.h"

enum { SHOWN_NAME = 40 };

#define HALF          \
    {                 \
        0.5, 0.5, 0.5 \
    }
#define IMAGENET_MEAN       \
    {                       \
        0.485, 0.456, 0.406 \
    }
#define IMAGENET_STD        \
    {                       \
        0.229, 0.224, 0.225 \
    }
#define CLIP_MEAN                         \
    {                                     \
        0.48145466, 0.4578275, 0.40821073 \
    }
#define CLIP_STD                           \
    {                                      \
        0.26862954, 0.26130258, 0.27577711 \
    }

/* A processor class of transformers, with its defaults for absent fields. */
static const struct rvit_processor_class {
    const char *name;
    rvit_processor processor;
    rvit_filter filter;
    double mean[3], std[3];
    int32_t edge;
    int32_t crop;      /* 0: none */
    int32_t shortest;  /* 1: a size of one number is the shorter edge, not both */
    int32_t patches;   /* NaFlex: the most patches of an image; 0: not NaFlex */
    int64_t pixels[2]; /* the least and most pixels of an image that keeps its aspect ratio; 0: it does not */
} classes[] = {
    {"ViT", RVIT_PROCESSOR_HF, RVIT_FILTER_BILINEAR, HALF, HALF, 224, 0, 0, 0, {0, 0}},
    {"DeiT", RVIT_PROCESSOR_HF, RVIT_FILTER_BICUBIC, HALF, HALF, 256, 224, 0, 0, {0, 0}},
    {"CLIP", RVIT_PROCESSOR_HF, RVIT_FILTER_BICUBIC, CLIP_MEAN, CLIP_STD, 224, 224, 1, 0, {0, 0}},
    {"Bit", RVIT_PROCESSOR_HF, RVIT_FILTER_BICUBIC, CLIP_MEAN, CLIP_STD, 224, 224, 1, 0, {0, 0}},
    {"Siglip", RVIT_PROCESSOR_HF, RVIT_FILTER_BICUBIC, HALF, HALF, 224, 0, 0, 0, {0, 0}},
    {"Siglip2", RVIT_PROCESSOR_HF, RVIT_FILTER_BILINEAR, HALF, HALF, 0, 0, 0, 256, {0, 0}},
    {"DINOv3ViT", RVIT_PROCESSOR_HF_FLOAT, RVIT_FILTER_BILINEAR, IMAGENET_MEAN, IMAGENET_STD, 224, 0, 0, 0, {0, 0}},
    {"Qwen2VL", RVIT_PROCESSOR_HF, RVIT_FILTER_BICUBIC, CLIP_MEAN, CLIP_STD, 0, 0, 0, 0, {56 * 56, 28 * 28 * 1280}},
};
enum { N_CLASSES = sizeof classes / sizeof *classes };

const struct rvit_processor_class *rvit_processor_of_model(const char *model_type)
{
    const rvit_model_type *type = rvit_model_type_find(model_type, 0);
    if (type == NULL)
        type = rvit_model_type_find(model_type, 1);
    for (int i = 0; type != NULL && type->processor != NULL && i < N_CLASSES; i++)
        if (strcmp(classes[i].name, type->processor) == 0)
            return &classes[i];
    return NULL;
}

/* Finds "CLIP" for "CLIPImageProcessorFast" and "CLIPFeatureExtractor". If no class is named, *out does not change. */
static rvit_status find_class(const rvit_config_reader *r, const rvit_json *root, const char **out_name,
                              const struct rvit_processor_class **out)
{
    RVIT_TRY(rvit_config_string(r, root, "feature_extractor_type", out_name));
    RVIT_TRY(rvit_config_string(r, root, "image_processor_type", out_name));
    if (*out_name == NULL)
        return RVIT_OK;
    *out = NULL;
    for (int i = 0; i < N_CLASSES; i++) {
        const size_t n = strlen(classes[i].name);
        const char *rest = *out_name + n;
        if (strncmp(*out_name, classes[i].name, n) == 0 &&
            (strcmp(rest, "ImageProcessor") == 0 || strcmp(rest, "ImageProcessorFast") == 0 || strcmp(rest, "FeatureExtractor") == 0))
            *out = &classes[i];
    }
    return RVIT_OK;
}

/* Images are prepared in an unsupported way. field: the field that shows it. */
static void set_other(const rvit_config_reader *r, const char *field, const char *text)
{
    char where[RVIT_FACT_WHERE];
    const double other = RVIT_FIT_OTHER;
    rvit_fact_value *fit = &r->facts->of[RVIT_FACT_FIT];
    if (fit->known)
        return;
    rvit_facts_set(r->facts, RVIT_FACT_FIT, other, rvit_config_where(r, field, where));
    snprintf(fit->text, sizeof fit->text, "%s", text);
}

static rvit_status read_colours(const rvit_config_reader *r, const rvit_json *root, const struct rvit_processor_class *class)
{
    char where[RVIT_FACT_WHERE], text[RVIT_FACT_TEXT];
    int32_t normalizes = 1, rescales = 1;
    double factor = 1.0 / 255;
    RVIT_TRY(rvit_config_bool(r, root, "do_rescale", &rescales));
    RVIT_TRY(rvit_config_number(r, root, "rescale_factor", &factor));
    RVIT_TRY(rvit_config_bool(r, root, "do_normalize", &normalizes));
    if (!rescales)
        set_other(r, "do_rescale", "colours not scaled to 0..1");
    snprintf(text, sizeof text, "colours scaled by %.6g instead of 1/255", factor);
    if (fabs(factor * 255 - 1) > 1e-6)
        set_other(r, "rescale_factor", text);
    if (!normalizes) {
        static const double zeros[3], ones[3] = {1, 1, 1};
        rvit_config_where(r, "do_normalize", where);
        rvit_facts_set_several(r->facts, RVIT_FACT_MEAN, zeros, 3, where);
        rvit_facts_set_several(r->facts, RVIT_FACT_STD, ones, 3, where);
        return RVIT_OK;
    }
    RVIT_TRY(rvit_config_colours_fact(r, root, "image_mean", 0, RVIT_FACT_MEAN));
    RVIT_TRY(rvit_config_colours_fact(r, root, "image_std", 1e-3, RVIT_FACT_STD));
    if (class == NULL)
        return RVIT_OK;
    snprintf(where, sizeof where, "%s: the default of %sImageProcessor", r->name, class->name);
    rvit_facts_set_several(r->facts, RVIT_FACT_MEAN, class->mean, 3, where);
    rvit_facts_set_several(r->facts, RVIT_FACT_STD, class->std, 3, where);
    return RVIT_OK;
}

/* Filters are numbered as in Pillow. */
static rvit_status read_filter(const rvit_config_reader *r, const rvit_json *root, const struct rvit_processor_class *class)
{
    static const char *const others[] = {"nearest", "Lanczos", NULL, NULL, "box", "Hamming"};
    char where[RVIT_FACT_WHERE];
    int64_t filter = -1;
    RVIT_TRY(rvit_config_integer(r, root, "resample", 0, 5, &filter));
    if (filter >= 0) {
        rvit_facts_set(r->facts, RVIT_FACT_FILTER,
                       filter == 2   ? RVIT_FILTER_BILINEAR
                       : filter == 3 ? RVIT_FILTER_BICUBIC
                                     : RVIT_FILTER_OTHER,
                       rvit_config_where(r, "resample", where));
        if (others[filter] != NULL)
            snprintf(r->facts->of[RVIT_FACT_FILTER].text, RVIT_FACT_TEXT, "%s", others[filter]);
    } else if (class != NULL) {
        snprintf(where, sizeof where, "%s: the default of %sImageProcessor", r->name, class->name);
        rvit_facts_set(r->facts, RVIT_FACT_FILTER, class->filter, where);
    }
    return RVIT_OK;
}

/* The size of images after resizing, and of the crop. 0: not set. */
struct sizes {
    int64_t shortest;        /* the shorter edge */
    double both[2], crop[2]; /* height, width */
    int32_t resizes, crops;
    const char *unknown; /* "size" if it has an unknown field; NULL: it has none */
};

static rvit_status read_size(const rvit_config_reader *r, const rvit_json *root, const struct rvit_processor_class *class,
                             struct sizes *out)
{
    const rvit_json *size = rvit_config_get(root, "size");
    int32_t given = 0;
    if (size == NULL) {
        out->shortest = class != NULL && class->shortest ? class->edge : 0;
        out->both[0] = out->both[1] = class != NULL && !class->shortest ? class->edge : 0;
        return RVIT_OK;
    }
    if (size->type != RVIT_JSON_OBJECT) {
        RVIT_TRY(rvit_config_size(r, root, "size", out->both, &given));
        if (size->type != RVIT_JSON_ARRAY && class == NULL)
            out->unknown = "size";
        if (size->type != RVIT_JSON_ARRAY && class != NULL && class->shortest)
            out->shortest = (int64_t)out->both[0];
        return RVIT_OK;
    }
    rvit_config_reader inner = *r;
    inner.section = "size.";
    RVIT_TRY(rvit_config_integer(&inner, size, "shortest_edge", 1, 1 << 16, &out->shortest));
    for (const rvit_json *value = rvit_json_first(size); value != NULL; value = rvit_json_next(size, value))
        if (value->type != RVIT_JSON_NULL && strcmp(value->key, "shortest_edge") != 0 && strcmp(value->key, "height") != 0 &&
            strcmp(value->key, "width") != 0)
            out->unknown = "size";
    return out->shortest > 0 || out->unknown != NULL ? RVIT_OK : rvit_config_size(r, root, "size", out->both, &given);
}

static rvit_status read_crop(const rvit_config_reader *r, const rvit_json *root, const struct rvit_processor_class *class,
                             struct sizes *out)
{
    int32_t given = 0;
    out->crops = class != NULL && class->crop > 0;
    RVIT_TRY(rvit_config_bool(r, root, "do_center_crop", &out->crops));
    RVIT_TRY(rvit_config_size(r, root, "crop_size", out->crop, &given));
    if (!given && class != NULL)
        out->crop[0] = out->crop[1] = class->crop;
    if (out->crop[0] == 0)
        out->crops = 0;
    return RVIT_OK;
}

/* Each image is resized to its own size, within these limits on its pixels. */
static rvit_status read_pixels(const rvit_config_reader *r, const rvit_json *root, const struct rvit_processor_class *class)
{
    static const double whole[3] = {1, 0, 0};
    char where[RVIT_FACT_WHERE];
    const rvit_json *size = NULL;
    int64_t min = class->pixels[0], max = class->pixels[1];
    int32_t resizes = 1;
    const int64_t limit = (int64_t)1 << 40;
    rvit_config_reader inner = *r;
    inner.section = "size.";
    RVIT_TRY(rvit_config_bool(r, root, "do_resize", &resizes));
    if (!resizes)
        set_other(r, "do_resize", "not resized");
    RVIT_TRY(rvit_config_object(r, root, "size", &size));
    if (size != NULL) {
        RVIT_TRY(rvit_config_integer(&inner, size, "shortest_edge", 1, limit, &min));
        RVIT_TRY(rvit_config_integer(&inner, size, "longest_edge", 1, limit, &max));
    }
    RVIT_TRY(rvit_config_integer(r, root, "min_pixels", 1, limit, &min));
    RVIT_TRY(rvit_config_integer(r, root, "max_pixels", 1, limit, &max));
    if (min > max)
        return rvit_fail(RVIT_BAD_FILE, "%s: the minimum of %lld pixels exceeds the maximum of %lld", r->path, (long long)min,
                         (long long)max);
    rvit_config_where(r, "size", where);
    rvit_facts_set_several(r->facts, RVIT_FACT_PIXELS, (double[]){(double)min, (double)max}, 2, where);
    rvit_facts_set(r->facts, RVIT_FACT_FIT, RVIT_FIT_SQUASH, where);
    rvit_facts_set_several(r->facts, RVIT_FACT_CROP, whole, 1, where);
    return RVIT_OK;
}

static void set_crop(const rvit_config_reader *r, const struct sizes *sizes, double edge)
{
    char where[RVIT_FACT_WHERE];
    const double share[3] = {sizes->crop[0] / edge, edge, sizes->crop[0]};
    rvit_facts_set_several(r->facts, RVIT_FACT_CROP, share, 3, rvit_config_where(r, "crop_size", where));
    snprintf(r->facts->of[RVIT_FACT_CROP].text, RVIT_FACT_TEXT, "%.9g", share[0]);
}

static void set_fit(const rvit_config_reader *r, const struct sizes *sizes, const struct rvit_processor_class *class)
{
    char where[RVIT_FACT_WHERE];
    const double *made = sizes->crops ? sizes->crop : sizes->both;
    const int squashes = sizes->shortest == 0 && sizes->both[0] > 0;
    if (!sizes->resizes)
        set_other(r, "do_resize", "not resized");
    else if (sizes->unknown != NULL)
        set_other(r, sizes->unknown, "by an unsupported rule");
    else if (class != NULL && class->processor == RVIT_PROCESSOR_HF_FLOAT && (sizes->crops || sizes->shortest > 0))
        set_other(r, sizes->crops ? "do_center_crop" : "size.shortest_edge", "not squashed, in float32");
    else if (sizes->shortest > 0 && !sizes->crops)
        set_other(r, "size.shortest_edge", "shorter edge, no crop");
    else if (squashes && sizes->crops && sizes->both[0] * sizes->crop[1] != sizes->both[1] * sizes->crop[0])
        set_other(r, "crop_size", "cropped to another aspect ratio");
    if (r->facts->of[RVIT_FACT_FIT].known || (!squashes && sizes->shortest == 0))
        return;
    rvit_facts_set(r->facts, RVIT_FACT_FIT, squashes ? RVIT_FIT_SQUASH : RVIT_FIT_CROP,
                   rvit_config_where(r, squashes ? "size" : "size.shortest_edge", where));
    if (sizes->crops)
        set_crop(r, sizes, squashes ? sizes->both[0] : (double)sizes->shortest);
    else
        rvit_facts_set(r->facts, RVIT_FACT_CROP, 1, where); /* less trusted files must not add a crop */
    rvit_facts_set_several(r->facts, RVIT_FACT_PROCESSED, made, 2, rvit_config_where(r, sizes->crops ? "crop_size" : "size", where));
}

/* NaFlex resizes both edges to whole patches, as many as max_num_patches allows. */
static rvit_status read_patches(const rvit_config_reader *r, const rvit_json *root, const struct rvit_processor_class *class,
                                const struct sizes *sizes)
{
    char where[RVIT_FACT_WHERE];
    int64_t max = class->patches;
    /* A patch size that differs from the model's is found when the tensors are known. */
    RVIT_TRY(rvit_config_integer_fact(r, root, "patch_size", RVIT_FACT_PATCH));
    RVIT_TRY(rvit_config_integer(r, root, "max_num_patches", 1, 1 << 20, &max));
    if (!sizes->resizes)
        set_other(r, "do_resize", "not resized");
    else if (rvit_config_get(root, "size") != NULL)
        set_other(r, "size", "both a size and max_num_patches");
    else if (sizes->crops)
        set_other(r, "do_center_crop", "both a crop and max_num_patches");
    if (r->facts->of[RVIT_FACT_FIT].known)
        return RVIT_OK;
    if (rvit_config_get(root, "max_num_patches") != NULL)
        rvit_config_where(r, "max_num_patches", where);
    else
        snprintf(where, sizeof where, "%s: the default of %sImageProcessor", r->name, class->name);
    rvit_facts_set(r->facts, RVIT_FACT_MAX_PATCHES, (double)max, where);
    rvit_facts_set(r->facts, RVIT_FACT_FIT, RVIT_FIT_SQUASH, where);
    rvit_facts_set(r->facts, RVIT_FACT_CROP, 1, where); /* less trusted files must not add a crop */
    return RVIT_OK;
}

rvit_status rvit_config_preprocessor(const rvit_config_reader *r, const rvit_json *root)
{
    char where[RVIT_FACT_WHERE], text[RVIT_FACT_TEXT], shown[SHOWN_NAME];
    const struct rvit_processor_class *class = *r->processor;
    const char *name = NULL;
    struct sizes sizes = {.resizes = 1};
    RVIT_TRY(find_class(r, root, &name, &class));
    RVIT_TRY(read_colours(r, root, class));
    RVIT_TRY(read_filter(r, root, class));
    if (class != NULL && class->pixels[1] > 0) {
        RVIT_TRY(read_pixels(r, root, class));
        rvit_facts_set(r->facts, RVIT_FACT_PROCESSOR, class->processor, rvit_config_where(r, "image_processor_type", where));
        return RVIT_OK;
    }
    RVIT_TRY(rvit_config_bool(r, root, "do_resize", &sizes.resizes));
    if (class == NULL || class->patches == 0)
        RVIT_TRY(read_size(r, root, class, &sizes));
    RVIT_TRY(read_crop(r, root, class, &sizes));
    /* A class that is not in the list may use these fields in any way. */
    if (name != NULL && class == NULL) {
        rvit_printable(shown, sizeof shown, name);
        snprintf(text, sizeof text, "by %s, which is unsupported", shown);
        set_other(r, name[0] == 0 || strstr(name, "Extractor") != NULL ? "feature_extractor_type" : "image_processor_type", text);
    }
    if (class != NULL && class->patches > 0)
        RVIT_TRY(read_patches(r, root, class, &sizes));
    else
        set_fit(r, &sizes, class);
    rvit_facts_set(r->facts, RVIT_FACT_PROCESSOR, class != NULL ? class->processor : RVIT_PROCESSOR_HF,
                   rvit_config_where(r, name == NULL ? "size" : "image_processor_type", where));
    return RVIT_OK;
}
