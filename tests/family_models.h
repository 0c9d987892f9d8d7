/* Loads small checkpoints on the CPU and compares the weights of the models. */
#ifndef RVIT_TESTS_FAMILY_MODELS_H
#define RVIT_TESTS_FAMILY_MODELS_H

#include "checkpoint_file.h"

#include <math.h>

#include "core/model/checkpoint.h"
#include "core/weights/model.h"

#include <raggedvit/raggedvit.h>

static model scratch;
static rvit_device *device;
static rvit_stream *stream;
static char config_path[128];

static inline rvit_checkpoint *open_with(const rvit_checkpoint_desc *desc)
{
    write_model(&scratch, WITH_VALUES);
    rvit_checkpoint *checkpoint = NULL;
    if (rvit_checkpoint_open(temp_path, desc, &checkpoint) != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    return checkpoint;
}

static inline void expect_bad(const rvit_checkpoint_desc *desc, rvit_status expected, const char *word)
{
    write_model(&scratch, WITH_VALUES);
    rvit_checkpoint *checkpoint = NULL;
    const rvit_status status = rvit_checkpoint_open(temp_path, desc, &checkpoint);
    if (status != expected || strstr(rvit_status_detail(), word) == NULL)
        fail_msg("expected %s with \"%s\", got %s: %s", rvit_status_name(expected), word, rvit_status_name(status), rvit_status_detail());
    assert_null(checkpoint);
}

static inline rvit_model_info info_of(const rvit_checkpoint *checkpoint)
{
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, &info), RVIT_OK);
    return info;
}

/* Opens the checkpoint and returns its info. */
static inline rvit_model_info good(void)
{
    rvit_checkpoint *checkpoint = open_with(NULL);
    const rvit_model_info info = info_of(checkpoint);
    rvit_checkpoint_destroy(checkpoint);
    return info;
}

static inline void *read_view(rvit_view view, int64_t size)
{
    void *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    assert_int_equal(rvit_stream_read(stream, view, bytes, size), RVIT_OK);
    assert_int_equal(rvit_stream_synchronize(stream), RVIT_OK);
    return bytes;
}

static inline rvit_model *load_model(const rvit_checkpoint_desc *desc, rvit_dtype dtype)
{
    rvit_checkpoint *checkpoint = open_with(desc);
    rvit_model_desc model_desc = RVIT_MODEL_DESC_INIT;
    model_desc.dtype = dtype;
    rvit_model *m = NULL;
    if (rvit_model_create(device, checkpoint, &model_desc, &m) != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    rvit_checkpoint_destroy(checkpoint);
    return m;
}

/* All weight memory of the model, including padding, which loading must not change. */
static inline void *bytes_of(const rvit_model *m, int64_t *out_size)
{
    *out_size = rvit_buffer_size(m->weights);
    return read_view((rvit_view){m->weights, 0}, *out_size);
}

static inline void expect_same_weights(rvit_model *a, rvit_model *b)
{
    int64_t size_a, size_b;
    uint8_t *bytes_a = bytes_of(a, &size_a), *bytes_b = bytes_of(b, &size_b);
    assert_int_equal(size_a, size_b);
    const rvit_view views_a[] = {a->patch_weight,
                                 a->embedding,
                                 a->blocks[0].linears[RVIT_BLOCK_QKV].weight,
                                 a->blocks[1].linears[RVIT_BLOCK_QKV].bias,
                                 a->blocks[1].linears[RVIT_BLOCK_PROJ].weight,
                                 a->blocks[0].linears[RVIT_BLOCK_FC1].weight,
                                 a->blocks[1].linears[RVIT_BLOCK_FC2].bias,
                                 a->norm_gamma,
                                 a->head_weight,
                                 a->head_bias};
    const rvit_view views_b[] = {b->patch_weight,
                                 b->embedding,
                                 b->blocks[0].linears[RVIT_BLOCK_QKV].weight,
                                 b->blocks[1].linears[RVIT_BLOCK_QKV].bias,
                                 b->blocks[1].linears[RVIT_BLOCK_PROJ].weight,
                                 b->blocks[0].linears[RVIT_BLOCK_FC1].weight,
                                 b->blocks[1].linears[RVIT_BLOCK_FC2].bias,
                                 b->norm_gamma,
                                 b->head_weight,
                                 b->head_bias};
    for (size_t i = 0; i < sizeof views_a / sizeof *views_a; i++)
        assert_int_equal(views_a[i].offset, views_b[i].offset);
    assert_memory_equal(bytes_a, bytes_b, (size_t)size_a);
    free(bytes_a);
    free(bytes_b);
    rvit_model_destroy(a);
    rvit_model_destroy(b);
}

/* Replaces the beginning of names, or their end. */
static inline void rename_all(const char *from, const char *to)
{
    for (int i = 0; i < scratch.n; i++) {
        char *name = scratch.tensors[i].name, *place = strstr(name, from), tail[96];
        if (place == NULL)
            continue;
        strcpy(tail, place + strlen(from));
        snprintf(place, sizeof scratch.tensors[i].name - (size_t)(place - name), "%s%s", to, tail);
    }
}

static inline void drop_name(const char *name)
{
    drop(&scratch, (int)(get(&scratch, name) - scratch.tensors));
}

static inline int setup(void **state)
{
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    desc.oracle = 1; /* keeps weights in loading order */
    if (temp_setup(state) != 0 || rvit_device_create(&desc, &device) != RVIT_OK || rvit_stream_create(device, &stream) != RVIT_OK)
        return -1;
    snprintf(config_path, sizeof config_path, "%s/config.json", temp_folder);
    return 0;
}

static inline int teardown(void **state)
{
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
    (void)unlink(config_path);
    return temp_teardown(state);
}

#endif
