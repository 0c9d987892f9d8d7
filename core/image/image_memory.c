/* Locates the pixels of images: in the staging buffer already, copied to it, or on the device. */
#include <string.h>

#include "core/image/image_writer.h"

#define refuse rvit_image_refuse

int32_t rvit_image_pixel_size(rvit_image_format format)
{
    static const int32_t sizes[] = {[RVIT_IMAGE_RGB8] = 3, [RVIT_IMAGE_BGR8] = 3,       [RVIT_IMAGE_RGBA8] = 4,     [RVIT_IMAGE_GRAY8] = 1,
                                    [RVIT_IMAGE_NV12] = 1, [RVIT_IMAGE_PLANAR_F32] = 4, [RVIT_IMAGE_PLANAR_F16] = 2};
    return sizes[format];
}

rvit_status rvit_image_check_planes(rvit_staged_image *p)
{
    rvit_image *image = &p->image;
    const int32_t element = rvit_image_pixel_size(image->format), nv12 = image->format == RVIT_IMAGE_NV12;
    p->line_size = nv12 ? (image->width + 1) / 2 * 2 : (int64_t)image->width * element;
    if (image->stride == 0)
        image->stride = p->line_size;
    if (image->stride < p->line_size || image->stride > INT32_MAX)
        return refuse(RVIT_INVALID_ARGUMENT, p, "stride is %lld, expected %lld..%d bytes for a line of %d pixels", (long long)image->stride,
                      (long long)p->line_size, INT32_MAX, (int)image->width);
    if (rvit_image_is_planar(image->format) && image->stride % element != 0)
        return refuse(RVIT_INVALID_ARGUMENT, p, "stride is %lld, expected a multiple of %d", (long long)image->stride, (int)element);
    const int64_t plane = image->stride * (image->height - 1) + p->line_size;
    p->size = plane;
    if (!nv12 && !rvit_image_is_planar(image->format)) {
        if (image->plane_offset != 0)
            return refuse(RVIT_INVALID_ARGUMENT, p, "plane_offset is %lld, expected 0: the format has one plane",
                          (long long)image->plane_offset);
        return RVIT_OK;
    }
    p->plane_offset = image->plane_offset != 0 ? image->plane_offset : image->stride * image->height;
    if (p->plane_offset < plane || p->plane_offset > INT64_MAX / 8 ||
        (rvit_image_is_planar(image->format) && p->plane_offset % element != 0))
        return refuse(RVIT_INVALID_ARGUMENT, p,
                      "plane_offset is %lld: planes of %lld bytes overlap, or it is not a multiple of the element size",
                      (long long)image->plane_offset, (long long)plane);
    p->size = nv12 ? p->plane_offset + image->stride * ((image->height + 1) / 2 - 1) + p->line_size : 2 * p->plane_offset + plane;
    return RVIT_OK;
}

static rvit_status check_view(const rvit_image_writer *w, const rvit_staged_image *p)
{
    const rvit_image *image = &p->image;
    if (w->args.pixels.buffer == NULL)
        return refuse(RVIT_INVALID_ARGUMENT, p, "%s", "view is set, but pixels (the device buffer that holds the images) is not");
    if (image->view.buffer != w->args.pixels.buffer)
        return refuse(RVIT_INVALID_ARGUMENT, p, "%s", "view and pixels are in different buffers");
    const int64_t begin = image->view.offset - w->args.pixels.offset;
    if (image->view.offset < w->args.pixels.offset || begin % 4 != 0 || begin > w->args.pixels_size - p->size)
        return refuse(RVIT_INVALID_ARGUMENT, p, "view is at offset %lld with %lld bytes, expected a multiple of 4 within pixels",
                      (long long)image->view.offset, (long long)p->size);
    return RVIT_OK;
}

/* Pixels in the staging buffer stay in place, so they must be after everything that is written. */
static rvit_status check_data(const rvit_image_writer *w, rvit_staged_image *p)
{
    if (w->staging == NULL)
        return RVIT_OK;
    if (p->image.data == NULL)
        return refuse(RVIT_INVALID_ARGUMENT, p, "%s", "data is NULL");
    const uintptr_t data = (uintptr_t)p->image.data, staging = (uintptr_t)w->staging;
    p->in_place = data >= staging && data - staging < (uintptr_t)w->size;
    if (!p->in_place)
        return RVIT_OK;
    const int64_t first = rvit_images_table_size(w->args.max_images), begin = (int64_t)(data - staging);
    if (begin < first || begin % 4 != 0 || p->size > w->size - begin)
        return refuse(
            RVIT_INVALID_ARGUMENT, p,
            "data is in the staging buffer, with %lld bytes from offset %lld, expected an offset that is a multiple of 4, at least %lld, "
            "and an end within its %lld bytes",
            (long long)p->size, (long long)begin, (long long)first, (long long)w->size);
    return RVIT_OK;
}

rvit_status rvit_image_check_memory(const rvit_image_writer *w, rvit_staged_image *p)
{
    RVIT_TRY(rvit_image_check_planes(p));
    if (p->image.view.buffer == NULL)
        return check_data(w, p);
    if (p->image.data != NULL)
        return refuse(RVIT_INVALID_ARGUMENT, p, "%s", "both data and view are set");
    return check_view(w, p);
}

/* Copies contiguous lines at once. Reads nothing past the image's last byte. */
static void copy_lines(const uint8_t *from, int64_t stride, int64_t line_size, int64_t n, uint8_t *to)
{
    if (stride == line_size) {
        memcpy(to, from, (size_t)(line_size * n));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * line_size, from + i * stride, (size_t)line_size);
}

/* Copies pixels from the host without the gaps between lines and planes. */
static void copy_pixels(rvit_image_writer *w, rvit_staged_image *p)
{
    const rvit_image *image = &p->image;
    const int64_t plane = p->line_size * image->height, n_second = (image->height + 1) / 2;
    const int32_t n_planes = rvit_image_is_planar(image->format) ? 3 : 1;
    const int64_t size = image->format == RVIT_IMAGE_NV12 ? plane + p->line_size * n_second : plane * n_planes;
    const uint8_t *data = image->data;
    const int64_t blocks = (size + 15) / 16; /* of 16 bytes */
    if (data != NULL && rvit_image_words(w, w->at, 4 * blocks) != NULL) {
        memset(w->staging + w->at + 16 * (blocks - 1), 0, 16); /* leave no byte undefined */
        for (int32_t i = 0; i < n_planes; i++)
            copy_lines(data + i * p->plane_offset, image->stride, p->line_size, image->height, w->staging + w->at + i * plane);
        if (image->format == RVIT_IMAGE_NV12)
            copy_lines(data + p->plane_offset, image->stride, p->line_size, n_second, w->staging + w->at + plane);
    }
    p->entry.stride = (int32_t)p->line_size;
    p->plane_offset = plane;
    w->at += 16 * blocks;
}

void rvit_image_place(rvit_image_writer *w, rvit_staged_image *p)
{
    rvit_image_entry *e = &p->entry;
    int64_t begin = w->at;
    e->stride = (int32_t)p->image.stride;
    e->on_device = p->image.view.buffer != NULL;
    if (e->on_device)
        begin = p->image.view.offset - w->args.pixels.offset;
    else if (p->in_place)
        begin = (const uint8_t *)p->image.data - w->staging;
    else
        copy_pixels(w, p);
    e->offset_low = (uint32_t)begin;
    e->offset_high = (uint32_t)(begin >> 32);
    e->plane_low = (uint32_t)p->plane_offset;
    e->plane_high = (uint32_t)(p->plane_offset >> 32);
}

int64_t rvit_images_table_size(int32_t max_images)
{
    const int64_t n = max_images < 0 ? 0 : max_images;
    return (4 * (RVIT_IMAGE_ENTRIES(n) + n * RVIT_IMAGE_ENTRY_WORDS) + 63) / 64 * 64;
}
