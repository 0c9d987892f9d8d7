/* The head op: tiles of images and classes. */
#include <string.h>

#include "backend_cpu/cpu.h"

typedef struct head_job {
    const rvit_cpu_device *device;
    const rvit_head_args *args;
    rvit_cpu_head_tile whole;
    const char *x;
    float *logits;
    int64_t class_tiles;
} head_job;

static void head_tiles(void *context, int64_t begin, int64_t end, int thread)
{
    const head_job *job = context;
    const rvit_head_args *a = job->args;
    for (int64_t i = begin; i < end; i++) {
        rvit_cpu_head_tile tile = job->whole;
        const int64_t first_image = i / job->class_tiles * RVIT_CPU_HEAD_IMAGES;
        tile.first_class = i % job->class_tiles * RVIT_CPU_HEAD_CLASSES;
        const int64_t classes = a->n_classes - tile.first_class;
        tile.n_classes = classes < RVIT_CPU_HEAD_CLASSES ? classes : RVIT_CPU_HEAD_CLASSES;
        tile.n_images = 0;
        for (int64_t image = first_image; image < first_image + RVIT_CPU_HEAD_IMAGES && image < a->n_images; image++) {
            const rvit_cpu_range rows = rvit_cpu_head_rows(a, image);
            float *logits = job->logits + image * a->n_classes;
            if (rows.len < a->n_tokens) {
                memset(logits + tile.first_class, 0, (size_t)tile.n_classes * sizeof *logits);
                continue;
            }
            tile.x[tile.n_images] = job->x + rows.begin * a->dim * rvit_cpu_size(tile.dtype);
            tile.logits[tile.n_images++] = logits;
        }
        if (tile.n_images > 0)
            job->device->kernels->head(&tile, rvit_cpu_scratch(job->device, thread));
    }
}

void rvit_cpu_head(rvit_cpu_device *device, const rvit_head_args *a)
{
    head_job job = {
        .device = device,
        .args = a,
        .whole =
            {
                .gamma = rvit_cpu_at(a->gamma),
                .beta = rvit_cpu_at(a->beta),
                .weight = rvit_cpu_at(a->weight),
                .bias = rvit_cpu_at(a->bias),
                .dim = a->dim,
                .n_tokens = a->n_tokens,
                .eps = a->eps,
                .dtype = a->dtype,
                .weight_dtype = a->weight_dtype,
                .rms = a->norm == RVIT_NORM_RMS,
            },
        .x = rvit_cpu_at(a->x),
        .logits = rvit_cpu_at(a->logits),
        .class_tiles = ((int64_t)a->n_classes + RVIT_CPU_HEAD_CLASSES - 1) / RVIT_CPU_HEAD_CLASSES,
    };
    const int64_t image_tiles = ((int64_t)a->n_images + RVIT_CPU_HEAD_IMAGES - 1) / RVIT_CPU_HEAD_IMAGES;
    rvit_cpu_pool_run(device->pool, image_tiles * job.class_tiles, 1, head_tiles, &job);
}
