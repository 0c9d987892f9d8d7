/* raggedvit inspect: shows what a checkpoint holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_list.h"
#include "json.h"
#include "options.h"
#include "printable.h"

static void print_tensors(const rvit_tensors *tensors, bool only_unused)
{
    rvit_tensor_info tensor = RVIT_TENSOR_INFO_INIT;
    for (int32_t i = 0; rvit_tensors_get(tensors, i, &tensor) == RVIT_OK; i++) {
        if (only_unused && tensor.used)
            continue;
        fputs("  ", stdout);
        const int columns = printable_print(stdout, tensor.name);
        printf("%*s %-5s [", columns < 40 ? 40 - columns : 0, "", tensor.dtype);
        for (int32_t axis = 0; axis < tensor.rank; axis++)
            printf("%s%lld", axis ? ", " : "", (long long)tensor.shape[axis]);
        printf("]%s\n", tensor.used || only_unused ? "" : "  not used");
    }
}

static json_t *tensors_to_json(const rvit_tensors *tensors)
{
    json_t *array = json_array();
    rvit_tensor_info tensor = RVIT_TENSOR_INFO_INIT;
    for (int32_t i = 0; rvit_tensors_get(tensors, i, &tensor) == RVIT_OK; i++) {
        json_t *shape = json_array();
        for (int32_t axis = 0; axis < tensor.rank; axis++)
            json_array_append_new(shape, json_integer(tensor.shape[axis]));
        json_array_append_new(array, json_pack("{s:o, s:s, s:o, s:b}", "name", json_text(tensor.name), "dtype", tensor.dtype, "shape",
                                               shape, "used", tensor.used));
    }
    return array;
}

/* " and CLS, distillation, 4 registers", or nothing without prefix tokens. */
static void describe_prefix(const rvit_model_info *info, char *out, size_t out_size)
{
    const int32_t others = info->n_prefix - info->n_registers;
    const char *names = others == 2 ? "CLS, distillation" : others == 1 ? "CLS" : "";
    if (info->n_registers)
        snprintf(out, out_size, " and %s%s%d registers", names, others > 0 ? ", " : "", info->n_registers);
    else
        snprintf(out, out_size, "%s%s", others > 0 ? " and " : "", names);
}

/* Prints the properties beyond the geometry with their sources; those of attention pooling only if the model uses it. */
static void print_facts(const rvit_checkpoint_info *files, const rvit_model_info *info)
{
    printf("\nproperties, and where they come from:\n");
    for (int32_t i = 0; i < files->n_facts; i++) {
        const rvit_checkpoint_fact *fact = &files->facts[i];
        if (strncmp(fact->name, "pooling ", 8) == 0 && info->pooling != RVIT_POOLING_MAP)
            continue;
        printf("  %-23s ", fact->name);
        const int columns = printable_print(stdout, fact->value);
        printf("%*s  ", columns < 30 ? 30 - columns : 0, "");
        print_line("", fact->origin);
    }
}

static json_t *facts_to_json(const rvit_checkpoint_info *files)
{
    json_t *object = json_object();
    for (int32_t i = 0; i < files->n_facts; i++)
        json_object_set_new(object, files->facts[i].name,
                            json_pack("{s:o, s:o}", "value", json_text(files->facts[i].value), "from", json_text(files->facts[i].origin)));
    return object;
}

/* The comma-separated class names, which the caller frees; NULL without names. */
static char *class_list(const rvit_checkpoint *checkpoint, const rvit_checkpoint_info *files)
{
    const char *metadata = rvit_checkpoint_metadata(checkpoint, "classes");
    size_t size = 0;
    if (metadata)
        return strdup(metadata);
    for (int32_t i = 0; i < files->n_class_names; i++)
        size += strlen(files->class_names[i]) + 1;
    char *text = size > 0 ? allocate(size, 1) : NULL, *at = text;
    for (int32_t i = 0; text && i < files->n_class_names; i++)
        at += sprintf(at, "%s%s", i ? "," : "", files->class_names[i]);
    return text;
}

static void print_info(const rvit_checkpoint *checkpoint, const rvit_model_info *info, const rvit_checkpoint_info *files)
{
    char *classes = class_list(checkpoint, files);
    const int32_t edge = info->patch_size > 0 ? info->patch_size : 1, lines = info->image_height / edge, columns = info->image_width / edge;
    char prefix[64];
    if (info->patch_size == 0) { /* some parts are unknown, so its shapes were not read */
        printf("family        %s names, %d blocks, %d tensors\n", info->family, info->depth, files->n_tensors);
        free(classes);
        return;
    }
    describe_prefix(info, prefix, sizeof prefix);
    printf("architecture  %s (%s names)\n", info->architecture, info->family);
    printf("input         %d x %d pixels, %d channels, patches of %d x %d\n", info->image_height, info->image_width, info->channels,
           info->patch_size, info->patch_size);
    printf("tokens        %d: %d x %d patches%s\n", info->tokens, lines, columns, prefix);
    if (files->trained_size != info->image_size && (info->position == RVIT_POSITION_TABLE || info->position == RVIT_POSITION_BOTH))
        printf("resampled     the position table, from %d x %d pixels\n", files->trained_size, files->trained_size);
    printf("width         %d, %d heads of %d, MLP %d\n", info->dim, info->n_heads, info->head_dim, info->mlp_dim);
    printf("depth         %d blocks\n", info->depth);
    printf("layernorm     eps %g\n", (double)info->eps);
    if (files->n_predictors)
        printf("predictors    %d, of DynamicViT\n", files->n_predictors);
    if (info->n_classes > 0) {
        printf("classes       %d%s", info->n_classes, info->distilled ? ", the mean of two heads" : "");
        print_line(classes ? ": " : "", classes ? classes : "");
    } else {
        printf("classes       none: there is no head\n");
    }
    if (info->embedding_dim > 0)
        printf("embedding     %d, for comparison with texts\n", info->embedding_dim);
    printf("parameters    %lld\n", (long long)files->n_parameters);
    const int32_t *n = files->n_by_dtype, others = files->n_tensors - n[RVIT_F32] - n[RVIT_F16] - n[RVIT_BF16];
    printf("tensors       %d: %d F32, %d F16, %d BF16", files->n_tensors, n[RVIT_F32], n[RVIT_F16], n[RVIT_BF16]);
    if (others > 0)
        printf(", %d of other types", others);
    if (files->n_files > 1)
        printf("; in %d files", files->n_files);
    putchar('\n');
    printf("missing       none\n"); /* otherwise the checkpoint would not open */
    if (files->n_unknown == 0)
        printf("not used      none\n");
    else
        printf("not used      %d tensor%s\n", files->n_unknown, files->n_unknown > 1 ? "s" : "");
    free(classes);
}

static const char *like_name(const rvit_image_recipe *recipe)
{
    static const char *const names[] = {[RVIT_PROCESSOR_UNKNOWN] = "Pillow",
                                        [RVIT_PROCESSOR_TIMM] = "Pillow",
                                        [RVIT_PROCESSOR_HF] = "torchvision",
                                        [RVIT_PROCESSOR_HF_FLOAT] = "torchvision, float32"};
    return names[recipe->processor];
}

static void print_origins(const rvit_checkpoint *checkpoint, const char *const *facts, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const char *origin = recipe_origin(checkpoint, facts[i]);
        bool again = origin[0] == 0;
        for (size_t j = 0; j < i; j++)
            again |= strcmp(origin, recipe_origin(checkpoint, facts[j])) == 0;
        if (again)
            continue;
        fputs(any ? "; " : "              (from ", stdout);
        printable_print(stdout, origin);
        any = true;
    }
    puts(any ? ")" : "              (assumed)");
}

/* Prints how images are prepared, with the sources. */
static void print_resize(const rvit_checkpoint *checkpoint, const rvit_image_recipe *known)
{
    static const char *const shapes[] = {"fit", "filter", "crop"}, *const colours[] = {"mean", "std"};
    static const struct recipe_options none;
    rvit_image_recipe recipe;
    if (!recipe_geometry(&none, known, &recipe)) {
        printf("resize        not supported by this tool: %s\n", recipe_value(checkpoint, known->fit == RVIT_FIT_OTHER ? "fit" : "filter"));
    } else {
        const bool cut = recipe.resize_width != recipe.width || recipe.resize_height != recipe.height || recipe.fit == RVIT_FIT_CROP;
        printf("resize        ");
        if (recipe.fit == RVIT_FIT_CROP && recipe.resize_width == recipe.resize_height)
            printf("shorter edge to %d", recipe.resize_height);
        else
            printf("%s %d x %d",
                   recipe.fit == RVIT_FIT_CROP     ? "to cover"
                   : recipe.fit == RVIT_FIT_SQUASH ? "squashed to"
                                                   : "to fit into",
                   recipe.resize_height, recipe.resize_width);
        printf(", %s (%s)", recipe.filter != RVIT_FILTER_BILINEAR ? "bicubic" : "bilinear", like_name(&recipe));
        printf(cut ? ", centre %d x %d\n" : "\n", recipe.height, recipe.width);
    }
    print_origins(checkpoint, shapes, sizeof shapes / sizeof *shapes);
    if (known->max_patches > 0) {
        static const char *const patches[] = {"most patches"};
        printf("max patches   %d per image, by the NaFlex rule\n", known->max_patches);
        print_origins(checkpoint, patches, 1);
    }
    if (known->std[0] > 0) {
        printf("colours       mean %s; std %s\n", recipe_value(checkpoint, "mean"), recipe_value(checkpoint, "std"));
        print_origins(checkpoint, colours, 2);
    } else {
        printf("colours       mean and standard deviation unknown: set --mean and --std\n");
    }
    if (known->processor_height > 0 && (known->processor_height != known->height || known->processor_width != known->width))
        printf("processor     makes inputs of %d x %d pixels; --image-size runs the model at another size\n", known->processor_height,
               known->processor_width);
}

static json_t *preprocessing_to_json(const rvit_image_recipe *known)
{
    static const struct recipe_options none;
    rvit_image_recipe recipe;
    const bool colours = known->std[0] > 0;
    if (!recipe_geometry(&none, known, &recipe))
        return json_null();
    return json_pack("{s:s, s:s, s:s, s:[ii], s:[ii], s:o, s:o, s:o}", "fit", rvit_enum_name(RVIT_ENUM_FIT, (int)recipe.fit), "filter",
                     recipe.filter != RVIT_FILTER_BILINEAR ? "bicubic" : "bilinear", "like", like_name(&recipe), "resize",
                     recipe.resize_height, recipe.resize_width, "size", recipe.height, recipe.width, "mean",
                     colours ? json_floats(known->mean, 3) : json_null(), "std", colours ? json_floats(known->std, 3) : json_null(),
                     "max_patches", known->max_patches > 0 ? json_integer(known->max_patches) : json_null());
}

/* Everything that the library knows about a checkpoint. */
struct described {
    rvit_model_info info;
    rvit_checkpoint_info files;
    rvit_image_recipe recipe;
};

static json_t *info_to_json(const rvit_checkpoint *checkpoint, const struct described *known, const char *path, const char *refusal)
{
    const rvit_model_info *info = &known->info;
    const rvit_checkpoint_info *files = &known->files;
    char *classes = class_list(checkpoint, files);
    json_t *object =
        json_pack("{s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "file", json_text(path), "architecture", info->architecture,
                  "family", info->family, "image_size", info->image_size, "patch_size", info->patch_size, "channels", info->channels, "dim",
                  info->dim, "heads", info->n_heads, "head_dim", info->head_dim, "depth", info->depth, "mlp_dim", info->mlp_dim);
    json_t *rest = json_pack(
        "{s:i, s:i, s:i, s:f, s:I, s:i, s:i, s:{s:i, s:i, s:i}, s:o, s:o, s:o, s:b, s:i, s:i, s:i, s:o, s:i, s:i, s:i, s:o, s:i}",
        "prefix_tokens", info->n_prefix, "tokens", info->tokens, "n_classes", info->n_classes, "eps", (double)info->eps, "parameters",
        (json_int_t)files->n_parameters, "n_tensors", files->n_tensors, "n_unused", files->n_unknown, "dtypes", "F32",
        files->n_by_dtype[RVIT_F32], "F16", files->n_by_dtype[RVIT_F16], "BF16", files->n_by_dtype[RVIT_BF16], "classes",
        classes ? json_text(classes) : json_null(), "refused", refusal[0] ? json_text(refusal) : json_null(), "tensors",
        tensors_to_json(files->tensors), "distilled", info->distilled, "registers", info->n_registers, "predictors", files->n_predictors,
        "files", files->n_files, "facts", facts_to_json(files), "image_height", info->image_height, "image_width", info->image_width,
        "embedding_dim", info->embedding_dim, "preprocessing", preprocessing_to_json(&known->recipe), "trained_size", files->trained_size);
    free(classes);
    json_object_update_new(object, rest);
    return object;
}

/* Opens a checkpoint even if a run would reject it; refusal then has the reason. */
static rvit_status open_to_show(const struct options *options, rvit_checkpoint **out, char *refusal, size_t size)
{
    rvit_checkpoint_desc desc = options->checkpoint;
    desc.describe = 1;
    rvit_status status = rvit_checkpoint_open(options->model, &desc, out);
    if (status == RVIT_BAD_FILE && !desc.lenient) {
        snprintf(refusal, size, "%s", rvit_status_detail());
        desc.lenient = 1;
        status = rvit_checkpoint_open(options->model, &desc, out);
    }
    return status;
}

int run_inspect(const struct options *options)
{
    struct described known = {RVIT_MODEL_INFO_INIT, RVIT_CHECKPOINT_INFO_INIT, RVIT_IMAGE_RECIPE_INIT};
    rvit_checkpoint *checkpoint = NULL;
    char refusal[1024] = ""; /* why a run would fail */
    rvit_status status = open_to_show(options, &checkpoint, refusal, sizeof refusal);
    if (status == RVIT_OK)
        status = rvit_checkpoint_get_model_info(checkpoint, &known.info);
    if (status == RVIT_OK)
        status = rvit_checkpoint_get_info(checkpoint, &known.files);
    if (status == RVIT_OK && known.files.unsupported[0])
        snprintf(refusal, sizeof refusal, "%s", known.files.unsupported);
    if (status == RVIT_OK)
        status = rvit_checkpoint_get_recipe(checkpoint, &known.recipe);
    if (status != RVIT_OK) {
        const int code = complain_status(options->model, status);
        rvit_checkpoint_destroy(checkpoint);
        return code;
    }
    if (options->json) {
        json_print_line(info_to_json(checkpoint, &known, options->model, refusal));
    } else {
        print_line("file          ", options->model);
        print_info(checkpoint, &known.info, &known.files);
        if (known.info.patch_size > 0)
            print_resize(checkpoint, &known.recipe);
        print_facts(&known.files, &known.info);
        if (known.info.patch_size > 0)
            print_tensors(known.files.tensors, true);
        if (options->tensors) {
            printf("\nall tensors, in the file's order:\n");
            print_tensors(known.files.tensors, false);
        }
    }
    rvit_checkpoint_destroy(checkpoint);
    if (refusal[0])
        complain(options->model, "a run would fail: %s", refusal);
    return refusal[0] ? EXIT_FILE : EXIT_OK;
}
