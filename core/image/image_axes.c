#include "core/image/image_axes.h"

#include <string.h>

int rvit_image_same_window(const rvit_image_window *a, const rvit_image_window *b)
{
    return a->axis.filter == b->axis.filter && a->axis.in_size == b->axis.in_size && a->axis.full_size == b->axis.full_size &&
           a->start == b->start && a->n_outputs == b->n_outputs;
}

int64_t rvit_image_axis_words(const rvit_image_window *window)
{
    return (int64_t)window->n_outputs * (2 + rvit_resize_capacity(&window->axis));
}

static void compute_nearest(const rvit_image_window *window, int32_t *out)
{
    const int32_t n = window->n_outputs;
    double position = rvit_resize_begin(&window->axis);
    for (int64_t i = 0; i < window->start; i++)
        position = rvit_resize_next(&window->axis, position);
    for (int32_t i = 0; i < n; i++, position = rvit_resize_next(&window->axis, position)) {
        out[i] = position < window->axis.in_size ? (int32_t)position : window->axis.in_size - 1;
        out[n + i] = 1;
        out[2 * n + i] = 1 << RVIT_RESIZE_PILLOW_BITS;
    }
}

static void compute_weights(const rvit_image_window *window, int bits, int32_t *out)
{
    const int32_t n = window->n_outputs, capacity = rvit_resize_capacity(&window->axis);
    memset(out + 2 * (int64_t)n, 0, 4 * (size_t)n * (size_t)capacity);
    for (int32_t i = 0; i < n; i++) {
        const rvit_resize_taps taps = rvit_resize_taps_of(&window->axis, window->start + i);
        out[i] = taps.first;
        out[n + i] = taps.count;
        for (int32_t k = 0; k < taps.count; k++)
            out[(2 + (int64_t)k) * n + i] = rvit_resize_fixed(rvit_resize_weight(&window->axis, &taps, k), bits);
    }
}

static int32_t compute(const rvit_image_window *window, int torch, int32_t *out)
{
    const int bits = torch ? rvit_resize_torch_bits(&window->axis) : RVIT_RESIZE_PILLOW_BITS;
    if (window->axis.filter == RVIT_RESIZE_NEAREST)
        compute_nearest(window, out);
    else
        compute_weights(window, bits, out);
    return bits;
}

int32_t rvit_image_axis_write(rvit_image_axes *axes, const rvit_image_window *window, int torch, int32_t *out)
{
    const int64_t n = rvit_image_axis_words(window);
    if (axes == NULL || n > RVIT_IMAGE_AXIS_KEPT_WORDS)
        return compute(window, torch, out);
    struct rvit_image_kept_axis *kept = axes->kept, *oldest = kept;
    for (int i = 0; i < RVIT_IMAGE_AXES_KEPT; i++, kept++) {
        if (kept->used > 0 && kept->torch == torch && rvit_image_same_window(&kept->window, window))
            break;
        oldest = kept->used < oldest->used ? kept : oldest;
    }
    if (kept == axes->kept + RVIT_IMAGE_AXES_KEPT) {
        kept = oldest;
        kept->window = *window;
        kept->torch = torch;
        kept->bits = compute(window, torch, kept->words);
    }
    kept->used = ++axes->clock;
    memcpy(out, kept->words, 4 * (size_t)n);
    return kept->bits;
}
