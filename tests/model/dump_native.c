/* Images of any grids in one batch: pruned by each kind of policy against float64, and every image as if it were alone. */
#include "dumps.h"

static const char pruned_dump[] = "naflex_siglip2.json";
static const char *const dumps[] = {pruned_dump,           "naflex_timm_gap.json", "native_timm_distilled.json", "native_timm_eva02.json",
                                    "native_hf_clip.json", "native_hf_dinov3.json"};
enum { N_DUMPS = sizeof dumps / sizeof *dumps };

typedef struct subject {
    json_t *dump;
    rvit_model *model;
    rvit_model_info info;
} subject;

static subject open_subject(const char *file_name)
{
    subject s = {.dump = dump_load(dump_folder, file_name), .info = RVIT_MODEL_INFO_INIT};
    rvit_checkpoint *checkpoint = dump_open(s.dump, NULL);
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &s.model));
    expect_ok(rvit_model_get_info(s.model, &s.info));
    rvit_checkpoint_destroy(checkpoint);
    return s;
}

static void close_subject(subject *s)
{
    rvit_model_destroy(s->model);
    json_decref(s->dump);
}

static rvit_prune_desc prune_of(const json_t *prune)
{
    rvit_prune_desc desc = RVIT_PRUNE_DESC_INIT;
    const json_t *blocks = json_object_get(prune, "blocks");
    expect_ok(rvit_prune_from_name(dump_text(prune, "policy"), &desc.type));
    desc.n_blocks = (int32_t)json_array_size(blocks);
    for (int32_t i = 0; i < desc.n_blocks; i++)
        desc.blocks[i] = (int32_t)json_integer_value(json_array_get(blocks, (size_t)i));
    if (json_object_get(prune, "keep") != NULL)
        desc.keep = json_number_value(json_object_get(prune, "keep"));
    if (json_object_get(prune, "merges") != NULL)
        desc.merges = (int32_t)dump_integer(prune, "merges");
    return desc;
}

/* l2, received attention and ToMe, ragged from the first layer on, against the same in float64. */
static void pruned(void **state)
{
    (void)state;
    subject s = open_subject(pruned_dump);
    size_t index;
    json_t *prune;
    int n = 0;
    json_array_foreach(json_object_get(s.dump, "pruned"), index, prune)
    {
        rvit_session_desc desc = dump_session_desc(s.dump, &s.info);
        desc.prune = prune_of(prune);
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(s.model, &desc, &session));
        dump_run_all(s.dump, &s.info, session);
        const double most = 1e-5 * dump_largest(s.dump);
        const double difference = dump_difference(json_object_get(prune, "outputs"), rvit_session_logits(session), s.info.n_classes, NULL);
        const double unpruned = dump_difference(json_object_get(s.dump, "outputs"), rvit_session_logits(session), s.info.n_classes, NULL);
        printf("%-10s %.2e of %.2e, from the unpruned %.2e\n", dump_text(prune, "policy"), difference, most, unpruned);
        assert_true(difference <= most && unpruned > 1000 * most);
        rvit_session_destroy(session);
        n++;
    }
    assert_int_equal(n, 3);
    close_subject(&s);
}

SUITE(dump_native_suite, TEST(pruned));
