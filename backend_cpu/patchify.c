/* Patchify: processes one line of patches of one image at a time, so that the image is read in order. */
#include <string.h>

#include "backend_cpu/cpu.h"

typedef struct patchify_job {
    const rvit_cpu_kernels *kernels;
    const float *images;
    void *out;
    int64_t channels, height, width, patch_size, grid_height, grid_width, n_prefix, out_stride, parts;
    rvit_dtype dtype;
} patchify_job;

/* Hands the pieces of a line of pixels to as many rows. second: bytes from a row's first part to its second, which takes what rounding has
   taken from the pixels; 0: without. */
static void cut_line(const patchify_job *job, const float *pixels, char *out, int64_t second)
{
    const int64_t patch = job->patch_size, out_stride = job->out_stride * rvit_cpu_size(job->dtype);
    if (job->dtype != RVIT_F32)
        job->kernels->cut(pixels, patch, job->grid_width, job->dtype, out, out_stride, second);
    else
        for (int64_t i = 0; i < job->grid_width; i++)
            memcpy(out + i * out_stride, pixels + i * patch, (size_t)patch * sizeof *pixels);
}

static void patchify_lines(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const patchify_job *job = context;
    const int64_t patch = job->patch_size, width = job->channels * patch * patch, stride = job->out_stride;
    const int64_t element = rvit_cpu_size(job->dtype), part = stride / job->parts, second = job->parts == 2 ? part : 0;
    const int64_t tokens = job->n_prefix + job->grid_height * job->grid_width;
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / job->grid_height, line = i % job->grid_height;
        if (line == 0)
            memset((char *)job->out + image * tokens * stride * element, 0, (size_t)(job->n_prefix * stride * element));
        const int64_t row = image * tokens + job->n_prefix + line * job->grid_width;
        for (int64_t k = 0; k < job->grid_width * job->parts && part > width; k++)
            memset((char *)job->out + (row * stride + k * part + width) * element, 0, (size_t)((part - width) * element));
        for (int64_t channel = 0; channel < job->channels; channel++)
            for (int64_t y = 0; y < patch; y++) {
                const float *pixels = job->images + ((image * job->channels + channel) * job->height + line * patch + y) * job->width;
                char *out = (char *)job->out + (row * stride + (channel * patch + y) * patch) * element;
                cut_line(job, pixels, out, second * element);
            }
    }
}

void rvit_cpu_patchify(rvit_cpu_device *device, const rvit_patchify_args *a)
{
    patchify_job job = {
        .kernels = device->kernels,
        .images = rvit_cpu_at(a->images),
        .out = rvit_cpu_at(a->out),
        .channels = a->channels,
        .height = a->image_height,
        .width = a->image_width,
        .patch_size = a->patch_size,
        .grid_height = a->image_height / a->patch_size,
        .grid_width = a->image_width / a->patch_size,
        .n_prefix = a->n_prefix,
        .out_stride = a->out_stride,
        .parts = a->parts,
        .dtype = a->dtype,
    };
    const int32_t *live_images = rvit_cpu_at(a->live_images);
    const int64_t n_images = live_images == NULL ? a->n_images : rvit_cpu_clamp(*live_images, 0, a->n_images);
    const int64_t lines = n_images * job.grid_height;
    rvit_cpu_pool_run(device->pool, lines, rvit_cpu_grain(device->pool, lines, 1), patchify_lines, &job);

    int32_t *cu_seqlens = rvit_cpu_at(a->cu_seqlens);
    const int64_t tokens = job.n_prefix + job.grid_height * job.grid_width;
    if (cu_seqlens != NULL)
        for (int64_t i = 0; i <= a->n_images; i++)
            cu_seqlens[i] = (int32_t)((i < n_images ? i : n_images) * tokens);
}
