/* Failures outside the library: a file that shrinks while it is read, too little device memory, a lost device. The last two run only on the
   emulated CUDA driver, which can be made to fail (tests/cuda_emulation/README.md). */
#include "model.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const toy_spec spec = {
    .dim = 64, .depth = 2, .mlp = 64, .image_size = 32, .patch_size = 16, .n_classes = 5, .stored = RVIT_F32, .seed = 91};

enum { N_IMAGES = 2, N_RUNS = 3, MOST_FAULTS = 500 };

static void shrinking_file(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    for (int i = 0; i < 5; i++) {
        const char *path = toy_write(m, "shrinking.safetensors");
        struct stat info;
        assert_int_equal(stat(path, &info), 0);
        rvit_checkpoint *checkpoint = NULL;
        expect_ok(rvit_checkpoint_open(path, NULL, &checkpoint));
        const off_t sizes[5] = {0, 7, 100, info.st_size / 2, info.st_size - 1};
        assert_int_equal(truncate(path, sizes[i]), 0);
        rvit_model *model = NULL;
        expect_status(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model), RVIT_BAD_FILE, NULL);
        assert_non_null(strstr(rvit_status_detail(), "shrinking.safetensors"));
        assert_null(model);
        rvit_checkpoint_destroy(checkpoint);
        expect_status(rvit_checkpoint_open(path, NULL, &checkpoint), RVIT_BAD_FILE, NULL);
    }
    (void)open_model(m, RVIT_F32);
}

/* Creates a device, a model and a session, runs it, and destroys everything, whatever fails. */
static rvit_status run_all(const rvit_checkpoint *checkpoint, const float *images)
{
    static const int32_t blocks[] = {0, 1};
    rvit_device *device = NULL;
    rvit_model *model = NULL;
    rvit_session *session = NULL;
    const rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_EVIT, 0.5, blocks, 2);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = N_IMAGES;
    args.input.data = images;
    rvit_status status = rvit_device_create(&H.desc, &device);
    if (status == RVIT_OK)
        status = rvit_model_create(device, checkpoint, NULL, &model);
    if (status == RVIT_OK)
        status = rvit_session_create(model, &desc, &session);
    for (int i = 0; i < N_RUNS && status == RVIT_OK; i++)
        status = rvit_session_run(session, &args, NULL);
    if (status != RVIT_OK && !rvit_status_detail()[0])
        status = RVIT_INTERNAL;
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    rvit_device_destroy(device);
    return status;
}

/* The same in a child process, in which the n-th event fails. A lost device remains lost for the process. */
static rvit_status run_with_fault(const char *variable, int n, const rvit_checkpoint *checkpoint, const float *images)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char text[16];
        snprintf(text, sizeof text, "%d", n);
        setenv(variable, text, 1);
        _exit((int)run_all(checkpoint, images));
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    if (!WIFEXITED(how))
        fail_msg("%s=%d: ended by signal %d", variable, n, WTERMSIG(how));
    return (rvit_status)WEXITSTATUS(how);
}

/* Makes the n-th event fail, for each n, until a run has fewer events. */
static void every_fault(const char *variable, rvit_status one, rvit_status other)
{
    if (strstr(H.info.name, "CUDA emulation") == NULL)
        skip();
    const toy *m = toy_new(&spec);
    const rvit_checkpoint *checkpoint = open_checkpoint(m, "faults.safetensors");
    const float *images = toy_images(m, N_IMAGES, 3);
    int n = 1;
    for (; n < MOST_FAULTS; n++) {
        const rvit_status status = run_with_fault(variable, n, checkpoint, images);
        if (status == RVIT_OK)
            break;
        if (status != one && status != other)
            fail_msg("%s=%d: %s", variable, n, rvit_status_name(status));
    }
    assert_true(n > N_RUNS && n < MOST_FAULTS);
    print_message("%s: %d faults\n", variable, n - 1);
    assert_int_equal(run_all(checkpoint, images), RVIT_OK);
}

static void out_of_device_memory(void **state)
{
    (void)state;
    every_fault("RVIT_EMU_FAIL_ALLOC", RVIT_OUT_OF_DEVICE_MEMORY, RVIT_OUT_OF_HOST_MEMORY);
}

static void lost_device(void **state)
{
    (void)state;
    every_fault("RVIT_EMU_LOST", RVIT_DEVICE_LOST, RVIT_DEVICE_LOST);
}

SUITE(model_fault_suite, MODEL_TEST(shrinking_file), MODEL_TEST(out_of_device_memory), MODEL_TEST(lost_device));
