/* Pruning in models with registers, without a CLS token, without a prefix at all, with rotary positions and every pooling, against float64:
   prefix tokens stay, positions travel with their rows, heads read what is left. */
#include "model.h"

#include <math.h>

enum { N_IMAGES = 3, MERGES = 5, STAGES = 2 };

#define SIZES .dim = 128, .depth = 4, .mlp = 256, .image_size = 48, .patch_size = 8, .n_classes = 7, .stored = RVIT_F32
static const toy_spec registers = {SIZES, .seed = 91, .n_registers = 4};
static const toy_spec registers_mean = {SIZES, .seed = 92, .n_registers = 4, .no_cls = 1, .pool = TOY_MEAN};
static const toy_spec patches_mean = {SIZES, .seed = 93, .rotary = 1, .no_cls = 1, .pool = TOY_MEAN};
static const toy_spec patches_map = {SIZES, .seed = 94, .no_cls = 1, .pool = TOY_MAP};
static const toy_spec registers_map = {SIZES, .seed = 95, .n_registers = 4, .pool = TOY_MAP};
static const toy_spec registers_rotary = {SIZES, .seed = 96, .n_registers = 4, .rotary = 1, .pool = TOY_MEAN};
static const toy_spec *const specs[] = {&registers, &registers_mean, &patches_mean, &patches_map, &registers_map, &registers_rotary};
enum { N_SPECS = sizeof specs / sizeof specs[0] };

static const int32_t blocks[STAGES] = {0, 2};

/* What a policy cannot be without; NULL: this model has it. */
static const char *lacking(const toy_spec *spec, int policy)
{
    switch (policy) {
    case RVIT_PRUNE_EVIT:
    case RVIT_PRUNE_EVIT_FUSED:
    case RVIT_PRUNE_EVIT_PAPER:
    case RVIT_PRUNE_ATS:
    case RVIT_PRUNE_ATS_PAPER:
        return spec->no_cls ? "the CLS token, but the model has none" : NULL;
    case RVIT_PRUNE_DYNAMICVIT:
    case RVIT_PRUNE_DYNAMICVIT_GATE:
        return "tensor 'score_predictor.0";
    default:
        return NULL;
    }
}

static rvit_session_desc desc_of(int policy)
{
    rvit_session_desc desc = policy_desc(policy, N_IMAGES);
    memcpy(desc.prune.blocks, blocks, sizeof blocks);
    if (policy == RVIT_PRUNE_TOME)
        desc.prune.merges = MERGES;
    return desc;
}

/* The stages of an image, as the session decided. */
static void stages_of(const rvit_session *session, int policy, int32_t image, toy_stage *stages)
{
    for (int32_t s = 0; s < STAGES; s++) {
        const int32_t *cu = rvit_session_cu_seqlens(session, s);
        stages[s] = (toy_stage){.block = blocks[s],
                                .inside_block = policy == RVIT_PRUNE_EVIT || policy == RVIT_PRUNE_ATS,
                                .kept = rvit_session_kept(session, s, image),
                                .n_kept = cu[image + 1] - cu[image],
                                .merges = policy == RVIT_PRUNE_TOME ? MERGES : 0};
        assert_non_null(stages[s].kept);
    }
}

static void expect_prefix(const toy *m, const toy_stage *stage, int policy)
{
    if (stage->n_kept < m->n_prefix)
        fail_msg("policy %d, %d prefix tokens: %d tokens are left", policy, m->n_prefix, stage->n_kept);
    for (int32_t t = 0; t < m->n_prefix; t++)
        if (stage->kept[t] != t)
            fail_msg("policy %d: row %d is of token %d, should be of a prefix token", policy, t, stage->kept[t]);
    if (stage->n_kept <= (m->spec.pool == TOY_CLS ? 0 : m->n_prefix))
        fail_msg("policy %d: nothing is left for the head", policy);
}

static void check(const toy *m, rvit_model *model, int policy, const rvit_session_desc *desc)
{
    const float *images = toy_images(m, N_IMAGES, 3);
    rvit_session *session = open_session(model, desc);
    const float *logits = run_session(session, m, images, N_IMAGES, NULL);
    for (int32_t n = 0; n < N_IMAGES; n++) {
        toy_stage stages[STAGES];
        stages_of(session, policy, n, stages);
        for (int s = 0; s < STAGES; s++)
            expect_prefix(m, &stages[s], policy);
        if (policy == RVIT_PRUNE_EVIT_FUSED)
            continue; /* float64 fuses nothing */
        double wanted[16];
        toy_forward(m, images + (int64_t)n * m->pixels, stages, STAGES, wanted, NULL);
        for (int32_t c = 0; c < m->spec.n_classes; c++) {
            const double got = (double)logits[n * m->spec.n_classes + c];
            if (!(fabs(got - wanted[c]) <= 1e-4))
                fail_msg("policy %d, model %d, image %d: logit %d is %.9g, should be %.9g", policy, (int)m->spec.seed, n, c, got,
                         wanted[c]);
        }
    }
}

/* Every policy in every model: refused, or as float64 has it. */
static void every_policy(void **state)
{
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        const toy *m = toy_new(specs[i]);
        rvit_model *model = open_model(m, RVIT_F32);
        for (int policy = RVIT_PRUNE_L2; policy <= RVIT_PRUNE_RANDOM; policy++) {
            const rvit_session_desc desc = desc_of(policy);
            const char *without = lacking(specs[i], policy);
            rvit_session *session = NULL;
            if (policy == RVIT_PRUNE_MASK || leaves_out(i + policy, 3))
                continue;
            if (without != NULL)
                expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, without);
            else
                check(m, model, policy, &desc);
        }
        model_teardown(NULL);
    }
}

/* What would drop all drops all but the prefix, and where no CLS row is read, but the best patch. */
static void nothing_left(void **state)
{
    (void)state;
    static const int policies[] = {RVIT_PRUNE_L2, RVIT_PRUNE_L2_THRESHOLD, RVIT_PRUNE_RANDOM};
    for (int i = 0; i < N_SPECS; i++) {
        const toy *m = toy_new(specs[i]);
        rvit_model *model = open_model(m, RVIT_F32);
        for (int p = 0; p < 3; p++) {
            rvit_session_desc desc = desc_of(policies[p]);
            desc.prune.keep = policies[p] == RVIT_PRUNE_L2_THRESHOLD ? -1 : 0;
            if (policies[p] == RVIT_PRUNE_L2_THRESHOLD)
                desc.prune.threshold = 1e9;
            if (policies[p] == RVIT_PRUNE_L2 && m->n_prefix > 0)
                continue; /* the prefix competes, and may win */
            check(m, model, policies[p], &desc);
        }
        model_teardown(NULL);
    }
}

SUITE(families_suite, MODEL_TEST(every_policy), MODEL_TEST(nothing_left));
