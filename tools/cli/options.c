#include "options.h"

#include <string.h>

#include "choices.h"
#include "command_list.h"
#include "inputs.h"

enum { RUNS = CLASSIFY | VERIFY, TIMES = RUNS | BENCH, MODELS = TIMES | INSPECT | QUANTIZE };
enum { AGAINST_ORACLE = CHOICE_LAST_BACKEND + 1 };
/* Bits in addition to those of rvit_prune_parameter. */
enum { GIVEN_AGAINST = 1 << 16, GIVEN_AGAINST_DTYPE = 1 << 17, GIVEN_VIDEO = 1 << 21, GIVEN_YUV = 1 << 22 };

static const char *against(int value)
{
    return value == AGAINST_ORACLE ? "oracle" : choice_backend(value);
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
    {.help = "input"},
    {"images", "PATH", "image, folder or list to run on (default: seeded noise)", OPTION_TEXT(T, images), .commands = VERIFY},
    {"calibrate", "PATH", "calibration images: an image, folder or list of images like those that the model will see",
     OPTION_TEXT(T, images), .commands = QUANTIZE},
    {"reference", "DUMP",
     "compare A with the outputs that the model's own code computed in float64, from a file written by tools/reference/dump_reference.py "
     "in the source tree",
     OPTION_TEXT(T, reference), .commands = VERIFY},
    {"tiles", "PX", "treat each image as a sheet of square tiles of this size, read row by row and resized without a crop",
     OPTION_INTEGER(T, tiles, 1, 65536), .commands = RUNS | QUANTIZE},
    {"limit", "N", "process only the first N images, tiles or frames (default: all)", OPTION_INTEGER(T, limit, 1, INT64_MAX),
     .commands = CLASSIFY},
    {"limit", "N", "process only the first N images or tiles (default: all)", OPTION_INTEGER(T, limit, 1, INT64_MAX), .commands = QUANTIZE},
    {"limit", "N", "process only the first N images or tiles (default: all, or 8 images of noise)", OPTION_INTEGER(T, limit, 1, INT64_MAX),
     .commands = VERIFY},
    {"shard", "I/N",
     "process only every N-th image, starting at image I, with I from 0 to N - 1. --limit, --expect and --mask refer to all images. "
     "'raggedvit merge' combines the JSON output of the shards",
     OPTION_TEXT(T, shard_text), .commands = CLASSIFY},
    {"decoder", "NAME",
     "JPEG decoder: %s (default: libjpeg). nvjpeg needs --backend cuda and libnvjpeg 12.1 or later; its colours differ slightly, and the "
     "CPU decodes what it does not support",
     OPTION_CHOICE(T, decoder, decoder, DECODER_LIBJPEG, DECODER_NVJPEG), .commands = RUNS},
    {"fast-decode", NULL,
     "decode large JPEGs at 1/2, 1/4 or 1/8 scale where that divides their width and height and leaves at least three times the size that "
     "they are resized to. Colours differ by about 1 of 255 on average",
     OPTION_FLAG(T, fast_decode), .commands = CLASSIFY},

    {.help = "image preparation"},
    {"fit", "NAME", "how images are fitted to the model's input: %s (default: from the model's files, else crop)",
     OPTION_CHOICE(T, recipe.fit, choice_fit, RVIT_FIT_CROP, RVIT_FIT_BORDER), .commands = RUNS | QUANTIZE},
    {"crop", "P",
     "fraction of the resized width and height that the model sees, %s (default: from the model's files; else with --fit crop 0.9, or 1 "
     "from 384 pixels on)",
     OPTION_NUMBER(T, recipe.crop, 0.1, 1), .commands = RUNS | QUANTIZE},
    {"filter", "NAME", "resize filter: %s (default: from the model's files, else bicubic)",
     OPTION_CHOICE(T, recipe.filter, choice_filter, RVIT_FILTER_BILINEAR, RVIT_FILTER_BICUBIC), .commands = RUNS | QUANTIZE},
    {"mean", "R,G,B", "per-channel mean, %s, or one value for all channels (default: from the model's files)",
     OPTION_NUMBERS(T, recipe.mean, 0, 1), .commands = RUNS | QUANTIZE, .given = RECIPE_MEAN},
    {"std", "R,G,B", "per-channel standard deviation, %s, or one value for all channels (default: from the model's files)",
     OPTION_NUMBERS(T, recipe.deviation, 0.001, 1), .commands = RUNS | QUANTIZE, .given = RECIPE_DEVIATION},
    {"variable-resolution", NULL, "run each image at its own aspect ratio and number of patches, in batches without padding",
     OPTION_FLAG(T, variable_resolution), .commands = CLASSIFY},
    {"max-patches", "N",
     "with --variable-resolution: resize each image to at most N patches by the NaFlex rule, %s (default: from the model's files; else "
     "images keep their size, rounded up to whole patches)",
     OPTION_INTEGER(T, max_patches, 1, 1 << 20), .commands = CLASSIFY},
    {"prepare", "NAME",
     "where images are resized and normalised: %s (default: auto, the device if it is a GPU, else the host). The values are the same",
     OPTION_CHOICE(T, prepare, prepare, PREPARE_AUTO, PREPARE_DEVICE), .commands = CLASSIFY},

    {.help = "video on standard input"},
    {"size", "WxH", "size of the frames, such as 640x480 (required for video)", OPTION_TEXT(T, video_size), .commands = CLASSIFY,
     .given = GIVEN_VIDEO},
    {"format", "NAME", "pixel format of the frames, as in FFmpeg's -pix_fmt: %s (required for video)",
     OPTION_CHOICE(T, video.format, video_format_name, VIDEO_NV12, VIDEO_GRAY), .commands = CLASSIFY, .given = GIVEN_VIDEO},
    {"matrix", "NAME", "colour matrix of nv12 and yuv420p: %s (default: bt601, as FFmpeg assumes; HD video uses bt709)",
     OPTION_CHOICE(T, video.matrix, matrix, VIDEO_BT601, VIDEO_BT709), .commands = CLASSIFY, .given = GIVEN_YUV},
    {"range", "NAME", "value range of nv12 and yuv420p: %s (default: limited, as FFmpeg assumes)",
     OPTION_CHOICE(T, video.range, range, VIDEO_LIMITED, VIDEO_FULL), .commands = CLASSIFY, .given = GIVEN_YUV},

    {.help = "model"},
    {"architecture", "NAME",
     "timm name of the model, which sets the properties that the weights do not determine. 'vit' is a plain ViT: exact GELU, eps 1e-6, a "
     "position table, a head on the CLS token (default: from config.json or the checkpoint's metadata)",
     OPTION_TEXT(T, checkpoint.architecture), .commands = MODELS},
    {"image-size", "N", "input resolution in pixels; the position embedding is resampled to it (default: the checkpoint's)",
     OPTION_INTEGER(T, checkpoint.image_size, 1, 65536), .commands = MODELS},
    {"resample", "NAME",
     "how the position embedding is resampled: timm (antialiased bicubic), bicubic (as Hugging Face, DeiT and EViT) or bilinear (as "
     "DynamicViT and ATS) (default: as in the code that the tensor names come from)",
     OPTION_CHOICE(T, checkpoint.resample, choice_resample, RVIT_RESAMPLE_BICUBIC, RVIT_RESAMPLE_TIMM), .commands = MODELS},
    {"heads", "N", "attention heads per block (default: from the architecture or config.json)",
     OPTION_INTEGER(T, checkpoint.n_heads, 1, 4096), .commands = MODELS},
    {"activation", "NAME", "MLP activation: %s (default: from the architecture)",
     OPTION_CHOICE(T, checkpoint.activation, choice_activation, RVIT_ACTIVATION_GELU, RVIT_ACTIVATION_SILU), .commands = MODELS},
    {"pool", "NAME", "pooling before the head: %s (default: from the architecture)",
     OPTION_CHOICE(T, checkpoint.pooling, choice_pooling, RVIT_POOLING_CLS, RVIT_POOLING_NONE), .commands = MODELS},
    {"position", "NAME", "position encoding: %s (default: from the architecture)",
     OPTION_CHOICE(T, checkpoint.position, choice_position, RVIT_POSITION_TABLE, RVIT_POSITION_NONE), .commands = MODELS},
    {"eps", "X", "epsilon of the layer norms (default: from the architecture)", OPTION_NUMBER(T, checkpoint.eps, 1e-30, 1),
     .commands = MODELS},
    {"shape", "NAME", "without MODEL: size of the DeiT, %s (default: tiny)", OPTION_CHOICE(T, shape, shape, 3, 12), .commands = BENCH},
    {"text-embeddings", "FILE",
     "classify by texts (zero-shot): a .safetensors file with a tensor [texts, width] of text embeddings, as tools/text_embeddings.py "
     "writes it. --labels then names the texts. CLIP: softmax of logit_scale x cosine; SigLIP: sigmoid with logit_scale and logit_bias "
     "(default: the model's head)",
     OPTION_TEXT(T, text_embeddings), .commands = CLASSIFY},
    {"text-tensor", "NAME", "tensor of --text-embeddings to use (default: its only tensor with two dimensions)",
     OPTION_TEXT(T, text_tensor), .commands = CLASSIFY},

    {.help = "pruning"},
    {"prune", "NAME", "pruning policy: %s (default: none). 'raggedvit policies' lists the options of each",
     OPTION_CHOICE(T, prune.index, prune_name, 0, PRUNE_MAX_POLICIES - 1), .commands = RUNS},
    {"prune", "NAME", "pruning policy, any but mask (default: l2). none times only the dense model",
     OPTION_CHOICE(T, prune.index, prune_name, 0, PRUNE_MAX_POLICIES - 1), .commands = BENCH},
    OPTION_PRUNE_ROWS(T, prune.desc, TIMES),
    {"mask", "FILE",
     "patches to keep: a NumPy array of uint8 or bool, [patches], [images, patches] or [stages, images, patches]; JSON with a list per "
     "image of a list per stage of patch numbers; or the output of classify --json, which also sets the blocks",
     OPTION_TEXT(T, prune.mask), .commands = RUNS},

    {.help = "device and performance"},
    {"backend", "NAME", "backend: %s (default: auto, the first GPU, else the CPU)",
     OPTION_CHOICE(T, backend, choice_backend, RVIT_BACKEND_AUTO, CHOICE_LAST_BACKEND), .commands = TIMES | QUANTIZE},
    {"backend", "NAME", "test only a device of this backend: %s (default: auto, all devices but software ones)",
     OPTION_CHOICE(T, backend, choice_backend, RVIT_BACKEND_AUTO, CHOICE_LAST_BACKEND), .commands = SELFTEST},
    {"device", "N", "with --backend: number of the device, from 'raggedvit devices' (default: the first)",
     OPTION_INTEGER(T, device, 0, INT32_MAX), .commands = SELFTEST},
    {"device", "N", "number of the device in its backend, from 'raggedvit devices' (default: the first)",
     OPTION_INTEGER(T, device, 0, INT32_MAX), .commands = TIMES | QUANTIZE},
    {"against", "NAME", "backend of B: %s (default: cpu, or oracle if A is the same device). oracle is the CPU with float64 sums",
     OPTION_CHOICE(T, against, against, RVIT_BACKEND_AUTO, AGAINST_ORACLE), .commands = VERIFY, .given = GIVEN_AGAINST},
    {"against-device", "N", "number of B's device in its backend (default: the first)", OPTION_INTEGER(T, against_device, 0, INT32_MAX),
     .commands = VERIFY},
    {"tier", "NAME", "kernel tier: %s (default: auto, the highest that the device supports)",
     OPTION_CHOICE(T, tier, choice_tier, RVIT_TIER_AUTO, RVIT_TIER_MATRIX), .commands = CLASSIFY | BENCH | SELFTEST},
    {"tier", "NAME", "kernel tier of A: %s (default: auto, the highest that the device supports, as B always has)",
     OPTION_CHOICE(T, tier, choice_tier, RVIT_TIER_AUTO, RVIT_TIER_MATRIX), .commands = VERIFY},
    {"kernels", "NAME",
     "CPU kernels: portable; on x86-64 avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16 or amx; on arm64 neon_dotprod, neon_i8mm or "
     "neon_bf16 (default: the fastest)",
     OPTION_TEXT(T, kernels), .commands = TIMES | QUANTIZE | SELFTEST},
    {"threads", "N",
     "threads of the CPU backend and threads that decode and prepare images, %s (default: 0, as many as the process may use, but at most "
     "16 to decode). On the CPU backend the two take turns",
     OPTION_INTEGER(T, threads, 0, 1024), .commands = RUNS | QUANTIZE},
    {"threads", "N", "threads of the CPU backend, %s (default: 0, as many as the process may use)", OPTION_INTEGER(T, threads, 0, 1024),
     .commands = BENCH | SELFTEST},
    {"dtype", "TYPE",
     "type of weights and activations: %s (default: f32). int8 is for CPUs and Vulkan, fp8 for CUDA; auto takes the fastest that is "
     "accurate enough",
     OPTION_CHOICE(T, dtype, choice_precision, RVIT_PRECISION_F32, RVIT_PRECISION_AUTO), .commands = TIMES},
    {"dtype", "TYPE", "type of the quantized weights: %s (default: int8)",
     OPTION_CHOICE(T, dtype, choice_precision, RVIT_PRECISION_INT8, RVIT_PRECISION_FP8), .commands = QUANTIZE},
    {"against-dtype", "TYPE", "type of B's weights and activations (default: as --dtype)",
     OPTION_CHOICE(T, against_dtype, choice_precision, RVIT_PRECISION_F32, RVIT_PRECISION_AUTO), .commands = VERIFY,
     .given = GIVEN_AGAINST_DTYPE},
    {"batch", "N",
     "images per run, %s (default: up to 32, or 64 with --variable-resolution; of video the frames that have arrived, up to 8)",
     OPTION_INTEGER(T, batch, 1, 4096), .commands = CLASSIFY},
    {"batch", "N", "images per run, %s (default: up to 32)", OPTION_INTEGER(T, batch, 1, 4096), .commands = VERIFY},
    {"max-tokens", "N",
     "with --variable-resolution: tokens at which a batch closes, %s, and the most that one image may have (default: 16384)",
     OPTION_INTEGER(T, max_tokens, 1, 1 << 24), .commands = CLASSIFY},
    {"batches", "LIST", "batch sizes to time, ascending, each %s (default: 1,4,16, on a GPU also 64)",
     OPTION_ASCENDING(T, batches, n_batches, 1, 4096), .commands = BENCH},
    {"seconds", "S", "time to measure each batch size, %s (default: 0.5). The search for the break-even takes twice as long",
     OPTION_NUMBER(T, seconds, 0, 3600), .commands = BENCH},
    {"inputs", "NAME",
     "scales of the layers' inputs: %s. row: one per row, computed at run time (with fp8, bounded by the weights); fixed: those of the "
     "calibration (default: auto, fixed for fp8 with --calibrate, else row)",
     OPTION_CHOICE(T, inputs, input_scales, INPUTS_AUTO, INPUTS_FIXED), .commands = QUANTIZE},
    {"timings", NULL,
     "afterwards decode all images again without running the model, and run some again without decoding; prints images/s for decoding "
     "only, in total, and without decoding. Needs images that are prepared on the device",
     OPTION_FLAG(T, timings), .commands = CLASSIFY},

    {.help = "output"},
    {"output", "FILE", "the .safetensors file to write (required)", OPTION_TEXT(T, output), .commands = QUANTIZE},
    {"report", "FILE", "write what is printed as JSON, without anything personal", OPTION_TEXT(T, report), .commands = SELFTEST},
    {"top", "K", "classes to print per image, %s (default: 5)", OPTION_INTEGER(T, top, 1, 100), .commands = CLASSIFY},
    {"labels", "FILE", "class names, one per line (default: the checkpoint's, else numbers)", OPTION_TEXT(T, labels), .commands = RUNS},
    {"expect", "FILE", "expected class of each image, a name or number per line; prints top-1 accuracy", OPTION_TEXT(T, expect),
     .commands = RUNS},
    {"overlay", "OUT.png",
     "write the first image with its dropped and merged patches dimmed, earlier ones more, and what the model does not see in grey",
     OPTION_TEXT(T, overlay), .commands = CLASSIFY},
    {"features", "OUT.npy", "write the CLS token of each image after the final layer norm: float32 [images, dim]", OPTION_TEXT(T, features),
     .commands = CLASSIFY},
    {"grid", NULL, "with --features: write all patches by position, 0 where dropped: [images, rows, columns, dim]", OPTION_FLAG(T, grid),
     .commands = CLASSIFY},
    {"tensors", NULL, "list every tensor", OPTION_FLAG(T, tensors), .commands = INSPECT},
    {"quiet", NULL, "print only the summary", OPTION_FLAG(T, quiet), .commands = CLASSIFY},
    {"json", NULL, "print one JSON object instead of text", OPTION_FLAG(T, json)},
    {"ndjson", NULL,
     "print a JSON object per line as results arrive: {\"run\": ...} first, then one per image as in \"images\" of --json (a failed image "
     "has \"error\"), {\"summary\": ...} last",
     OPTION_FLAG(T, ndjson), .commands = CLASSIFY | MERGE},
};

static void print_complaint(const char *sentence)
{
    complain(NULL, "%s", sentence);
}

static const struct option_table table = {.program = "raggedvit",
                                          .prefix = "--",
                                          .rows = option_rows,
                                          .n_rows = sizeof option_rows / sizeof option_rows[0],
                                          .given_offset = offsetof(struct options, given),
                                          .complain = print_complaint};

/* Checks options that need or exclude each other. */
static bool check_together(unsigned command, const struct options *options)
{
    if (command == BENCH && options->prune.policy.type == RVIT_PRUNE_MASK)
        complain(NULL, "bench does not support --prune mask");
    else if (command == SELFTEST && options->device >= 0 && options->backend == RVIT_BACKEND_AUTO)
        complain(NULL, "--device needs --backend");
    else if (options->kernels && options->backend != RVIT_BACKEND_CPU &&
             !(command == VERIFY && options->against == RVIT_BACKEND_CPU && !options->against_oracle) &&
             !(command == SELFTEST && options->backend == RVIT_BACKEND_AUTO))
        complain(NULL, "--kernels needs --backend cpu");
    else if (command == QUANTIZE && !options->output)
        complain(NULL, "quantize needs --output FILE");
    else if (command == QUANTIZE && !options->images && (options->limit || options->tiles))
        complain(NULL, "--limit and --tiles need --calibrate");
    else if (command == QUANTIZE && !options->images && options->inputs == INPUTS_FIXED)
        complain(NULL, "--inputs fixed needs --calibrate");
    else if (options->grid && !options->features)
        complain(NULL, "--grid needs --features");
    else if (options->json && options->ndjson)
        complain(NULL, "--json and --ndjson exclude each other");
    else if (!options->variable_resolution && (options->max_tokens || options->max_patches))
        complain(NULL, "--max-tokens and --max-patches need --variable-resolution");
    else if (options->variable_resolution && (options->tiles || options->grid || options->recipe.fit || options->recipe.crop > 0))
        complain(NULL, "--variable-resolution excludes --tiles, --grid, --fit and --crop, which need one size");
    else if (options->variable_resolution && options->prune.policy.type == RVIT_PRUNE_MASK)
        complain(NULL, "--variable-resolution excludes --prune mask: a mask file is for one grid of patches");
    else if (options->variable_resolution && options->prepare == PREPARE_HOST)
        complain(NULL, "--variable-resolution excludes --prepare host: the images are prepared on the device");
    else if (options->timings && options->prepare == PREPARE_HOST)
        complain(NULL, "--timings excludes --prepare host: it measures images that the device prepares");
    else if (options->text_tensor && !options->text_embeddings)
        complain(NULL, "--text-tensor needs --text-embeddings");
    else if (options->decoder == DECODER_NVJPEG && options->fast_decode)
        complain(NULL, "--fast-decode excludes --decoder nvjpeg: it needs libjpeg");
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
        complain(NULL, "--reference excludes --images and --against...: the dump has its own images and replaces B");
    else if (options->reference && options->prune.policy.type != RVIT_PRUNE_NONE)
        complain(NULL, "--reference excludes --prune: the dump is of the dense model");
    else
        return prune_check(&options->prune);
    return false;
}

/* Checks the options of video on standard input. */
static bool check_video(struct options *options)
{
    struct image_error error;
    bool is_video = false;
    for (int i = 0; i < options->n_paths; i++)
        is_video |= strcmp(options->paths[i], INPUTS_STANDARD_INPUT) == 0;
    if (!is_video && !(options->given & (GIVEN_VIDEO | GIVEN_YUV)))
        return true;
    if (!is_video)
        complain(NULL, "--size, --format, --matrix and --range need video on standard input: use - as the only IMAGE");
    else if (options->n_paths > 1)
        complain(NULL, "video on standard input (-) excludes other images");
    else if (!options->video_size || !options->video.format)
        complain(NULL, "video on standard input (-) needs --size WxH and --format NAME");
    else if (!video_parse_size(options->video_size, &options->video, &error))
        complain(NULL, "--size: %s", error.text);
    else if (options->given & GIVEN_YUV && options->video.format != VIDEO_NV12 && options->video.format != VIDEO_YUV420P)
        complain(NULL, "--matrix and --range need --format nv12 or yuv420p, not %s", video_format_name(options->video.format));
    else if (options->tiles || options->expect || options->timings || options->decoder == DECODER_NVJPEG || options->shard.n > 0)
        complain(NULL, "video on standard input (-) excludes --tiles, --expect, --timings, --decoder and --shard");
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

void options_manual(const struct option_command *command)
{
    option_table_manual(&table, command);
}
