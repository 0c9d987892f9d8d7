#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"
#include "wrap.h"

enum { DEVICES = 1, CLASSIFY = 2, VERIFY = 4, INSPECT = 8, POLICIES = 16, BENCH = 32 };
enum { RUNS = CLASSIFY | VERIFY, TIMES = RUNS | BENCH, MODELS = TIMES | INSPECT };

struct command {
    unsigned bit;
    const char *name, *arguments, *summary;
    const char *text; /* of its --help */
    const char *example;
    int min_paths, max_paths; /* MODEL included; -1: any number */
    bool has_model;
    int (*run)(const struct options *options);
};

static const struct command commands[] = {
    {DEVICES, "devices", "", "lists every device of every backend",
     "Lists every device of every backend, in the order of preference: its driver, the tier chosen, and why a backend, a device or a "
     "higher tier is passed over. '*' marks the device that --backend auto takes.",
     "raggedvit devices", 0, 0, false, run_devices},
    {CLASSIFY, "classify", "MODEL IMAGE...", "classifies images, pruned or not",
     "Classifies images with a .safetensors checkpoint, or the index file of one in parts. IMAGE is a PNG or JPEG file, a folder (its "
     "PNG and JPEG files, sorted by name), or a list (NAME.txt: one path a line, relative to the list). Images are prepared by timm's "
     "recipe: shorter edge to size / crop, bicubic as Pillow does it, centre crop, mean and standard deviation, by default those of "
     "DeiT; timm's own ViT were trained with --mean 0.5 --std 0.5. An unreadable image is reported and skipped. With --json, an image's "
     "\"kept\" are the patches left after "
     "each prune stage, numbered line by line from 0, and with tome \"sizes\" says of how many patches each is the mean.",
     "raggedvit classify deit_tiny.safetensors cat.png --prune l2 --keep 0.5 --overlay kept.png", 2, -1, true, run_classify},
    {VERIFY, "verify", "MODEL", "compares two devices on the same images",
     "Runs the same images on device A (--backend) and on the reference device B (--against) and reports the difference of the logits "
     "(of the CLS features where the checkpoint has no head), the kept tokens that differ, top-1 agreement, and the first block that "
     "diverges. When near-ties make the two keep different tokens, B runs again with A's, so that logits are compared like with like; "
     "tome and evit-fused cannot do that, and such images, at most half of all, are left out. Without --images the input is seeded, "
     "smoothed normal noise. Tolerance of the logits: 1e-4 for f32, 4e-3 for f16, 2e-2 between the two.",
     "raggedvit verify deit_tiny.safetensors --backend vulkan --against cpu --prune evit --keep 0.7", 1, 1, true, run_verify},
    {BENCH, "bench", "[MODEL]", "times the dense and the pruned forward on this machine",
     "For each batch size, times the dense forward and a pruned one, which take turns, on seeded noise: from images in mapped memory to "
     "logits there, one wait for each run. Shows the median time of a run, images a second, kernel launches of a forward, and the "
     "break-even: the largest kept fraction, to a hundredth and found by halving, at which the pruned forward is faster (with "
     "--json 0: at none). Policies that take no fraction have no break-even, and what they keep depends on the images. Without MODEL the "
     "weights are random.",
     "raggedvit bench deit_tiny.safetensors --dtype f16 --prune evit --batches 1,32", 0, 1, false, run_bench},
    {INSPECT, "inspect", "MODEL", "shows what a checkpoint holds",
     "Shows a checkpoint's architecture and geometry, its parameters and tensors, and what is missing or not used.",
     "raggedvit inspect deit_tiny.safetensors --tensors", 1, 1, true, run_inspect},
    {POLICIES, "policies", "", "lists the prune policies",
     "Lists the policies that --prune takes: the options each uses and their defaults, where in a block it prunes, and its source. "
     "3..last: block 3 and each after it. PATCHES: as many as the image has. An option in brackets, or in capitals, has no default; the "
     "latter must be given.",
     "raggedvit policies", 0, 0, false, run_policies},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

enum {
    OPT_BACKEND = 256,
    OPT_AGAINST,
    OPT_DEVICE,
    OPT_AGAINST_DEVICE,
    OPT_TIER,
    OPT_THREADS,
    OPT_PRUNE,
    OPT_KEEP,
    OPT_BLOCKS,
    OPT_THRESHOLD,
    OPT_MASS,
    OPT_SAMPLES,
    OPT_MERGE,
    OPT_SEED,
    OPT_MASK,
    OPT_IMAGE_SIZE,
    OPT_RESAMPLE,
    OPT_EPS,
    OPT_DTYPE,
    OPT_AGAINST_DTYPE,
    OPT_BATCH,
    OPT_BATCHES,
    OPT_SECONDS,
    OPT_SHAPE,
    OPT_TOP,
    OPT_IMAGES,
    OPT_CROP,
    OPT_MEAN,
    OPT_STD,
    OPT_TILES,
    OPT_LIMIT,
    OPT_LABELS,
    OPT_EXPECT,
    OPT_OVERLAY,
    OPT_FEATURES,
    OPT_GRID,
    OPT_TENSORS,
    OPT_QUIET,
    OPT_JSON,
    OPT_HELP
};

struct option_row {
    int id;
    unsigned commands;
    const char *name, *value; /* value NULL: a switch */
    const char *help;
};

static const struct option_row option_rows[] = {
    {OPT_BACKEND, TIMES, "backend", "NAME", "auto, cuda, vulkan or cpu (auto: the first GPU, else the CPU)"},
    {OPT_DEVICE, TIMES, "device", "N", "the backend's device of that number, as 'devices' lists it (its first)"},
    {OPT_AGAINST, VERIFY, "against", "NAME",
     "cpu, vulkan, cuda, or oracle: the CPU with float64 sums (cpu; oracle if A is the same device)"},
    {OPT_AGAINST_DEVICE, VERIFY, "against-device", "N", "the reference backend's device of that number (its first)"},
    {OPT_TIER, CLASSIFY | BENCH, "tier", "NAME", "kernels: auto, scalar, subgroup or matrix (auto: the highest the device has)"},
    {OPT_TIER, VERIFY, "tier", "NAME", "A's kernels: auto, scalar, subgroup or matrix (auto, as B: the highest there is)"},
    {OPT_THREADS, TIMES, "threads", "N", "CPU threads, 0 to 1024 (0: as many as the process may use)"},
    {OPT_PRUNE, RUNS, "prune", "NAME",
     "how patches are dropped; 'raggedvit policies' says which of the options below each takes (none). One of:"},
    {OPT_PRUNE, BENCH, "prune", "NAME",
     "how patches are dropped, as for classify, but not by a mask (l2); none: times the dense one alone"},
    {OPT_KEEP, TIMES, "keep", "R", "fraction kept, 0 to 1 (the policy's own)"},
    {OPT_BLOCKS, TIMES, "blocks", "LIST", "blocks that prune, from 0, as 3,6,9 (the policy's own)"},
    {OPT_THRESHOLD, TIMES, "threshold", "T", "what a patch must reach, a norm or a probability (the policy's own)"},
    {OPT_MASS, TIMES, "mass", "P", "share of the scores' sum that is kept, 0 to 1 (the policy's own)"},
    {OPT_SAMPLES, TIMES, "samples", "K", "points sampled, 1 to 65536 (as many as there are patches)"},
    {OPT_MERGE, TIMES, "merge", "R", "patches merged away at each stage (the policy's own)"},
    {OPT_SEED, TIMES, "seed", "N", "of what is random (0)"},
    {OPT_MASK, RUNS, "mask", "FILE",
     "what to keep: a NumPy array of uint8 or bool, [patches], [images, patches] or [stages, images, patches]; or JSON, for each image a "
     "list for each stage of patch numbers, or what classify --json wrote, with its blocks"},
    {OPT_IMAGE_SIZE, MODELS, "image-size", "N", "pixels an edge of the model's input, to which its position table is resampled (its own)"},
    {OPT_RESAMPLE, MODELS, "resample", "NAME",
     "how: timm (its antialiased bicubic), bicubic (Hugging Face's, DeiT's, EViT's) or bilinear (DynamicViT's, ATS's)"},
    {OPT_EPS, MODELS, "eps", "X", "of the layernorms (what the checkpoint's family has)"},
    {OPT_DTYPE, TIMES, "dtype", "TYPE", "storage of weights and activations: f32 or f16 (f32)"},
    {OPT_AGAINST_DTYPE, VERIFY, "against-dtype", "TYPE", "the same for the reference (as --dtype)"},
    {OPT_BATCH, RUNS, "batch", "N", "images a run, 1 to 4096 (32, or fewer if there are fewer)"},
    {OPT_BATCHES, BENCH, "batches", "LIST", "images of a run, ascending, each 1 to 4096 (1,4,16, and on a GPU 64)"},
    {OPT_SECONDS, BENCH, "seconds", "S",
     "measuring time of a batch size, 0 to 3600; the search for the break-even takes twice as long (0.5)"},
    {OPT_SHAPE, BENCH, "shape", "NAME", "without MODEL: DeiT's tiny, small or base (tiny)"},
    {OPT_IMAGES, VERIFY, "images", "PATH", "an image, folder or list to verify on (noise)"},
    {OPT_CROP, RUNS, "crop", "P", "share of an image's shorter edge that the model sees, 0.1 to 1 (0.9, from 384 pixels on 1)"},
    {OPT_MEAN, RUNS, "mean", "R,G,B", "what is subtracted from the colours, which go from 0 to 1; or one for all (0.485,0.456,0.406)"},
    {OPT_STD, RUNS, "std", "R,G,B", "what they are divided by then; or one for all (0.229,0.224,0.225)"},
    {OPT_TILES, RUNS, "tiles", "PX", "each image is a sheet of square tiles of that size, read row by row, resized without a crop"},
    {OPT_LIMIT, CLASSIFY, "limit", "N", "only the first N images or tiles (all)"},
    {OPT_LIMIT, VERIFY, "limit", "N", "only the first N images or tiles (all; of noise: 8)"},
    {OPT_TOP, CLASSIFY, "top", "K", "classes shown for an image, 1 to 100 (5)"},
    {OPT_LABELS, CLASSIFY, "labels", "FILE", "class names, one a line (the checkpoint's own, else numbers)"},
    {OPT_EXPECT, CLASSIFY, "expect", "FILE", "the right class of each image, name or number, one a line: prints top-1 accuracy"},
    {OPT_OVERLAY, CLASSIFY, "overlay", "OUT.png",
     "writes the first image as the model sees it; patches that were dropped, or merged into others, are dimmed, the earlier the more"},
    {OPT_FEATURES, CLASSIFY, "features", "OUT.npy",
     "writes the CLS row of each image that was classified, after the final layernorm: float32 [images, dim]"},
    {OPT_GRID, CLASSIFY, "grid", NULL, "makes --features write the patches in their places, 0 where dropped: [images, G, G, dim]"},
    {OPT_TENSORS, INSPECT, "tensors", NULL, "lists every tensor"},
    {OPT_QUIET, CLASSIFY, "quiet", NULL, "prints the summary, not the images"},
    {OPT_JSON, ~0u, "json", NULL, "prints one JSON object instead"},
    {OPT_HELP, ~0u, "help", NULL, "prints this"},
};
#define N_OPTIONS (sizeof option_rows / sizeof option_rows[0])

#define HELP_COLUMN 24

static void print_option_help(const char *name, const char *value, const char *help)
{
    const int used = printf("  --%s%s%s", name, value ? " " : "", value ? value : "");
    if (used + 2 > HELP_COLUMN)
        putchar('\n');
    printf("%*s", used + 2 > HELP_COLUMN ? HELP_COLUMN : HELP_COLUMN - used, "");
    wrap_print(help, HELP_COLUMN, HELP_COLUMN);
}

static void print_command_help(const struct command *command)
{
    char text[1024], policies[512];
    printf("usage: raggedvit %s%s%s [options]\n\n", command->name, command->arguments[0] ? " " : "", command->arguments);
    wrap_print(command->text, 0, 0);
    puts("\noptions:");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = &option_rows[i];
        if (!(row->commands & command->bit))
            continue;
        snprintf(text, sizeof text, "%s", row->help);
        if (row->id == OPT_PRUNE && command->bit != BENCH) {
            prune_list_names(0, policies, sizeof policies);
            snprintf(text, sizeof text, "%s %s", row->help, policies);
        }
        print_option_help(row->name, row->value, text);
    }
    printf("\nexample:\n  %s\n", command->example);
}

static void print_help(void)
{
    puts("usage: raggedvit COMMAND ...\n\n"
         "Runs token-pruned Vision Transformers on CUDA, on Vulkan or on the CPU.\n\n"
         "commands:");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-9s %-15s %s\n", commands[i].name, commands[i].arguments, commands[i].summary);
    puts("\n'raggedvit COMMAND --help' shows a command's options; 'raggedvit --version' the version.\n\n"
         "exit codes:\n"
         "  0  all is well\n"
         "  1  it ran, but some images could not be read, the overlay could not be written, or a verification failed\n"
         "  2  the command line is wrong\n"
         "  3  the device is not there, or cannot do what was asked\n"
         "  4  a file is missing or bad: the checkpoint, labels, a list, or every image\n"
         "  5  out of memory, device lost, output not writable, or a defect\n\n"
         "RVIT_LOG=error|warning|info|debug in the environment sets how much the library logs to standard error (warning).\n\n"
         "example:\n"
         "  raggedvit classify deit_tiny.safetensors cat.png --prune l2 --keep 0.5");
}

static bool parse_option(int id, const char *name, const char *value, struct options *options)
{
    static const char *const backends[] = {[RVIT_BACKEND_AUTO] = "auto",
                                           [RVIT_BACKEND_CPU] = "cpu",
                                           [RVIT_BACKEND_CUDA] = "cuda",
                                           [RVIT_BACKEND_VULKAN] = "vulkan",
                                           [RVIT_BACKEND_VULKAN + 1] = "oracle"};
    static const char *const tiers[] = {"auto", "scalar", "subgroup", "matrix"};
    static const char *const dtypes[] = {"f32", "f16"};
    static const char *const shapes[] = {[3] = "tiny", [6] = "small", [12] = "base"};
    static const char *const resamplers[] = {
        [RVIT_RESAMPLE_TIMM] = "timm", [RVIT_RESAMPLE_BICUBIC] = "bicubic", [RVIT_RESAMPLE_BILINEAR] = "bilinear"};
    int64_t number = 0;
    double real = 0;
    int index = 0;
    bool ok = true;
    switch (id) {
    case OPT_BACKEND:
        ok = parse_name(name, value, backends, 4, &index);
        options->backend = (rvit_backend)index;
        break;
    case OPT_AGAINST:
        ok = parse_name(name, value, backends, 5, &index);
        options->against_given = true;
        options->against_oracle = index == RVIT_BACKEND_VULKAN + 1;
        options->against = options->against_oracle ? RVIT_BACKEND_CPU : (rvit_backend)index;
        break;
    case OPT_DEVICE:
        ok = parse_integer(name, value, 0, INT32_MAX, &number);
        options->device = (int32_t)number;
        break;
    case OPT_AGAINST_DEVICE:
        ok = parse_integer(name, value, 0, INT32_MAX, &number);
        options->against_device = (int32_t)number;
        break;
    case OPT_TIER:
        ok = parse_name(name, value, tiers, 4, &index);
        options->tier = (rvit_tier)index;
        break;
    case OPT_THREADS:
        ok = parse_integer(name, value, 0, 1024, &number);
        options->threads = (int32_t)number;
        break;
    case OPT_PRUNE:
        ok = prune_choose(&options->prune, value);
        break;
    case OPT_KEEP:
        ok = prune_set(&options->prune, RVIT_PRUNE_KEEP, value);
        break;
    case OPT_BLOCKS:
        ok = prune_set(&options->prune, RVIT_PRUNE_BLOCKS, value);
        break;
    case OPT_THRESHOLD:
        ok = prune_set(&options->prune, RVIT_PRUNE_THRESHOLD, value);
        break;
    case OPT_MASS:
        ok = prune_set(&options->prune, RVIT_PRUNE_MASS, value);
        break;
    case OPT_SAMPLES:
        ok = prune_set(&options->prune, RVIT_PRUNE_SAMPLES, value);
        break;
    case OPT_MERGE:
        ok = prune_set(&options->prune, RVIT_PRUNE_MERGES, value);
        break;
    case OPT_SEED:
        ok = prune_set(&options->prune, RVIT_PRUNE_SEED, value);
        break;
    case OPT_MASK:
        options->prune.mask = value;
        break;
    case OPT_IMAGE_SIZE:
        ok = parse_integer(name, value, 1, 65536, &number);
        options->checkpoint.image_size = (int32_t)number;
        break;
    case OPT_RESAMPLE:
        ok = parse_name(name, value, resamplers, 3, &index);
        options->checkpoint.resample = (rvit_resample)index;
        break;
    case OPT_EPS:
        ok = parse_real(name, value, 1e-30, 1, &real);
        options->checkpoint.eps = (float)real;
        break;
    case OPT_DTYPE:
        ok = parse_name(name, value, dtypes, 2, &index);
        options->dtype = (rvit_dtype)index;
        break;
    case OPT_AGAINST_DTYPE:
        ok = parse_name(name, value, dtypes, 2, &index);
        options->against_dtype = (rvit_dtype)index;
        options->against_dtype_given = true;
        break;
    case OPT_BATCH:
        ok = parse_integer(name, value, 1, 4096, &number);
        options->batch = (int32_t)number;
        break;
    case OPT_BATCHES:
        ok = parse_list(name, value, RVIT_PRUNE_MAX_STAGES, options->batches, &options->n_batches);
        if (ok && (options->batches[0] < 1 || options->batches[options->n_batches - 1] > 4096)) {
            complain(NULL, "--batches: '%s' is not between 1 and 4096", value);
            ok = false;
        }
        break;
    case OPT_SECONDS:
        ok = parse_real(name, value, 0, 3600, &options->seconds);
        break;
    case OPT_SHAPE:
        ok = parse_name(name, value, shapes, 13, &index);
        options->shape = index;
        break;
    case OPT_TOP:
        ok = parse_integer(name, value, 1, 100, &number);
        options->top = (int32_t)number;
        break;
    case OPT_CROP:
        ok = parse_real(name, value, 0.1, 1, &options->preprocess.crop);
        break;
    case OPT_MEAN:
        ok = parse_colours(name, value, 0, 1, options->preprocess.mean);
        break;
    case OPT_STD:
        ok = parse_colours(name, value, 0.001, 1, options->preprocess.deviation);
        break;
    case OPT_TILES:
        ok = parse_integer(name, value, 1, 65536, &number);
        options->tiles = (int32_t)number;
        break;
    case OPT_LIMIT:
        ok = parse_integer(name, value, 1, INT64_MAX, &number);
        options->limit = number;
        break;
    case OPT_LABELS:
        options->labels = value;
        break;
    case OPT_EXPECT:
        options->expect = value;
        break;
    case OPT_OVERLAY:
        options->overlay = value;
        break;
    case OPT_FEATURES:
        options->features = value;
        break;
    case OPT_GRID:
        options->grid = true;
        break;
    case OPT_TENSORS:
        options->tensors = true;
        break;
    case OPT_QUIET:
        options->quiet = true;
        break;
    case OPT_JSON:
        options->json = true;
        break;
    default:
        ok = false;
    }
    return ok;
}

/* argv[0] is the command's name. */
static int run_command(const struct command *command, int argc, char **argv)
{
    struct option rows[N_OPTIONS + 1];
    size_t n_rows = 0;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (option_rows[i].commands & command->bit)
            rows[n_rows++] =
                (struct option){option_rows[i].name, option_rows[i].value ? required_argument : no_argument, NULL, option_rows[i].id};
    rows[n_rows] = (struct option){NULL, 0, NULL, 0};

    struct options options = {.backend = RVIT_BACKEND_AUTO,
                              .against = RVIT_BACKEND_CPU,
                              .device = -1,
                              .against_device = -1,
                              .checkpoint = RVIT_CHECKPOINT_DESC_INIT,
                              .preprocess = preprocess_imagenet,
                              .seconds = 0.5,
                              .shape = 3,
                              .top = 5};
    prune_init(&options.prune);
    if (command->bit == BENCH && !prune_choose(&options.prune, "l2"))
        return EXIT_FAULT;
    char *images = NULL;
    opterr = 0;
    for (;;) {
        int row = 0;
        const int id = getopt_long(argc, argv, ":h", rows, &row);
        if (id == -1)
            break;
        if (id == 'h' || id == OPT_HELP) {
            print_command_help(command);
            return EXIT_OK;
        }
        if (id == ':' || id == '?') {
            const char *text = argv[optind - 1];
            complain(NULL, id == ':' ? "%s needs a value; see 'raggedvit %s --help'" : "unknown option %s; see 'raggedvit %s --help'", text,
                     command->name);
            return EXIT_USAGE;
        }
        if (id == OPT_IMAGES)
            images = optarg;
        else if (!parse_option(id, rows[row].name, optarg, &options))
            return EXIT_USAGE;
    }
    if (!options.against_dtype_given)
        options.against_dtype = options.dtype;
    const int n_paths = argc - optind;
    if (n_paths < command->min_paths || (command->max_paths >= 0 && n_paths > command->max_paths)) {
        complain(NULL, "%s takes %s; see 'raggedvit %s --help'", command->name, command->arguments[0] ? command->arguments : "no arguments",
                 command->name);
        return EXIT_USAGE;
    }
    if (command->bit == BENCH && options.prune.policy.type == RVIT_PRUNE_MASK) {
        complain(NULL, "bench takes every policy but mask");
        return EXIT_USAGE;
    }
    if (!prune_check(&options.prune))
        return EXIT_USAGE;
    if (options.grid && !options.features) {
        complain(NULL, "--grid needs --features");
        return EXIT_USAGE;
    }
    if (options.tiles && command->bit == VERIFY && !images) {
        complain(NULL, "--tiles needs --images");
        return EXIT_USAGE;
    }
    if (command->has_model)
        options.model = argv[optind++];
    options.paths = images ? &images : argv + optind;
    options.n_paths = images ? 1 : argc - optind;
    return command->run(&options);
}

int options_run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        complain(NULL, "a command is needed; see 'raggedvit --help'");
        return EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help();
        return EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("raggedvit %s\n", rvit_version());
        return EXIT_OK;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return run_command(&commands[i], argc - 1, argv + 1);
    complain(NULL, "'%s' is not a command; see 'raggedvit --help'", name);
    return EXIT_USAGE;
}
