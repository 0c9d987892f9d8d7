/* Fuzzes the config files of a checkpoint and its metadata. The first byte selects which of them the rest is. */
#include "fuzz.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/model/config/read.h"
#include "core/model/describe.h"

/* The inputs of the corpus use these numbers. */
enum { METADATA = 3, NAME = 4, GIVEN = 5, N_KINDS = 7 };
static const char *const names[N_KINDS] = {
    [0] = "config.json", [1] = "open_clip_config.json", [2] = "preprocessor_config.json", [6] = "processor_config.json"};
/* The models that configurations are read for. */
enum { PLAIN, NO_TABLE, POOLED, N_MODELS };
static char folder[64];

static void path_of(int which, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, names[which]);
}

static void end_folder(void)
{
    char path[128];
    for (int i = 0; i < N_KINDS; i++)
        if (names[i] != NULL) {
            path_of(i, path);
            (void)unlink(path);
        }
    (void)rmdir(folder);
}

static void begin_folder(void)
{
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/rvit-fuzz-XXXXXX" : "/tmp/rvit-fuzz-XXXXXX");
    if (mkdtemp(folder) == NULL)
        fuzz_fail("cannot create a folder for the files");
    (void)atexit(end_folder);
}

static void write_config(int which, const uint8_t *data, size_t size)
{
    char path[128];
    for (int i = 0; i < N_KINDS; i++)
        if (names[i] != NULL && i != which) {
            path_of(i, path);
            (void)unlink(path);
        }
    path_of(which, path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        fuzz_fail("cannot write to the folder");
    close(fd);
}

/* The table of rotary positions must have values from -1 to 1. */
static void check_rotation(const rvit_vit_config *config)
{
    static float table[(1 + 4) * 128];
    if (config->info.position != RVIT_POSITION_ROPE && config->info.position != RVIT_POSITION_BOTH)
        return;
    rvit_rope_fill_table(&config->rope, 2, 2, 1, config->info.head_dim, table);
    for (int32_t i = 0; i < 5 * config->info.head_dim; i++)
        if (!(table[i] >= -1 && table[i] <= 1))
            fuzz_fail("a value of the rotary table is not within -1..1");
}

/* The tool divides by std and resizes to these sizes. */
static void check_recipe(const rvit_image_recipe *recipe)
{
    if (recipe->resize_height < 0 || recipe->resize_width < 0)
        fuzz_fail("a negative resize size");
    for (int i = 0; i < 3; i++)
        if (recipe->fill[i] < 0 || recipe->fill[i] > 255 || recipe->std[i] < 0)
            fuzz_fail("an invalid fill colour or std");
}

/* Reads the config for a plain model, a model without a position table, or a model with attention pooling and a patch norm. */
static void describe(rvit_facts *facts, rvit_unsupported *unsupported, int32_t kind)
{
    const int32_t no_table = kind == NO_TABLE, pooled = kind == POOLED;
    static const rvit_family family = {.name = "timm", .prefix = "", .blocks = "blocks.", .names = {[RVIT_ROLE_POSITION] = "pos_embed"}};
    rvit_vit_config config = {
        .family = &family, .measured = 1, .qkv_bias = 1, .patch_bias = 1, .norm_beta = 1, .cls = !pooled, .no_table = no_table};
    config.map = config.patch_norm = pooled;
    config.map_mlp = pooled ? 768 : 0;
    if (!no_table) {
        config.position_rows = 197 - pooled;
        config.position_choices[0] = config.position_choices[1] = 1 - pooled;
    }
    config.info = (rvit_model_info){.dim = 192,
                                    .depth = 12,
                                    .mlp_dim = 768,
                                    .patch_size = 16,
                                    .channels = 3,
                                    .image_size = 224,
                                    .n_prefix = 1 - pooled,
                                    .tokens = 197 - pooled,
                                    .final_norm = 1,
                                    .n_classes = 10};
    if (expect_status_of(rvit_describe("model", &config, facts, unsupported)) != RVIT_OK)
        return;
    const rvit_model_info *info = &config.info;
    check_recipe(&config.recipe);
    const int32_t has_activation = info->activation >= RVIT_ACTIVATION_GELU && info->activation <= RVIT_ACTIVATION_SILU;
    if (unsupported->n == 0 && (info->n_heads * info->head_dim != info->dim || !(info->eps > 0) || !has_activation))
        fuzz_fail("a model that the forward cannot run is not refused");
    if (unsupported->n == 0 &&
        (info->image_height < info->patch_size || info->image_width < info->patch_size || info->tokens <= info->n_prefix))
        fuzz_fail("a model without patches is not refused");
    if (unsupported->n == 0 && pooled && (config.map_heads < 1 || info->dim % config.map_heads != 0 || config.map_activation == 0))
        fuzz_fail("attention pooling that cannot be run is not refused");
    if (unsupported->n == 0)
        check_rotation(&config);
    if ((rvit_unsupported_status(unsupported, "model") == RVIT_OK) != (unsupported->n == 0))
        fuzz_fail("the reasons and the status differ");
}

static void check_texts(const rvit_facts *facts)
{
    for (int i = 0; i < RVIT_FACT_COUNT; i++)
        if (memchr(facts->of[i].text, 0, sizeof facts->of[i].text) == NULL ||
            memchr(facts->of[i].where, 0, sizeof facts->of[i].where) == NULL)
            fuzz_fail("a text is not terminated");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (folder[0] == '\0')
        begin_folder();
    if (size == 0)
        return 0;
    static rvit_alloc alloc;
    rvit_alloc_init(&alloc, &fuzz_allocator);
    static rvit_facts facts;
    static rvit_unsupported unsupported;
    static rvit_facts facts_too;
    static rvit_unsupported unsupported_too;
    rvit_class_names classes = {NULL, 0};
    memset(&facts, 0, sizeof facts);
    memset(&unsupported, 0, sizeof unsupported);
    char checkpoint_path[128];
    snprintf(checkpoint_path, sizeof checkpoint_path, "%s/model.safetensors", folder);
    rvit_config_source source = {.path = checkpoint_path};
    char *text = malloc(size);
    if (text == NULL)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    const int which = data[0] % N_KINDS;
    if (names[which] != NULL)
        write_config(which, data + 1, size - 1);
    else
        source = (rvit_config_source){.config = which == METADATA ? text : NULL,
                                      .architecture = which == NAME ? text : NULL,
                                      .override = which == GIVEN ? text : NULL};
    if (expect_status_of(rvit_config_files(&source, &alloc, &facts, &unsupported, &classes)) == RVIT_OK) {
        for (int32_t i = 0; i < N_MODELS; i++) {
            facts_too = facts;
            unsupported_too = unsupported;
            describe(&facts_too, &unsupported_too, i);
        }
    }
    check_texts(&facts);
    rvit_class_names_free(&alloc, &classes);
    free(text);
    return 0;
}
