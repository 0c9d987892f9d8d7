/* The command line tool: the table of its commands. options.c has their options. */
#include <stdio.h>
#include <string.h>

#include "command_list.h"
#include "core/base/os_program.h"
#include "options.h"

struct command {
    struct option_command syntax;
    const char *summary;
    bool has_model; /* the first argument is a model */
    int (*run)(const struct options *options);
};

static const struct command commands[] = {
    {{"devices", "",
      "Lists the devices of every backend in order of preference, with driver and kernel tier, and why a backend, a device or a higher "
      "tier is not used. '*' marks the device that --backend auto takes.",
      "raggedvit devices", 0, 0, DEVICES},
     "list the devices of every backend",
     false,
     run_devices},
    {{"classify", "MODEL IMAGE...",
      "Classifies images with a .safetensors checkpoint or the index file of a sharded one. IMAGE is a PNG, JPEG, WebP or BMP file, a "
      "folder (its images, sorted by name; other files are skipped with a message), a list (NAME.txt: one path per line, relative to the "
      "list), or - for raw video frames on standard input, which are classified as they arrive. Images are turned upright by their EXIF or "
      "XMP orientation and prepared as the model's files say ('raggedvit inspect' shows how). An image that cannot be read or computed is "
      "reported, and the others are still classified. In JSON, \"kept\" lists the patches left after each pruning stage, numbered row by "
      "row "
      "from 0; with tome, \"sizes\" has the number of patches merged into each.",
      "raggedvit classify deit_tiny.safetensors cat.png --prune l2 --keep 0.5 --overlay kept.png", 2, -1, CLASSIFY},
     "classify images, pruned or not",
     true,
     run_classify},
    {{"merge", "SHARD.json...",
      "Combines the output of N processes of 'classify --shard I/N' with --json or --ndjson, in any order, into the output of a single "
      "run: images and failures in order, byte for byte. Counts, top-1 accuracy and tokens are summed; times are those of the slowest "
      "shard. It fails if a shard or an image is missing, if a shard is present twice, or if the shards are from different runs (model, "
      "device, policy, inputs). The exit code is that of the whole run.",
      "raggedvit merge shard0.json shard1.json > all.json", 1, -1, MERGE},
     "combine the output of classify --shard",
     false,
     run_merge},
    {{"verify", "MODEL",
      "Runs the same images on device A (--backend) and on reference device B (--against), and compares logits (CLS features without a "
      "head), kept tokens, top-1 classes and block outputs. With --reference, A is compared with outputs that timm or transformers "
      "computed in float64. The exit code is 1 if a difference exceeds its tolerance; docs/verify.md has the tolerances and the rule for "
      "kept tokens.",
      "raggedvit verify deit_tiny.safetensors --backend vulkan --against cpu --prune evit --keep 0.7", 1, 1, VERIFY},
     "compare two devices, or one with a reference",
     true,
     run_verify},
    {{"bench", "[MODEL]",
      "For each batch size, times the dense and a pruned forward pass alternately on seeded noise: from images in mapped memory to logits "
      "in mapped memory, with one wait per run. Prints the median time, images per second, kernel launches per forward pass, and the "
      "break-even: the largest kept fraction, in steps of 0.01 and found by bisection, at which the pruned forward pass is faster (0 in "
      "JSON if there is none). Policies without a kept fraction have no break-even; what they keep depends on the images. Without MODEL "
      "the weights are random.",
      "raggedvit bench deit_tiny.safetensors --dtype f16 --prune evit --batches 1,32", 0, 1, BENCH},
     "time the dense and the pruned forward pass",
     false,
     run_bench},
    {{"inspect", "MODEL",
      "Shows the architecture and geometry of a checkpoint, how images are prepared for it, its parameters and tensors, and what is "
      "missing or unused.",
      "raggedvit inspect deit_tiny.safetensors --tensors", 1, 1, INSPECT},
     "show what a checkpoint holds",
     true,
     run_inspect},
    {{"quantize", "MODEL --output FILE",
      "Writes the checkpoint with 8-bit weights in its blocks, in the compressed-tensors format, and reports the error of each layer. With "
      "--calibrate, the model runs on images in f32 to measure the output error of each layer and to fix input scales. A layer is skipped "
      "and keeps its weights if the relative root mean square error of its weight, or of its output on the images, is above 0.1; with fp8, "
      "proj always is. A config.json of the model is written beside FILE if there is none.",
      "raggedvit quantize deit_tiny.safetensors --output deit_tiny_int8.safetensors --calibrate photos/", 1, 1, QUANTIZE},
     "write a checkpoint with 8-bit weights",
     true,
     run_quantize},
    {{"selftest", "[--report FILE]",
      "Checks each device on small random models: that it computes what the CPU computes, within the tolerances of docs/verify.md, that "
      "each "
      "policy keeps the tokens that it should, and that an image has the same bits in every run and batch. Then times attention and a "
      "DeiT-T. About a minute per device. Software devices are tested only if --backend names theirs. The report has no name of a person "
      "or a host, no file path, UUID, PCI address or serial number. The exit code is 1 if a check failed.",
      "raggedvit selftest --report selftest.json", 0, 0, SELFTEST},
     "check and time the devices, write a report",
     false,
     run_selftest},
    {{"policies", "",
      "Lists the pruning policies of --prune: their options with defaults, where in a block they prune, and where they were published. "
      "3..last means block 3 and all later ones, PATCHES the number of patches of the image. Options in brackets have no default; an "
      "argument in capitals outside brackets is required.",
      "raggedvit policies", 0, 0, POLICIES},
     "list the pruning policies",
     false,
     run_policies},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const char about[] = "run token-pruned Vision Transformers on CUDA, Vulkan or the CPU";
static const char *const exit_codes[] = {
    "success",
    "the command ran, but some images could not be read or computed, the overlay could not be written, or a verification or check failed",
    "the command line is invalid",
    "the device is not available or does not support the request",
    "a file is missing or invalid: the checkpoint, labels, text embeddings, a list, a shard, or every image",
    "out of memory, device lost, output not writable, or internal error",
};
#define N_EXIT_CODES (sizeof exit_codes / sizeof exit_codes[0])
static const char log_help[] = "how much the library logs to standard error: error, warning, info or debug (default: warning)";
static const char *const examples[] = {
    "raggedvit classify deit_tiny.safetensors cat.png --prune l2 --keep 0.5",
    "mpirun -n 4 sh -c 'I=$OMPI_COMM_WORLD_RANK; raggedvit classify deit_tiny.safetensors photos/ --json --shard $I/4 > $I.json'",
    "raggedvit merge [0-3].json > all.json",
    "ffmpeg -i clip.mp4 -f rawvideo -pix_fmt nv12 - | raggedvit classify deit_tiny.safetensors - --size 1280x720 --format nv12 --ndjson",
};
#define N_EXAMPLES (sizeof examples / sizeof examples[0])

static void print_help(void)
{
    printf("usage: raggedvit COMMAND ...\n\nraggedvit: %s\n\ncommands:\n", about);
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-9s %-19s %s\n", commands[i].syntax.name, commands[i].syntax.arguments, commands[i].summary);
    puts("\n'raggedvit COMMAND --help' prints the options of a command, 'raggedvit --manual' the manual page as troff,\n"
         "'raggedvit --version' the version.\n\nexit codes:");
    for (size_t i = 0; i < N_EXIT_CODES; i++)
        printf("  %d  %s\n", (int)i, exit_codes[i]);
    printf("\nenvironment:\n  RVIT_LOG  %s\n\nexample:\n  %s\n", log_help, examples[0]);
}

static void print_manual(void)
{
    printf(".TH RAGGEDVIT 1 \"\" \"raggedvit %s\"\n.SH NAME\nraggedvit \\- %s\n", rvit_version(), about);
    puts(".SH SYNOPSIS\n.B raggedvit\n.I COMMAND\n[arguments] [options]\n.SH COMMANDS");
    for (size_t i = 0; i < N_COMMANDS; i++)
        options_manual(&commands[i].syntax);
    puts(".SH EXIT STATUS");
    for (size_t i = 0; i < N_EXIT_CODES; i++)
        printf(".TP\n.B %d\n%s\n", (int)i, exit_codes[i]);
    printf(".SH ENVIRONMENT\n.TP\n.B RVIT_LOG\n%s\n.SH EXAMPLES\n.nf\n", log_help);
    for (size_t i = 0; i < N_EXAMPLES; i++) {
        manual_print(examples[i]);
        putchar('\n');
    }
    puts(".fi");
}

/* argv[0] is the command's name. */
static int run_command(const struct command *command, int argc, char **argv)
{
    struct options options;
    switch (options_parse(&command->syntax, command->has_model, argc, argv, &options)) {
    case OPTION_PARSED:
        return command->run(&options);
    case OPTION_HELPED:
        return EXIT_OK;
    default:
        return EXIT_USAGE;
    }
}

/* Parses the whole command line and runs its command; returns the exit code. */
static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (argc < 2)
        return fail_with(EXIT_USAGE, NULL, "no command; see 'raggedvit --help'");
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help();
        return EXIT_OK;
    }
    if (strcmp(name, "--manual") == 0) {
        print_manual();
        return EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("raggedvit %s\n", rvit_version());
        return EXIT_OK;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].syntax.name) == 0)
            return run_command(&commands[i], argc - 1, argv + 1);
    return fail_with(EXIT_USAGE, NULL, "unknown command '%s'; see 'raggedvit --help'", name);
}

int main(int argc, char **argv)
{
    const int bad = rvit_program_begin(&argc, &argv);
    if (bad != 0)
        return fail_with(EXIT_USAGE, NULL, "argument %d is not valid Unicode", bad);
    rvit_log_set(rvit_log_stderr, NULL);
    return finish_output(run(argc, argv));
}
