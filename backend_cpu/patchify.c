/* The patchify op. A task reads patches of one line of one image, so that the image is read in order. */
#include <string.h>

#include "backend_cpu/cpu.h"

typedef struct patchify_job {
    const rvit_cpu_kernels *kernels;
    const float *images;
    char *out;
    int64_t channels, height, width, patch_size, grid_width, tokens, n_prefix, out_stride, split;
    rvit_dtype dtype;
} patchify_job;

/* Copies n runs of a line of pixels to n rows. second: byte offset of the rounding errors in a row; 0: not stored. */
static void write_runs(const patchify_job *job, const float *pixels, int64_t n, char *out, int64_t second)
{
    const int64_t patch = job->patch_size, out_stride = job->out_stride * rvit_cpu_size(job->dtype);
    if (job->dtype != RVIT_F32)
        job->kernels->patchify(pixels, patch, n, job->dtype, out, out_stride, second);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(out + i * out_stride, pixels + i * patch, (size_t)patch * sizeof *pixels);
}

/* n patches of a line of an image, starting at patch x. */
static void patchify_line(const patchify_job *job, int64_t image, int64_t line, int64_t x, int64_t n, char *out)
{
    const int64_t patch = job->patch_size, width = job->channels * patch * patch, part = job->out_stride / job->split;
    const int64_t element = rvit_cpu_size(job->dtype), second = job->split == 2 ? part : 0;
    for (int64_t k = 0; k < n * job->split && part > width; k++)
        memset(out + (k * part + width) * element, 0, (size_t)((part - width) * element));
    for (int64_t channel = 0; channel < job->channels; channel++)
        for (int64_t y = 0; y < patch; y++) {
            const int64_t pixel_line = (image * job->channels + channel) * job->height + line * patch + y;
            write_runs(job, job->images + pixel_line * job->width + x * patch, n, out + (channel * patch + y) * patch * element,
                       second * element);
        }
}

static void patchify_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const patchify_job *job = context;
    const int64_t row_size = job->out_stride * rvit_cpu_size(job->dtype);
    for (int64_t row = begin, n = 1; row < end; row += n) {
        const int64_t image = row / job->tokens, patch = row % job->tokens - job->n_prefix;
        char *out = job->out + row * row_size;
        n = 1;
        if (patch < 0) {
            memset(out, 0, (size_t)row_size);
            continue;
        }
        const int64_t line = patch / job->grid_width, x = patch % job->grid_width;
        n = end - row < job->grid_width - x ? end - row : job->grid_width - x;
        patchify_line(job, image, line, x, n, out);
    }
}

static int64_t tokens_of(const rvit_patchify_args *a)
{
    return a->n_prefix + (int64_t)(a->image_height / a->patch_size) * (a->image_width / a->patch_size);
}

static patchify_job job_of(const rvit_cpu_device *device, const rvit_patchify_args *a)
{
    return (patchify_job){
        .kernels = device->kernels,
        .images = rvit_cpu_at(a->images),
        .out = rvit_cpu_at(a->out),
        .channels = a->channels,
        .height = a->image_height,
        .width = a->image_width,
        .patch_size = a->patch_size,
        .grid_width = a->image_width / a->patch_size,
        .tokens = tokens_of(a),
        .n_prefix = a->n_prefix,
        .out_stride = a->out_stride,
        .split = a->split,
        .dtype = a->dtype,
    };
}

int64_t rvit_cpu_patchify_rows(const rvit_patchify_args *a)
{
    return a->n_images * tokens_of(a);
}

int64_t rvit_cpu_patchify_layout(const rvit_patchify_args *a)
{
    const int32_t *live_images = rvit_cpu_at(a->live_images);
    const int64_t n_images = live_images == NULL ? a->n_images : rvit_cpu_clamp(*live_images, 0, a->n_images), tokens = tokens_of(a);
    int32_t *cu_seqlens = rvit_cpu_at(a->cu_seqlens);
    if (cu_seqlens != NULL)
        for (int64_t i = 0; i <= a->n_images; i++)
            cu_seqlens[i] = (int32_t)((i < n_images ? i : n_images) * tokens);
    return n_images * tokens;
}

void rvit_cpu_patchify_row_tile(rvit_cpu_device *device, const rvit_patchify_args *a, int64_t begin, int64_t end, int thread)
{
    patchify_job job = job_of(device, a);
    patchify_rows(&job, begin, end, thread);
}

void rvit_cpu_patchify(rvit_cpu_device *device, const rvit_patchify_args *a)
{
    patchify_job job = job_of(device, a);
    const int64_t rows = rvit_cpu_patchify_layout(a);
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, job.grid_width), patchify_rows, &job);
}
