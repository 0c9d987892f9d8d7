/* The command line tool. Plain C that uses only the public API; here is the table of its commands, options.c has their options. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command_list.h"
#include "options.h"

struct command {
    struct option_command syntax;
    const char *summary;
    bool has_model; /* the first argument is a model */
    int (*run)(const struct options *options);
};

static const struct command commands[] = {
    {{"devices", "",
      "Lists every device of every backend, in the order of preference: its driver, the tier chosen, and why a backend, a device or a "
      "higher tier is not used. '*' marks the device that --backend auto takes.",
      "raggedvit devices", 0, 0, DEVICES},
     "lists every device of every backend",
     false,
     run_devices},
    {{"classify", "MODEL IMAGE...",
      "Classifies images with a .safetensors checkpoint, or the index file of a sharded one. IMAGE is a PNG, JPEG, WebP or BMP file, a "
      "folder (its images, sorted by name; what else it holds is named and left out), a list (NAME.txt: one path a line, relative to the "
      "list), or - for raw video frames on "
      "standard "
      "input, each of which is answered when it comes. Images are turned upright as their EXIF data or XMP says. They are prepared as "
      "the "
      "model's files say (inspect shows it): by resizing the shorter edge and cutting out the centre, or both edges, bilinear or bicubic, "
      "as "
      "timm or transformers do it. An image that cannot be read or computed is reported, and the others are answered. With --json or "
      "--ndjson, an image's "
      "\"kept\" are the patches left after each prune stage, numbered line by line from 0, and with tome \"sizes\" says of how many "
      "patches each is the mean.",
      "raggedvit classify deit_tiny.safetensors cat.png --prune l2 --keep 0.5 --overlay kept.png", 2, -1, CLASSIFY},
     "classifies images, pruned or not",
     true,
     run_classify},
    {{"merge", "SHARD.json...",
      "Puts together what 'classify --shard I/N' printed with --json or --ndjson, N files in any order, as one run without shards would "
      "have "
      "printed it: images and failures in order, byte for byte; counts, top-1 accuracy and tokens are summed, and the times are those of "
      "the slowest shard. It checks that every shard is there once, that all are of one run (model, device, policy, inputs), and that no "
      "image "
      "is missing. The exit code is that of the whole run.",
      "raggedvit merge shard0.json shard1.json > all.json", 1, -1, MERGE},
     "puts the shards of a classify together",
     false,
     run_merge},
    {{"verify", "MODEL",
      "Runs the same images on device A (--backend) and on the reference device B (--against) and reports the difference of the logits "
      "(of the CLS features where the checkpoint has no head), the kept tokens that differ, top-1 agreement, and the first block that "
      "diverges. When near-ties make the two keep different tokens, B runs again with A's, so that logits are compared like with like; "
      "tome and evit-fused cannot do that, and such images are left out. Each decision of a stage is judged by its margin: how far, "
      "relatively, B's scores must move for it to be another. A is given the tokens that B kept before (with tome and evit-fused an image "
      "is judged up to the first stage that differs). What A decides otherwise may have a margin of four "
      "times what the difference of two scores is off by: of scores by attention 1e-5 in f32, 2.8e-3 in f16, 2.4e-2 in bf16, 0.14 in int8, "
      "0.28 in fp8; of norms and similarities about a sixth of that, of predictors about a third. ats takes samples as dense as the "
      "tokens, so that "
      "16-bit types keep other tokens on most "
      "images; who needs its exact sets takes f32. Without --images the input is seeded, "
      "smoothed normal noise. Tolerance of the logits: 1e-4 for f32, 4e-3 for f16, 3.2e-2 for bf16; 2e-2 between f32 and f16, 1.6e-1 "
      "between bf16 and another. That A and B agree does not show that they are right, for both read the checkpoint alike. With "
      "--reference "
      "A alone runs, on the images of a dump, and its logits, pooled vectors and features are compared with those that timm or "
      "transformers "
      "computed; tolerance: twice what PyTorch itself is off in that type, of the largest value, at least 1e-5 for f32, 1e-3 for f16 and "
      "8e-3 for bf16.",
      "raggedvit verify deit_tiny.safetensors --backend vulkan --against cpu --prune evit --keep 0.7", 1, 1, VERIFY},
     "compares two devices, or one with a reference",
     true,
     run_verify},
    {{"bench", "[MODEL]",
      "For each batch size, times the dense and a pruned forward alternately on seeded noise: from images in mapped memory to "
      "logits there, one wait per run. Shows the median time of a run, images per second, kernel launches per forward, and the "
      "break-even: the largest kept fraction, in hundredths and found by bisection, at which the pruned forward is faster (with "
      "--json 0: at none). Policies without a kept fraction have no break-even; what they keep depends on the images. Without MODEL the "
      "weights are random.",
      "raggedvit bench deit_tiny.safetensors --dtype f16 --prune evit --batches 1,32", 0, 1, BENCH},
     "times the dense and the pruned forward on this machine",
     false,
     run_bench},
    {{"inspect", "MODEL", "Shows a checkpoint's architecture and geometry, its parameters and tensors, and what is missing or not used.",
      "raggedvit inspect deit_tiny.safetensors --tensors", 1, 1, INSPECT},
     "shows what a checkpoint holds",
     true,
     run_inspect},
    {{"quantize", "MODEL --output FILE",
      "Writes the checkpoint with weights of 8 bits in its blocks, in the manner of compressed-tensors, and says of each layer what that "
      "costs. With --calibrate the model runs on images in f32, for the errors of the layers' products and for fixed scales of inputs. A "
      "layer is spared, and stays as it is, if the error of its weight, or of its product on the images, is above 0.1 (root mean square, "
      "relative); with fp8 proj is always. A config.json of the model is written beside FILE if there is none.",
      "raggedvit quantize deit_tiny.safetensors --output deit_tiny_int8.safetensors --calibrate photos/", 1, 1, QUANTIZE},
     "writes a checkpoint with weights of 8 bits",
     true,
     run_quantize},
    {{"policies", "",
      "Lists the policies that --prune takes: the options each uses and their defaults, where in a block it prunes, and where it was "
      "published. "
      "3..last: block 3 and all later ones. PATCHES: the number of patches of the image. An option in brackets, or in capitals, has no "
      "default; the "
      "latter must be given.",
      "raggedvit policies", 0, 0, POLICIES},
     "lists the prune policies",
     false,
     run_policies},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(void)
{
    puts("usage: raggedvit COMMAND ...\n\n"
         "Runs token-pruned Vision Transformers on CUDA, on Vulkan or on the CPU.\n\n"
         "commands:");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-9s %-15s %s\n", commands[i].syntax.name, commands[i].syntax.arguments, commands[i].summary);
    puts("\n'raggedvit COMMAND --help' shows a command's options; 'raggedvit --version' the version.\n\n"
         "exit codes:\n"
         "  0  success\n"
         "  1  it ran, but some images were left unread or have no result, the overlay could not be written, or a verification "
         "failed\n"
         "  2  the command line is wrong\n"
         "  3  the device is not available, or cannot run what was asked\n"
         "  4  a file is missing or invalid: the checkpoint, the labels, the embeddings of texts, a list, a shard, or every image\n"
         "  5  out of memory, the device was lost, the output cannot be written, or an internal error\n\n"
         "RVIT_LOG=error|warning|info|debug in the environment sets how much the library logs to standard error (warning).\n\n"
         "example:\n"
         "  raggedvit classify deit_tiny.safetensors cat.png --prune l2 --keep 0.5");
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
        return fail_with(EXIT_USAGE, NULL, "a command is needed; see 'raggedvit --help'");
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help();
        return EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("raggedvit %s\n", rvit_version());
        return EXIT_OK;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].syntax.name) == 0)
            return run_command(&commands[i], argc - 1, argv + 1);
    return fail_with(EXIT_USAGE, NULL, "'%s' is not a command; see 'raggedvit --help'", name);
}

/* Opens closed standard streams, so that no file opened later gets their descriptor and receives printed output. Writing to such a stream
   fails and is reported. */
static void occupy_standard_streams(void)
{
    int descriptor;
    do
        descriptor = open("/dev/null", O_RDONLY);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor > STDERR_FILENO)
        close(descriptor);
}

int main(int argc, char **argv)
{
    occupy_standard_streams();
    rvit_log_set(rvit_log_stderr, NULL);
    return finish_output(run(argc, argv));
}
