#include "options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 1, CLASSIFY = 2, VERIFY = 4, INSPECT = 8, POLICIES = 16, RUNS = CLASSIFY | VERIFY };

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
     "Lists every device of every backend that is built in, in the order of preference: its driver, the tier chosen,\n"
     "and why a backend, a device or a higher tier is passed over. '*' marks the device that --backend auto takes.",
     "raggedvit devices", 0, 0, false, run_devices},
    {CLASSIFY, "classify", "MODEL IMAGE...", "classifies images, pruned or not",
     "Classifies images with a .safetensors checkpoint (timm's names for DeiT and ViT). IMAGE is a PNG or JPEG file, a\n"
     "folder (its PNG and JPEG files, sorted by name), or a list (NAME.txt: one path a line, relative to the list).\n"
     "Images are prepared by timm's recipe: shorter edge to size / 0.9 (from 384 pixels on: to size), bicubic as Pillow\n"
     "does it, centre crop, ImageNet mean and standard deviation. An unreadable image is reported and skipped.",
     "raggedvit classify deit_tiny.safetensors cat.png --prune l2 --keep 0.5 --overlay kept.png", 2, -1, true, run_classify},
    {VERIFY, "verify", "MODEL", "compares two devices on the same images",
     "Runs the same images on device A (--backend) and on the reference device B (--against) and reports the difference of\n"
     "the logits, the kept tokens that differ, top-1 agreement, and the first block that diverges. When near-ties make the\n"
     "two keep different tokens, B runs again with A's tokens, so that logits are compared like with like. Without --images\n"
     "the input is seeded, smoothed normal noise. Tolerance of the logits: 1e-4 for f32, 4e-3 for f16, 2e-2 between the two.",
     "raggedvit verify deit_tiny.safetensors --backend vulkan --against cpu --prune evit --keep 0.7", 1, 1, true, run_verify},
    {INSPECT, "inspect", "MODEL", "shows what a checkpoint holds",
     "Shows a checkpoint's architecture and geometry, its parameters and tensors, and what is missing or not used.",
     "raggedvit inspect deit_tiny.safetensors --tensors", 1, 1, true, run_inspect},
    {POLICIES, "policies", "", "lists the prune policies", "Lists the prune policies that --prune takes, with their defaults and sources.",
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
    OPT_DTYPE,
    OPT_AGAINST_DTYPE,
    OPT_BATCH,
    OPT_TOP,
    OPT_IMAGES,
    OPT_TILES,
    OPT_LIMIT,
    OPT_LABELS,
    OPT_EXPECT,
    OPT_OVERLAY,
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
    {OPT_BACKEND, RUNS, "backend", "NAME", "auto, cuda, vulkan or cpu (auto: the first GPU, else the CPU)"},
    {OPT_DEVICE, RUNS, "device", "N", "the backend's device of that number, as 'devices' lists it (its first)"},
    {OPT_AGAINST, VERIFY, "against", "NAME",
     "cpu, vulkan, cuda, or oracle: the CPU with float64 sums (cpu; oracle if A is the same device)"},
    {OPT_AGAINST_DEVICE, VERIFY, "against-device", "N", "the reference backend's device of that number (its first)"},
    {OPT_TIER, CLASSIFY, "tier", "NAME", "kernels: auto, scalar, subgroup or matrix (auto: the highest the device has)"},
    {OPT_TIER, VERIFY, "tier", "NAME", "A's kernels: auto, scalar, subgroup or matrix (auto, as B: the highest there is)"},
    {OPT_THREADS, RUNS, "threads", "N", "CPU threads, 0 to 1024 (0: one a core)"},
    {OPT_PRUNE, RUNS, "prune", "NAME", "how patches are dropped: none, l2, evit; see 'policies' (none)"},
    {OPT_KEEP, RUNS, "keep", "R", "fraction kept at a prune stage, 0 to 1 (the policy's own)"},
    {OPT_BLOCKS, RUNS, "blocks", "LIST", "blocks that prune, from 0, as 3,6,9 (the policy's own)"},
    {OPT_DTYPE, RUNS, "dtype", "TYPE", "storage of weights and activations: f32 or f16 (f32)"},
    {OPT_AGAINST_DTYPE, VERIFY, "against-dtype", "TYPE", "the same for the reference (as --dtype)"},
    {OPT_BATCH, RUNS, "batch", "N", "images a run, 1 to 4096 (32, or fewer if there are fewer)"},
    {OPT_IMAGES, VERIFY, "images", "PATH", "an image, folder or list to verify on (noise)"},
    {OPT_TILES, RUNS, "tiles", "PX", "each image is a sheet of square tiles of that size, read row by row, resized without a crop"},
    {OPT_LIMIT, CLASSIFY, "limit", "N", "only the first N images or tiles (all)"},
    {OPT_LIMIT, VERIFY, "limit", "N", "only the first N images or tiles (all; of noise: 8)"},
    {OPT_TOP, CLASSIFY, "top", "K", "classes shown for an image, 1 to 100 (5)"},
    {OPT_LABELS, CLASSIFY, "labels", "FILE", "class names, one a line (the checkpoint's own, else numbers)"},
    {OPT_EXPECT, CLASSIFY, "expect", "FILE", "the right class of each image, name or number, one a line: prints top-1 accuracy"},
    {OPT_OVERLAY, CLASSIFY, "overlay", "OUT.png", "writes the first image as the model sees it, the dropped patches dimmed"},
    {OPT_TENSORS, INSPECT, "tensors", NULL, "lists every tensor"},
    {OPT_QUIET, CLASSIFY, "quiet", NULL, "prints the summary, not the images"},
    {OPT_JSON, DEVICES | RUNS | INSPECT, "json", NULL, "prints one JSON object instead"},
    {OPT_HELP, ~0u, "help", NULL, "prints this"},
};
#define N_OPTIONS (sizeof option_rows / sizeof option_rows[0])

static void print_command_help(const struct command *command)
{
    printf("usage: raggedvit %s%s%s [options]\n\n%s\n\noptions:\n", command->name, command->arguments[0] ? " " : "", command->arguments,
           command->text);
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (option_rows[i].commands & command->bit) {
            char left[64];
            snprintf(left, sizeof left, "--%s %s", option_rows[i].name, option_rows[i].value ? option_rows[i].value : "");
            printf("  %-20s  %s\n", left, option_rows[i].help);
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

static bool parse_int(const char *name, const char *text, long low, long high, long *out)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || *end || value < low || value > high) {
        complain(NULL, "--%s: '%s' is not a whole number from %ld to %ld", name, text, low, high);
        return false;
    }
    *out = value;
    return true;
}

static bool parse_name(const char *name, const char *text, const char *const *names, int n_names, int *out)
{
    for (int i = 0; i < n_names; i++)
        if (names[i] && strcmp(text, names[i]) == 0) {
            *out = i;
            return true;
        }
    fprintf(stderr, "raggedvit: --%s: '%s' is none of", name, text);
    for (int i = 0; i < n_names; i++)
        if (names[i])
            fprintf(stderr, " %s", names[i]);
    fputc('\n', stderr);
    return false;
}

static bool parse_keep(const char *text, double *out)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= 1)) {
        complain(NULL, "--keep: '%s' is not a number from 0 to 1", text);
        return false;
    }
    *out = value;
    return true;
}

static bool parse_blocks(const char *text, rvit_prune_desc *out)
{
    out->n_blocks = 0;
    for (const char *at = text;; at++) {
        char *end;
        const long block = strtol(at, &end, 10);
        const bool ascends = out->n_blocks == 0 || block > out->blocks[out->n_blocks - 1];
        if (end == at || (*end && *end != ',') || block < 0 || block > INT32_MAX || !ascends || out->n_blocks == RVIT_PRUNE_MAX_STAGES) {
            complain(NULL, "--blocks: '%s' is not a list of ascending block numbers such as 3,6,9, at most %d of them", text,
                     RVIT_PRUNE_MAX_STAGES);
            return false;
        }
        out->blocks[out->n_blocks++] = (int32_t)block;
        if (!*end)
            return true;
        at = end;
    }
}

static bool parse_prune(const char *text, struct options *options)
{
    options->prune_name = text;
    const rvit_status status = rvit_prune_from_name(text, &options->prune.type);
    if (status != RVIT_OK) {
        complain_status("--prune", status);
        return false;
    }
    if (options->prune.type == RVIT_PRUNE_MASK) {
        complain(NULL, "--prune: 'mask' takes a mask with each run, which only a program can give (rvit_run_args.keep)");
        return false;
    }
    return true;
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
    long number = 0;
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
        ok = parse_int(name, value, 0, INT32_MAX, &number);
        options->device = (int32_t)number;
        break;
    case OPT_AGAINST_DEVICE:
        ok = parse_int(name, value, 0, INT32_MAX, &number);
        options->against_device = (int32_t)number;
        break;
    case OPT_TIER:
        ok = parse_name(name, value, tiers, 4, &index);
        options->tier = (rvit_tier)index;
        break;
    case OPT_THREADS:
        ok = parse_int(name, value, 0, 1024, &number);
        options->threads = (int32_t)number;
        break;
    case OPT_PRUNE:
        ok = parse_prune(value, options);
        break;
    case OPT_KEEP:
        ok = parse_keep(value, &options->prune.keep);
        break;
    case OPT_BLOCKS:
        ok = parse_blocks(value, &options->prune);
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
        ok = parse_int(name, value, 1, 4096, &number);
        options->batch = (int32_t)number;
        break;
    case OPT_TOP:
        ok = parse_int(name, value, 1, 100, &number);
        options->top = (int32_t)number;
        break;
    case OPT_TILES:
        ok = parse_int(name, value, 1, 65536, &number);
        options->tiles = (int32_t)number;
        break;
    case OPT_LIMIT:
        ok = parse_int(name, value, 1, LONG_MAX, &number);
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
                              .prune = RVIT_PRUNE_DESC_INIT,
                              .prune_name = "none",
                              .top = 5};
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
    if (options.prune.type == RVIT_PRUNE_NONE && (options.prune.keep >= 0 || options.prune.n_blocks > 0)) {
        complain(NULL, "--keep and --blocks need a policy: --prune l2 or evit");
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
    int code = command->run(&options);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_OK) {
        complain(NULL, "standard output cannot be written");
        code = EXIT_FAULT;
    }
    return code;
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
    complain(NULL, "'%s' is no command; see 'raggedvit --help'", name);
    return EXIT_USAGE;
}

static rvit_prune_info policy_info(rvit_prune_type type)
{
    rvit_prune_info info = RVIT_PRUNE_INFO_INIT;
    for (int32_t i = 0; rvit_prune_list(i, &info) == RVIT_OK; i++)
        if (info.type == type)
            return info;
    return (rvit_prune_info)RVIT_PRUNE_INFO_INIT;
}

double options_keep(const struct options *options)
{
    if (options->prune.type == RVIT_PRUNE_NONE)
        return 1;
    return options->prune.keep >= 0 ? options->prune.keep : policy_info(options->prune.type).default_keep;
}

int32_t options_blocks(const struct options *options, int32_t out_blocks[RVIT_PRUNE_MAX_STAGES])
{
    if (options->prune.n_blocks > 0) {
        memcpy(out_blocks, options->prune.blocks, sizeof options->prune.blocks);
        return options->prune.n_blocks;
    }
    const rvit_prune_info info = policy_info(options->prune.type);
    memcpy(out_blocks, info.default_blocks, sizeof info.default_blocks);
    return info.n_default_blocks;
}

void options_describe_prune(const struct options *options, char *out, size_t out_size)
{
    int32_t blocks[RVIT_PRUNE_MAX_STAGES];
    const int32_t n_blocks = options_blocks(options, blocks);
    if (options->prune.type == RVIT_PRUNE_NONE) {
        snprintf(out, out_size, "none");
        return;
    }
    size_t n =
        (size_t)snprintf(out, out_size, "%s, keep %g at block%s", options->prune_name, options_keep(options), n_blocks > 1 ? "s" : "");
    for (int32_t i = 0; i < n_blocks && n < out_size; i++)
        n += (size_t)snprintf(out + n, out_size - n, "%s%d", i ? ", " : " ", blocks[i]);
}
