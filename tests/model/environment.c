/* The floating-point environment of the calling thread (rounding, traps, subnormals) changes no result, causes no trap, and is restored. */
#include "model.h"

#include <fenv.h>

enum { N_IMAGES = 3, CLASSES = 5, SIZE = N_IMAGES * CLASSES * 4 };

typedef enum mode { DEFAULT, UPWARD, FLUSHING, TRAPPING, N_MODES } mode;

#if defined(__x86_64__)
static unsigned control_register(void)
{
    return __builtin_ia32_stmxcsr();
}

static void set_control_register(unsigned value)
{
    __builtin_ia32_ldmxcsr(value);
}
#define FLUSHES 0x8040u /* subnormal numbers, as operands and results */
#elif defined(__aarch64__)
static unsigned control_register(void)
{
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return (unsigned)fpcr;
}

static void set_control_register(unsigned value)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)value) : "memory");
}
#define FLUSHES 0x5000000u /* subnormal numbers; and float16 has no infinity */
#else
static unsigned control_register(void)
{
    return 0;
}

static void set_control_register(unsigned value)
{
    (void)value;
}
#define FLUSHES 0u
#endif

static void enter(mode m)
{
    feclearexcept(FE_ALL_EXCEPT);
    if (m == UPWARD)
        fesetround(FE_UPWARD);
    if (m == FLUSHING)
        set_control_register(control_register() | FLUSHES);
#if defined(__GLIBC__)
    if (m == TRAPPING)
        feenableexcept(FE_ALL_EXCEPT);
#endif
}

/* Everything from opening the file to the logits, on a new device. The test itself performs no floating-point operation here. */
static void run_from_file(const char *path, rvit_dtype dtype, int policy, const float *images, const uint8_t *keep, float *logits)
{
    rvit_device *device = NULL;
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    rvit_session *session = NULL;
    rvit_model_desc model_desc = RVIT_MODEL_DESC_INIT;
    rvit_session_desc desc = policy_desc(policy, N_IMAGES);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    model_desc.dtype = dtype;
    args.n_images = N_IMAGES;
    args.input.data = images;
    args.keep = policy == RVIT_PRUNE_MASK ? keep : NULL;
    expect_ok(rvit_device_create(&H.desc, &device));
    expect_ok(rvit_checkpoint_open(path, NULL, &checkpoint));
    expect_ok(rvit_model_create(device, checkpoint, &model_desc, &model));
    expect_ok(rvit_session_create(model, &desc, &session));
    expect_ok(rvit_session_run(session, &args, logits));
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
    rvit_device_destroy(device);
}

static void float_environment(void **state)
{
    (void)state;
    static const toy_spec spec = {.dim = 64,
                                  .depth = 3,
                                  .mlp = 64,
                                  .image_size = 32,
                                  .patch_size = 8,
                                  .n_classes = CLASSES,
                                  .stored = RVIT_F32,
                                  .seed = 5,
                                  .n_predictors = 2};
    static const int policies[] = {RVIT_PRUNE_NONE, RVIT_PRUNE_MASK, RVIT_PRUNE_ATS, RVIT_PRUNE_RANDOM, RVIT_PRUNE_EVIT};
    const toy *m = toy_new(&spec);
    const char *path = toy_write(m, "toy.safetensors");
    const float *images = toy_images(m, N_IMAGES, 3);
    uint8_t *keep = scratch((size_t)(2 * N_IMAGES * m->tokens));
    memset(keep, 1, (size_t)(2 * N_IMAGES * m->tokens));
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        float logits[N_MODES][N_IMAGES * CLASSES];
        for (int i = 0; i < N_MODES; i++) {
            fenv_t before;
            fegetenv(&before);
            enter((mode)i);
            const unsigned entered = control_register();
            run_from_file(path, p % 2 == 0 ? RVIT_F32 : RVIT_F16, policies[p], images, keep, logits[i]);
            const unsigned left = control_register();
            const int rounding = fegetround(), raised = fetestexcept(FE_ALL_EXCEPT);
            fesetenv(&before);
            set_control_register(control_register() & ~FLUSHES);
            assert_int_equal(left, entered);
            assert_int_equal(rounding, i == UPWARD ? FE_UPWARD : FE_TONEAREST);
            assert_int_equal(raised, 0);
            assert_memory_equal(logits[i], logits[DEFAULT], SIZE);
        }
    }
}

/* Signalling NaNs in a file must not trap, although converting them raises FE_INVALID. */
static void signalling_weights(void **state)
{
    (void)state;
    static const toy_spec spec = {
        .dim = 64, .depth = 1, .mlp = 64, .image_size = 32, .patch_size = 8, .n_classes = CLASSES, .stored = RVIT_F32, .seed = 6};
    static const uint32_t signalling = 0x7f800001;
    const toy *m = toy_new(&spec);
    for (int i = 0; i < m->n_tensors; i++)
        memcpy(m->tensors[i].values, &signalling, sizeof signalling);
    rvit_checkpoint *checkpoint = open_checkpoint(m, "toy.safetensors");
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    desc.dtype = RVIT_F16;
    rvit_model *model = NULL;
    fenv_t before;
    fegetenv(&before);
    enter(TRAPPING);
    const rvit_status status = rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model);
    fesetenv(&before);
    rvit_model_destroy(model);
    expect_ok(status);
}

SUITE(environment_suite, MODEL_TEST(float_environment), MODEL_TEST(signalling_weights));
