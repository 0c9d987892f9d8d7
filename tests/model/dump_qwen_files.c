/* Files of Qwen's vision encoders: valid configurations, required tensors, and the facts read from them. */
#include "dump_qwen.h"

#include <unistd.h>

static const char old[] = "qwen2_5_vl", new[] = "qwen3_vl";

static void expect_refused(const json_t *dump, rvit_status status, const char *word)
{
    rvit_checkpoint *checkpoint = NULL;
    expect_status(rvit_checkpoint_open(dump_checkpoint(dump), NULL, &checkpoint), status, word);
    assert_null(checkpoint);
}

/* Opens a checkpoint with one member of the vision_config changed. value: JSON. */
static void configurations(void **state)
{
    (void)state;
    static const struct {
        const char *name, *key, *value;
        rvit_status status;
        const char *word;
    } cases[] = {
        {old, "spatial_merge_size", "4", RVIT_BAD_FILE,
         "the tensors merge groups of 128 values, but a group has 4 x 4 rows of 32 (config.json"},
        {old, "spatial_merge_size", "0", RVIT_BAD_FILE, "vision_config.spatial_merge_size is 0, expected 1..1048576"},
        {old, "out_hidden_size", "16", RVIT_BAD_FILE, "the width of merged rows is 12 in the tensors, but should be 16 (config.json"},
        {old, "temporal_patch_size", "1", RVIT_BAD_FILE, "the number of frames of a patch is 2 in the tensors, but should be 1"},
        {old, "window_size", "7", RVIT_BAD_FILE,
         "windows have 7 pixels (config.json: vision_config.window_size), expected 1 to 16384 times"},
        {old, "window_size", "\"wide\"", RVIT_BAD_FILE, "window_size is not an integer"},
        {old, "fullatt_block_indexes", "1", RVIT_BAD_FILE, "fullatt_block_indexes is not a list of blocks"},
        {old, "fullatt_block_indexes", "[1.5]", RVIT_BAD_FILE, "fullatt_block_indexes is not a list of blocks"},
        {old, "fullatt_block_indexes", "[-1]", RVIT_BAD_FILE, "fullatt_block_indexes is not a list of blocks"},
        {old, "hidden_size", "64", RVIT_BAD_FILE, "the width is 32 in the tensors, but should be 64"},
        {old, "depth", "4", RVIT_BAD_FILE, "the number of blocks is 3 in the tensors, but should be 4 (config.json"},
        {old, "num_heads", "5", RVIT_BAD_FILE, "the width 32 cannot be split into 5 heads"},
        {old, "hidden_act", "\"mish\"", RVIT_UNSUPPORTED, "hidden_act is 'mish', which is not supported"},
        {old, "rope_parameters", "{\"rope_type\": \"yarn\"}", RVIT_UNSUPPORTED, "rope_parameters.rope_type is not supported"},
        {old, "rope_parameters", "{\"rope_theta\": 0.5}", RVIT_BAD_FILE, "the base of the rotary positions is 0.5"},
        {new, "deepstack_visual_indexes", "[0]", RVIT_BAD_FILE,
         "the tensors have 2 deepstack mergers, but config.json: vision_config.deepstack_visual_indexes lists 1 blocks"},
        {new, "deepstack_visual_indexes", "null", RVIT_BAD_FILE, "deepstack_visual_indexes (default) lists 3 blocks"},
        {new, "deepstack_visual_indexes", "[0, 3]", RVIT_BAD_FILE, "lists block 3, but the model has 3 blocks"},
        {new, "deepstack_visual_indexes", "[1, 0]", RVIT_UNSUPPORTED, "lists block 0 after block 1, which is not supported"},
        {new, "num_position_embeddings", "24", RVIT_BAD_FILE, "num_position_embeddings is 24, expected a square"},
        {new, "num_position_embeddings", "16", RVIT_BAD_FILE, "the position table is for 25 patches"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *dump = dump_load(dump_file, cases[i].name);
        json_t *vision = json_object_get(json_object_get(dump, "config"), "vision_config");
        assert_int_equal(json_object_set_new(vision, cases[i].key, json_loads(cases[i].value, JSON_DECODE_ANY, NULL)), 0);
        expect_refused(dump, cases[i].status, cases[i].word);
        json_decref(dump);
    }
}

/* A model_type that does not match the tensors, an unknown one, and a missing config. */
static void model_types(void **state)
{
    (void)state;
    static const struct {
        const char *name, *type;
        rvit_status status;
        const char *word;
    } cases[] = {{old, "qwen3_vl", RVIT_BAD_FILE, ""},
                 {new, "qwen2_5_vl", RVIT_BAD_FILE, ""},
                 {old, "qwen2_vl", RVIT_UNSUPPORTED, "model_type 'qwen2_vl' is not supported"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *dump = dump_load(dump_file, cases[i].name), *config = json_object_get(dump, "config");
        assert_int_equal(json_object_set_new(config, "model_type", json_string(cases[i].type)), 0);
        assert_int_equal(json_object_set_new(json_object_get(config, "vision_config"), "model_type", json_string(cases[i].type)), 0);
        expect_refused(dump, cases[i].status, cases[i].word);
        json_decref(dump);
    }
    json_t *dump = dump_load(dump_file, old);
    rvit_checkpoint *checkpoint = NULL;
    const char *path = dump_checkpoint(dump);
    (void)unlink(temporary_path("config.json"));
    expect_status(rvit_checkpoint_open(path, NULL, &checkpoint), RVIT_UNSUPPORTED,
                  "how many patches are merged, the windows of attention, the blocks without windows, the deepstack blocks");
    json_decref(dump);
    /* Another model that contains the encoder. */
    dump = dump_load(dump_file, new);
    assert_int_equal(json_object_set_new(json_object_get(dump, "config"), "model_type", json_string("of_nobody")), 0);
    expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), NULL, &checkpoint));
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
}

static json_t *find_tensor(const json_t *dump, const char *name)
{
    size_t index;
    json_t *tensor;
    json_array_foreach(json_object_get(dump, "tensors"), index,
                       tensor) if (strcmp(json_string_value(json_array_get(tensor, 0)), name) == 0) return tensor;
    fail_msg("there is no tensor %s", name);
    return NULL;
}

/* One tensor with another name or shape. */
static void tensors(void **state)
{
    (void)state;
    static const struct {
        const char *model, *tensor, *other, *shape;
        rvit_status status;
        const char *word;
    } cases[] = {
        {old, "visual.merger.mlp.2.bias", "elsewhere", NULL, RVIT_BAD_FILE, "tensor 'visual.merger.mlp.2.bias' is missing"},
        {old, "visual.merger.mlp.0.weight", NULL, "[128, 127]", RVIT_BAD_FILE, "expected the shape [128, 128], found [128, 127]"},
        {old, "visual.merger.ln_q.weight", NULL, "[33]", RVIT_BAD_FILE, "'visual.merger.ln_q.weight': expected the shape [32], found [33]"},
        {old, "visual.patch_embed.proj.weight", NULL, "[32, 3, 4, 4]", RVIT_BAD_FILE,
         "expected the shape [32, channels, frames, patch, patch]"},
        {old, "visual.blocks.1.mlp.up_proj.bias", NULL, "[43]", RVIT_BAD_FILE,
         "'visual.blocks.1.mlp.up_proj.bias': expected the shape [44]"},
        {old, "lm_head.weight", "visual.more", NULL, RVIT_BAD_FILE, "unknown tensor 'visual.more' (1 in total), which is part of"},
        {old, "lm_head.weight", "another", NULL, RVIT_BAD_FILE, "unknown tensor 'another'"},
        {old, "lm_head.weight", "visual.blocks.0.attn.q_norm.weight", NULL, RVIT_UNSUPPORTED, "normalised queries and keys"},
        {new, "model.visual.pos_embed.weight", NULL, "[24, 32]", RVIT_BAD_FILE, ""},
        {new, "model.visual.deepstack_merger_list.1.norm.weight", NULL, "[32]", RVIT_BAD_FILE, "expected the shape [128], found [32]"},
        {new, "model.visual.deepstack_merger_list.1.norm.weight", "model.visual.deepstack_merger_list.2.norm.weight", NULL, RVIT_BAD_FILE,
         "tensor 'model.visual.deepstack_merger_list.1.norm.weight' is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *dump = dump_load(dump_file, cases[i].model), *tensor = find_tensor(dump, cases[i].tensor);
        if (cases[i].other != NULL)
            assert_int_equal(json_array_set_new(tensor, 0, json_string(cases[i].other)), 0);
        if (cases[i].shape != NULL)
            assert_int_equal(json_array_set_new(tensor, 1, json_loads(cases[i].shape, 0, NULL)), 0);
        expect_refused(dump, cases[i].status, cases[i].word);
        json_decref(dump);
    }
}

/* An encoder that merges 3 x 3 patches is read, but cannot run; nor can one whose merged width is not a multiple of 4. */
static void other_sizes(void **state)
{
    (void)state;
    json_t *dump = dump_load(dump_file, old);
    json_array_set_new(find_tensor(dump, "visual.merger.mlp.0.weight"), 1, json_pack("[i, i]", 288, 288));
    json_array_set_new(find_tensor(dump, "visual.merger.mlp.0.bias"), 1, json_pack("[i]", 288));
    json_array_set_new(find_tensor(dump, "visual.merger.mlp.2.weight"), 1, json_pack("[i, i]", 12, 288));
    json_t *vision = json_object_get(json_object_get(dump, "config"), "vision_config");
    assert_int_equal(json_object_set_new(vision, "spatial_merge_size", json_integer(3)), 0);
    expect_refused(dump, RVIT_UNSUPPORTED, "the model merges 3 x 3 patches, which is not supported");
    json_decref(dump);
    dump = dump_load(dump_file, old);
    json_array_set_new(find_tensor(dump, "visual.merger.mlp.2.weight"), 1, json_pack("[i, i]", 10, 128));
    json_array_set_new(find_tensor(dump, "visual.merger.mlp.2.bias"), 1, json_pack("[i]", 10));
    vision = json_object_get(json_object_get(dump, "config"), "vision_config");
    assert_int_equal(json_object_set_new(vision, "out_hidden_size", json_integer(10)), 0);
    expect_refused(dump, RVIT_UNSUPPORTED, "merged rows have 10 columns, expected a multiple of 4");
    json_decref(dump);
}

static void expect_fact(const json_t *dump, const char *wanted, const char *value, const char *origin)
{
    rvit_checkpoint *checkpoint = dump_open(dump, NULL);
    rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
    int found = 0;
    expect_ok(rvit_checkpoint_get_info(checkpoint, &files));
    for (int32_t i = 0; i < files.n_facts; i++) {
        const rvit_checkpoint_fact *fact = &files.facts[i];
        if (strcmp(fact->name, wanted) != 0)
            continue;
        if (strcmp(fact->value, value) != 0 || strstr(fact->origin, origin) == NULL)
            fail_msg("%s is %s (%s), should be %s (%s)", wanted, fact->value, fact->origin, value, origin);
        found = 1;
    }
    rvit_checkpoint_destroy(checkpoint);
    assert_true(found);
}

static void facts(void **state)
{
    (void)state;
    json_t *dump = dump_load(dump_file, old), *vision = json_object_get(json_object_get(dump, "config"), "vision_config");
    expect_fact(dump, "window", "16", "config.json: vision_config.window_size");
    expect_fact(dump, "full attention", "1", "config.json: vision_config.fullatt_block_indexes");
    expect_fact(dump, "deepstack blocks", "none", "the default of model_type 'qwen2_5_vl_vision'");
    expect_fact(dump, "merge", "2", "spatial_merge_size (default)");
    assert_int_equal(json_object_del(vision, "fullatt_block_indexes"), 0);
    expect_fact(dump, "full attention", "7, 15, 23, 31", "fullatt_block_indexes (default)");
    json_decref(dump);
    dump = dump_load(dump_file, new);
    expect_fact(dump, "window", "0", "the default of model_type 'qwen3_vl_vision'");
    expect_fact(dump, "deepstack blocks", "0, 1", "config.json: vision_config.deepstack_visual_indexes");
    expect_fact(dump, "resample", "bilinear, corners aligned", "the default of model_type 'qwen3_vl_vision'");
    expect_fact(dump, "rotary base", "10000", "the default of model_type 'qwen3_vl_vision'");
    json_decref(dump);
    dump = dump_load(dump_file, "qwen3_vl_bare");
    expect_fact(dump, "rotary base", "10000", "rope_parameters.rope_theta");
    json_decref(dump);
}

/* Reads the preprocessing settings of the processor's config file. */
static void processors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t least, most;
        const char *word; /* part of the expected error message */
    } cases[] = {{"{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"min_pixels\":3136,\"max_pixels\":12845056}", 3136, 12845056, NULL},
                 {"{\"image_processor_type\":\"Qwen2VLImageProcessorFast\",\"size\":{\"shortest_edge\":65536,\"longest_edge\":16777216}}",
                  65536, 16777216, NULL},
                 {"{\"patch_size\":14}", 3136, 1003520, NULL},
                 {"{\"min_pixels\":99,\"max_pixels\":98}", 0, 0, "the minimum of 99 pixels exceeds the maximum of 98"},
                 {"{\"min_pixels\":0}", 0, 0, "min_pixels is 0, expected 1..1099511627776"}};
    json_t *dump = dump_load(dump_file, new);
    const char *preprocessor_path = temporary_path("preprocessor_config.json"), *path = dump_checkpoint(dump);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *text = json_loads(cases[i].text, 0, NULL);
        assert_int_equal(json_dump_file(text, preprocessor_path, 0), 0);
        json_decref(text);
        rvit_checkpoint *checkpoint = NULL;
        rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
        if (cases[i].word != NULL) {
            expect_status(rvit_checkpoint_open(path, NULL, &checkpoint), RVIT_BAD_FILE, cases[i].word);
            continue;
        }
        expect_ok(rvit_checkpoint_open(path, NULL, &checkpoint));
        expect_ok(rvit_checkpoint_get_recipe(checkpoint, &recipe));
        assert_true(recipe.min_pixels == cases[i].least && recipe.max_pixels == cases[i].most);
        assert_true(recipe.fit == RVIT_FIT_SQUASH && recipe.filter == RVIT_FILTER_BICUBIC && recipe.processor == RVIT_PROCESSOR_HF);
        rvit_checkpoint_destroy(checkpoint);
    }
    (void)unlink(preprocessor_path);
    json_decref(dump);
}

SUITE(dump_qwen_files_suite, TEST(configurations), TEST(model_types), TEST(tensors), TEST(other_sizes), TEST(facts), TEST(processors));
