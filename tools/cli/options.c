#include "options.h"

#include <string.h>

#include "choices.h"
#include "command_list.h"
#include "inputs.h"

enum { RUNS = CLASSIFY | VERIFY, TIMES = RUNS | BENCH, MODELS = TIMES | INSPECT | QUANTIZE };
enum { AGAINST_ORACLE = CHOICE_LAST_BACKEND + 1 };
/* Additional bits, beside those of rvit_prune_parameter. */
enum { GIVEN_AGAINST = 1 << 16, GIVEN_AGAINST_DTYPE = 1 << 17, GIVEN_VIDEO = 1 << 21, GIVEN_YUV = 1 << 22 };

static const char *against(int value)
{
    return value == AGAINST_ORACLE ? "oracle" : choice_backend(value);
}

static const char *resampler(int value)
{
    static const char *const names[] = {
        [RVIT_RESAMPLE_BICUBIC] = "bicubic", [RVIT_RESAMPLE_BILINEAR] = "bilinear", [RVIT_RESAMPLE_TIMM] = "timm"};
    return names[value];
}

static const char *activation(int value)
{
    static const char *const names[] = {[RVIT_ACTIVATION_GELU] = "gelu",
                                        [RVIT_ACTIVATION_GELU_TANH] = "gelu-tanh",
                                        [RVIT_ACTIVATION_QUICK_GELU] = "quick-gelu",
                                        [RVIT_ACTIVATION_SILU] = "silu"};
    return names[value];
}

static const char *pooling(int value)
{
    static const char *const names[] = {
        [RVIT_POOLING_CLS] = "cls",           [RVIT_POOLING_MEAN] = "mean",         [RVIT_POOLING_MEAN_NORM] = "mean-norm",
        [RVIT_POOLING_MEAN_RAW] = "mean-raw", [RVIT_POOLING_CLS_MEAN] = "cls-mean", [RVIT_POOLING_MAP] = "map",
        [RVIT_POOLING_NONE] = "none"};
    return names[value];
}

static const char *position(int value)
{
    static const char *const names[] = {
        [RVIT_POSITION_TABLE] = "table", [RVIT_POSITION_ROPE] = "rotary", [RVIT_POSITION_BOTH] = "both", [RVIT_POSITION_NONE] = "none"};
    return names[value];
}

static const char *matrix(int value)
{
    return value == VIDEO_BT601 ? "bt601" : "bt709";
}

static const char *range(int value)
{
    return value == VIDEO_LIMITED ? "limited" : "full";
}

static const char *input_scales(int value)
{
    static const char *const names[] = {[INPUTS_AUTO] = "auto", [INPUTS_ROW] = "row", [INPUTS_FIXED] = "fixed"};
    return names[value];
}

static const char *prepare(int value)
{
    static const char *const names[] = {[PREPARE_AUTO] = "auto", [PREPARE_HOST] = "host", [PREPARE_DEVICE] = "device"};
    return names[value];
}

static const char *decoder(int value)
{
    return value == DECODER_NVJPEG ? "nvjpeg" : "libjpeg";
}

/* The name of a shape, by its number of attention heads. */
static const char *shape(int value)
{
    return value == 3 ? "tiny" : value == 6 ? "small" : value == 12 ? "base" : NULL;
}

typedef struct options T; /* the struct that the rows fill */

static const struct option_row option_rows[] = {
    {"backend", "NAME", "%s (auto: the first GPU, else the CPU)",
     OPTION_CHOICE(T, backend, choice_backend, RVIT_BACKEND_AUTO, CHOICE_LAST_BACKEND), .commands = TIMES | QUANTIZE},
    {"device", "N", "the backend's device of that number, as 'devices' lists it (its first)", OPTION_INTEGER(T, device, 0, INT32_MAX),
     .commands = TIMES | QUANTIZE},
    {"against", "NAME", "%s, the CPU with float64 sums (cpu; oracle if A is the same device)",
     OPTION_CHOICE(T, against, against, RVIT_BACKEND_AUTO, AGAINST_ORACLE), .commands = VERIFY, .given = GIVEN_AGAINST},
    {"against-device", "N", "the reference backend's device of that number (its first)", OPTION_INTEGER(T, against_device, 0, INT32_MAX),
     .commands = VERIFY},
    {"tier", "NAME", "kernels: %s (auto: the highest the device has)",
     OPTION_CHOICE(T, tier, choice_tier, RVIT_TIER_AUTO, RVIT_TIER_MATRIX), .commands = CLASSIFY | BENCH},
    {"tier", "NAME", "A's kernels: %s (auto, as B: the highest there is)",
     OPTION_CHOICE(T, tier, choice_tier, RVIT_TIER_AUTO, RVIT_TIER_MATRIX), .commands = VERIFY},
    {"kernels", "NAME", "the CPU backend's kernels: portable, avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16 or amx (the fastest)",
     OPTION_TEXT(T, kernels), .commands = TIMES | QUANTIZE},
    {"threads", "N",
     "CPU threads, %s: those of the CPU backend, and those that decode and prepare images, which with the CPU backend take turns with it "
     "(0: "
     "as many as the process may use; of those that decode at most 16)",
     OPTION_INTEGER(T, threads, 0, 1024), .commands = RUNS | QUANTIZE},
    {"threads", "N", "CPU threads, %s (0: as many as the process may use)", OPTION_INTEGER(T, threads, 0, 1024), .commands = BENCH},
    {"prune", "NAME", "how patches are dropped; 'raggedvit policies' says which of the options below each takes (none). One of: %s",
     OPTION_CHOICE(T, prune.index, prune_name, 0, PRUNE_MOST_POLICIES - 1), .commands = RUNS},
    {"prune", "NAME", "how patches are dropped, as for classify, but not by a mask (l2); none: times the dense one alone",
     OPTION_CHOICE(T, prune.index, prune_name, 0, PRUNE_MOST_POLICIES - 1), .commands = BENCH},
    OPTION_PRUNE_ROWS(T, prune.desc, TIMES),
    {"mask", "FILE",
     "what to keep: a NumPy array of uint8 or bool, [patches], [images, patches] or [stages, images, patches]; or JSON, for each image a "
     "list for each stage of patch numbers, or what classify --json wrote, with its blocks",
     OPTION_TEXT(T, prune.mask), .commands = RUNS},
    {"image-size", "N", "pixels an edge of the model's input, to which its position table is resampled (its own)",
     OPTION_INTEGER(T, checkpoint.image_size, 1, 65536), .commands = MODELS},
    {"resample", "NAME",
     "how: timm (its antialiased bicubic), bicubic (Hugging Face's, DeiT's, EViT's) or bilinear (DynamicViT's, ATS's) (as the code whose "
     "names the tensors have)",
     OPTION_CHOICE(T, checkpoint.resample, resampler, RVIT_RESAMPLE_BICUBIC, RVIT_RESAMPLE_TIMM), .commands = MODELS},
    {"architecture", "NAME",
     "timm's name of the model, which stands for what the weights do not tell; vit: exact GELU, eps 1e-6, a position table, a head on the "
     "CLS row (a config.json beside the checkpoint, or its metadata)",
     OPTION_TEXT(T, checkpoint.architecture), .commands = MODELS},
    {"heads", "N", "attention heads of a block (as the architecture, or the config.json)", OPTION_INTEGER(T, checkpoint.n_heads, 1, 4096),
     .commands = MODELS},
    {"activation", "NAME", "of the MLPs: %s (as the architecture)",
     OPTION_CHOICE(T, checkpoint.activation, activation, RVIT_ACTIVATION_GELU, RVIT_ACTIVATION_SILU), .commands = MODELS},
    {"pool", "NAME", "what the head reads: %s (as the architecture)",
     OPTION_CHOICE(T, checkpoint.pooling, pooling, RVIT_POOLING_CLS, RVIT_POOLING_NONE), .commands = MODELS},
    {"position", "NAME", "what tells where a patch lies: %s (as the architecture)",
     OPTION_CHOICE(T, checkpoint.position, position, RVIT_POSITION_TABLE, RVIT_POSITION_NONE), .commands = MODELS},
    {"eps", "X", "of the layernorms (as the architecture)", OPTION_NUMBER(T, checkpoint.eps, 1e-30, 1), .commands = MODELS},
    {"dtype", "TYPE",
     "storage of weights and activations: %s (f32). int8 is for CPUs and Vulkan, fp8 for CUDA; auto takes the fastest that is accurate "
     "enough",
     OPTION_CHOICE(T, dtype, choice_precision, RVIT_PRECISION_F32, RVIT_PRECISION_AUTO), .commands = TIMES},
    {"dtype", "TYPE", "of the weights: %s (int8)", OPTION_CHOICE(T, dtype, choice_precision, RVIT_PRECISION_INT8, RVIT_PRECISION_FP8),
     .commands = QUANTIZE},
    {"output", "FILE", "the .safetensors file that is written", OPTION_TEXT(T, output), .commands = QUANTIZE},
    {"calibrate", "PATH", "an image, folder or list of images such as the model will see", OPTION_TEXT(T, images), .commands = QUANTIZE},
    {"inputs", "NAME",
     "the scales of the layers' inputs: %s. row: each row gets its own when the model runs (with fp8 the weights bound them); fixed: those "
     "of the calibration (auto: with fp8 and --calibrate fixed, else row)",
     OPTION_CHOICE(T, inputs, input_scales, INPUTS_AUTO, INPUTS_FIXED), .commands = QUANTIZE},
    {"against-dtype", "TYPE", "the same for the reference (as --dtype)",
     OPTION_CHOICE(T, against_dtype, choice_precision, RVIT_PRECISION_F32, RVIT_PRECISION_AUTO), .commands = VERIFY,
     .given = GIVEN_AGAINST_DTYPE},
    {"batch", "N",
     "images a run, %s (32, with --variable-resolution 64, or fewer if there are fewer; of frames at most 8, as many as have come)",
     OPTION_INTEGER(T, batch, 1, 4096), .commands = CLASSIFY},
    {"batch", "N", "images a run, %s (32, or fewer if there are fewer)", OPTION_INTEGER(T, batch, 1, 4096), .commands = VERIFY},
    {"batches", "LIST", "images of a run, ascending, each %s (1,4,16, and on a GPU 64)", OPTION_ASCENDING(T, batches, n_batches, 1, 4096),
     .commands = BENCH},
    {"seconds", "S", "measuring time of a batch size, %s; the search for the break-even takes twice as long (0.5)",
     OPTION_NUMBER(T, seconds, 0, 3600), .commands = BENCH},
    {"shape", "NAME", "without MODEL: DeiT's %s (tiny)", OPTION_CHOICE(T, shape, shape, 3, 12), .commands = BENCH},
    {"images", "PATH", "an image, folder or list to verify on (noise)", OPTION_TEXT(T, images), .commands = VERIFY},
    {"fit", "NAME", "how an image gets the input's shape: %s (as the model's files say, else crop)",
     OPTION_CHOICE(T, recipe.fit, choice_fit, RVIT_FIT_CROP, RVIT_FIT_BORDER), .commands = RUNS | QUANTIZE},
    {"filter", "NAME", "what it is resized with: %s (as the model's files say, else bicubic)",
     OPTION_CHOICE(T, recipe.filter, choice_filter, RVIT_FILTER_BILINEAR, RVIT_FILTER_BICUBIC), .commands = RUNS | QUANTIZE},
    {"reference", "DUMP",
     "compares A with what the model's own code computes, in float64: a file that tools/dump_reference.py of the source tree has written",
     OPTION_TEXT(T, reference), .commands = VERIFY},
    {"crop", "P",
     "share of the resized image's edges that the model sees, %s (as the model's files say; else of --fit crop 0.9, from 384 pixels on 1)",
     OPTION_NUMBER(T, recipe.crop, 0.1, 1), .commands = RUNS | QUANTIZE},
    {"mean", "R,G,B", "what is subtracted from the colours, which go from %s; or one for all (as the model's files say)",
     OPTION_NUMBERS(T, recipe.mean, 0, 1), .commands = RUNS | QUANTIZE, .given = RECIPE_MEAN},
    {"std", "R,G,B", "what they are divided by then, %s; or one for all (as the model's files say)",
     OPTION_NUMBERS(T, recipe.deviation, 0.001, 1), .commands = RUNS | QUANTIZE, .given = RECIPE_DEVIATION},
    {"variable-resolution", NULL,
     "runs images at their own shape, any number of them in a batch without padding, instead of at one size: as many patches each as "
     "--max-patches says, else at their own size",
     OPTION_FLAG(T, variable_resolution), .commands = CLASSIFY},
    {"max-tokens", "N", "with --variable-resolution: tokens of a batch, %s, at which it closes; no image may have more (16384)",
     OPTION_INTEGER(T, max_tokens, 1, 1 << 24), .commands = CLASSIFY},
    {"max-patches", "N",
     "with --variable-resolution: brings every image to at most so many patches, as NaFlex does it, %s (as the model's files say; else "
     "images keep "
     "their size, rounded up to whole patches)",
     OPTION_INTEGER(T, max_patches, 1, 1 << 20), .commands = CLASSIFY},
    {"prepare", "NAME",
     "where images are resized and normalised: %s (auto: on a GPU there, in the same dispatch, else by threads of the host); the values "
     "are the same",
     OPTION_CHOICE(T, prepare, prepare, PREPARE_AUTO, PREPARE_DEVICE), .commands = CLASSIFY},
    {"timings", NULL,
     "afterwards decodes all images once more without running the model, and runs some again without decoding them: shows the images/s "
     "of decoding alone, of everything, and of everything but decoding; where the device prepares them",
     OPTION_FLAG(T, timings), .commands = CLASSIFY},
    {"fast-decode", NULL,
     "decodes large JPEGs at a half, a quarter or an eighth of their width and height, if these divide them, and at no less than three "
     "times "
     "the size that they are resized to: faster, and colours differ by about 1 of 255 in the mean",
     OPTION_FLAG(T, fast_decode), .commands = CLASSIFY},
    {"decoder", "NAME",
     "who decodes JPEGs: %s (libjpeg). nvjpeg: the GPU of --backend cuda, by the CUDA toolkit's library, of which version 12.1 or "
     "later must be in the library path; colours differ a little. The processor decodes what it does not take",
     OPTION_CHOICE(T, decoder, decoder, DECODER_LIBJPEG, DECODER_NVJPEG), .commands = RUNS},
    {"tiles", "PX", "each image is a sheet of square tiles of that size, read row by row, resized without a crop",
     OPTION_INTEGER(T, tiles, 1, 65536), .commands = RUNS | QUANTIZE},
    {"size", "WxH", "of the frames on standard input, as 640x480", OPTION_TEXT(T, video_size), .commands = CLASSIFY, .given = GIVEN_VIDEO},
    {"format", "NAME", "of these frames, as FFmpeg's -pix_fmt: %s",
     OPTION_CHOICE(T, video.format, video_format_name, VIDEO_NV12, VIDEO_GRAY), .commands = CLASSIFY, .given = GIVEN_VIDEO},
    {"matrix", "NAME", "of nv12 and yuv420p: %s (bt601, as FFmpeg assumes; HD video is bt709)",
     OPTION_CHOICE(T, video.matrix, matrix, VIDEO_BT601, VIDEO_BT709), .commands = CLASSIFY, .given = GIVEN_YUV},
    {"range", "NAME", "of nv12 and yuv420p: %s (limited, as FFmpeg assumes)",
     OPTION_CHOICE(T, video.range, range, VIDEO_LIMITED, VIDEO_FULL), .commands = CLASSIFY, .given = GIVEN_YUV},
    {"shard", "I/N",
     "only the I-th of N shares, I from 0 to N - 1: images I, I + N, I + 2 N and so on of all (of the first --limit). --expect and --mask "
     "are "
     "of all images; 'raggedvit merge' puts the JSON of the shards together",
     OPTION_TEXT(T, shard_text), .commands = CLASSIFY},
    {"limit", "N", "only the first N images, tiles or frames (all)", OPTION_INTEGER(T, limit, 1, INT64_MAX), .commands = CLASSIFY},
    {"limit", "N", "only the first N images or tiles (all; of noise: 8)", OPTION_INTEGER(T, limit, 1, INT64_MAX), .commands = VERIFY},
    {"limit", "N", "only the first N images or tiles (all)", OPTION_INTEGER(T, limit, 1, INT64_MAX), .commands = QUANTIZE},
    {"top", "K", "classes shown for an image, %s (5)", OPTION_INTEGER(T, top, 1, 100), .commands = CLASSIFY},
    {"labels", "FILE", "class names, one a line (the checkpoint's own, else numbers)", OPTION_TEXT(T, labels), .commands = RUNS},
    {"text-embeddings", "FILE",
     "classifies by texts: a .safetensors file with their embeddings, [texts, width], as tools/text_embeddings.py writes it; --labels then "
     "names the texts. CLIP: softmax of logit_scale x cosine; SigLIP: sigmoid with logit_scale and logit_bias (the model's head)",
     OPTION_TEXT(T, text_embeddings), .commands = CLASSIFY},
    {"text-tensor", "NAME", "the tensor of --text-embeddings (the only one of two dimensions)", OPTION_TEXT(T, text_tensor),
     .commands = CLASSIFY},
    {"expect", "FILE", "the right class of each image, name or number, one a line: prints top-1 accuracy", OPTION_TEXT(T, expect),
     .commands = RUNS},
    {"overlay", "OUT.png",
     "writes the first image in its own shape; patches that were dropped, or merged into others, are dimmed, the earlier the more; what "
     "lies "
     "outside the model's view is grey",
     OPTION_TEXT(T, overlay), .commands = CLASSIFY},
    {"features", "OUT.npy", "writes the CLS row of each image that was classified, after the final layernorm: float32 [images, dim]",
     OPTION_TEXT(T, features), .commands = CLASSIFY},
    {"grid", NULL, "makes --features write the patches in their places, 0 where dropped: [images, lines, columns, dim]",
     OPTION_FLAG(T, grid), .commands = CLASSIFY},
    {"tensors", NULL, "lists every tensor", OPTION_FLAG(T, tensors), .commands = INSPECT},
    {"quiet", NULL, "prints the summary, not the images", OPTION_FLAG(T, quiet), .commands = CLASSIFY},
    {"json", NULL, "prints one JSON object instead", OPTION_FLAG(T, json)},
    {"ndjson", NULL,
     "prints a JSON object on each line, at once: {\"run\": ...} first, then an image each as in \"images\" of --json (a failed one has "
     "\"error\"), {\"summary\": ...} last",
     OPTION_FLAG(T, ndjson), .commands = CLASSIFY | MERGE},
};

static void complain_of(const char *sentence)
{
    complain(NULL, "%s", sentence);
}

static const struct option_table table = {.program = "raggedvit",
                                          .prefix = "--",
                                          .rows = option_rows,
                                          .n_rows = sizeof option_rows / sizeof option_rows[0],
                                          .given_offset = offsetof(struct options, given),
                                          .complain = complain_of};

/* Checks what a row cannot: options that need or exclude one another. */
static bool check_together(unsigned command, const struct options *options)
{
    if (command == BENCH && options->prune.policy.type == RVIT_PRUNE_MASK)
        complain(NULL, "bench takes every policy but mask");
    else if (command == QUANTIZE && !options->output)
        complain(NULL, "quantize needs --output FILE");
    else if (command == QUANTIZE && !options->images && (options->limit || options->tiles))
        complain(NULL, "--limit and --tiles need --calibrate");
    else if (command == QUANTIZE && !options->images && options->inputs == INPUTS_FIXED)
        complain(NULL, "--inputs fixed needs --calibrate");
    else if (options->grid && !options->features)
        complain(NULL, "--grid needs --features");
    else if (options->json && options->ndjson)
        complain(NULL, "--json or --ndjson, not both");
    else if (!options->variable_resolution && (options->max_tokens || options->max_patches))
        complain(NULL, "--max-tokens and --max-patches need --variable-resolution");
    else if (options->variable_resolution && (options->tiles || options->grid || options->recipe.fit || options->recipe.crop > 0))
        complain(NULL, "--variable-resolution runs images at their own shape: it excludes --tiles, --grid, --fit and --crop");
    else if (options->variable_resolution && options->prune.policy.type == RVIT_PRUNE_MASK)
        complain(NULL, "--variable-resolution takes every policy but mask, whose file is for one grid of patches");
    else if (options->variable_resolution && options->prepare == PREPARE_HOST)
        complain(NULL, "--variable-resolution prepares images on the device: it excludes --prepare host");
    else if (options->timings && options->prepare == PREPARE_HOST)
        complain(NULL, "--timings is of images that the device prepares: it excludes --prepare host");
    else if (options->text_tensor && !options->text_embeddings)
        complain(NULL, "--text-tensor needs --text-embeddings");
    else if (options->decoder == DECODER_NVJPEG && options->fast_decode)
        complain(NULL, "--fast-decode is of libjpeg: it excludes --decoder nvjpeg");
    else if (options->decoder == DECODER_NVJPEG && command == VERIFY && !options->images)
        complain(NULL, "--decoder needs --images");
    else if (options->tiles && command == VERIFY && !options->images)
        complain(NULL, "--tiles needs --images");
    else if (options->expect && command == VERIFY && !options->images)
        complain(NULL, "--expect needs --images");
    else if (options->labels && command == VERIFY && !options->expect)
        complain(NULL, "--labels needs --expect");
    else if (options->reference &&
             (options->images || options->against_device >= 0 || options->given & (GIVEN_AGAINST | GIVEN_AGAINST_DTYPE)))
        complain(NULL, "--reference has images of its own and takes the place of --against: it excludes --images and --against...");
    else if (options->reference && options->prune.policy.type != RVIT_PRUNE_NONE)
        complain(NULL, "--reference is of the model without pruning: it excludes --prune");
    else
        return prune_check(&options->prune);
    return false;
}

/* Whether frames come from standard input, and all that this needs. */
static bool check_video(struct options *options)
{
    struct image_error error;
    bool is_video = false;
    for (int i = 0; i < options->n_paths; i++)
        is_video |= strcmp(options->paths[i], INPUTS_STANDARD_INPUT) == 0;
    if (!is_video && !(options->given & (GIVEN_VIDEO | GIVEN_YUV)))
        return true;
    if (!is_video)
        complain(NULL, "--size, --format, --matrix and --range are of frames on standard input, for which the IMAGE is -");
    else if (options->n_paths > 1)
        complain(NULL, "frames on standard input (-) exclude other images");
    else if (!options->video_size || !options->video.format)
        complain(NULL, "frames on standard input (-) need --size WxH and --format NAME");
    else if (!video_parse_size(options->video_size, &options->video, &error))
        complain(NULL, "--size: %s", error.text);
    else if (options->given & GIVEN_YUV && options->video.format != VIDEO_NV12 && options->video.format != VIDEO_YUV420P)
        complain(NULL, "--matrix and --range are of nv12 and yuv420p, not of %s", video_format_name(options->video.format));
    else if (options->tiles || options->expect || options->timings || options->decoder == DECODER_NVJPEG || options->shard.n > 0)
        complain(NULL, "frames on standard input (-) exclude --tiles, --expect, --timings, --decoder and --shard");
    else
        return true;
    return false;
}

enum option_result options_parse(const struct option_command *command, bool has_model, int argc, char **argv, struct options *out)
{
    *out = (struct options){.backend = RVIT_BACKEND_AUTO,
                            .against = RVIT_BACKEND_CPU,
                            .device = -1,
                            .against_device = -1,
                            .checkpoint = RVIT_CHECKPOINT_DESC_INIT,
                            .seconds = 0.5,
                            .shape = 3,
                            .top = 5};
    prune_init(&out->prune, command->bit == BENCH ? RVIT_PRUNE_L2 : RVIT_PRUNE_NONE);
    int first = 0;
    const enum option_result result = option_table_parse(&table, command, argc, argv, out, &first);
    if (result != OPTION_PARSED)
        return result;
    prune_resolve_policy(&out->prune, out->given);
    if (!check_together(command->bit, out) || (out->shard_text && !shard_parse(out->shard_text, &out->shard)))
        return OPTION_REFUSED;
    out->against_given = out->given & GIVEN_AGAINST;
    out->against_oracle = (int)out->against == AGAINST_ORACLE;
    if (out->against_oracle)
        out->against = RVIT_BACKEND_CPU;
    if (!(out->given & GIVEN_AGAINST_DTYPE))
        out->against_dtype = out->dtype;
    if (has_model)
        out->model = argv[first++];
    out->paths = out->images ? &out->images : argv + first;
    out->n_paths = out->images ? 1 : argc - first;
    return command->bit != CLASSIFY || check_video(out) ? OPTION_PARSED : OPTION_REFUSED;
}
