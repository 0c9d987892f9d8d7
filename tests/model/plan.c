/* Checks that the arrays of a session's plan do not overlap and are within the memory that it requests. */
#include "model.h"

#include "core/plan/plan.h"

static const toy_spec spec = {.dim = 128,
                              .depth = 4,
                              .mlp = 256,
                              .image_size = 64,
                              .patch_size = 8,
                              .n_classes = 7,
                              .stored = RVIT_F32,
                              .seed = 73,
                              .n_predictors = 2,
                              .rotary = 1};

enum { MAX_ARRAYS = 64 };

typedef struct arrays {
    rvit_session_array all[MAX_ARRAYS];
    int n;
} arrays;

static void add(arrays *a, rvit_session_array one)
{
    assert_true(a->n < MAX_ARRAYS);
    if (one.arena != RVIT_ARENA_NONE)
        a->all[a->n++] = one;
}

static arrays arrays_of(const rvit_session_plan *plan)
{
    arrays a = {.n = 0};
#define RVIT_SESSION_ARRAY(arena, name, type, when, n) add(&a, plan->name);
#include "core/plan/arrays.def"
    for (int32_t i = 0; i < plan->schedule.n_stages; i++) {
#define RVIT_STAGE_ARRAY(arena, name, type, when, n) add(&a, plan->stages[i].name);
#include "core/plan/arrays.def"
    }
    const rvit_session_array copied[] = {plan->tables, plan->tables_upload, plan->results, plan->results_readback};
    for (int i = 0; i < 4; i++)
        if (copied[i].size > 0)
            add(&a, copied[i]);
    return a;
}

static void expect_disjoint(const rvit_session_plan *plan)
{
    const arrays a = arrays_of(plan);
    for (int i = 0; i < a.n; i++) {
        assert_true(a.all[i].size > 0 && a.all[i].offset >= 0 && a.all[i].offset % 256 == 0);
        assert_true(a.all[i].offset + a.all[i].size <= plan->sizes[a.all[i].arena]);
        for (int j = 0; j < i; j++)
            assert_true(a.all[i].arena != a.all[j].arena || a.all[i].offset + a.all[i].size <= a.all[j].offset ||
                        a.all[j].offset + a.all[j].size <= a.all[i].offset);
    }
    assert_int_equal(plan->tables.size, plan->sizes[RVIT_ARENA_TABLES]);
    assert_int_equal(plan->results.size, plan->sizes[RVIT_ARENA_RESULTS]);
}

static void arrays_are_disjoint(void **state)
{
    (void)state;
    rvit_model *model = open_model(toy_new(&spec), RVIT_F16);
    for (int policy = RVIT_PRUNE_NONE; policy <= LAST_POLICY; policy = next_policy(policy)) {
        for (int variant = 0; variant < 4; variant++) {
            rvit_session_desc desc = policy_desc(policy, 3);
            desc.fixed_batch = desc.trace = variant % 2;
            desc.outputs = variant / 2 * (2 * RVIT_OUTPUT_RECEIVED_ATTENTION - 1);
            const rvit_session_plan *plan = NULL;
            expect_ok(rvit_session_plan_create(model, &desc, &plan));
            expect_disjoint(plan);
            rvit_session_plan_destroy(model, plan);
        }
    }
}

SUITE(plan_suite, MODEL_TEST(arrays_are_disjoint));
