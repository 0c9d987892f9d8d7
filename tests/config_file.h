/* Writes checkpoints without values, and config files in the same folder, for tests of options that the weights do not show. */
#ifndef RVIT_TESTS_CONFIG_FILE_H
#define RVIT_TESTS_CONFIG_FILE_H

#include "checkpoint_file.h"

#include <raggedvit/raggedvit.h>

static model scratch;
static const geometry deit_tiny = {192, 12, 768, 16, 14, 3, 10, 0}, deit_small = {384, 12, 1536, 16, 14, 3, 10, 0};

static inline void write_config_file(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", temp_folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static inline void remove_config_files(void)
{
    static const char *const names[] = {"config.json", "open_clip_config.json", "preprocessor_config.json", "processor_config.json"};
    for (int i = 0; i < 4; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%s", temp_folder, names[i]);
        (void)unlink(path);
    }
}

static inline rvit_status open_scratch(const rvit_checkpoint_desc *desc, rvit_checkpoint **out)
{
    write_model(&scratch, NO_DATA);
    *out = NULL;
    return rvit_checkpoint_open(temp_path, desc, out);
}

/* Expects a refusal with a message that contains all these words. */
static inline void refused_with(const rvit_checkpoint_desc *desc, rvit_status expected, const char *const *words)
{
    rvit_checkpoint *checkpoint;
    const rvit_status status = open_scratch(desc, &checkpoint);
    for (; *words != NULL; words++)
        if (status != expected || strstr(rvit_status_detail(), *words) == NULL)
            fail_msg("expected %s with \"%s\", got %s: %s", rvit_status_name(expected), *words, rvit_status_name(status),
                     status == RVIT_OK ? "" : rvit_status_detail());
    assert_null(checkpoint);
}
#define REFUSED(desc, status, ...) refused_with(desc, status, (const char *const[]){__VA_ARGS__, NULL})

/* out_recipe: the checkpoint's preprocessing; may be NULL. */
static inline rvit_model_info loaded_with_recipe(const rvit_checkpoint_desc *desc, rvit_image_recipe *out_recipe)
{
    rvit_checkpoint *checkpoint;
    if (open_scratch(desc, &checkpoint) != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, &info), RVIT_OK);
    if (out_recipe != NULL)
        assert_int_equal(rvit_checkpoint_get_recipe(checkpoint, out_recipe), RVIT_OK);
    rvit_checkpoint_destroy(checkpoint);
    return info;
}

static inline rvit_model_info loaded(const rvit_checkpoint_desc *desc)
{
    return loaded_with_recipe(desc, NULL);
}

static inline rvit_image_recipe loaded_recipe(void)
{
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    (void)loaded_with_recipe(NULL, &recipe);
    return recipe;
}

/* Checks the value and the source of a fact about a valid checkpoint. */
static inline void expect_fact(const char *name, const char *value, const char *origin)
{
    rvit_checkpoint *checkpoint;
    rvit_checkpoint_info info = RVIT_CHECKPOINT_INFO_INIT;
    assert_int_equal(open_scratch(NULL, &checkpoint), RVIT_OK);
    assert_int_equal(rvit_checkpoint_get_info(checkpoint, &info), RVIT_OK);
    for (int32_t i = 0; i < info.n_facts; i++)
        if (strcmp(info.facts[i].name, name) == 0) {
            assert_string_equal(info.facts[i].value, value);
            if (strstr(info.facts[i].origin, origin) == NULL)
                fail_msg("%s comes from \"%s\", not from \"%s\"", name, info.facts[i].origin, origin);
            rvit_checkpoint_destroy(checkpoint);
            return;
        }
    fail_msg("no fact %s", name);
}

/* Builds a checkpoint without any metadata. */
static inline void bare(const geometry *g)
{
    build(&scratch, g, "F16");
    scratch.metadata[0] = '\0';
    remove_config_files();
}

static inline void add_scales(const geometry *g)
{
    for (int b = 0; b < g->depth; b++) {
        add_block(&scratch, b, "gamma_1", 1, g->dim, 0);
        add_block(&scratch, b, "gamma_2", 1, g->dim, 0);
    }
}

/* Makes the MLP gated: fc1 has two rows for each column of fc2, one for the gate and one for the value. */
static inline void pack_gate(void)
{
    bare(&deit_tiny);
    for (int b = 0; b < 12; b++) {
        char name[48];
        snprintf(name, sizeof name, "blocks.%d.mlp.fc2.weight", b);
        get(&scratch, name)->shape[1] = 384;
    }
}

#endif
