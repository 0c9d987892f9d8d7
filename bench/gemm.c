/* Prints which GEMM kernel runs a linear op on CUDA, and why. Calls backend_cuda/linear_choose.c; needs no GPU. */
#include <stdio.h>

#include "backend_cuda/linear_choose.h"
#include "options.h"

typedef struct options {
    int machine;
    rvit_dtype dtype, out_dtype;
    int32_t rows[16];
    size_t n_rows;
    int32_t in_features, out_features;
    rvit_activation activation;
    bool gated, bias, narrow_bias, residual, repeats, live, may_pad, no_lt;
} options;

/* The properties of GPUs with a driver of CUDA 12.3 or later. */
static const struct {
    const char *name;
    rvit_cu_machine machine;
} machines[] = {
    {"h100", {.n_sms = 132, .max_shared = 231424, .sm_shared = 233472, .wgmma = 1, .faster_mma = 1, .early = 1, .clusters = 1}},
    {"b200", {.n_sms = 148, .max_shared = 231424, .sm_shared = 233472, .faster_mma = 1, .clusters = 1}},
    {"a100", {.n_sms = 108, .max_shared = 165888, .sm_shared = 167936, .clusters = 1}},
    {"l4", {.n_sms = 58, .max_shared = 100352, .sm_shared = 102400, .clusters = 1}},
};
enum { N_MACHINES = sizeof machines / sizeof machines[0] };

static const char *machine_name(int value)
{
    return machines[value].name;
}

static const char *gemm_dtype(int value)
{
    return value == RVIT_I8 ? NULL : choice_dtype(value);
}

static const struct option_row option_rows[] = {
    {"machine", "NAME", "%s (default: h100)", OPTION_CHOICE(options, machine, machine_name, 0, N_MACHINES - 1)},
    {"dtype", "TYPE", "type of the input and the weight, %s (default: f16)",
     OPTION_CHOICE(options, dtype, gemm_dtype, RVIT_F32, RVIT_E4M3)},
    {"out-dtype", "TYPE", "type of the output, %s (default: f16)", OPTION_CHOICE(options, out_dtype, gemm_dtype, RVIT_F32, RVIT_E4M3)},
    {"rows", "LIST", "rows, each %s (default: 197,1576,12608)", OPTION_INTEGERS(options, rows, n_rows, 0, INT32_MAX - 1024)},
    {"in", "N", "channels of the input, %s (default: 768)", OPTION_INTEGER(options, in_features, 1, 1 << 24)},
    {"out", "N", "channels of the output, %s (default: 3072)", OPTION_INTEGER(options, out_features, 1, 1 << 24)},
    {"activation", "NAME", "%s (default: none)",
     OPTION_CHOICE(options, activation, choice_activation, RVIT_ACTIVATION_NONE, RVIT_ACTIVATION_SILU)},
    {"gated", NULL, "the output is a gate times a value", OPTION_FLAG(options, gated)},
    {"bias", NULL, "adds a bias", OPTION_FLAG(options, bias)},
    {"narrow-bias", NULL, "adds a bias that also exists in the type of the output", OPTION_FLAG(options, narrow_bias)},
    {"residual", NULL, "adds a residual", OPTION_FLAG(options, residual)},
    {"repeats", NULL, "adds a residual with fewer rows, which repeat", OPTION_FLAG(options, repeats)},
    {"live", NULL, "the row count is only on the device", OPTION_FLAG(options, live)},
    {"may-pad", NULL, "the row count is only on the device, but padding rows may be computed", OPTION_FLAG(options, may_pad)},
    {"no-lt", NULL, "cuBLASLt is not installed", OPTION_FLAG(options, no_lt)},
};
static const struct option_command command = {
    .name = "",
    .arguments = "",
    .text = "Prints which GEMM kernel runs a linear op on CUDA, and why. Needs no GPU.",
    .example = "bench_gemm --machine h100 --rows 394,12608 --in 768 --out 3072 --activation gelu --bias",
};

int main(int argc, char **argv)
{
    options o = {
        .dtype = RVIT_F16, .out_dtype = RVIT_F16, .rows = {197, 1576, 12608}, .n_rows = 3, .in_features = 768, .out_features = 3072};
    bench_parse("bench_gemm", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o);
    const rvit_cu_machine *machine = &machines[o.machine].machine;
    const int fits = o.out_dtype == o.dtype || o.out_dtype == RVIT_F32 || (o.dtype == RVIT_E4M3 && o.out_dtype != RVIT_E4M3);
    const char *lacks = !fits                      ? "the library has no GEMM of these types"
                        : o.out_dtype == RVIT_E4M3 ? rvit_cu_linear_lacks_e4m3(machine, o.out_features, o.gated)
                                                   : NULL;
    if (lacks != NULL) {
        bench_complain(lacks);
        return 2;
    }
    for (size_t i = 0; i < o.n_rows; i++) {
        const rvit_cu_linear_facts facts = {.dtype = o.dtype,
                                            .out_dtype = o.out_dtype,
                                            .rows = o.rows[i],
                                            .in_features = o.in_features,
                                            .out_features = o.out_features,
                                            .activation = o.activation,
                                            .gated = o.gated,
                                            .has_bias = o.bias || o.narrow_bias,
                                            .has_residual = o.residual || o.repeats,
                                            .repeats = o.repeats,
                                            .live = o.live || o.may_pad,
                                            .may_pad = o.may_pad,
                                            .narrow_bias = o.narrow_bias,
                                            .no_lt = o.no_lt};
        const rvit_cu_linear_choice choice = rvit_cu_linear_choose(machine, &facts);
        printf("%d rows: %s: %s\n", (int)o.rows[i], rvit_cu_linear_path_name(choice.path), rvit_cu_linear_why_text(choice.why));
    }
    return 0;
}
