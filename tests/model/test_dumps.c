/* Compares whole models with the float64 outputs of timm, Hugging Face and torchvision in the dumps of make_dumps.py.

     test_dumps [--data FILE] [--dumps FILE] [OPTIONS OF EVERY TEST PROGRAM]

   --data is the file of the committed dumps. --dumps is a file of other dumps, to compare instead of them. */
#include "dumps.h"

static const char *file;

/* Largest difference allowed. float32: this fraction of the largest output. 16-bit types: twice the error of the library that made the
   dump. */
static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
static const double tolerance = 1e-5;

static double tolerance_of(const json_t *dump, rvit_dtype dtype, double largest)
{
    if (dtype == RVIT_F32)
        return tolerance * (largest > 1 ? largest : 1);
    const json_t *error = json_object_get(json_object_get(dump, "torch_errors"), rvit_enum_name(RVIT_ENUM_DTYPE, dtype));
    if (!json_is_number(error))
        fail_msg("%s: torch_errors has no number for %s", dump_text(dump, "name"), rvit_enum_name(RVIT_ENUM_DTYPE, dtype));
    return 2 * json_number_value(error);
}

static int check(const char *name)
{
    json_t *dump = dump_load(file, name);
    rvit_checkpoint *checkpoint = dump_open(dump, NULL);
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_checkpoint_get_model_info(checkpoint, &info));
    const double largest = dump_largest(dump);
    int good = 1;
    printf("%-28s %-38s %-7s", dump_text(dump, "name"), info.architecture, info.family);
    for (int t = 0; t < n_types(); t++) {
        const double difference = dump_run(dump, checkpoint, types[t], RVIT_QUANTIZATION_NONE),
                     most = tolerance_of(dump, types[t], largest);
        const int within = difference <= most;
        good &= within;
        printf("  %s %.2e of %.2e%s", rvit_enum_name(RVIT_ENUM_DTYPE, types[t]), difference, most, within ? "" : " TOO MUCH");
    }
    printf("\n");
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
    return good;
}

/* Checks the error of quantized models relative to that of PyTorch in bf16. For normally distributed values, the rounding error of int8 is
   6 times that of bf16 (0.7 against 0.11 percent), and that of e4m3 24 times. PyTorch rounds to bf16 more than once. */
static int check_quantized(const char *name)
{
    static const rvit_quantization kinds[] = {RVIT_QUANTIZATION_INT8, RVIT_QUANTIZATION_FP8};
    static const double most[] = {6, 24}, least[] = {0.1, 0.4};
    json_t *dump = dump_load(file, name);
    rvit_checkpoint *checkpoint = dump_open(dump, NULL);
    const json_t *error = json_object_get(json_object_get(dump, "torch_errors"), "bf16");
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_checkpoint_get_model_info(checkpoint, &info));
    int good = 1;
    printf("%-28s", dump_text(dump, "name"));
    for (int k = 0; k < 2; k++) {
        if (lacks(k == 0 ? "int8" : "e4m3"))
            continue;
        if (info.dim % 16 != 0) {
            rvit_model *model = NULL;
            rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
            desc.quantization = kinds[k];
            expect_status(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model), RVIT_UNSUPPORTED, "dim");
            continue;
        }
        const double part = dump_run(dump, checkpoint, RVIT_F32, kinds[k]) / json_number_value(error);
        const int within = part >= least[k] && part <= most[k];
        good &= within;
        printf("  %s %.2f%s", rvit_enum_name(RVIT_ENUM_QUANTIZATION, kinds[k]), part, within ? "" : " OUT OF RANGE");
    }
    printf("\n");
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
    return good;
}

static void check_all(int (*check_one)(const char *name))
{
    int n = 0, n_bad = 0;
    for (const char *name; (name = dump_name(file, n)) != NULL; n++)
        n_bad += !check_one(name);
    assert_true(n > 0);
    if (n_bad > 0)
        fail_msg("%d of %d models differ", n_bad, n);
}

static void dumps(void **state)
{
    (void)state;
    check_all(check);
}

static void dumps_quantized(void **state)
{
    (void)state;
    check_all(check_quantized);
}

/* A wrong value of an option that the tensors do not reveal changes the outputs. */
static void wrong_options(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t resample;
        float eps;
        int32_t n_heads, pooling;
    } wrong[] = {
        {"timm_resampled", RVIT_RESAMPLE_BICUBIC, 0, 0, 0},
        {"timm_resampled", RVIT_RESAMPLE_BILINEAR, 0, 0, 0},
        {"timm_bicubic", RVIT_RESAMPLE_TIMM, 0, 0, 0},
        {"timm_bicubic", RVIT_RESAMPLE_BILINEAR, 0, 0, 0},
        {"timm_bilinear", RVIT_RESAMPLE_TIMM, 0, 0, 0},
        {"timm_bilinear", RVIT_RESAMPLE_BICUBIC, 0, 0, 0},
        {"timm_resampled_down", RVIT_RESAMPLE_BICUBIC, 0, 0, 0},
        {"timm_heads_32", RVIT_RESAMPLE_DEFAULT, 0, 2, 0},
        {"timm_heads_72", RVIT_RESAMPLE_DEFAULT, 0, 3, 0},
        {"hf_vit_resampled", RVIT_RESAMPLE_TIMM, 0, 0, 0},
        {"hf_vit_eps", RVIT_RESAMPLE_DEFAULT, 1e-12f, 0, 0},
        {"hf_dinov2_resampled", RVIT_RESAMPLE_TIMM, 0, 0, 0},
        {"hf_dinov2_registers_resampled", RVIT_RESAMPLE_BICUBIC, 0, 0, 0},
        {"timm_mean", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_CLS},
        {"timm_mean", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN_RAW},
        {"timm_mean_fc_norm", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_CLS},
        {"timm_mean_fc_norm", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN_RAW},
        {"timm_mean_no_norm", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_CLS},
        {"timm_cls_no_norm", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN},
        {"timm_gap_registers", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN_RAW},
        {"timm_map", RVIT_RESAMPLE_DEFAULT, 0, 1, 0},
        {"hf_siglip", RVIT_RESAMPLE_DEFAULT, 0, 2, 0},
        {"hf_siglip_classifier", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MAP},
        {"hf_clip_classifier", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_CLS},
        {"hf_clip_classifier", RVIT_RESAMPLE_DEFAULT, 0, 0, RVIT_POOLING_MEAN},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *dump = dump_load(dump_file, wrong[i].name);
        rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
        desc.image_size = (int32_t)dump_integer(dump, "image_size");
        desc.resample = (rvit_resample)wrong[i].resample;
        desc.eps = wrong[i].eps;
        desc.n_heads = wrong[i].n_heads;
        desc.pooling = (rvit_pooling)wrong[i].pooling;
        rvit_checkpoint *checkpoint = NULL;
        expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), &desc, &checkpoint));
        const double difference = dump_run(dump, checkpoint, RVIT_F32, RVIT_QUANTIZATION_NONE);
        if (difference <= 10 * DUMP_TOLERANCE)
            fail_msg("%s: a wrong option (resample %d, eps %g, n_heads %d, pooling %d) changes the outputs by only %g", wrong[i].name,
                     (int)wrong[i].resample, (double)wrong[i].eps, (int)wrong[i].n_heads, (int)wrong[i].pooling, difference);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

static void wrong_activations(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        rvit_activation activation;
        double tolerances; /* the two GELUs are 4.7e-4 apart at most */
    } wrong[] = {
        {"timm_quick_gelu", RVIT_ACTIVATION_GELU, 10},         {"timm_gelu_tanh", RVIT_ACTIVATION_GELU, 5},
        {"timm_gelu_tanh", RVIT_ACTIVATION_QUICK_GELU, 10},    {"timm_silu", RVIT_ACTIVATION_QUICK_GELU, 10},
        {"open_clip_quick_gelu", RVIT_ACTIVATION_GELU, 10},    {"timm_gated", RVIT_ACTIVATION_GELU, 10},
        {"hf_clip_quick_gelu", RVIT_ACTIVATION_GELU_TANH, 10},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *dump = dump_load(dump_file, wrong[i].name);
        rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
        desc.activation = wrong[i].activation;
        rvit_checkpoint *checkpoint = NULL;
        expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), &desc, &checkpoint));
        const double difference = dump_run(dump, checkpoint, RVIT_F32, RVIT_QUANTIZATION_NONE);
        if (difference <= wrong[i].tolerances * DUMP_TOLERANCE)
            fail_msg("%s: a wrong activation (%d) changes the outputs by only %g", wrong[i].name, (int)wrong[i].activation, difference);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

/* Runs a dump's model with one member of its config changed, and returns the largest difference of the outputs. value: JSON. */
static double run_with(const char *name, const char *section, const char *key, const char *value)
{
    json_t *dump = dump_load(dump_file, name), *config = json_object_get(dump, "config");
    config = section == NULL ? config : json_object_get(config, section);
    assert_int_equal(json_object_set_new(config, key, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.image_size = (int32_t)dump_integer(dump, "image_size");
    rvit_checkpoint *checkpoint = NULL;
    expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), &desc, &checkpoint));
    const double difference = dump_run(dump, checkpoint, RVIT_F32, RVIT_QUANTIZATION_NONE);
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
    return difference;
}

/* A wrong option of the rotary positions changes the outputs. */
static void wrong_rotary_options(void **state)
{
    (void)state;
    static const char hf[] = "hf_dinov3", dinov3[] = "timm_dinov3", rope[] = "timm_rope", ape[] = "timm_rope_ape",
                      reference[] = "timm_rope_reference", args[] = "model_args";
    static const struct {
        const char *name, *section, *key, *value;
    } wrong[] = {
        {hf, NULL, "rope_theta", "10000"},
        {dinov3, args, "rope_temperature", "10000"},
        {dinov3, args, "rope_grid_indexing", "\"xy\""},
        {dinov3, args, "rope_rotate_half", "false"},
        {dinov3, args, "rope_type", "\"cat\""},
        {dinov3, args, "rope_grid_offset", "1"},
        {rope, args, "rope_grid_indexing", "\"ij\""},
        {rope, args, "rope_rotate_half", "true"},
        {rope, args, "rope_type", "\"dinov3\""},
        {rope, args, "ref_feat_shape", "[14, 14]"},
        {ape, args, "rope_temperature", "10000"},
        {ape, args, "rope_grid_indexing", "\"ij\""},
        {ape, args, "rope_rotate_half", "true"},
        {reference, args, "ref_feat_shape", "null"},
        {reference, args, "ref_feat_shape", "[6, 16]"},
        {reference, args, "rope_temperature", "100"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const double difference = run_with(wrong[i].name, wrong[i].section, wrong[i].key, wrong[i].value);
        if (difference <= 10 * DUMP_TOLERANCE)
            fail_msg("%s: a wrong %s changes the outputs by only %g", wrong[i].name, wrong[i].key, difference);
    }
    /* A shift of all coordinates changes only the dot products with prefix tokens. */
    assert_true(run_with(reference, args, "rope_grid_offset", "0") > 10 * DUMP_TOLERANCE);
}

/* transformers 5 uses other tensor names for DINOv3's blocks in memory than in files. */
static void names_in_memory(void **state)
{
    (void)state;
    json_t *dump = dump_load(dump_file, "hf_dinov3"), *tensor;
    size_t index;
    int n = 0;
    json_array_foreach(json_object_get(dump, "tensors"), index, tensor)
    {
        char name[96];
        const char *own = json_string_value(json_array_get(tensor, 0));
        if (strncmp(own, "layer.", 6) != 0)
            continue;
        snprintf(name, sizeof name, "model.%s", own);
        assert_int_equal(json_array_set_new(tensor, 0, json_string(name)), 0);
        n++;
    }
    assert_true(n > 0);
    rvit_checkpoint *checkpoint = NULL;
    expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), NULL, &checkpoint));
    assert_true(dump_run(dump, checkpoint, RVIT_F32, RVIT_QUANTIZATION_NONE) <= DUMP_TOLERANCE);
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
}

SUITE(dumps_suite, TEST(dumps), TEST(dumps_quantized), TEST(wrong_options), TEST(wrong_activations), TEST(wrong_rotary_options),
      TEST(names_in_memory));

int main(int argc, char **argv)
{
    dump_file = harness_first_option(&argc, &argv, "--data", RVIT_DUMPS);
    file = harness_first_option(&argc, &argv, "--dumps", dump_file);
    const suite *const suites[] = {&dumps_suite,           &dump_heads_suite,      &dump_pooled_suite,
                                   &dump_mutants_suite,    &dump_sessions_suite,   &dump_variable_resolution_suite,
                                   &dump_pixels_suite,     &dump_qwen_suite,       &dump_qwen_batches_suite,
                                   &dump_qwen_files_suite, &dump_qwen_pruned_suite};
    return harness_main(argc, argv, 0, suites, sizeof suites / sizeof *suites);
}
