/* One bad image among good ones: what the others get may not depend on it, and what is left of it must have room. */
#include "scene.h"

enum { MOST_PARTS = 20, N_VALUES = 6, N_MODES = 5 };

/* What an image is spoiled with, as words that are such numbers in every type, and as halves of words. */
static const struct {
    const char *name;
    uint32_t word, halves;
} values[N_VALUES] = {{"NaN", 0x7fc07fc0, 0x7fc07fc0},       {"infinite", 0x7f800000, 0x7c007c00}, {"overflowing", 0x7f61b1e6, 0x7bff7bff},
                      {"-infinite", 0xff800000, 0xfc00fc00}, {"negative", 0xbf800000, 0xbc00bc00}, {"zero", 0, 0}};
static long met[N_MODES][N_VALUES];
static const char *const modes[N_MODES] = {"TOP_K", "THRESHOLD", "MASK", "SAMPLE", "MASS"};

/* An array that has a part for each row of a batch, or for each image. */
typedef struct part {
    const char *name;
    int64_t step; /* bytes from one to the next */
    int is_half, per_image;
} part;

typedef struct parts {
    part all[MOST_PARTS];
    int n;
} parts;

static void add(parts *p, const char *name, int64_t step, int is_half, int per_image)
{
    assert_true(p->n < MOST_PARTS);
    p->all[p->n++] = (part){name, step, is_half, per_image};
}

static void add_rows(parts *p, const char *name, int64_t stride, int64_t columns, rvit_dtype dtype)
{
    add(p, name, (stride > 0 ? stride : columns) * rvit_dtype_size(dtype), dtype != RVIT_F32, 0);
}

static void add_floats(parts *p, const char *name, int64_t columns)
{
    add_rows(p, name, 0, columns, RVIT_F32);
}

static void add_attention(parts *p, const rvit_attention_args *a)
{
    const int64_t width = (int64_t)a->n_heads * a->head_dim;
    add_rows(p, "q", a->q_stride, width, a->dtype);
    add_rows(p, "k", a->k_stride, width, a->dtype);
    add_rows(p, "v", a->v_stride, width, a->dtype);
    add_rows(p, "out", a->out_stride, width, a->dtype);
    add_floats(p, "key_bias", 1);
    add_floats(p, "cls_probs", a->n_heads);
    add_floats(p, "lse", a->n_heads);
}

static void add_backward(parts *p, const rvit_attention_backward_args *a)
{
    const int64_t width = (int64_t)a->n_heads * a->head_dim;
    add_rows(p, "q", a->q_stride, width, a->dtype);
    add_rows(p, "k", a->k_stride, width, a->dtype);
    add_rows(p, "v", a->v_stride, width, a->dtype);
    add_rows(p, "out", a->out_stride, width, a->dtype);
    add_rows(p, "d_out", a->d_out_stride, width, a->dtype);
    add_rows(p, "d_q", a->d_q_stride, width, a->dtype);
    add_rows(p, "d_k", a->d_k_stride, width, a->dtype);
    add_rows(p, "d_v", a->d_v_stride, width, a->dtype);
    static const char *const by_head[] = {"lse", "cls_probs", "d_cls_probs", "d_lse"};
    for (int i = 0; i < 4; i++)
        add_floats(p, by_head[i], a->n_heads);
    add_floats(p, "key_bias", 1);
    add_floats(p, "d_key_bias", 1);
}

/* The arrays of an op that images share row by row; none if its rows are not those of images. */
static parts parts_of(const rvit_op *op)
{
    parts p = {.n = 0};
    switch (op->type) {
    case RVIT_OP_ATTENTION:
        add_attention(&p, &op->attention);
        break;
    case RVIT_OP_ATTENTION_BACKWARD:
        add_backward(&p, &op->attention_backward);
        break;
    case RVIT_OP_ATTENTION_RECEIVED: {
        const rvit_attention_received_args *a = &op->attention_received;
        add_rows(&p, "q", a->q_stride, (int64_t)a->n_heads * a->head_dim, a->dtype);
        add_rows(&p, "k", a->k_stride, (int64_t)a->n_heads * a->head_dim, a->dtype);
        add_floats(&p, "key_bias", 1);
        add_floats(&p, "lse", a->n_heads);
        add_floats(&p, "out", a->n_heads);
        break;
    }
    case RVIT_OP_SELECT: {
        const rvit_select_args *a = &op->select;
        add_rows(&p, "x", a->x_stride, a->dim, a->dtype);
        add_floats(&p, "cls_probs", a->n_heads);
        add_floats(&p, "scores", 1);
        add_rows(&p, "fuse_x", 0, a->fuse_dim, a->fuse_dtype);
        add(&p, "keep", 1, 0, 0);
        break;
    }
    case RVIT_OP_BIPARTITE_MATCH: {
        const rvit_bipartite_match_args *a = &op->bipartite_match;
        add_rows(&p, "k", a->k_stride, (int64_t)a->n_heads * a->head_dim, a->dtype);
        add_floats(&p, "metric", a->head_dim);
        add_floats(&p, "next_rows", 1);
        add(&p, "keep", 1, 0, 0);
        break;
    }
    case RVIT_OP_MEAN:
        add_rows(&p, "x", 0, op->mean.dim, op->mean.dtype);
        break;
    case RVIT_OP_POOL: {
        const rvit_pool_args *a = &op->pool;
        add_rows(&p, "x", 0, a->dim, a->dtype);
        add_floats(&p, "sizes", 1);
        add(&p, "out", (a->out_stride > 0 ? a->out_stride : a->dim) * rvit_dtype_size(a->out_dtype), 0, 1);
        break;
    }
    case RVIT_OP_ATTENTION_POOL: {
        const rvit_attention_pool_args *a = &op->attention_pool;
        add_rows(&p, "x", 0, a->dim, a->dtype);
        add_rows(&p, "logits", a->logits_stride, a->n_heads, RVIT_F32);
        add_floats(&p, "sizes", 1);
        add_floats(&p, "probs", a->n_heads);
        add(&p, "out", (int64_t)a->n_heads * a->head_dim * rvit_dtype_size(a->out_dtype), 0, 1);
        break;
    }
    case RVIT_OP_HEAD:
        add_rows(&p, "x", 0, op->head.dim, op->head.dtype);
        add(&p, "logits", 4 * (int64_t)op->head.n_classes, 0, 1);
        break;
    default:
        break;
    }
    return p;
}

static const scene_array *scene_part(const scene *s, const char *name)
{
    for (int i = 0; i < s->n_arrays; i++)
        if (s->arrays[i].size > 0 && !strcmp(s->arrays[i].name, name))
            return &s->arrays[i];
    return NULL;
}

/* Where the parts of rows or images begin .. end - 1 lie in an array, in bytes; a last row may be shorter than the step. */
static void bytes_of_parts(const scene_array *a, const part *p, int64_t begin, int64_t end, int64_t *first, int64_t *past)
{
    *first = begin * p->step < a->size ? begin * p->step : a->size;
    *past = end * p->step < a->size ? end * p->step : a->size;
}

/* All of a row, or one number of it. */
static void spoil(uint8_t *bytes, int64_t first, int64_t past, uint32_t word)
{
    const int64_t n = (past - first) / 4, only = n > 0 && random_below(2) ? random_below((int32_t)n) : -1;
    for (int64_t i = 0; i < n; i++)
        if (only < 0 || i == only)
            memcpy(bytes + first + 4 * i, &word, 4);
}

/* int32 numbers of a copy of the device's buffer. */
static const int32_t *numbers(const scene_array *a, const uint8_t *bytes)
{
    return (const int32_t *)(const void *)(bytes + a->offset);
}

/* How many rows the op may leave a spoiled image of len rows, whatever its values are. */
static int32_t most_left(const rvit_op *op, int32_t len, int32_t len_left)
{
    if (op->type == RVIT_OP_BIPARTITE_MATCH)
        return op->bipartite_match.n_windows > 0 ? len : len_left;
    const rvit_select_args *a = &op->select;
    const int32_t prefix = len < a->n_prefix ? len : a->n_prefix, n = len - prefix;
    if (a->mode == RVIT_SELECT_TOP_K && !a->prefix_competes)
        return len_left; /* the number does not depend on scores */
    if (a->mode != RVIT_SELECT_SAMPLE || n < 2)
        return len;
    return prefix + (a->n_samples < n - 1 ? a->n_samples : n - 1);
}

/* The new layout after select or match. */
static const char *compare_layouts(const scene *s, const int32_t *cu, int32_t n_images, int32_t bad, const uint8_t *found)
{
    static char text[160];
    const scene_array *lengths = scene_part(s, "out_cu_seqlens"), *rows = scene_part(s, "src_rows"), *errors = scene_part(s, "error");
    const int32_t *now = numbers(lengths, found), *then = numbers(lengths, s->first);
    const int32_t *listed = numbers(rows, found), *listed_then = numbers(rows, s->first);
    for (int32_t i = 0; i < n_images; i++) {
        const int32_t n = now[i + 1] - now[i], n_then = then[i + 1] - then[i];
        const int32_t most = i == bad ? most_left(&s->d.op, cu[i + 1] - cu[i], n_then) : n_then;
        if (now[0] != 0 || n < 0 || n > most || (i != bad && n != most)) {
            snprintf(text, sizeof text, "image %d of %d rows is left %d of them, before it was %d; image %d is spoiled", (int)i,
                     (int)(cu[i + 1] - cu[i]), (int)n, (int)n_then, (int)bad);
            return text;
        }
        if (i != bad && n > 0 && memcmp(listed + now[i], listed_then + then[i], (size_t)n * 4) != 0) {
            snprintf(text, sizeof text, "other rows of image %d are left, where image %d is spoiled", (int)i, (int)bad);
            return text;
        }
    }
    for (int32_t i = 0; errors && s->d.op.type == RVIT_OP_SELECT && s->d.op.select.image_errors && i < n_images; i++)
        if (i != bad && numbers(errors, found)[1 + i] != numbers(errors, s->first)[1 + i])
            return "another image than the spoiled one has another error";
    return NULL;
}

static const char *compare(const scene *s, const parts *p, const int32_t *cu, int32_t n_images, int32_t bad, const uint8_t *found)
{
    static char text[160];
    for (int i = 0; i < p->n; i++) {
        const scene_array *a = scene_part(s, p->all[i].name);
        if (!a || !a->written || a->content != DATA)
            continue;
        int64_t first, past;
        const int per_image = p->all[i].per_image;
        bytes_of_parts(a, &p->all[i], per_image ? bad : cu[bad], per_image ? bad + 1 : cu[bad + 1], &first, &past);
        const uint8_t *now = found + a->offset, *then = s->first + a->offset;
        if (memcmp(now, then, (size_t)first) != 0 || memcmp(now + past, then + past, (size_t)(a->size - past)) != 0) {
            snprintf(text, sizeof text, "%s of other images is other bits, where image %d, of rows %d to %d, is spoiled", a->name, (int)bad,
                     (int)cu[bad], (int)cu[bad + 1]);
            return text;
        }
    }
    return scene_part(s, "out_cu_seqlens") ? compare_layouts(s, cu, n_images, bad, found) : NULL;
}

const char *scene_spoiled_call(scene *s, uint64_t seed)
{
    const parts p = parts_of(&s->d.op);
    const scene_array *lengths = scene_part(s, "cu_seqlens");
    const int32_t n_images = lengths ? (int32_t)(lengths->size / 4) - 1 : 0;
    if (p.n == 0 || n_images < 2)
        return NULL;
    random_seed(seed);
    const int32_t *cu = numbers(lengths, s->good);
    int32_t bad = random_below(n_images);
    for (int32_t i = 0; i < n_images && cu[bad + 1] - cu[bad] < 2; i++) /* the next that has two rows */
        bad = (bad + 1) % n_images;
    if (cu[bad + 1] == cu[bad])
        return NULL;
    const int value = random_below(N_VALUES);
    uint8_t *bytes = malloc((size_t)s->device_size);
    assert_non_null(bytes);
    memcpy(bytes, s->pristine, (size_t)s->device_size);
    for (int i = 0; i < p.n; i++) {
        const scene_array *a = scene_part(s, p.all[i].name);
        for (int32_t row = cu[bad]; a && a->content == DATA && p.all[i].step >= 4 && !p.all[i].per_image && row < cu[bad + 1]; row++) {
            int64_t first, past;
            bytes_of_parts(a, &p.all[i], row, row + 1, &first, &past);
            spoil(bytes + a->offset, first, past, p.all[i].is_half ? values[value].halves : values[value].word);
        }
    }
    const char *damage = scene_call_with(s, bytes);
    free(bytes);
    if (damage)
        return damage;
    if (s->d.op.type == RVIT_OP_SELECT)
        met[s->d.op.select.mode][value]++;
    return compare(s, &p, cu, n_images, bad, rvit_buffer_host(s->snapshot));
}

int scene_spoiled_all(char *text, size_t size)
{
    int all = 1;
    size_t at = 0;
    for (int mode = 0; mode < N_MODES; mode++) {
        at += (size_t)snprintf(text + at, at < size ? size - at : 0, "%s%s", mode ? "; " : "", modes[mode]);
        for (int value = 0; value < N_VALUES && at < size; value++) {
            all &= met[mode][value] > 0;
            at += (size_t)snprintf(text + at, size - at, " %s %ld", values[value].name, met[mode][value]);
        }
    }
    return all;
}
