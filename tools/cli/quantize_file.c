/* Writes the checkpoint of raggedvit quantize in the compressed-tensors format. */
#include "quantize_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os_program.h"

enum { PATH_SIZE = 4096, PART = 1 << 20 };

/* The layer of a tensor that is quantized, NULL for other tensors. */
static const struct quantize_layer *layer_of(const struct quantize *self, int32_t tensor)
{
    for (int32_t i = 0; i < self->n_layers; i++)
        if (self->layers[i].tensor == tensor)
            return self->layers[i].skipped ? NULL : &self->layers[i];
    return NULL;
}

/* Names of the linear layers that are not quantized. */
static json_t *ignored(const struct quantize *self)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < rvit_tensors_count(self->tensors); i++) {
        rvit_tensor_info tensor = RVIT_TENSOR_INFO_INIT;
        if (rvit_tensors_get(self->tensors, i, &tensor) != RVIT_OK)
            continue;
        const size_t length = strlen(tensor.name), end = strlen(".weight");
        if (tensor.rank == 2 && length > end && strcmp(tensor.name + length - end, ".weight") == 0 && !layer_of(self, i))
            json_array_append_new(list, json_stringn(tensor.name, length - end));
    }
    return list;
}

static json_t *quantization_config(const struct quantize *self)
{
    const bool is_int = self->dtype == RVIT_I8;
    const char *type = is_int ? "int" : "float";
    json_t *weights = json_pack("{s:i, s:s, s:b, s:s, s:b}", "num_bits", 8, "type", type, "symmetric", 1, "strategy",
                                is_int ? "channel" : "tensor", "dynamic", 0);
    json_t *inputs = json_pack("{s:i, s:s, s:b, s:s, s:b}", "num_bits", 8, "type", type, "symmetric", 1, "strategy",
                               self->fixed ? "tensor" : "token", "dynamic", !self->fixed);
    return json_pack("{s:s, s:s, s:s, s:o, s:{s:{s:[s], s:o, s:o}}}", "quant_method", "compressed-tensors", "format",
                     is_int ? "int-quantized" : "float-quantized", "quantization_status", "compressed", "ignore", ignored(self),
                     "config_groups", "group_0", "targets", "Linear", "weights", weights, "input_activations", inputs);
}

/* The path of a file in the folder of another file. */
static bool sibling_path(char out[PATH_SIZE], const char *path, const char *name)
{
    return (size_t)snprintf(out, PATH_SIZE, "%.*s%s", (int)(rvit_os_name_of(path) - path), path, name) < PATH_SIZE;
}

/* The JSON file in the folder of another file; NULL if it is missing or is not JSON. */
static json_t *load_beside(const char *path, const char *name)
{
    char beside[PATH_SIZE];
    int number;
    FILE *file = sibling_path(beside, path, name) ? rvit_file_read_open(beside, &number) : NULL;
    json_t *json = file ? json_loadf(file, 0, NULL) : NULL;
    if (file)
        (void)fclose(file);
    return json;
}

/* The model's config with the quantization added, or NULL without a config. */
static json_t *config_of(const struct quantize *self, bool *out_is_file)
{
    const char *text = rvit_checkpoint_metadata(self->checkpoint, "config");
    json_t *config = load_beside(self->options->model, "config.json");
    *out_is_file = config != NULL;
    if (!config && text)
        config = json_loads(text, 0, NULL);
    if (config)
        json_object_set_new(config, "quantization_config", quantization_config(self));
    return config;
}

static json_t *metadata_of(const struct quantize *self, json_t *config)
{
    static const char *const kept[] = {"architecture", "classes"};
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const char *text = rvit_checkpoint_metadata(self->checkpoint, kept[i]);
        if (text)
            json_object_set_new(metadata, kept[i], json_text(text));
    }
    char *text = config ? json_dumps(config, JSON_COMPACT) : NULL;
    if (text)
        json_object_set_new(metadata, "config", json_text(text));
    free(text);
    return metadata;
}

/* Adds a tensor after the others. */
static void add_entry(json_t *header, const char *name, const char *dtype, const int64_t *shape, int32_t rank, int64_t size, int64_t *at)
{
    json_t *extents = json_array();
    for (int32_t i = 0; i < rank; i++)
        json_array_append_new(extents, json_integer(shape[i]));
    json_object_set_new(
        header, name,
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", extents, "data_offsets", (json_int_t)*at, (json_int_t)(*at + size)));
    *at += size;
}

/* "X.weight" + what: "X.weight_scale", "X.input_scale". */
static void scale_name(char out[PATH_SIZE], const struct quantize_layer *layer, bool input)
{
    const size_t length = strlen(layer->name) - (input ? strlen("weight") : 0);
    snprintf(out, PATH_SIZE, "%.*s%s", (int)length, layer->name, input ? "input_scale" : "_scale");
}

static bool has_input_scale(const struct quantize *self, const struct quantize_layer *layer)
{
    const size_t length = strlen(layer->name), end = strlen(".weight");
    return self->fixed && length > end && strcmp(layer->name + length - end, ".weight") == 0;
}

/* Scales come first, because readers may need them aligned; 8-bit tensors come last. */
static json_t *header_of(const struct quantize *self, json_t *config)
{
    json_t *header = json_object();
    int64_t at = 0;
    char name[PATH_SIZE];
    json_object_set_new(header, "__metadata__", metadata_of(self, config));
    for (int32_t i = 0; i < self->n_layers; i++) {
        const struct quantize_layer *layer = &self->layers[i];
        const int64_t shape[2] = {layer->n_scales, 1};
        if (layer->skipped)
            continue;
        scale_name(name, layer, false);
        add_entry(header, name, "F32", shape, layer->n_scales == 1 ? 1 : 2, 4 * layer->n_scales, &at);
        if (!has_input_scale(self, layer))
            continue;
        scale_name(name, layer, true);
        add_entry(header, name, "F32", (int64_t[]){1}, 1, 4, &at);
    }
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < rvit_tensors_count(self->tensors); i++) {
            rvit_tensor_info tensor = RVIT_TENSOR_INFO_INIT;
            const struct quantize_layer *layer = layer_of(self, i);
            if ((layer != NULL) != pass || rvit_tensors_get(self->tensors, i, &tensor) != RVIT_OK)
                continue;
            if (layer)
                add_entry(header, tensor.name, self->dtype == RVIT_I8 ? "I8" : "F8_E4M3", tensor.shape, tensor.rank,
                          layer->rows * layer->columns, &at);
            else
                add_entry(header, tensor.name, tensor.dtype, tensor.shape, tensor.rank, tensor.size, &at);
        }
    return header;
}

static int not_written(const struct output_file *file)
{
    return fail_with(EXIT_FAULT, file->path, "%s", file->reason);
}

static int copy_tensor(struct quantize *self, int32_t tensor, void *part)
{
    rvit_tensor_info info = RVIT_TENSOR_INFO_INIT;
    const rvit_status found = rvit_tensors_get(self->tensors, tensor, &info);
    if (found != RVIT_OK)
        return complain_status(self->options->model, found);
    const int64_t size = info.size;
    for (int64_t done = 0; done < size; done += PART) {
        const int64_t some = size - done < PART ? size - done : PART;
        const rvit_status status = rvit_tensors_read_bytes(self->tensors, tensor, done, some, part);
        if (status != RVIT_OK)
            return complain_status(self->options->model, status);
        if (!output_file_write(&self->output, part, (size_t)some))
            return not_written(&self->output);
    }
    return EXIT_OK;
}

/* Writes the data in the order of the header. */
static int write_data(struct quantize *self)
{
    struct output_file *file = &self->output;
    for (int32_t i = 0; i < self->n_layers; i++) {
        const struct quantize_layer *layer = &self->layers[i];
        if (layer->skipped)
            continue;
        (void)output_file_write(file, layer->scales, 4 * (size_t)layer->n_scales);
        const float input = quantize_fixed_scale(self, layer->input);
        if (has_input_scale(self, layer))
            (void)output_file_write(file, &input, 4);
    }
    void *part = allocate(PART, 1);
    int code = part ? EXIT_OK : EXIT_FAULT;
    for (int32_t i = 0; i < rvit_tensors_count(self->tensors) && code == EXIT_OK; i++)
        code = layer_of(self, i) ? EXIT_OK : copy_tensor(self, i, part);
    free(part);
    for (int32_t i = 0; i < self->n_layers && code == EXIT_OK; i++) {
        const struct quantize_layer *layer = &self->layers[i];
        if (!layer->skipped)
            (void)output_file_write(file, layer->quantized, (size_t)(layer->rows * layer->columns));
    }
    return code != EXIT_OK || output_file_finish(file) ? code : not_written(file);
}

static int write_model(struct quantize *self, json_t *header)
{
    static const char blanks[] = "        ";
    char *text = json_dumps(header, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (!text)
        return fail_with(EXIT_FAULT, NULL, "out of memory");
    const size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    (void)output_file_write(&self->output, size, sizeof size);
    (void)output_file_write(&self->output, text, length);
    (void)output_file_write(&self->output, blanks, padded - length);
    free(text);
    return write_data(self);
}

static int write_text(const char *text, size_t length, void *file)
{
    return output_file_write(file, text, length) ? 0 : -1;
}

/* Writes a JSON file beside the model unless the file exists or json is NULL. */
static int write_beside(const char *path, const json_t *json, struct output_file *out)
{
    if (!json || rvit_os_exists(path))
        return EXIT_OK;
    if (!output_file_open(path, out) || (json_dump_callback(json, write_text, out, JSON_INDENT(2)) != 0 && out->reason[0]) ||
        !output_file_finish(out))
        return not_written(out);
    return EXIT_OK;
}

/* Copies the model's config files to the new folder unless they exist there. All files are written before the first is renamed; the model
   is renamed last. */
static int write_all(struct quantize *self, json_t *config, bool config_is_file, json_t *header)
{
    static const char *const names[] = {"config.json", "processor_config.json", "preprocessor_config.json", "open_clip_config.json"};
    enum { N = sizeof names / sizeof *names };
    struct output_file beside_it[N] = {0};
    char paths[N][PATH_SIZE];
    int code = write_model(self, header);
    for (int i = 0; i < N && code == EXIT_OK; i++) {
        json_t *json = i > 0 ? load_beside(self->options->model, names[i]) : config_is_file ? json_incref(config) : NULL;
        if (sibling_path(paths[i], self->output.path, names[i]))
            code = write_beside(paths[i], json, &beside_it[i]);
        json_decref(json);
    }
    for (int i = 0; i < N && code == EXIT_OK; i++)
        if (!output_file_commit(&beside_it[i]))
            code = not_written(&beside_it[i]);
    if (code == EXIT_OK && !output_file_commit(&self->output))
        code = not_written(&self->output);
    for (int i = 0; i < N; i++)
        output_file_close(&beside_it[i]);
    return code;
}

int quantize_write(struct quantize *self)
{
    bool config_is_file;
    json_t *config = config_of(self, &config_is_file), *header = header_of(self, config);
    const int code = write_all(self, config, config_is_file, header);
    json_decref(header);
    json_decref(config);
    return code;
}
