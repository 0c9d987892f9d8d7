#include "small_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 16384 };

typedef struct writer {
    char header[HEADER];
    size_t used;
    int64_t offset;
} writer;

static void add(writer *w, const char *name, const char *shape, int64_t n)
{
    w->used += (size_t)snprintf(w->header + w->used, sizeof w->header - w->used,
                                ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}", name, shape,
                                (long long)w->offset, (long long)(w->offset + 4 * n));
    w->offset += 4 * n;
}

static void add_part(writer *w, const char *prefix, int index, const char *name, int64_t out, int64_t in)
{
    char full[96], shape[48];
    snprintf(full, sizeof full, "%s.%d.%s.weight", prefix, index, name);
    snprintf(shape, sizeof shape, in > 0 ? "%lld,%lld" : "%lld", (long long)out, (long long)in);
    add(w, full, shape, in > 0 ? out * in : out);
    snprintf(full, sizeof full, "%s.%d.%s.bias", prefix, index, name);
    snprintf(shape, sizeof shape, "%lld", (long long)out);
    add(w, full, shape, out);
}

const char *small_model(void)
{
    static writer w;
    w.used =
        (size_t)snprintf(w.header, sizeof w.header,
                         "{\"__metadata__\":{\"config\":\"{\\\"architecture\\\":\\\"vit\\\",\\\"model_args\\\":{\\\"num_heads\\\":1}}\"}");
    add(&w, "cls_token", "1,1,64", DIM);
    add(&w, "pos_embed", "1,5,64", TOKENS * DIM);
    add(&w, "patch_embed.proj.weight", "64,3,4,4", DIM * 48);
    add(&w, "patch_embed.proj.bias", "64", DIM);
    for (int i = 0; i < DEPTH; i++) {
        add_part(&w, "blocks", i, "norm1", DIM, 0);
        add_part(&w, "blocks", i, "attn.qkv", 3 * DIM, DIM);
        add_part(&w, "blocks", i, "attn.proj", DIM, DIM);
        add_part(&w, "blocks", i, "norm2", DIM, 0);
        add_part(&w, "blocks", i, "mlp.fc1", 32, DIM);
        add_part(&w, "blocks", i, "mlp.fc2", DIM, 32);
        add_part(&w, "score_predictor", i, "in_conv.0", DIM, 0);
        add_part(&w, "score_predictor", i, "in_conv.1", DIM, DIM);
        add_part(&w, "score_predictor", i, "out_conv.0", DIM / 2, DIM);
        add_part(&w, "score_predictor", i, "out_conv.2", DIM / 4, DIM / 2);
        add_part(&w, "score_predictor", i, "out_conv.4", 2, DIM / 4);
    }
    add(&w, "norm.weight", "64", DIM);
    add(&w, "norm.bias", "64", DIM);
    add(&w, "head.weight", "4,64", CLASSES * DIM);
    add(&w, "head.bias", "4", CLASSES);
    w.header[w.used++] = '}';
    const size_t size = 8 + w.used + (size_t)w.offset;
    uint8_t *whole = calloc(size, 1);
    if (whole == NULL)
        fuzz_fail("no memory");
    for (int i = 0; i < 8; i++)
        whole[i] = (uint8_t)(w.used >> 8 * i);
    memcpy(whole + 8, w.header, w.used);
    uint32_t random = 1;
    for (int64_t i = 0; i < w.offset / 4; i++) {
        random = random * 1664525u + 1013904223u;
        const float value = (float)(random >> 8) / (1 << 26) - 0.125f;
        memcpy(whole + 8 + w.used + 4 * i, &value, sizeof value);
    }
    const char *path = memory_file(whole, size, 0);
    free(whole);
    return path;
}
