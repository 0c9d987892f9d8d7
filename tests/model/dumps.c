#include "dumps.h"

#include <inttypes.h>
#include <math.h>
#include "tools/cli/session_results.h"

enum { IMAGE_STREAM = 1 << 20 };

const char *dump_file;
void (*dump_change)(const char *name, int32_t rank, const int64_t *shape, float *values);

/* Values from -1 to 1 that are exact in float16. */
static float noise(uint64_t stream, uint64_t i)
{
    uint64_t x = (stream << 32) + i + UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return (float)((int)(x >> 53) - 1024) / 1024;
}

int64_t dump_integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is not an integer", key);
    return json_integer_value(value);
}

const char *dump_text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (value == NULL)
        fail_msg("%s is not a string", key);
    return value;
}

static rvit_dtype type_of(const char *name)
{
    return strcmp(name, "F32") == 0 ? RVIT_F32 : strcmp(name, "F16") == 0 ? RVIT_F16 : RVIT_BF16;
}

static void write_all(FILE *file, const void *bytes, size_t size)
{
    assert_int_equal(fwrite(bytes, 1, size, file), size);
}

static void change(const json_t *tensor, float *values)
{
    int64_t shape[5] = {0};
    const json_t *extents = json_array_get(tensor, 1);
    const int32_t rank = (int32_t)json_array_size(extents);
    assert_true(rank <= 5);
    for (int32_t i = 0; i < rank; i++)
        shape[i] = json_integer_value(json_array_get(extents, (size_t)i));
    dump_change(json_string_value(json_array_get(tensor, 0)), rank, shape, values);
}

/* Writes a checkpoint file of the tensors, which are lists of [name, shape, offset, shift]. */
static void write_checkpoint(const json_t *dump, const char *path)
{
    const json_t *tensors = json_object_get(dump, "tensors");
    const rvit_dtype dtype = type_of(dump_text(dump, "dtype"));
    json_t *header = json_object();
    int64_t end = 0;
    size_t index;
    json_t *tensor;
    json_array_foreach((json_t *)tensors, index, tensor)
    {
        int64_t n = rvit_dtype_size(dtype);
        size_t axis;
        json_t *extent;
        json_array_foreach(json_array_get(tensor, 1), axis, extent) n *= json_integer_value(extent);
        json_object_set_new(header, json_string_value(json_array_get(tensor, 0)),
                            json_pack("{s:s, s:O, s:[I, I]}", "dtype", dump_text(dump, "dtype"), "shape", json_array_get(tensor, 1),
                                      "data_offsets", (json_int_t)end, (json_int_t)(end + n)));
        end += n;
    }
    char *head = json_dumps(header, JSON_COMPACT);
    assert_non_null(head);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    const uint64_t length = strlen(head);
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> 8 * i);
    write_all(file, bytes, 8);
    write_all(file, head, length);
    json_array_foreach((json_t *)tensors, index, tensor)
    {
        const json_t *place = json_object_get(json_object_get(header, json_string_value(json_array_get(tensor, 0))), "data_offsets");
        const int64_t size = json_integer_value(json_array_get(place, 1)) - json_integer_value(json_array_get(place, 0));
        const float offset = (float)json_number_value(json_array_get(tensor, 2));
        const float scale = ldexpf(1, -(int)json_integer_value(json_array_get(tensor, 3)));
        uint8_t *values = malloc((size_t)size);
        assert_non_null(values);
        const int64_t n = size / rvit_dtype_size(dtype);
        float *exact = malloc((size_t)(n + 1) * sizeof *exact);
        assert_non_null(exact);
        for (int64_t i = 0; i < n; i++)
            exact[i] = offset + scale * noise(index, (uint64_t)i);
        if (dump_change != NULL)
            change(tensor, exact);
        for (int64_t i = 0; i < n; i++)
            store(dtype, values, i, exact[i]);
        free(exact);
        write_all(file, values, (size_t)size);
        free(values);
    }
    assert_int_equal(fclose(file), 0);
    free(head);
    json_decref(header);
}

const char *dump_checkpoint(const json_t *dump)
{
    if (json_object_get(dump, "file") != NULL)
        return dump_text(dump, "file");
    const char *path = temporary_path("model.safetensors");
    write_checkpoint(dump, path);
    assert_int_equal(json_dump_file(json_object_get(dump, "config"), temporary_path("config.json"), 0), 0);
    return path;
}

void dump_images(const rvit_model_info *info, int32_t n_images, float *images)
{
    const int64_t pixels = (int64_t)info->channels * info->image_height * info->image_width;
    for (int32_t n = 0; n < n_images; n++)
        for (int64_t i = 0; i < pixels; i++)
            images[n * pixels + i] = 2 * noise((uint64_t)IMAGE_STREAM + (uint64_t)n, (uint64_t)i);
}

int32_t *dump_grids(const json_t *dump)
{
    const json_t *grids = json_object_get(dump, "grids");
    const int32_t n = (int32_t)json_array_size(grids);
    int32_t *out = grids == NULL ? NULL : scratch(2 * (size_t)n * sizeof *out);
    for (int32_t i = 0; out != NULL && i < 2 * n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(json_array_get(grids, (size_t)i / 2), (size_t)i % 2));
    return out;
}

float *dump_patches(const json_t *dump, const rvit_model_info *info)
{
    const int32_t *grids = dump_grids(dump), n_images = (int32_t)dump_integer(dump, "n_images");
    const int64_t width = (int64_t)info->channels * info->patch_size * info->patch_size * (info->merge > 0 ? info->patch_frames : 1);
    int64_t n = 0;
    for (int32_t i = 0; i < n_images; i++)
        n += grids[2 * i] * grids[2 * i + 1] * width;
    float *patches = scratch((size_t)n * sizeof *patches), *at = patches;
    for (int32_t i = 0; i < n_images; i++)
        for (int64_t j = 0; j < grids[2 * i] * grids[2 * i + 1] * width; j++)
            *at++ = 2 * noise((uint64_t)IMAGE_STREAM + (uint64_t)i, (uint64_t)j);
    return patches;
}

const uint8_t *dump_image_bytes(int32_t i, int64_t n)
{
    uint8_t *bytes = scratch((size_t)n);
    for (int64_t j = 0; j < n; j++)
        bytes[j] = (uint8_t)((noise((uint64_t)IMAGE_STREAM + 1000 + (uint64_t)i, (uint64_t)j) + 1) * 128);
    return bytes;
}

rvit_session_desc dump_session_desc(const json_t *dump, const rvit_model_info *info)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    const int32_t *grids = dump_grids(dump);
    desc.max_images = (int32_t)dump_integer(dump, "n_images");
    desc.outputs = dump_integer(dump, "features") ? RVIT_OUTPUT_FEATURES : info->merge > 0 ? RVIT_OUTPUT_MERGED : 0;
    desc.variable_resolution = grids != NULL;
    desc.input = grids != NULL ? RVIT_INPUT_PATCHES : RVIT_INPUT_TENSOR;
    for (int32_t i = 0; grids != NULL && i < desc.max_images; i++) {
        const int32_t len = info->n_prefix + grids[2 * i] * grids[2 * i + 1];
        desc.max_tokens += len;
        desc.max_len = len > desc.max_len ? len : desc.max_len;
    }
    return desc;
}

rvit_prune_desc dump_prune(const json_t *prune)
{
    rvit_prune_desc desc = RVIT_PRUNE_DESC_INIT;
    const json_t *blocks = json_object_get(prune, "blocks");
    int32_t type = RVIT_PRUNE_NONE;
    expect_ok(rvit_enum_from_name(RVIT_ENUM_PRUNE, dump_text(prune, "policy"), &type));
    desc.type = (rvit_prune_type)type;
    desc.n_blocks = (int32_t)json_array_size(blocks);
    for (int32_t i = 0; i < desc.n_blocks; i++)
        desc.blocks[i] = (int32_t)json_integer_value(json_array_get(blocks, (size_t)i));
    if (json_object_get(prune, "keep") != NULL)
        desc.keep = json_number_value(json_object_get(prune, "keep"));
    if (json_object_get(prune, "merges") != NULL)
        desc.merges = (int32_t)dump_integer(prune, "merges");
    if (json_object_get(prune, "tau") != NULL)
        desc.tau = json_number_value(json_object_get(prune, "tau"));
    return desc;
}

/* The same as repeating() in reference_pruned.py. If the model merges patches, tiles are in merge groups. */
void dump_repeat(const json_t *prune, const json_t *dump, const rvit_model_info *info, float *patches)
{
    const json_t *tile = json_object_get(prune, "tile");
    if (tile == NULL)
        return;
    const int32_t *grids = dump_grids(dump), n_images = (int32_t)dump_integer(dump, "n_images");
    const int32_t high = (int32_t)json_integer_value(json_array_get(tile, 0)), wide = (int32_t)json_integer_value(json_array_get(tile, 1));
    const int32_t edge = info->merge > 0 ? info->merge : 1, frames = info->patch_frames > 0 ? info->patch_frames : 1;
    const int64_t width = (int64_t)info->channels * info->patch_size * info->patch_size * frames * edge * edge;
    const float step = (float)json_number_value(json_object_get(prune, "step"));
    float *image = patches;
    for (int32_t i = 0; i < n_images; i++) {
        const int32_t columns = grids[2 * i + 1] / edge, n = grids[2 * i] / edge * columns;
        for (int32_t p = n - 1; p >= 0; p--) { /* the first patch of a tile changes last, because the others are computed from it */
            const int32_t y = p / columns, x = p % columns, source = (y - y % high) * columns + x - x % wide;
            for (int64_t j = 0; j < width; j++)
                image[p * width + j] = image[source * width + j] + step * (float)((y + x) % 3);
        }
        image += n * width;
    }
}

void dump_run_all(const json_t *dump, const rvit_model_info *info, rvit_session *session)
{
    dump_run_patches(dump, info, session, dump_grids(dump) == NULL ? NULL : dump_patches(dump, info));
}

void dump_run_patches(const json_t *dump, const rvit_model_info *info, rvit_session *session, const float *patches)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = (int32_t)dump_integer(dump, "n_images");
    if (dump_grids(dump) != NULL)
        args.input = (rvit_input){.kind = RVIT_INPUT_PATCHES, .data = patches, .grids = dump_grids(dump)};
    else
        dump_images(info, args.n_images, rvit_session_input_memory(session, NULL));
    expect_ok(rvit_session_run(session, &args, NULL));
}

double dump_difference(const json_t *wanted, const float *rows, int32_t width, const int32_t *from)
{
    double largest = 0;
    for (int32_t n = 0; n < (int32_t)json_array_size(wanted); n++) {
        const json_t *row = json_array_get(wanted, (size_t)n);
        assert_int_equal(json_array_size(row), width);
        const float *got = rows + (int64_t)(from == NULL ? n : from[n]) * width;
        for (int32_t c = 0; c < width; c++) {
            const double difference = fabs(got[c] - json_number_value(json_array_get(row, (size_t)c)));
            largest = difference <= largest ? largest : difference;
        }
    }
    return largest;
}

double dump_run(const json_t *dump, const rvit_checkpoint *checkpoint, rvit_dtype dtype, rvit_quantization quantization)
{
    rvit_model_desc model_desc = RVIT_MODEL_DESC_INIT;
    model_desc.dtype = dtype;
    model_desc.quantization = quantization;
    rvit_model *model = NULL;
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, &model_desc, &model));
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_model_get_info(model, &info));
    const int32_t with_features = (int32_t)dump_integer(dump, "features");
    const rvit_session_desc desc = dump_session_desc(dump, &info);
    rvit_session *session = NULL;
    expect_ok(rvit_session_create(model, &desc, &session));
    dump_run_all(dump, &info, session);
    const int32_t width = with_features ? info.dim : info.merge > 0 ? info.merged_dim : info.n_classes;
    const float *got = with_features    ? session_floats(session, RVIT_RESULT_FEATURES)
                       : info.merge > 0 ? session_floats(session, RVIT_RESULT_MERGED)
                                        : session_floats(session, RVIT_RESULT_LOGITS);
    assert_non_null(got);
    assert_true(width > 0 && (with_features || info.merge > 0) == (info.n_classes == 0));
    assert_int_equal(json_array_size(json_object_get(dump, "outputs")),
                     info.merge > 0 ? session_cu_seqlens(session, -1)[desc.max_images] / (info.merge * info.merge) : desc.max_images);
    const double largest =
        dump_difference(json_object_get(dump, "outputs"), got, width, with_features ? session_cu_seqlens(session, -1) : NULL);
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    return largest;
}

enum { MAX_DUMPS = 256, MAX_NAME = 64 };

/* A file of make_dumps.py, in memory as long as the program runs. */
typedef struct dump_bundle {
    const char *path;
    int n;
    char names[MAX_DUMPS][MAX_NAME];
    const char *lines[MAX_DUMPS + 1]; /* one dump each */
} dump_bundle;

static void read_bundle(const char *path, dump_bundle *out)
{
    static const char start[] = "{\"name\":\"";
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail_msg("%s: cannot be read", path);
    const size_t size = (size_t)ftell(file);
    char *text = malloc(size + 1);
    rewind(file);
    assert_true(text != NULL && fread(text, 1, size, file) == size && fclose(file) == 0);
    text[size] = '\0';
    const char *line = text;
    for (; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *name = line + strlen(start), *end = strchr(name, '"');
        if (out->n == MAX_DUMPS || strncmp(line, start, strlen(start)) != 0 || end == NULL || end - name >= MAX_NAME ||
            strchr(line, '\n') == NULL)
            fail_msg("%s: line %d is not a dump", path, out->n + 1);
        memcpy(out->names[out->n], name, (size_t)(end - name));
        out->lines[out->n++] = line;
    }
    out->lines[out->n] = line;
    out->path = path;
}

static const dump_bundle *bundle_of(const char *path)
{
    static dump_bundle bundles[2];
    for (int i = 0; i < 2; i++) {
        if (bundles[i].path == NULL)
            read_bundle(path, &bundles[i]);
        if (strcmp(bundles[i].path, path) == 0)
            return &bundles[i];
    }
    fail_msg("%s: a third file of dumps", path);
    return NULL;
}

const char *dump_name(const char *path, int i)
{
    const dump_bundle *bundle = bundle_of(path);
    return i < bundle->n ? bundle->names[i] : NULL;
}

json_t *dump_load(const char *path, const char *name)
{
    const dump_bundle *bundle = bundle_of(path);
    for (int i = 0; i < bundle->n; i++) {
        if (strcmp(bundle->names[i], name) != 0)
            continue;
        json_error_t error;
        json_t *dump = json_loadb(bundle->lines[i], (size_t)(bundle->lines[i + 1] - bundle->lines[i]), 0, &error);
        if (dump == NULL)
            fail_msg("%s: %s: %s", path, name, error.text);
        return dump;
    }
    fail_msg("%s: no dump %s", path, name);
    return NULL;
}

double *dump_tensor(const json_t *dump, const char *name)
{
    size_t index, axis;
    json_t *tensor, *extent;
    json_array_foreach(json_object_get(dump, "tensors"), index, tensor)
    {
        if (strcmp(json_string_value(json_array_get(tensor, 0)), name) != 0)
            continue;
        int64_t n = 1;
        json_array_foreach(json_array_get(tensor, 1), axis, extent) n *= json_integer_value(extent);
        const float offset = (float)json_number_value(json_array_get(tensor, 2));
        const float scale = ldexpf(1, -(int)json_integer_value(json_array_get(tensor, 3)));
        double *values = scratch((size_t)n * sizeof *values);
        for (int64_t i = 0; i < n; i++)
            values[i] = (double)(offset + scale * noise(index, (uint64_t)i));
        return values;
    }
    fail_msg("there is no tensor %s", name);
    return NULL;
}

rvit_checkpoint *dump_open(const json_t *dump, const rvit_checkpoint_desc *other_fields)
{
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    if (other_fields != NULL)
        desc = *other_fields;
    desc.image_size = (int32_t)dump_integer(dump, "image_size");
    if (desc.resample == RVIT_RESAMPLE_DEFAULT)
        desc.resample = (rvit_resample)dump_integer(dump, "resample");
    rvit_checkpoint *checkpoint = NULL;
    const json_t *preprocessor = json_object_get(dump, "preprocessor");
    const char *path = temporary_path("preprocessor_config.json");
    if (preprocessor != NULL)
        assert_int_equal(json_dump_file(preprocessor, path, 0), 0);
    expect_ok(rvit_checkpoint_open(dump_checkpoint(dump), &desc, &checkpoint));
    if (preprocessor != NULL)
        (void)remove(path);
    return checkpoint;
}

double dump_largest(const json_t *dump)
{
    double largest = 0;
    size_t image, column;
    json_t *row, *value;
    json_array_foreach(json_object_get(dump, "outputs"), image, row) json_array_foreach(row, column, value)
    {
        const double size = fabs(json_number_value(value));
        largest = size > largest ? size : largest;
    }
    return largest;
}
