#include "engine.h"

#include <stdio.h>
#include <string.h>

int engine_checkpoint(const struct options *options, rvit_checkpoint **out)
{
    const char *path = options->model;
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    *out = NULL;
    rvit_status status = rvit_checkpoint_open(path, &options->checkpoint, out);
    if (status == RVIT_OK)
        status = rvit_checkpoint_get_model_info(*out, &info);
    if (status == RVIT_OK && info.channels == 3)
        return EXIT_OK;
    const int code = status != RVIT_OK ? complain_status(path, status) : EXIT_FILE;
    if (status == RVIT_OK)
        complain(path, "the model takes images with %d channels; this tool supports only RGB", info.channels);
    rvit_checkpoint_destroy(*out);
    *out = NULL;
    return code;
}

rvit_status engine_load(struct engine *self, const rvit_checkpoint *checkpoint, rvit_precision precision)
{
    rvit_model_desc model = RVIT_MODEL_DESC_INIT;
    rvit_status status = rvit_device_get_info(self->device, &self->device_info);
    if (status == RVIT_OK)
        status = rvit_precision_choose(self->device, checkpoint, precision, &self->choice);
    model.dtype = self->choice.dtype;
    model.quantization = self->choice.quantization;
    if (status == RVIT_OK)
        status = rvit_model_create(self->device, checkpoint, &model, &self->model);
    if (status == RVIT_OK)
        status = rvit_model_get_info(self->model, &self->model_info);
    const rvit_device_info *info = &self->device_info;
    snprintf(self->name, sizeof self->name, "%s %d: %s, %s%s, %s", rvit_enum_name(RVIT_ENUM_BACKEND, info->backend), info->index,
             info->name, self->is_oracle ? "oracle" : rvit_enum_name(RVIT_ENUM_TIER, info->tier), self->is_oracle ? "" : " tier",
             rvit_enum_name(RVIT_ENUM_PRECISION, self->choice.precision));
    return status;
}

int engine_open(const struct options *options, rvit_backend backend, int32_t index, rvit_tier tier, bool oracle, rvit_precision precision,
                bool sleeps, const rvit_checkpoint *checkpoint, struct engine *out)
{
    rvit_device_desc device = RVIT_DEVICE_DESC_INIT;
    *out = (struct engine){.device_info = RVIT_DEVICE_INFO_INIT,
                           .model_info = RVIT_MODEL_INFO_INIT,
                           .is_oracle = oracle,
                           .choice = RVIT_PRECISION_CHOICE_INIT};
    device.backend = backend;
    device.index = index;
    device.tier = tier;
    device.kernels = backend == RVIT_BACKEND_CPU && !oracle ? options->kernels : NULL;
    device.n_threads = options->threads;
    device.oracle = oracle;
    device.poll_us = sleeps ? -1 : 0;
    const char *subject = rvit_enum_name(RVIT_ENUM_BACKEND, backend);
    rvit_status status = rvit_device_create(&device, &out->device);
    if (status == RVIT_OK) {
        subject = options->model;
        status = engine_load(out, checkpoint, precision);
    }
    if (status != RVIT_OK) {
        const int code = complain_status(subject, status);
        engine_close(out);
        return code;
    }
    if (out->choice.reason[0])
        fprintf(stderr, "--dtype auto: %s, because %s\n", rvit_enum_name(RVIT_ENUM_PRECISION, out->choice.precision), out->choice.reason);
    return EXIT_OK;
}

void engine_reason_to_json(const struct engine *self, json_t *object)
{
    if (self->choice.reason[0])
        json_object_set_new(object, "dtype_reason", json_text(self->choice.reason));
}

int engine_decoder(struct engine *self, const struct options *options)
{
    return options->decoder == DECODER_NVJPEG ? nvjpeg_open(self->device, &self->nvjpeg) : EXIT_OK;
}

void engine_close(struct engine *self)
{
    nvjpeg_close(self->nvjpeg);
    rvit_model_destroy(self->model);
    rvit_device_destroy(self->device);
    self->nvjpeg = NULL;
    self->model = NULL;
    self->device = NULL;
}

int64_t engine_image_length(const struct engine *self)
{
    const rvit_model_info *info = &self->model_info;
    return (int64_t)info->channels * info->image_height * info->image_width;
}

bool engine_fits(const struct engine *self, const rvit_session_desc *desc, int32_t n_sessions)
{
    rvit_memory_info memory = RVIT_MEMORY_INFO_INIT;
    rvit_device_info now = RVIT_DEVICE_INFO_INIT;
    if (rvit_session_memory(self->model, desc, &memory) != RVIT_OK || rvit_device_get_info(self->device, &now) != RVIT_OK)
        return false;
    const int64_t mapped = now.backend == RVIT_BACKEND_CPU ? memory.upload_size + memory.readback_size + memory.trace_size : 0;
    return now.memory_free == 0 || (memory.device_size + mapped) * n_sessions <= now.memory_free - now.memory_free / 16;
}

void engine_fit(const struct engine *self, int32_t n_sessions, rvit_session_desc *desc)
{
    const int32_t default_batch = desc->max_images;
    while (desc->max_images > 1 && !engine_fits(self, desc, n_sessions))
        desc->max_images /= 2;
    if (!engine_fits(self, desc, n_sessions))
        desc->max_images = default_batch; /* it fails for another reason, which creating the session reports */
    else if (desc->max_images < default_batch)
        engine_report_batch(default_batch, desc->max_images);
}

void engine_report_batch(int32_t default_batch, int32_t batch)
{
    complain(NULL, "%d image%s per run instead of %d, to fit the device's memory", batch, batch == 1 ? "" : "s", default_batch);
}

/* Explains the library's field names in terms of options. */
static void explain_options(rvit_status status)
{
    static const struct {
        const char *field, *options;
    } table[] = {{"max_images is", "max_images is set by --batch (bench: --batches)"},
                 {"max_tokens is", "max_tokens is set by --max-tokens"},
                 {"input_bytes is", "input_bytes grows with --batch"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strstr(rvit_status_detail(), table[i].field))
            complain(NULL, "%s", table[i].options);
    if (status == RVIT_OUT_OF_DEVICE_MEMORY || status == RVIT_OUT_OF_HOST_MEMORY)
        complain(NULL, "a smaller --batch or --max-tokens (bench: --batches) takes less memory");
}

int engine_session_of(struct engine *self, const rvit_session_desc *desc, rvit_session **out)
{
    self->memory = (rvit_memory_info)RVIT_MEMORY_INFO_INIT;
    rvit_status status = rvit_session_memory(self->model, desc, &self->memory);
    if (status == RVIT_OK)
        status = rvit_session_create(self->model, desc, out);
    if (status == RVIT_OK)
        return EXIT_OK;
    const int code = complain_status(NULL, status);
    explain_options(status);
    return code;
}

int engine_session(struct engine *self, const rvit_prune_desc *prune, int32_t max_images, int32_t trace, int32_t outputs,
                   rvit_session **out)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = max_images;
    desc.prune = prune;
    desc.trace = trace;
    desc.outputs = outputs;
    return engine_session_of(self, &desc, out);
}
