#include "backend_cuda/linear_choose.h"

#include <stddef.h>

#include "backend_cuda/divide.h"
#include "core/contract/op.h"

/* The limits were measured on an H100 and an H200: bench/notes/cuda-gemm.md, cuda-fp8.md.
   Tiles are those of the large-M kernel. */
enum {
    LARGE_M_E4M3_TILES = 300, /* minimum for the large-M kernel to replace cuBLASLt */
    SMALL_M_E4M3_CTAS = 100,  /* maximum per 100 SMs for the small-M kernel to write e4m3 */
    PADDED_MORE = 24,         /* for 16 bits, cuBLASLt computes padding rows if tiles per 100 SMs are above this and at most PADDED_MOST */
    PADDED_MOST = 61
};
/* Multiply-accumulates. large_m_macs: minimum for the large-M kernel where cuBLASLt cannot be used. second_pass_macs: minimum for a
   second pass; on the H200, one fused kernel takes the same time for fc1 with GELU at about 1,000 rows of DeiT-T, 250 of DeiT-S, 60 of
   DeiT-B. */
static const double large_m_macs = 5e8, second_pass_macs = 1.5e8;

/* The kind of output. */
typedef enum gemm_kind {
    PLAIN,     /* 16 bits, such as qkv */
    ACTIVATED, /* 16 bits with an activation that cuBLASLt lacks, such as fc1 */
    WIDE,      /* float32, such as proj */
    NARROWING, /* float32 with fewer columns than input channels, such as fc2 */
} gemm_kind;

/* Maximum tiles per 100 SMs: for the small-M kernel; for cuBLASLt to compute padding rows of e4m3. */
static const int32_t small_m_tiles[] = {[PLAIN] = 100, [ACTIVATED] = 125, [WIDE] = 24, [NARROWING] = 50};
static const int32_t padded_e4m3_tiles[] = {[PLAIN] = 160, [ACTIVATED] = 160, [WIDE] = 61, [NARROWING] = 61};

static int32_t out_size_of(const rvit_cu_linear_facts *f)
{
    return (int32_t)rvit_dtype_size(f->out_dtype);
}

static int is_16_bits(rvit_dtype dtype)
{
    return dtype == RVIT_F16 || dtype == RVIT_BF16;
}

static int has_sigmoid(const rvit_cu_linear_facts *f)
{
    return rvit_sigmoid_of(f->activation).slope != 0.0f;
}

/* Whether the activation needs a second pass after cuBLASLt, which has only tanh GELU. */
static int needs_second_pass(const rvit_cu_linear_facts *f)
{
    return f->activation != RVIT_ACTIVATION_NONE && f->activation != RVIT_ACTIVATION_GELU_TANH;
}

static gemm_kind kind_of(const rvit_cu_linear_facts *f, int activated)
{
    if (out_size_of(f) == 4)
        return f->in_features > f->out_features ? NARROWING : WIDE;
    return activated ? ACTIVATED : PLAIN;
}

static double macs_of(const rvit_cu_linear_facts *f)
{
    return (double)f->rows * f->in_features * f->out_features;
}

static int64_t tiles_of(int64_t rows, int32_t out_features, int32_t out_size)
{
    return divide_up(rows, RVIT_CU_HOPPER_ROWS) * divide_up(out_features, RVIT_CU_HOPPER_COLUMNS(out_size));
}

/* Whether the op has at most this many tiles per 100 SMs. */
static int has_at_most_tiles(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, int32_t tiles)
{
    return tiles_of(f->rows, f->out_features, out_size_of(f)) * 100 <= (int64_t)tiles * m->n_sms;
}

/* Whether cuBLASLt with padding rows is about as fast as another kernel that reads the row count on the device. */
static int is_padding_cheap(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    const gemm_kind kind = kind_of(f, 0);
    if (f->dtype == RVIT_E4M3) /* without wgmma, the backend's own e4m3 kernel is slower than cuBLASLt with the padding rows */
        return !m->wgmma || has_at_most_tiles(m, f, padded_e4m3_tiles[kind]);
    return is_16_bits(f->dtype) && kind == NARROWING && !has_at_most_tiles(m, f, PADDED_MORE) && has_at_most_tiles(m, f, PADDED_MOST);
}

/* Whether cuBLASLt could run the op: the residual does not repeat, and the host knows the row count or padding is worth it. */
static int can_use_lt(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    return !f->repeats && (!f->live || (f->may_pad && is_padding_cheap(m, f)));
}

/* Whether the backend's own kernel, launched early (programmatic dependent launch), is at least as fast as cuBLASLt. Measured in whole
   forwards. */
static int prefers_early_launch(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, int activated)
{
    const double max_macs = activated ? 5e8 : out_size_of(f) == 4 ? 6e7 : 1.8e8;
    return m->early && f->in_features % 8 == 0 && f->in_features <= 768 && macs_of(f) <= max_macs &&
           rvit_cu_tile_is_nonpersistent(rvit_cu_tile_linear(m, 2, f->rows, f->in_features, f->out_features, 0).shape);
}

/* Why cuBLASLt with a second pass is worth it, or RVIT_CU_WHY_NOT. */
static rvit_cu_linear_why why_second_pass(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    return out_size_of(f) == 4                               ? RVIT_CU_WHY_LT_WIDE
           : f->dtype == RVIT_E4M3                           ? RVIT_CU_WHY_LT_E4M3
           : m->faster_mma && macs_of(f) >= second_pass_macs ? RVIT_CU_WHY_LT_LARGE
                                                             : RVIT_CU_WHY_NOT;
}

int rvit_cu_linear_has_kernel(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, rvit_cu_linear_path path)
{
    const int makes_e4m3 = f->out_dtype == RVIT_E4M3;
    /* The wgmma kernels support an activation with at most 16 bits, or a residual with float32. A sigmoid needs equal input and output
       types. */
    const int form = f->out_dtype == RVIT_F32 ? f->activation == RVIT_ACTIVATION_NONE : !f->has_residual;
    if (!form || f->gated || f->in_features % 8 != 0 || f->out_features % 32 != 0 || f->is_unaligned)
        return 0;
    if (!is_16_bits(f->dtype) && f->dtype != RVIT_E4M3)
        return 0;
    if (f->dtype != f->out_dtype && has_sigmoid(f))
        return 0;
    if (path == RVIT_CU_PATH_SMALL_M)
        return m->wgmma && m->clusters && f->rows > 0 && (is_16_bits(f->dtype) || makes_e4m3);
    return makes_e4m3 || (m->wgmma && f->rows > 0); /* e4m3 without wgmma was refused before */
}

static rvit_cu_linear_why prefers_small_m(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, rvit_cu_small_m_tile *out_tile)
{
    if (!rvit_cu_linear_has_kernel(m, f, RVIT_CU_PATH_SMALL_M))
        return RVIT_CU_WHY_NOT;
    const int makes_e4m3 = f->out_dtype == RVIT_E4M3, activated = needs_second_pass(f), for_lt = can_use_lt(m, f);
    const gemm_kind kind = kind_of(f, activated);
    /* Too few tiles for the large-M kernel, and too many for the nonpersistent kernel. */
    const int is_small = makes_e4m3 || ((!for_lt || kind == ACTIVATED) && has_at_most_tiles(m, f, small_m_tiles[kind]) &&
                                        !prefers_early_launch(m, f, activated) && (!activated || why_second_pass(m, f) != RVIT_CU_WHY_NOT));
    if (!is_small)
        return RVIT_CU_WHY_NOT;
    *out_tile = rvit_cu_tile_small_m(m, f->rows, f->in_features, f->out_features, out_size_of(f));
    if (out_tile->ctas == 0 || (makes_e4m3 && (int64_t)out_tile->ctas * 100 > (int64_t)SMALL_M_E4M3_CTAS * m->n_sms))
        return RVIT_CU_WHY_NOT;
    return makes_e4m3 ? RVIT_CU_WHY_SMALL_M_E4M3 : for_lt ? RVIT_CU_WHY_SMALL_M_ACTIVATED : RVIT_CU_WHY_SMALL_M_UNKNOWN;
}

/* Needs many tiles: with few waves, the last one is mostly idle (wave quantization), and cuBLASLt has smaller tiles for that. */
static rvit_cu_linear_why prefers_large_m(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    if (!rvit_cu_linear_has_kernel(m, f, RVIT_CU_PATH_LARGE_M))
        return RVIT_CU_WHY_NOT;
    if (f->out_dtype == RVIT_E4M3)
        return RVIT_CU_WHY_LARGE_M_E4M3;
    if (!can_use_lt(m, f))
        return f->dtype == RVIT_E4M3 || macs_of(f) >= large_m_macs ? RVIT_CU_WHY_LARGE_M_UNKNOWN : RVIT_CU_WHY_NOT;
    const int64_t tiles = tiles_of(f->rows, f->out_features, out_size_of(f));
    const gemm_kind kind = kind_of(f, needs_second_pass(f));
    const int takes = f->dtype == RVIT_E4M3 ? kind == PLAIN && tiles >= LARGE_M_E4M3_TILES
                                            : (needs_second_pass(f) || kind != NARROWING) && tiles >= 3 * (int64_t)m->n_sms;
    return takes ? RVIT_CU_WHY_LARGE_M_TILES : RVIT_CU_WHY_NOT;
}

/* Chooses one of the kernels that run on every device. */
static rvit_cu_linear_choice choose_own(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, rvit_cu_linear_why why)
{
    const int is_e4m3 = f->dtype == RVIT_E4M3, is_plain = !has_sigmoid(f) && !f->gated;
    /* Most kernels support only what models use; one supports everything. */
    const int is_general = !is_plain && !(has_sigmoid(f) && !f->has_residual && f->out_dtype == f->dtype);
    rvit_cu_linear_choice choice = {.why = why};
    choice.tile = rvit_cu_tile_linear(m, (int32_t)rvit_dtype_size(f->dtype), f->rows, is_e4m3 ? f->in_features / 2 : f->in_features,
                                      f->gated ? 2 * f->out_features : f->out_features, is_general);
    choice.path = is_e4m3                                            ? RVIT_CU_PATH_E4M3
                  : f->dtype == RVIT_F32                             ? RVIT_CU_PATH_F32
                  : rvit_cu_tile_is_nonpersistent(choice.tile.shape) ? RVIT_CU_PATH_NONPERSISTENT
                                                                     : RVIT_CU_PATH_TILES;
    return choice;
}

/* Chooses cuBLASLt, or a kernel that runs on every device. */
static rvit_cu_linear_choice choose_lt_or_own(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    if (f->rows == 0 || f->gated)
        return choose_own(m, f, f->gated ? RVIT_CU_WHY_GATED : RVIT_CU_WHY_EMPTY);
    if (!can_use_lt(m, f))
        return choose_own(m, f, f->repeats ? RVIT_CU_WHY_REPEATS : RVIT_CU_WHY_UNKNOWN);
    const int activates =
        f->activation == RVIT_ACTIVATION_GELU_TANH && f->out_dtype != RVIT_F32 && !f->has_residual && (!f->has_bias || f->narrow_bias);
    const int activated = f->activation != RVIT_ACTIVATION_NONE && !activates; /* in a second pass */
    /* A float32 output takes the float32 bias; for e4m3 inputs cuBLASLt needs it in bfloat16. If the epilogue kernel runs anyway, it
       adds the bias, so cuBLASLt does not round the sum. */
    const int adds_bias = f->out_dtype == RVIT_F32 && f->dtype != RVIT_E4M3 ? f->has_bias : !activated && f->narrow_bias;
    rvit_cu_linear_choice choice = {RVIT_CU_PATH_LT, RVIT_CU_WHY_LT_WHOLE, .lt_adds_bias = adds_bias, .lt_activates = activates};
    if (is_16_bits(f->dtype) && prefers_early_launch(m, f, activated))
        return choose_own(m, f, RVIT_CU_WHY_EARLY);
    if (activated || (f->has_bias && !adds_bias)) {
        choice.path = RVIT_CU_PATH_LT_EPILOGUE;
        choice.why = why_second_pass(m, f);
        if (f->out_features * (int64_t)out_size_of(f) % 16 != 0)
            return choose_own(m, f, RVIT_CU_WHY_NARROW);
        if (choice.why == RVIT_CU_WHY_NOT)
            return choose_own(m, f, RVIT_CU_WHY_ONE_PASS);
        if (f->has_residual && (f->dtype != RVIT_E4M3 || f->activation != RVIT_ACTIVATION_NONE))
            return choose_own(m, f, RVIT_CU_WHY_RESIDUAL);
    }
    return f->no_lt ? choose_own(m, f, RVIT_CU_WHY_NO_LT) : choice;
}

rvit_cu_linear_choice rvit_cu_linear_choose(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    rvit_cu_linear_choice choice = {.path = RVIT_CU_PATH_SMALL_M};
    choice.why = prefers_small_m(m, f, &choice.small_m);
    if (choice.why != RVIT_CU_WHY_NOT)
        return choice;
    choice = (rvit_cu_linear_choice){.path = RVIT_CU_PATH_LARGE_M, .why = prefers_large_m(m, f)};
    return choice.why != RVIT_CU_WHY_NOT ? choice : choose_lt_or_own(m, f);
}

const char *rvit_cu_linear_lacks_e4m3(const rvit_cu_machine *machine, int32_t out_features, int32_t gated)
{
    if (!machine->wgmma)
        return "out_dtype e4m3: needs compute capability 9.0 and a build with kernels for it";
    if (gated)
        return "out_dtype e4m3 with gated";
    return out_features % 32 != 0 ? "out_dtype e4m3: out_features must be a multiple of 32" : NULL;
}

int rvit_cu_linear_makes_e4m3(const rvit_cu_machine *machine, int64_t rows, int32_t out_features)
{
    return machine->wgmma && rows > 0 && out_features > 0;
}

const char *rvit_cu_linear_path_name(rvit_cu_linear_path path)
{
#define PATH(name, text) [RVIT_CU_PATH_##name] = (text),
    static const char *const names[] = {RVIT_CU_LINEAR_PATHS(PATH)};
#undef PATH
    return names[path];
}

const char *rvit_cu_linear_why_text(rvit_cu_linear_why why)
{
#define WHY(name, text) [RVIT_CU_WHY_##name] = (text),
    static const char *const texts[] = {RVIT_CU_LINEAR_REASONS(WHY)};
#undef WHY
    return texts[why];
}
