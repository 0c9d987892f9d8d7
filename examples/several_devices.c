/* Uses several devices in one process. Each has its own thread, model and session, and the batches are distributed among them. The threads
   share no lock, so two GPUs have twice the throughput of one. Checks that all devices give the logits of the first one.

   usage: several_devices [MODEL.safetensors [BACKEND [DEVICES [ROUNDS]]]]
   Defaults: cuda, 2, 1. Uses that many CPU devices if there are not enough GPUs. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <raggedvit/raggedvit.h>

enum { MAX_DEVICES = 16, BATCH = 8, BATCHES = 8, IMAGES = BATCH * BATCHES };

struct worker {
    rvit_device *device;
    rvit_model *model;
    rvit_session *session;
    const float *images; /* shared by all workers */
    float *logits;       /* also shared; each worker writes its part */
    size_t image_length, n_classes;
    int first, step, end; /* runs batches first, first + step, ... below end; batch BATCHES is batch 0 again */
};

static void need(rvit_status status)
{
    if (status != RVIT_OK) {
        fprintf(stderr, "%s: %s\n", rvit_status_name(status), rvit_status_detail());
        exit(1);
    }
}

static void *work(void *argument)
{
    const struct worker *self = argument;
    for (int i = self->first; i < self->end; i += self->step) {
        const size_t image = (size_t)(i % BATCHES) * BATCH;
        rvit_run_args run = RVIT_RUN_ARGS_INIT;
        run.n_images = BATCH;
        run.input.data = self->images + image * self->image_length;
        need(rvit_session_run(self->session, &run, self->logits + image * self->n_classes));
    }
    return NULL;
}

/* Returns the images per second of n concurrent workers. */
static double measure(struct worker *workers, int n, int n_batches, float *logits)
{
    pthread_t threads[MAX_DEVICES];
    struct timespec begin, end;
    timespec_get(&begin, TIME_UTC);
    for (int i = 0; i < n; i++) {
        workers[i].first = i, workers[i].step = n, workers[i].end = n_batches, workers[i].logits = logits;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    timespec_get(&end, TIME_UTC);
    return n_batches * BATCH / ((double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9);
}

/* Opens devices 0 to n - 1 of a backend. The CPU is one device, which can be opened several times. */
static rvit_status open_devices(rvit_backend backend, int n, struct worker *workers)
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    rvit_status status = RVIT_OK;
    desc.backend = backend, desc.n_threads = 1; /* of a CPU device */
    for (int i = 0; i < n && status == RVIT_OK; i++) {
        desc.index = backend == RVIT_BACKEND_CPU ? 0 : i;
        status = rvit_device_create(&desc, &workers[i].device);
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "examples/data/deit_tiny_cifar10.safetensors", *backend = argc > 2 ? argv[2] : "cuda";
    const int wanted = argc > 3 ? atoi(argv[3]) : 2, rounds = argc > 4 ? atoi(argv[4]) : 1;
    if (wanted < 1 || wanted > MAX_DEVICES || rounds < 1)
        return 2;
    struct worker workers[MAX_DEVICES] = {0};
    const int on_cpu = strcmp(backend, "cpu") == 0 || open_devices(RVIT_BACKEND_CUDA, wanted, workers) != RVIT_OK;
    for (int i = 0; i < wanted && on_cpu; i++)
        rvit_device_destroy(workers[i].device); /* the GPUs, if there are fewer than wanted */
    need(on_cpu ? open_devices(RVIT_BACKEND_CPU, wanted, workers) : RVIT_OK);
    rvit_checkpoint *checkpoint = NULL;
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    need(rvit_checkpoint_open(path, NULL, &checkpoint)); /* read once, and copied to each device */
    need(rvit_checkpoint_get_model_info(checkpoint, &info));
    const size_t length = (size_t)info.channels * (size_t)info.image_height * (size_t)info.image_width;
    const size_t n_logits = IMAGES * (size_t)info.n_classes;
    float *images = malloc(IMAGES * length * sizeof *images), *logits = calloc(2 * n_logits, sizeof *logits);
    if (images == NULL || logits == NULL)
        return 1;
    for (size_t i = 0; i < IMAGES * length; i++)
        images[i] = (float)(i * 2654435761u % 65536) / 16384 - 2;
    for (int i = 0; i < wanted; i++) {
        rvit_prune_desc prune = RVIT_PRUNE_DESC_INIT;
        rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
        prune.type = RVIT_PRUNE_L2, desc.max_images = BATCH, desc.prune = &prune;
        need(rvit_model_create(workers[i].device, checkpoint, NULL, &workers[i].model));
        need(rvit_session_create(workers[i].model, &desc, &workers[i].session));
        workers[i].images = images, workers[i].image_length = length, workers[i].n_classes = (size_t)info.n_classes;
    }
    measure(workers, 1, BATCHES, logits);
    measure(workers, wanted, BATCHES, logits + n_logits);
    const int equal = !memcmp(logits, logits + n_logits, n_logits * sizeof *logits);
    const double one = measure(workers, 1, rounds * BATCHES, logits), all = measure(workers, wanted, rounds * wanted * BATCHES, logits);
    printf("1 %s device: %.1f images/s; %d: %.1f images/s, %.2f times as many; logits %s\n", on_cpu ? "cpu" : "cuda", one, wanted, all,
           all / one, equal ? "equal" : "DIFFERENT");
    for (int i = 0; i < wanted; i++) {
        rvit_session_destroy(workers[i].session);
        rvit_model_destroy(workers[i].model);
        rvit_device_destroy(workers[i].device);
    }
    rvit_checkpoint_destroy(checkpoint);
    free(images), free(logits);
    return equal ? 0 : 1;
}
