/* Writes checkpoints from a list of tensors that tests can edit. */
#ifndef RVIT_TESTS_CHECKPOINT_FILE_H
#define RVIT_TESTS_CHECKPOINT_FILE_H

#include "temp_file.h"

#include <inttypes.h>

typedef struct tensor {
    char name[96];
    char dtype[8];
    int32_t rank;
    int64_t shape[5];
    /* WITH_VALUES writes elements start, start + 1, ... of a sequence that depends on the tensor's original name. */
    uint32_t origin;
    int64_t start;
    int32_t has_first; /* 1: the first value is `first` */
    float first;
} tensor;

/* A checkpoint before it is written. */
typedef struct model {
    tensor tensors[1024];
    int n;
    const char *dtype;
    char metadata[512]; /* members of __metadata__ after the first: ,"key":"value" */
} model;

typedef struct geometry {
    int64_t dim, depth, mlp, patch, grid, channels, classes;
    int distilled;
} geometry;

static const geometry small_geometry = {64, 2, 256, 16, 2, 3, 10, 0};

/* An element of the tensor with this hash of its original name: from -1 to 1. */
static inline float origin_value(uint32_t origin, int64_t index)
{
    const uint64_t mixed = ((uint64_t)origin << 32 | (uint32_t)index) * UINT64_C(0x9e3779b97f4a7c15);
    return (float)((int)(mixed >> 50) - 8192) / 8192;
}

static inline uint32_t origin_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static inline void add(model *m, const char *name, int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    assert_true(m->n < 1024);
    tensor *t = &m->tensors[m->n++];
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->dtype, sizeof t->dtype, "%s", m->dtype);
    t->rank = rank;
    t->origin = origin_of(name);
    t->start = 0;
    t->has_first = 0;
    const int64_t shape[5] = {a, b, c, d, 0};
    memcpy(t->shape, shape, sizeof shape);
}

static inline void add_block(model *m, int index, const char *name, int rank, int64_t a, int64_t b)
{
    char full[96];
    snprintf(full, sizeof full, "blocks.%d.%s", index, name);
    add(m, full, rank, a, b, 0, 0);
}

/* The text of a config.json in the file's metadata. */
static inline void set_config(model *m, const char *json)
{
    size_t at = (size_t)snprintf(m->metadata, sizeof m->metadata, ",\"config\":\"");
    for (; *json != '\0'; json++) {
        assert_true(at + 8 < sizeof m->metadata);
        if (*json == '"')
            m->metadata[at++] = '\\';
        m->metadata[at++] = *json;
    }
    strcpy(m->metadata + at, "\"");
}

/* A plain model with heads of 64. */
static inline void set_plain_config(model *m, int64_t dim)
{
    char json[96];
    snprintf(json, sizeof json, "{\"architecture\":\"vit\",\"model_args\":{\"num_heads\":%d}}", (int)(dim / 64));
    set_config(m, json);
}

static inline void build(model *m, const geometry *g, const char *dtype)
{
    m->n = 0;
    m->dtype = dtype;
    set_plain_config(m, g->dim);
    const int64_t d = g->dim, prefix = 1 + g->distilled;
    add(m, "cls_token", 3, 1, 1, d, 0);
    add(m, "pos_embed", 3, 1, prefix + g->grid * g->grid, d, 0);
    add(m, "patch_embed.proj.weight", 4, d, g->channels, g->patch, g->patch);
    add(m, "patch_embed.proj.bias", 1, d, 0, 0, 0);
    for (int i = 0; i < g->depth; i++) {
        add_block(m, i, "norm1.weight", 1, d, 0);
        add_block(m, i, "norm1.bias", 1, d, 0);
        add_block(m, i, "attn.qkv.weight", 2, 3 * d, d);
        add_block(m, i, "attn.qkv.bias", 1, 3 * d, 0);
        add_block(m, i, "attn.proj.weight", 2, d, d);
        add_block(m, i, "attn.proj.bias", 1, d, 0);
        add_block(m, i, "norm2.weight", 1, d, 0);
        add_block(m, i, "norm2.bias", 1, d, 0);
        add_block(m, i, "mlp.fc1.weight", 2, g->mlp, d);
        add_block(m, i, "mlp.fc1.bias", 1, g->mlp, 0);
        add_block(m, i, "mlp.fc2.weight", 2, d, g->mlp);
        add_block(m, i, "mlp.fc2.bias", 1, d, 0);
    }
    add(m, "norm.weight", 1, d, 0, 0, 0);
    add(m, "norm.bias", 1, d, 0, 0, 0);
    add(m, "head.weight", 2, g->classes, d, 0, 0);
    add(m, "head.bias", 1, g->classes, 0, 0, 0);
    if (g->distilled) {
        add(m, "dist_token", 3, 1, 1, d, 0);
        add(m, "head_dist.weight", 2, g->classes, d, 0, 0);
        add(m, "head_dist.bias", 1, g->classes, 0, 0, 0);
    }
}

static inline tensor *get(model *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return &m->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static inline void drop(model *m, int index)
{
    memmove(&m->tensors[index], &m->tensors[index + 1], (size_t)(m->n - index - 1) * sizeof *m->tensors);
    m->n--;
}

static inline int64_t element_size(const char *dtype)
{
    if (strcmp(dtype, "I8") == 0 || strcmp(dtype, "F8_E4M3") == 0)
        return 1;
    return strcmp(dtype, "I64") == 0 ? 8 : strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0 ? 4 : 2;
}

static inline int64_t n_elements(const tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

/* Byte `index` of the data: every bit pattern occurs, including NaN. */
static inline uint8_t data_byte(int64_t index)
{
    const uint64_t mixed = ((uint64_t)index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint8_t)(mixed >> 37 ^ mixed >> 51);
}

/* A byte of an 8-bit tensor: any value except E4M3's NaN. */
static inline uint8_t origin_byte(const tensor *t, int64_t index)
{
    const uint8_t byte = (uint8_t)(int)(128 * origin_value(t->origin, t->start + index));
    return t->dtype[0] == 'F' && (byte & 0x7f) == 0x7f ? 0 : byte;
}

/* A value of an F32 tensor; scales are above 0. */
static inline float tensor_value(const tensor *t, int64_t index)
{
    const float value = origin_value(t->origin, t->start + index);
    if (index == 0 && t->has_first)
        return t->first;
    return strstr(t->name, "_scale") != NULL ? (1.25f + value) / 128 : value;
}

/* NO_DATA: zeros in a sparse file. BYTES: every bit pattern. WITH_VALUES: finite float32; every tensor must be F32 or have 8 bits. */
enum { NO_DATA, BYTES, WITH_VALUES };

static inline void write_model(const model *m, int contents)
{
    const size_t capacity = (size_t)m->n * 200 + 200 + sizeof m->metadata;
    char *header = malloc(capacity);
    assert_non_null(header);
    size_t at = (size_t)snprintf(header, capacity, "{\"__metadata__\":{\"format\":\"pt\"%s}", m->metadata);
    int64_t offset = 0;
    for (int i = 0; i < m->n; i++) {
        const tensor *t = &m->tensors[i];
        at += (size_t)snprintf(header + at, capacity - at, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, t->dtype);
        for (int j = 0; j < t->rank; j++)
            at += (size_t)snprintf(header + at, capacity - at, "%s%" PRId64, j == 0 ? "" : ",", t->shape[j]);
        const int64_t size = n_elements(t) * element_size(t->dtype);
        at += (size_t)snprintf(header + at, capacity - at, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", offset, offset + size);
        offset += size;
    }
    at += (size_t)snprintf(header + at, capacity - at, "}");
    uint8_t *data = NULL;
    if (contents != NO_DATA) {
        data = malloc((size_t)offset);
        assert_non_null(data);
    }
    if (contents == BYTES)
        for (int64_t i = 0; i < offset; i++)
            data[i] = data_byte(i);
    if (contents == WITH_VALUES) {
        uint8_t *to = data;
        for (int i = 0; i < m->n; i++)
            for (int64_t j = 0; j < n_elements(&m->tensors[i]); j++) {
                const tensor *t = &m->tensors[i];
                const float value = tensor_value(t, j);
                if (element_size(t->dtype) == 1)
                    *to++ = origin_byte(t, j);
                else
                    to = (uint8_t *)memcpy(to, &value, sizeof value) + sizeof value;
            }
    }
    write_file(at, header, at, data, offset);
    free(data);
    free(header);
}

#endif
