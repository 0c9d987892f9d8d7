#include "scene.h"

/* The address sanitizer forbids access to the guards while an op runs on the CPU, so that it also finds reads outside an array. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define GUARDS_ARE_CLOSED 1
#else
#define GUARDS_ARE_CLOSED 0
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

enum { MOST = 1 << 20 /* bytes of an op's arrays */, DRAWN = 512 };

const char *scene_op(const scene *s)
{
    return rvit_op_name(s->d.op.type);
}

/* Some shapes are longer than a kernel's tile, or of more images than a block of threads. */
static void stretch(rvit_op *op)
{
    int32_t *n_images = NULL, *max_len = NULL;
    int64_t *rows = NULL, *more = NULL;
    switch (op->type) {
    case RVIT_OP_ATTENTION:
        op->attention.n_heads = 1;
        n_images = &op->attention.n_images, max_len = &op->attention.max_len, rows = &op->attention.rows;
        break;
    case RVIT_OP_ATTENTION_BACKWARD:
        op->attention_backward.n_heads = 1;
        n_images = &op->attention_backward.n_images, max_len = &op->attention_backward.max_len, rows = &op->attention_backward.rows;
        break;
    case RVIT_OP_ATTENTION_RECEIVED:
        op->attention_received.n_heads = 1;
        n_images = &op->attention_received.n_images, max_len = &op->attention_received.max_len, rows = &op->attention_received.rows;
        break;
    case RVIT_OP_SELECT:
        n_images = &op->select.n_images, max_len = &op->select.max_len, rows = &op->select.rows;
        break;
    case RVIT_OP_MEAN:
        n_images = &op->mean.n_images, max_len = &op->mean.max_len, rows = &op->mean.rows;
        break;
    case RVIT_OP_BIPARTITE_MATCH:
        op->bipartite_match.n_heads = 1;
        n_images = &op->bipartite_match.n_images, max_len = &op->bipartite_match.max_len, rows = &op->bipartite_match.rows;
        break;
    case RVIT_OP_HEAD:
        n_images = &op->head.n_images, rows = &op->head.rows;
        break;
    case RVIT_OP_POOL:
        n_images = &op->pool.n_images, max_len = &op->pool.max_len, rows = &op->pool.rows;
        break;
    case RVIT_OP_ATTENTION_POOL:
        n_images = &op->attention_pool.n_images, max_len = &op->attention_pool.max_len, rows = &op->attention_pool.rows;
        break;
    case RVIT_OP_LINEAR:
        rows = &op->linear.rows.capacity;
        break;
    case RVIT_OP_QUANTIZE:
        rows = &op->quantize.rows.capacity;
        break;
    case RVIT_OP_LAYERNORM:
        rows = &op->layernorm.rows.capacity, more = &op->layernorm.x_rows;
        break;
    case RVIT_OP_MERGE:
        rows = &op->merge.rows.capacity, more = &op->merge.x_rows;
        break;
    case RVIT_OP_PACK:
        rows = &op->pack.rows.capacity, more = &op->pack.source_rows;
        break;
    case RVIT_OP_ROPE:
        rows = &op->rope.rows.capacity;
        break;
    case RVIT_OP_POSITIONS:
        rows = &op->positions.rows.capacity, more = &op->positions.source_rows;
        break;
    case RVIT_OP_GRID_LAYOUT:
        n_images = &op->grid_layout.n_images, max_len = &op->grid_layout.max_len, rows = &op->grid_layout.rows;
        break;
    case RVIT_OP_PIXELPRUNE:
        n_images = &op->pixelprune.n_images, max_len = &op->pixelprune.max_len, rows = &op->pixelprune.rows;
        more = &op->pixelprune.patch_rows;
        break;
    case RVIT_OP_GRID_RELAYOUT:
        n_images = &op->grid_relayout.n_images, max_len = &op->grid_relayout.max_len, rows = &op->grid_relayout.rows;
        break;
    case RVIT_OP_EMBED:
        rows = &op->embed.rows.capacity, more = &op->embed.patch_rows;
        break;
    case RVIT_OP_GRID_ROPE:
        rows = &op->grid_rope.rows.capacity;
        break;
    case RVIT_OP_UNPACK:
        rows = &op->unpack.rows.capacity, more = &op->unpack.destination_rows.capacity;
        break;
    default:
        return;
    }
    *rows = random_below(700);
    if (more)
        *more = *rows + random_below(200);
    if (max_len)
        *max_len = random_below(400);
    if (n_images && random_below(3) == 0)
        *n_images = random_below(1000);
}

static scene_content content_of(const rvit_access *access)
{
    static const struct {
        const char *name;
        scene_content content;
    } known[] = {{"cu_seqlens", LENGTHS},
                 {"src_rows", ROW_NUMBERS},
                 {"next_rows", LINKS},
                 {"counts", COUNTS},
                 {"keep_in", MASK},
                 {"keep", MASK},
                 {"positions", ROW_NUMBERS},
                 {"grids", GRIDS},
                 {"cells", CELLS},
                 {"out_cu_seqlens", LENGTHS},
                 {"window_cu_seqlens", LENGTHS},
                 {"group_rows", ROW_NUMBERS}};
    if (access->live)
        return LIVE;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!access->writes && !strcmp(access->name, known[i].name))
            return known[i].content;
    return DATA;
}

/* The rows that row numbers and links count, and those that lengths lay out. */
static int64_t rows_of(const rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_ATTENTION:
        return op->attention.rows;
    case RVIT_OP_ATTENTION_BACKWARD:
        return op->attention_backward.rows;
    case RVIT_OP_ATTENTION_RECEIVED:
        return op->attention_received.rows;
    case RVIT_OP_SELECT:
        return op->select.rows;
    case RVIT_OP_MEAN:
        return op->mean.rows;
    case RVIT_OP_BIPARTITE_MATCH:
        return op->bipartite_match.rows;
    case RVIT_OP_HEAD:
        return op->head.rows;
    case RVIT_OP_POOL:
        return op->pool.rows;
    case RVIT_OP_ATTENTION_POOL:
        return op->attention_pool.rows;
    case RVIT_OP_LAYERNORM:
        return op->layernorm.x_rows;
    case RVIT_OP_MERGE:
        return op->merge.x_rows;
    case RVIT_OP_PACK:
        return op->pack.source_rows;
    case RVIT_OP_ROPE:
        return op->rope.n_positions;
    case RVIT_OP_POSITIONS:
        return op->positions.source_rows;
    case RVIT_OP_UNPACK:
        return op->unpack.destination_rows.capacity;
    case RVIT_OP_GRID_LAYOUT:
        return op->grid_layout.rows;
    case RVIT_OP_PIXELPRUNE:
        return op->pixelprune.rows;
    case RVIT_OP_GRID_RELAYOUT:
        return op->grid_relayout.rows;
    case RVIT_OP_EMBED:
        return op->embed.patch_rows;
    case RVIT_OP_GRID_ROPE:
        return op->grid_rope.rows.capacity;
    default:
        return 0;
    }
}

static int64_t capacity_of(const rvit_op *op, const char *name)
{
    switch (op->type) {
    case RVIT_OP_PATCHIFY:
        return op->patchify.n_images;
    case RVIT_OP_GRID_LAYOUT:
        return op->grid_layout.n_images;
    case RVIT_OP_EMBED:
        return op->embed.rows.capacity;
    case RVIT_OP_GRID_ROPE:
        return op->grid_rope.rows.capacity;
    case RVIT_OP_LINEAR:
        return op->linear.rows.capacity;
    case RVIT_OP_QUANTIZE:
        return op->quantize.rows.capacity;
    case RVIT_OP_LAYERNORM:
        return op->layernorm.rows.capacity;
    case RVIT_OP_MERGE:
        return op->merge.rows.capacity;
    case RVIT_OP_PACK:
        return op->pack.rows.capacity;
    case RVIT_OP_ROPE:
        return op->rope.rows.capacity;
    case RVIT_OP_POSITIONS:
        return op->positions.rows.capacity;
    case RVIT_OP_UNPACK:
        return strcmp(name, "rows.live") ? op->unpack.destination_rows.capacity : op->unpack.rows.capacity;
    default:
        return 0;
    }
}

static int32_t max_len_of(const rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_ATTENTION:
        return op->attention.max_len;
    case RVIT_OP_ATTENTION_BACKWARD:
        return op->attention_backward.max_len;
    case RVIT_OP_ATTENTION_RECEIVED:
        return op->attention_received.max_len;
    case RVIT_OP_SELECT:
        return op->select.max_len;
    case RVIT_OP_MEAN:
        return op->mean.max_len;
    case RVIT_OP_BIPARTITE_MATCH:
        return op->bipartite_match.max_len;
    case RVIT_OP_POOL:
        return op->pool.max_len;
    case RVIT_OP_ATTENTION_POOL:
        return op->attention_pool.max_len;
    case RVIT_OP_PIXELPRUNE:
        return op->pixelprune.max_len;
    case RVIT_OP_GRID_RELAYOUT:
        return op->grid_relayout.max_len;
    default:
        return (int32_t)rows_of(op);
    }
}

/* Draws an op; 0 if it cannot take arrays. Gives the op's accesses; views[i] points to marks[i]. */
static int draw(scene *s, rvit_op_type type, rvit_buffer marks[MAX_VIEWS], rvit_access accesses[RVIT_OP_MAX_ACCESSES])
{
    uint8_t bytes[DRAWN];
    for (int i = 0; i < DRAWN; i++)
        bytes[i] = (uint8_t)random_bits();
    choices c = {bytes, DRAWN, 0};
    memset(s, 0, sizeof *s);
    draft_op(&s->d, type, &c);
    if (random_below(3) == 0)
        stretch(&s->d.op);
    for (int i = 0; i < s->d.n_views; i++)
        if (random_below(8) > 0)
            s->d.views[i]->buffer = &marks[i];
    if (s->d.op.type == RVIT_OP_SELECT) {
        s->d.op.select.image_errors = random_below(2);
        if (random_below(2))
            s->d.op.select.fuse_x.buffer = NULL;
    }
    rvit_op prepared = s->d.op;
    if (rvit_op_prepare(&prepared) != RVIT_OK)
        return 0;
    s->n_arrays = rvit_op_accesses(&prepared, accesses);
    int64_t size = 0;
    for (int i = 0; i < s->n_arrays; i++) {
        if (accesses[i].view.buffer == NULL && !accesses[i].optional)
            return 0;
        size += accesses[i].size;
        if (size > MOST)
            return 0;
    }
    s->max_len = max_len_of(&prepared);
    for (int i = 0; i < s->n_arrays; i++) {
        const scene_content content = content_of(&accesses[i]);
        const int64_t limit = content == LIVE     ? capacity_of(&prepared, accesses[i].name)
                              : content == COUNTS ? s->max_len
                                                  : rows_of(&prepared);
        s->arrays[i] = (scene_array){accesses[i].name, content, 0, accesses[i].size, (int32_t)limit, accesses[i].writes};
    }
    /* The rows to be scattered must find a place each. */
    const rvit_unpack_args *unpack = &prepared.unpack;
    return prepared.type != RVIT_OP_UNPACK || unpack->rows.live.buffer != NULL ||
           unpack->rows.capacity <= unpack->destination_rows.capacity;
}

static int closes_guards(void)
{
    return GUARDS_ARE_CLOSED && H.desc.backend == RVIT_BACKEND_CPU;
}

static void close_guards(const scene *s)
{
    ASAN_POISON_MEMORY_REGION(rvit_buffer_host(s->device), (size_t)s->device_size);
    ASAN_POISON_MEMORY_REGION(rvit_buffer_host(s->upload), (size_t)s->upload_size);
    for (int i = 0; i < s->n_arrays; i++) {
        const scene_array *a = &s->arrays[i];
        ASAN_UNPOISON_MEMORY_REGION((uint8_t *)rvit_buffer_host(a->content == DATA ? s->device : s->upload) + a->offset, (size_t)a->size);
    }
}

static void open_guards(const scene *s)
{
    ASAN_UNPOISON_MEMORY_REGION(rvit_buffer_host(s->device), (size_t)s->device_size);
    ASAN_UNPOISON_MEMORY_REGION(rvit_buffer_host(s->upload), (size_t)s->upload_size);
}

/* Gives each array its place and each view of the op its array. */
static void lay_out(scene *s, const rvit_buffer marks[MAX_VIEWS], const rvit_access accesses[RVIT_OP_MAX_ACCESSES])
{
    int64_t used[2] = {GUARD, GUARD};
    for (int i = 0; i < s->n_arrays; i++) {
        scene_array *a = &s->arrays[i];
        int64_t *end = &used[a->content != DATA];
        a->offset = *end;
        if (accesses[i].view.buffer != NULL)
            *end = (*end + a->size + 15) / 16 * 16 + GUARD;
        else
            a->size = 0;
    }
    s->device_size = used[0];
    s->upload_size = used[1];
    const rvit_buffer_type type = closes_guards() ? RVIT_BUFFER_READBACK : RVIT_BUFFER_DEVICE;
    expect_ok(rvit_buffer_create(H.device[DEVICE], s->device_size, type, &s->device));
    expect_ok(rvit_buffer_create(H.device[DEVICE], s->device_size, RVIT_BUFFER_READBACK, &s->snapshot));
    expect_ok(rvit_buffer_create(H.device[DEVICE], s->upload_size, RVIT_BUFFER_UPLOAD, &s->upload));
    for (int v = 0; v < s->d.n_views; v++) {
        rvit_view given = {NULL, 0};
        for (int i = 0; i < s->n_arrays && s->d.views[v]->buffer != NULL; i++)
            if (accesses[i].view.buffer == &marks[v])
                given = (rvit_view){s->arrays[i].content == DATA ? s->device : s->upload, s->arrays[i].offset};
        *s->d.views[v] = given;
    }
}

/* Numbers of either sign or above 0, of 32 bits or of 16, or bits of any kind. */
static void fill_data(uint8_t *bytes, int64_t size, int kind)
{
    for (int64_t i = 0; i + 4 <= size; i += 4) {
        uint32_t word = random_bits();
        if (kind < 2)
            word = (word & (kind ? 0x803fffff : 0x003fffff)) | 0x3f000000;
        else if (kind < 4)
            word = (word & (kind == 2 ? 0x87ff87ff : 0x07ff07ff)) | 0x38003800;
        memcpy(bytes + i, &word, 4);
    }
}

static void set(uint8_t *bytes, int64_t index, int32_t value)
{
    memcpy(bytes + index * 4, &value, 4);
}

/* Values that keep the rules. */
static void fill_valid(const scene *s, const scene_array *a, uint8_t *bytes)
{
    const int64_t n = a->size / 4;
    const int unpacks = s->d.op.type == RVIT_OP_UNPACK;
    int32_t end = 0;
    switch (a->content) {
    case LENGTHS:
        for (int64_t i = 0; i < n; i++) {
            set(bytes, i, end);
            const int32_t left = a->limit - end, most = s->max_len < left ? s->max_len : left;
            end += random_below(4) ? random_below(most / (i % 4 ? 4 : 1) + 1) : 0;
        }
        break;
    case ROW_NUMBERS:
        for (int64_t i = 0; i < n; i++)
            set(bytes, i, unpacks ? (int32_t)i : a->limit > 0 ? random_below(a->limit) : 0);
        break;
    case LINKS:
        memset(bytes, 0xff, (size_t)a->size);
        break;
    case COUNTS:
        for (int64_t i = 0; i < n; i++)
            set(bytes, i, random_below((int32_t)i + 1));
        break;
    case LIVE:
        /* No more rows than there are places for them. */
        if (unpacks)
            set(bytes, 0, strcmp(a->name, "rows.live") ? a->limit : (int32_t)(a->limit < rows_of(&s->d.op) ? a->limit : rows_of(&s->d.op)));
        else
            set(bytes, 0, random_below(a->limit + 1));
        break;
    case MASK:
        for (int64_t i = 0; i < a->size; i++)
            bytes[i] = (uint8_t)random_below(2);
        break;
    case GRIDS:
        for (int64_t i = 0; i < n; i++)
            set(bytes, i, random_below(7));
        break;
    case CELLS: {
        /* What reconstructs a cell must have its own source before, in an order that cells here do not have: all are in a corner, where
           nothing predicts them. */
        const int in_corners = s->d.op.type == RVIT_OP_PIXELPRUNE && rvit_pixelprune_reconstructs(&s->d.op.pixelprune);
        for (int64_t i = 0; i + 4 <= n; i += 4) {
            const int32_t height = 1 + random_below(20), width = 1 + random_below(20);
            set(bytes, i, a->limit > 0 && random_below(6) ? random_below(a->limit) : -1 - random_below(2));
            set(bytes, i + 1, 0);
            set(bytes, i + 2, in_corners ? 0 : random_below(height) * 65536 + random_below(width));
            set(bytes, i + 3, height * 65536 + width);
        }
        break;
    }
    case DATA:
        break;
    }
}

static int32_t extreme(int32_t limit)
{
    const int32_t values[] = {INT32_MAX, INT32_MIN, INT32_MAX - 1, INT32_MIN + 1, -1,        1 << 30, -(1 << 30), 0x7ffffff0,
                              65536,     1 << 24,   limit,         limit + 1,     limit - 1, 0,       -limit,     2 * limit};
    return values[random_below(sizeof values / sizeof *values)];
}

static void fill_garbage(const scene *s, const scene_array *a, uint8_t *bytes)
{
    const int64_t n = a->size / 4;
    const int kind = random_below(8), step = 1 + random_below(9);
    const int32_t same = extreme(a->limit);
    if (a->content == MASK) {
        for (int64_t i = 0; i < a->size; i++)
            bytes[i] = (uint8_t)random_bits();
        return;
    }
    if (kind >= 6)
        fill_valid(s, a, bytes);
    for (int64_t i = 0; i < n; i++)
        if (kind == 0)
            set(bytes, i, (int32_t)random_bits());
        else if (kind == 1)
            set(bytes, i, extreme(a->limit));
        else if (kind == 2) /* a little out of range */
            set(bytes, i, random_below(a->limit + 8) - 4);
        else if (kind == 3) /* descending, to below 0 */
            set(bytes, i, a->limit + 4 - (int32_t)i * step);
        else if (kind == 4) /* overlapping */
            set(bytes, i, random_below(a->limit + 1));
        else if (kind == 5)
            set(bytes, i, same);
    if (kind == 6 && n > 0) /* one of them wrong */
        set(bytes, random_below((int32_t)n), extreme(a->limit));
}

static void write_upload(scene *s, const uint8_t *bytes)
{
    memcpy(s->given, bytes, (size_t)s->upload_size);
    memcpy(rvit_buffer_host(s->upload), bytes, (size_t)s->upload_size);
}

void scene_scramble(scene *s, uint64_t seed)
{
    random_seed(seed);
    for (int i = 0; i < s->n_arrays; i++)
        if (s->arrays[i].content != DATA && s->arrays[i].size > 0)
            fill_garbage(s, &s->arrays[i], s->given + s->arrays[i].offset);
    memcpy(rvit_buffer_host(s->upload), s->given, (size_t)s->upload_size);
}

rvit_status scene_enqueue(const scene *s)
{
    rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
    copy.source.buffer = s->device;
    copy.destination.buffer = s->snapshot;
    copy.size = s->device_size;
    if (closes_guards())
        close_guards(s);
    const rvit_status status = op_call(H.stream[DEVICE], &s->d.op);
    if (closes_guards())
        open_guards(s);
    return status == RVIT_OK ? rvit_copy(H.stream[DEVICE], &copy) : status;
}

const char *scene_damage(const scene *s)
{
    static char text[160];
    const uint8_t *found = rvit_buffer_host(s->snapshot);
    int64_t at = 0;
    const char *before = "the beginning";
    /* All but the arrays that are written is as it was: inputs, and the guards between. */
    for (int i = 0; i <= s->n_arrays; i++) {
        const scene_array *a = &s->arrays[i];
        const int last = i == s->n_arrays;
        if (!last && (a->content != DATA || a->size == 0 || !a->written))
            continue;
        const int64_t end = last ? s->device_size : a->offset;
        if (memcmp(found + at, s->pristine + at, (size_t)(end - at)) != 0) {
            while (found[at] == s->pristine[at])
                at++;
            snprintf(text, sizeof text, "byte %lld of %lld was written, which no output has: after %s, before %s", (long long)at,
                     (long long)s->device_size, before, last ? "the end" : a->name);
            return text;
        }
        if (!last) {
            at = a->offset + a->size;
            before = a->name;
        }
    }
    if (memcmp(rvit_buffer_host(s->upload), s->given, (size_t)s->upload_size) != 0)
        return "what the host wrote for the call was changed";
    return NULL;
}

/* The device's buffer as it was before its first call, then the good call. */
static const char *call_afresh(scene *s)
{
    write_upload(s, s->good);
    expect_ok(rvit_stream_write(H.stream[DEVICE], (rvit_view){s->device, 0}, s->pristine, s->device_size));
    const rvit_status status = scene_enqueue(s);
    expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
    if (status == RVIT_UNSUPPORTED)
        return "UNSUPPORTED";
    expect_ok(status);
    return scene_damage(s);
}

const char *scene_call_with(scene *s, uint8_t *bytes)
{
    uint8_t *own = s->pristine;
    s->pristine = bytes;
    const char *damage = call_afresh(s);
    s->pristine = own;
    /* The next call begins with its own inputs, and finds what this one gave in the snapshot. */
    expect_ok(rvit_stream_write(H.stream[DEVICE], (rvit_view){s->device, 0}, s->pristine, s->device_size));
    expect_ok(rvit_stream_synchronize(H.stream[DEVICE]));
    return damage;
}

const char *scene_good_call(scene *s)
{
    const char *damage = call_afresh(s);
    if (!damage && memcmp(rvit_buffer_host(s->snapshot), s->first, (size_t)s->device_size) != 0)
        return "a good call gives other bits than at first";
    return damage;
}

static uint8_t *bytes_of(int64_t size)
{
    uint8_t *bytes = malloc((size_t)size);
    if (!bytes)
        fail_msg("out of memory: %lld bytes", (long long)size);
    memset(bytes, POISON, (size_t)size);
    return bytes;
}

void scene_make(scene *s, int number, uint64_t seed)
{
    /* The ops with most kinds of kernels come more often. */
    static const rvit_op_type types[] = {RVIT_OP_ATTENTION,
                                         RVIT_OP_ATTENTION,
                                         RVIT_OP_ATTENTION,
                                         RVIT_OP_SELECT,
                                         RVIT_OP_SELECT,
                                         RVIT_OP_SELECT,
                                         RVIT_OP_SELECT,
                                         RVIT_OP_ATTENTION_RECEIVED,
                                         RVIT_OP_BIPARTITE_MATCH,
                                         RVIT_OP_BIPARTITE_MATCH,
                                         RVIT_OP_MEAN,
                                         RVIT_OP_MERGE,
                                         RVIT_OP_PACK,
                                         RVIT_OP_UNPACK,
                                         RVIT_OP_POSITIONS,
                                         RVIT_OP_ROPE,
                                         RVIT_OP_HEAD,
                                         RVIT_OP_POOL,
                                         RVIT_OP_ATTENTION_POOL,
                                         RVIT_OP_LAYERNORM,
                                         RVIT_OP_LINEAR,
                                         RVIT_OP_PATCHIFY,
                                         RVIT_OP_GRID_LAYOUT,
                                         RVIT_OP_PIXELPRUNE,
                                         RVIT_OP_GRID_RELAYOUT,
                                         RVIT_OP_EMBED,
                                         RVIT_OP_GRID_ROPE,
                                         RVIT_OP_QUANTIZE,
                                         RVIT_OP_ATTENTION_BACKWARD,
                                         RVIT_OP_ATTENTION_BACKWARD};
    static rvit_buffer marks[MAX_VIEWS];
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    random_seed(seed);
    const int n_types = (int)(sizeof types / sizeof *types);
    while (lacks(rvit_op_name(types[number % n_types])))
        number++;
    const rvit_op_type type = types[number % n_types];
    for (;;) {
        while (!draw(s, type, marks, accesses))
            ;
        lay_out(s, marks, accesses);
        s->pristine = bytes_of(s->device_size);
        s->first = bytes_of(s->device_size);
        s->good = bytes_of(s->upload_size);
        s->given = bytes_of(s->upload_size);
        const int kind = random_below(5);
        for (int i = 0; i < s->n_arrays; i++) {
            const scene_array *a = &s->arrays[i];
            if (a->content == DATA)
                fill_data(s->pristine + a->offset, a->size, kind);
            else if (a->size > 0)
                fill_valid(s, a, s->good + a->offset);
        }
        const char *damage = call_afresh(s);
        if (!damage) {
            memcpy(s->first, rvit_buffer_host(s->snapshot), (size_t)s->device_size);
            return;
        }
        if (strcmp(damage, "UNSUPPORTED") != 0) {
            scene_print(s);
            fail_msg("%s: a good call: %s", scene_op(s), damage);
        }
        scene_free(s);
    }
}

void scene_free(scene *s)
{
    rvit_buffer_destroy(s->device);
    rvit_buffer_destroy(s->upload);
    rvit_buffer_destroy(s->snapshot);
    free(s->pristine);
    free(s->good);
    free(s->first);
    free(s->given);
    memset(s, 0, sizeof *s);
}

void scene_print(const scene *s)
{
    print_error("%s, images of at most %d rows\n", scene_op(s), (int)s->max_len);
    for (int i = 0; i < s->n_arrays; i++) {
        const scene_array *a = &s->arrays[i];
        if (a->size == 0)
            continue;
        print_error("  %s: %lld bytes%s", a->name, (long long)a->size, a->written ? ", written" : "");
        if (a->content != DATA && a->content != MASK) {
            print_error(", at most %d:", (int)a->limit);
            for (int64_t j = 0; j < a->size / 4 && j < 16; j++) {
                int32_t value;
                memcpy(&value, s->given + a->offset + 4 * j, 4);
                print_error(" %d", (int)value);
            }
            if (a->size / 4 > 16)
                print_error(" ...");
        }
        print_error("\n");
    }
}
