#include "verify_select.h"

#include <stdlib.h>
#include <string.h>

/* As include/raggedvit/prune.h defines the policies. */
static const struct rule {
    rvit_prune_type type;
    rvit_count_rule count;
    int32_t prefix_competes, k_min;
} rules[] = {
    {RVIT_PRUNE_L2, RVIT_COUNT_FLOOR, 1, 1},
    {RVIT_PRUNE_EVIT, RVIT_COUNT_CEIL, 0, 1},
};

static const struct rule *find_rule(rvit_prune_type type)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].type == type)
            return &rules[i];
    return NULL;
}

bool selector_knows(rvit_prune_type type)
{
    return find_rule(type) != NULL;
}

int selector_open(const struct engine *engine, rvit_prune_type type, double keep, int32_t max_images, struct selector *out)
{
    const struct rule *rule = find_rule(type);
    const int32_t tokens = engine->model_info.tokens;
    const int64_t rows = (int64_t)max_images * tokens;
    rvit_device *device = engine->device;
    *out = (struct selector){
        .max_images = max_images, .tokens = tokens, .n_prefix = engine->model_info.n_prefix, .prefix_competes = rule->prefix_competes};
    rvit_status status = rvit_stream_create(device, &out->stream);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, ((int64_t)tokens + 1) * 4, RVIT_BUFFER_UPLOAD, &out->counts);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, rows * 4, RVIT_BUFFER_UPLOAD, &out->scores);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, ((int64_t)max_images + 1) * 4, RVIT_BUFFER_UPLOAD, &out->cu_seqlens);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, rows, RVIT_BUFFER_READBACK, &out->keep);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, ((int64_t)max_images + 1) * 4, RVIT_BUFFER_READBACK, &out->out_cu_seqlens);
    if (status == RVIT_OK)
        status = rvit_buffer_create(device, rows * 4, RVIT_BUFFER_READBACK, &out->src_rows);
    if (status == RVIT_OK)
        status = rvit_count_table(rule->count, keep, rule->k_min, tokens, rvit_buffer_host(out->counts));
    if (status == RVIT_OK)
        return EXIT_OK;
    const int code = complain_status(NULL, status);
    selector_close(out);
    return code;
}

void selector_close(struct selector *self)
{
    rvit_stream_destroy(self->stream);
    rvit_buffer_destroy(self->counts);
    rvit_buffer_destroy(self->scores);
    rvit_buffer_destroy(self->cu_seqlens);
    rvit_buffer_destroy(self->keep);
    rvit_buffer_destroy(self->out_cu_seqlens);
    rvit_buffer_destroy(self->src_rows);
    *self = (struct selector){0};
}

int selector_run(struct selector *self, const float *scores, const int32_t *cu_seqlens, int32_t n_images, const uint8_t **out_keep)
{
    rvit_select_args args = RVIT_SELECT_ARGS_INIT;
    args.mode = RVIT_SELECT_TOP_K;
    args.n_images = n_images;
    args.max_len = self->tokens;
    args.rows = (int64_t)self->max_images * self->tokens;
    args.n_prefix = self->n_prefix;
    args.prefix_competes = self->prefix_competes;
    args.counts.buffer = self->counts;
    args.scores.buffer = self->scores;
    args.cu_seqlens.buffer = self->cu_seqlens;
    args.keep.buffer = self->keep;
    args.out_cu_seqlens.buffer = self->out_cu_seqlens;
    args.src_rows.buffer = self->src_rows;
    memcpy(rvit_buffer_host(self->scores), scores, (size_t)cu_seqlens[n_images] * sizeof *scores);
    memcpy(rvit_buffer_host(self->cu_seqlens), cu_seqlens, ((size_t)n_images + 1) * sizeof *cu_seqlens);
    rvit_status status = rvit_select(self->stream, &args);
    if (status == RVIT_OK)
        status = rvit_stream_synchronize(self->stream);
    *out_keep = rvit_buffer_host(self->keep);
    return status == RVIT_OK ? EXIT_OK : complain_status(NULL, status);
}
