/* The preprocess op: resizes images into patch rows, a tile of pixels at a time. The input of a tile is processed in blocks of lines:
   the first resize pass makes lines of the tile's width, rounded to 8 bits, and the second adds them up. The image descriptors are
   untrusted. */
#include <string.h>

#include "backend_cpu/cpu.h"
#include "core/base/half.h"
#include "core/contract/image_descriptor.h"

enum { TILE = 16, LINES = 48, CHANNELS = 3 };

typedef struct preprocess_job {
    const rvit_cpu_kernels *kernels;
    const rvit_preprocess_args *args;
    const int32_t *words;
    const float *levels;
    const uint8_t *pixels;
    int64_t n_words;
    int32_t n_images; /* live */
} preprocess_job;

/* One axis of a tile: outputs begin .. begin + n. */
typedef struct tile_axis {
    const int32_t *words; /* those of this axis */
    int64_t n_words;      /* up to the end of the staging buffer */
    int32_t n_axis, begin, n, in_size, bits;
} tile_axis;

typedef struct tap_range {
    int32_t first, count;
    const int32_t *weights; /* n_axis apart */
} tap_range;

/* An image, checked: its pixels are inside their memory. */
typedef struct source {
    const uint8_t *memory; /* its first pixel; NULL: the image is not usable */
    int64_t plane;
    rvit_image_entry e;
} source;

static int32_t limit(int64_t value, int64_t low, int64_t high)
{
    return (int32_t)rvit_cpu_clamp(value, low, high);
}

static tap_range taps_of(const tile_axis *axis, int32_t i)
{
    const int64_t n = axis->n_axis, at = axis->begin + i, rest = axis->n_words - 2 * n - at;
    const int32_t first = limit(axis->words[at], 0, axis->in_size - 1), max = axis->in_size - first;
    const int64_t held = rest <= 0 ? 0 : (rest + n - 1) / n;
    return (tap_range){first, limit(axis->words[n + at], 0, held < max ? held : max), axis->words + 2 * n + at};
}

/* Returns 0 if the taps of the axis are not inside the staging buffer. */
static int axis_of(const preprocess_job *job, int32_t at, int32_t n_axis, int32_t begin, int32_t n, int32_t in_size, int32_t bits,
                   tile_axis *out)
{
    if (at < 0 || n_axis < 1 || at + 2 * (int64_t)n_axis > job->n_words)
        return 0;
    *out = (tile_axis){job->words + at, job->n_words - at, n_axis, begin, n, in_size, limit(bits, 1, 30)};
    return 1;
}

static source source_of(const preprocess_job *job, const rvit_image_entry *entry)
{
    source s = {.e = *entry};
    const rvit_image_entry *e = &s.e;
    const int64_t max = (int64_t)1 << 40;
    const int64_t begin = (int64_t)((uint64_t)e->offset_high << 32 | e->offset_low),
                  size = e->on_device ? job->args->pixels_size : 4 * job->n_words;
    s.plane = (int64_t)((uint64_t)e->plane_high << 32 | e->plane_low);
    const uint8_t *memory = e->on_device ? job->pixels : (const uint8_t *)job->words;
    if (memory == NULL || begin < 0 || begin > size || s.plane < 0 || s.plane > max || e->width < 1 || e->height < 1 ||
        e->width > RVIT_IMAGE_MAX_SIDE || e->height > RVIT_IMAGE_MAX_SIDE || e->stride < 0 || e->pixel_size < 1 || e->pixel_size > 4)
        return s;
    int64_t end = (int64_t)e->stride * (e->height - 1) + (int64_t)e->width * e->pixel_size;
    if (e->read == RVIT_IMAGE_READ_NV12)
        end = rvit_cpu_clamp(s.plane + (int64_t)e->stride * ((e->height + 1) / 2 - 1) + (e->width + 1) / 2 * 2, end, max);
    else if (e->read == RVIT_IMAGE_READ_F32 || e->read == RVIT_IMAGE_READ_F16)
        end += 2 * s.plane;
    else if (e->read != RVIT_IMAGE_READ_PACKED || limit(e->red, 0, e->pixel_size - 1) != e->red ||
             limit(e->green, 0, e->pixel_size - 1) != e->green || limit(e->blue, 0, e->pixel_size - 1) != e->blue)
        return s;
    if (end <= size - begin)
        s.memory = memory + begin;
    return s;
}

static uint8_t to_byte(uint32_t sum, int32_t bits)
{
    const int32_t value = (int32_t)sum >> bits;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* x, y: position of the pixel */
static void load_nv12(const source *s, int32_t x, int32_t y, uint32_t out[CHANNELS])
{
    const rvit_image_entry *e = &s->e;
    const uint8_t *chroma = s->memory + s->plane + (int64_t)(y / 2) * e->stride + x / 2 * 2;
    const uint32_t luma = ((uint32_t)s->memory[(int64_t)y * e->stride + x] - (uint32_t)e->luma_zero) * (uint32_t)e->luma_gain + 32768u;
    const uint32_t cb = (uint32_t)chroma[0] - 128u, cr = (uint32_t)chroma[1] - 128u;
    out[0] = to_byte(luma + cr * (uint32_t)e->red_cr, 16);
    out[1] = to_byte(luma + cb * (uint32_t)e->green_cb + cr * (uint32_t)e->green_cr, 16);
    out[2] = to_byte(luma + cb * (uint32_t)e->blue_cb, 16);
}

/* One value of the first pass: a weighted sum along a line, or along a column if the vertical pass comes first. */
static void sum_pixels(const source *s, tap_range taps, const tile_axis *axis, int32_t line, uint8_t out[CHANNELS])
{
    const rvit_image_entry *e = &s->e;
    const int32_t down = e->down_first;
    uint32_t sums[CHANNELS] = {1u << (axis->bits - 1), 1u << (axis->bits - 1), 1u << (axis->bits - 1)};
    const int32_t *weight = taps.weights;
    if (e->read == RVIT_IMAGE_READ_PACKED) {
        const int64_t step = down ? e->stride : e->pixel_size, across = down ? e->pixel_size : e->stride;
        const uint8_t *pixel = s->memory + line * across + taps.first * step;
        for (int32_t k = 0; k < taps.count; k++, pixel += step, weight += axis->n_axis) {
            sums[0] += (uint32_t)*weight * pixel[e->red];
            sums[1] += (uint32_t)*weight * pixel[e->green];
            sums[2] += (uint32_t)*weight * pixel[e->blue];
        }
    } else {
        uint32_t pixel[CHANNELS];
        for (int32_t k = 0; k < taps.count; k++, weight += axis->n_axis) {
            load_nv12(s, down ? line : taps.first + k, down ? taps.first + k : line, pixel);
            for (int c = 0; c < CHANNELS; c++)
                sums[c] += (uint32_t)*weight * pixel[c];
        }
    }
    for (int c = 0; c < CHANNELS; c++)
        out[c] = to_byte(sums[c], axis->bits);
}

/* out: [outputs of second][outputs of first][channels], TILE apart. */
static void resize_tile(const source *s, const tile_axis *first, const tile_axis *second, uint8_t out[TILE][TILE][CHANNELS])
{
    uint32_t sums[TILE][TILE * CHANNELS];
    uint8_t lines[LINES][TILE * CHANNELS];
    tap_range taps[TILE];
    int32_t begin = second->in_size, end = 0;
    for (int32_t j = 0; j < second->n; j++) {
        taps[j] = taps_of(second, j);
        begin = taps[j].first < begin ? taps[j].first : begin;
        end = taps[j].first + taps[j].count > end ? taps[j].first + taps[j].count : end;
        for (int32_t i = 0; i < TILE * CHANNELS; i++)
            sums[j][i] = 1u << (second->bits - 1);
    }
    for (int32_t block = begin; block < end; block += LINES) {
        const int32_t stop = end - block < LINES ? end : block + LINES;
        for (int32_t i = 0; i < first->n; i++) {
            const tap_range across = taps_of(first, i);
            for (int32_t line = block; line < stop; line++)
                sum_pixels(s, across, first, line, &lines[line - block][i * CHANNELS]);
        }
        for (int32_t j = 0; j < second->n; j++)
            for (int32_t line = block; line < stop; line++) {
                if (line < taps[j].first || line - taps[j].first >= taps[j].count)
                    continue;
                const uint32_t weight = (uint32_t)taps[j].weights[(int64_t)(line - taps[j].first) * second->n_axis];
                for (int32_t i = 0; i < first->n * CHANNELS; i++)
                    sums[j][i] += weight * lines[line - block][i];
            }
    }
    for (int32_t j = 0; j < second->n; j++)
        for (int32_t i = 0; i < first->n * CHANNELS; i++)
            out[j][i / CHANNELS][i % CHANNELS] = to_byte(sums[j][i], second->bits);
}

/* The part of the target that begins at (x, y) and has width x height pixels; the resized image may cover less of it. */
typedef struct tile {
    int32_t x, y, width, height;
} tile;

static void fill_tile(const preprocess_job *job, const source *s, tile t, uint8_t out[TILE][TILE][CHANNELS])
{
    const rvit_image_entry *e = &s->e;
    for (int32_t y = 0; y < TILE; y++)
        for (int32_t x = 0; x < TILE; x++)
            for (int c = 0; c < CHANNELS; c++)
                out[y][x][c] = (uint8_t)(e->fill >> 8 * c);
    const int32_t x0 = t.x > e->left ? t.x : e->left, x1 = t.x + t.width < e->right ? t.x + t.width : e->right;
    const int32_t y0 = t.y > e->top ? t.y : e->top, y1 = t.y + t.height < e->bottom ? t.y + t.height : e->bottom;
    tile_axis across, down;
    if (s->memory == NULL || x0 >= x1 || y0 >= y1 ||
        !axis_of(job, e->x_axis, e->right - e->left, x0 - e->left, x1 - x0, e->width, e->x_bits, &across) ||
        !axis_of(job, e->y_axis, e->bottom - e->top, y0 - e->top, y1 - y0, e->height, e->y_bits, &down))
        return;
    uint8_t resized[TILE][TILE][CHANNELS];
    const int turned = e->down_first;
    resize_tile(s, turned ? &down : &across, turned ? &across : &down, resized);
    for (int32_t y = y0; y < y1; y++)
        for (int32_t x = x0; x < x1; x++)
            memcpy(out[y - t.y][x - t.x], turned ? resized[x - x0][y - y0] : resized[y - y0][x - x0], CHANNELS);
}

static void store(const preprocess_job *job, const float *values, int64_t at, int32_t n)
{
    const rvit_preprocess_args *a = job->args;
    rvit_cpu_store_split(job->kernels, values, rvit_cpu_at(a->out), at, a->split == 2 ? a->out_stride / 2 : 0, n, a->dtype);
}

/* at: the element of out that the patch begins at. */
static void write_tile(const preprocess_job *job, const source *s, tile t, int32_t in_x, int32_t in_y, int64_t at)
{
    const int64_t patch = job->args->patch_size;
    uint8_t bytes[TILE][TILE][CHANNELS];
    float line[TILE];
    fill_tile(job, s, t, bytes);
    for (int c = 0; c < CHANNELS; c++)
        for (int32_t y = 0; y < t.height; y++) {
            for (int32_t x = 0; x < t.width; x++)
                line[x] = job->levels[256 * c + bytes[y][x][c]];
            store(job, line, at + (c * patch + in_y + y) * patch + in_x, t.width);
        }
}

static float load_planar(const source *s, int c, int32_t x, int32_t y)
{
    const uint8_t *p = s->memory + c * s->plane + (int64_t)y * s->e.stride;
    if (s->e.read == RVIT_IMAGE_READ_F16) {
        uint16_t half;
        memcpy(&half, p + 2 * (int64_t)x, sizeof half);
        return rvit_f16_to_f32(half);
    }
    float value;
    memcpy(&value, p + 4 * (int64_t)x, sizeof value);
    return value;
}

static void write_planar_tile(const preprocess_job *job, const source *s, tile t, int32_t in_x, int32_t in_y, int64_t at)
{
    const int64_t patch = job->args->patch_size;
    const int inside = s->memory != NULL && t.x + t.width <= s->e.width && t.y + t.height <= s->e.height &&
                       s->e.pixel_size == (s->e.read == RVIT_IMAGE_READ_F16 ? 2 : 4);
    float line[TILE] = {0};
    for (int c = 0; c < CHANNELS; c++)
        for (int32_t y = 0; y < t.height; y++) {
            for (int32_t x = 0; inside && x < t.width; x++)
                line[x] = load_planar(s, c, t.x + x, t.y + y);
            store(job, line, at + (c * patch + in_y + y) * patch + in_x, t.width);
        }
}

static int64_t row_start(const preprocess_job *job, int64_t image)
{
    return rvit_cpu_clamp(job->words[RVIT_IMAGE_ROW_STARTS + image], 0, job->args->rows);
}

static void write_patch(const preprocess_job *job, int64_t row, const rvit_image_entry *e, int32_t patch_number)
{
    const int32_t patch = job->args->patch_size, top = patch_number / e->grid_width * patch, left = patch_number % e->grid_width * patch;
    const int64_t at = row * job->args->out_stride;
    const source s = source_of(job, e);
    const int planar = e->read == RVIT_IMAGE_READ_F32 || e->read == RVIT_IMAGE_READ_F16;
    for (int32_t y = 0; y < patch; y += TILE)
        for (int32_t x = 0; x < patch; x += TILE) {
            const tile t = {left + x, top + y, patch - x < TILE ? patch - x : TILE, patch - y < TILE ? patch - y : TILE};
            (planar ? write_planar_tile : write_tile)(job, &s, t, x, y, at);
        }
}

static rvit_image_entry entry_of(const preprocess_job *job, int64_t image)
{
    rvit_image_entry e;
    memcpy(&e, job->words + RVIT_IMAGE_ENTRIES(job->args->n_images) + image * RVIT_IMAGE_ENTRY_WORDS, sizeof e);
    e.grid_width = limit(e.grid_width, 1, 1 << 14);
    e.grid_height = limit(e.grid_height, 1, 1 << 14);
    e.right = limit(e.right, 0, (int64_t)e.grid_width * job->args->patch_size);
    e.bottom = limit(e.bottom, 0, (int64_t)e.grid_height * job->args->patch_size);
    e.left = limit(e.left, 0, e.right);
    e.top = limit(e.top, 0, e.bottom);
    return e;
}

/* The last image that begins at or before the row. */
static int64_t image_of(const preprocess_job *job, int64_t row)
{
    int64_t low = 0, high = job->n_images - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (row_start(job, middle) <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void preprocess_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const preprocess_job *job = context;
    const rvit_preprocess_args *a = job->args;
    const int64_t element = rvit_cpu_size(a->dtype), width = CHANNELS * (int64_t)a->patch_size * a->patch_size;
    const int64_t part_size = a->out_stride / a->split;
    for (int64_t row = begin; row < end; row++) {
        const int64_t image = image_of(job, row), start = row_start(job, image), stop = row_start(job, image + 1);
        const rvit_image_entry e = entry_of(job, image);
        const int64_t patches = (int64_t)e.grid_width * e.grid_height, number = row - start - (stop - start - patches);
        const int present = number >= 0 && number < patches;
        const int64_t first = present ? width : 0;
        for (int64_t part = 0; part < a->split; part++)
            memset((char *)rvit_cpu_at(a->out) + (row * a->out_stride + part * part_size + first) * element, 0,
                   (size_t)((part_size - first) * element));
        if (present)
            write_patch(job, row, &e, (int32_t)number);
    }
}

static void write_layout(const preprocess_job *job)
{
    const rvit_preprocess_args *a = job->args;
    int32_t *cu_seqlens = rvit_cpu_at(a->cu_seqlens), *grids = rvit_cpu_at(a->grids);
    for (int64_t i = 0; cu_seqlens != NULL && i <= a->n_images; i++)
        cu_seqlens[i] = (int32_t)row_start(job, i < job->n_images ? i : job->n_images);
    for (int64_t i = 0; grids != NULL && i < a->n_images; i++) {
        const rvit_image_entry e = entry_of(job, i);
        grids[2 * i] = i < job->n_images ? e.grid_height : 0;
        grids[2 * i + 1] = i < job->n_images ? e.grid_width : 0;
    }
}

void rvit_cpu_preprocess(rvit_cpu_device *device, const rvit_preprocess_args *a)
{
    const int32_t *words = rvit_cpu_at(a->source);
    const preprocess_job job = {
        .kernels = device->kernels,
        .args = a,
        .words = words,
        .levels = (const float *)(const void *)(words + RVIT_IMAGE_LEVELS),
        .pixels = rvit_cpu_at(a->pixels),
        .n_words = a->source_size / 4,
        .n_images = limit(words[RVIT_IMAGE_LIVE_IMAGES], 0, a->n_images),
    };
    const int64_t rows = job.n_images == 0 ? 0 : row_start(&job, job.n_images);
    preprocess_job shared = job;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, 4), preprocess_rows, &shared);
    write_layout(&job);
}
