#include "backend_cuda/linear_choose.h"

#include <stddef.h>

#include "backend_cuda/divide.h"
#include "core/contract/op.h"

/* Limits of shapes were measured on an H100 and an H200: bench/notes/cuda-small.md, cuda-hopper-products.md, cuda-fp8.md, cuda-products.md.
   Tiles are those of the kernel for many rows. */
enum {
    LARGE_M_E4M3_TILES = 300, /* at least, for the kernel for many rows in place of cuBLASLt */
    SMALL_M_E4M3_CTAS = 100,  /* for 100 SMs, at most, for few rows to become e4m3 */
    PADDED_MORE = 24,         /* tiles for 100 SMs, more than and at most, for cuBLASLt to compute rows of 16 bits that may not be there */
    PADDED_MOST = 61
};
/* Multiply-accumulates: for the kernel for many rows where cuBLASLt cannot serve; for a second pass: on the H200 it takes the time that one
   kernel of the backend does for fc1 with GELU at about 1,000 rows of DeiT-T, 250 of DeiT-S, 60 of DeiT-B. */
static const double large_m_macs = 5e8, second_pass_macs = 1.5e8;

/* What a GEMM makes. */
typedef enum gemm_kind {
    PLAIN,     /* 16 bits, as qkv */
    ACTIVATED, /* 16 bits, with an activation that cuBLASLt has not, as fc1 */
    WIDE,      /* float32, as proj */
    NARROWING, /* float32, from more channels than it has columns, as fc2 */
} gemm_kind;

/* Tiles for 100 SMs, at most: for few rows; for cuBLASLt to compute rows of e4m3 that may not be there. */
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

/* cuBLASLt has the tanh GELU. */
static int adds_pass(const rvit_cu_linear_facts *f)
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

/* Whether there are so many tiles for 100 SMs, at most. */
static int are_at_most(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, int32_t tiles)
{
    return tiles_of(f->rows, f->out_features, out_size_of(f)) * 100 <= (int64_t)tiles * m->n_sms;
}

/* Whether, where only the device knows the rows, cuBLASLt computes all that there may be about as fast as another kernel computes those
   that there are. */
static int pays_padding(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    const gemm_kind kind = kind_of(f, 0);
    if (f->dtype == RVIT_E4M3) /* without warpgroups the backend's kernel is so slow that rows that are not there cost less */
        return !m->wgmma || are_at_most(m, f, padded_e4m3_tiles[kind]);
    return is_16_bits(f->dtype) && kind == NARROWING && !are_at_most(m, f, PADDED_MORE) && are_at_most(m, f, PADDED_MOST);
}

/* Whether cuBLASLt could serve: the host knows the rows, or it pays to compute all that there may be, and the residual does not repeat. */
static int is_for_lt(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    return !f->repeats && (!f->live || (f->may_pad && pays_padding(m, f)));
}

/* Whether the backend's kernel, launched early, is at least as fast as cuBLASLt: measured in whole forwards. */
static int is_early(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, int activated)
{
    const double most_macs = activated ? 5e8 : out_size_of(f) == 4 ? 6e7 : 1.8e8;
    return m->early && f->in_features % 8 == 0 && f->in_features <= 768 && macs_of(f) <= most_macs &&
           rvit_cu_tile_is_nonpersistent(rvit_cu_tile_linear(m, 2, f->rows, f->in_features, f->out_features, 0).shape);
}

/* Why a second pass behind cuBLASLt pays; NOT: it does not. */
static rvit_cu_linear_why pays_second_pass(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    return out_size_of(f) == 4                               ? RVIT_CU_WHY_LT_WIDE
           : f->dtype == RVIT_E4M3                           ? RVIT_CU_WHY_LT_E4M3
           : m->faster_mma && macs_of(f) >= second_pass_macs ? RVIT_CU_WHY_LT_LARGE
                                                             : RVIT_CU_WHY_NOT;
}

int rvit_cu_linear_has_kernel(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, rvit_cu_linear_path path)
{
    const int makes_e4m3 = f->out_dtype == RVIT_E4M3;
    /* An activation and at most 16 bits, or a residual and float32; rows of whole chunks and units. A sigmoid where the type stays. */
    const int form = f->out_dtype == RVIT_F32 ? f->activation == RVIT_ACTIVATION_NONE : !f->has_residual;
    if (!form || f->gated || f->in_features % 8 != 0 || f->out_features % 32 != 0 || f->is_unaligned)
        return 0;
    if (!is_16_bits(f->dtype) && f->dtype != RVIT_E4M3)
        return 0;
    if (f->dtype != f->out_dtype && has_sigmoid(f))
        return 0;
    if (path == RVIT_CU_PATH_SMALL_M)
        return m->wgmma && m->clusters && f->rows > 0 && (is_16_bits(f->dtype) || makes_e4m3);
    return makes_e4m3 || (m->wgmma && f->rows > 0); /* e4m3 where there are no warpgroups has been refused */
}

static rvit_cu_linear_why prefers_small_m(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, rvit_cu_small_m_tile *out_tile)
{
    if (!rvit_cu_linear_has_kernel(m, f, RVIT_CU_PATH_SMALL_M))
        return RVIT_CU_WHY_NOT;
    const int makes_e4m3 = f->out_dtype == RVIT_E4M3, activated = adds_pass(f), for_lt = is_for_lt(m, f);
    const gemm_kind kind = kind_of(f, activated);
    /* Too few tiles for the kernel for many rows, and too many outputs for the one that is best with least. */
    const int are_few = makes_e4m3 || ((!for_lt || kind == ACTIVATED) && are_at_most(m, f, small_m_tiles[kind]) &&
                                       !is_early(m, f, activated) && (!activated || pays_second_pass(m, f) != RVIT_CU_WHY_NOT));
    if (!are_few)
        return RVIT_CU_WHY_NOT;
    *out_tile = rvit_cu_tile_small_m(m, f->rows, f->in_features, f->out_features, out_size_of(f));
    if (out_tile->ctas == 0 || (makes_e4m3 && (int64_t)out_tile->ctas * 100 > (int64_t)SMALL_M_E4M3_CTAS * m->n_sms))
        return RVIT_CU_WHY_NOT;
    return makes_e4m3 ? RVIT_CU_WHY_SMALL_M_E4M3 : for_lt ? RVIT_CU_WHY_SMALL_M_ACTIVATED : RVIT_CU_WHY_SMALL_M_UNKNOWN;
}

/* Of few rounds of tiles the last is mostly idle, and cuBLASLt has tiles that fill it. */
static rvit_cu_linear_why prefers_large_m(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    if (!rvit_cu_linear_has_kernel(m, f, RVIT_CU_PATH_LARGE_M))
        return RVIT_CU_WHY_NOT;
    if (f->out_dtype == RVIT_E4M3)
        return RVIT_CU_WHY_LARGE_M_E4M3;
    if (!is_for_lt(m, f))
        return f->dtype == RVIT_E4M3 || macs_of(f) >= large_m_macs ? RVIT_CU_WHY_LARGE_M_UNKNOWN : RVIT_CU_WHY_NOT;
    const int64_t tiles = tiles_of(f->rows, f->out_features, out_size_of(f));
    const gemm_kind kind = kind_of(f, adds_pass(f));
    const int takes = f->dtype == RVIT_E4M3 ? kind == PLAIN && tiles >= LARGE_M_E4M3_TILES
                                            : (adds_pass(f) || kind != NARROWING) && tiles >= 3 * (int64_t)m->n_sms;
    return takes ? RVIT_CU_WHY_LARGE_M_TILES : RVIT_CU_WHY_NOT;
}

/* The backend's kernels for every device. */
static rvit_cu_linear_choice own(const rvit_cu_machine *m, const rvit_cu_linear_facts *f, rvit_cu_linear_why why)
{
    const int is_e4m3 = f->dtype == RVIT_E4M3, is_plain = !has_sigmoid(f) && !f->gated;
    /* Most kernels serve what models ask for, one serves all. */
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

/* cuBLASLt, or the backend's kernels for every device. */
static rvit_cu_linear_choice lt_or_own(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    if (f->rows == 0 || f->gated)
        return own(m, f, f->gated ? RVIT_CU_WHY_GATED : RVIT_CU_WHY_EMPTY);
    if (!is_for_lt(m, f))
        return own(m, f, f->repeats ? RVIT_CU_WHY_REPEATS : RVIT_CU_WHY_UNKNOWN);
    const int activates =
        f->activation == RVIT_ACTIVATION_GELU_TANH && f->out_dtype != RVIT_F32 && !f->has_residual && (!f->has_bias || f->narrow_bias);
    const int activated = f->activation != RVIT_ACTIVATION_NONE && !activates; /* in a second pass */
    /* A float32 output takes its bias as it is, but of e4m3 one in bfloat16. What the epilogue kernel adds is not for cuBLASLt to round. */
    const int adds_bias = f->out_dtype == RVIT_F32 && f->dtype != RVIT_E4M3 ? f->has_bias : !activated && f->narrow_bias;
    rvit_cu_linear_choice choice = {RVIT_CU_PATH_LT, RVIT_CU_WHY_LT_WHOLE, .lt_adds_bias = adds_bias, .lt_activates = activates};
    if (is_16_bits(f->dtype) && is_early(m, f, activated))
        return own(m, f, RVIT_CU_WHY_EARLY);
    if (activated || (f->has_bias && !adds_bias)) {
        choice.path = RVIT_CU_PATH_LT_EPILOGUE;
        choice.why = pays_second_pass(m, f);
        if (f->out_features * (int64_t)out_size_of(f) % 16 != 0)
            return own(m, f, RVIT_CU_WHY_NARROW);
        if (choice.why == RVIT_CU_WHY_NOT)
            return own(m, f, RVIT_CU_WHY_ONE_PASS);
        if (f->has_residual && (f->dtype != RVIT_E4M3 || f->activation != RVIT_ACTIVATION_NONE))
            return own(m, f, RVIT_CU_WHY_RESIDUAL);
    }
    return f->no_lt ? own(m, f, RVIT_CU_WHY_NO_LT) : choice;
}

rvit_cu_linear_choice rvit_cu_linear_choose(const rvit_cu_machine *m, const rvit_cu_linear_facts *f)
{
    rvit_cu_linear_choice choice = {.path = RVIT_CU_PATH_SMALL_M};
    choice.why = prefers_small_m(m, f, &choice.small_m);
    if (choice.why != RVIT_CU_WHY_NOT)
        return choice;
    choice = (rvit_cu_linear_choice){.path = RVIT_CU_PATH_LARGE_M, .why = prefers_large_m(m, f)};
    return choice.why != RVIT_CU_WHY_NOT ? choice : lt_or_own(m, f);
}

const char *rvit_cu_linear_lacks_e4m3(const rvit_cu_machine *machine, int32_t out_features, int32_t gated)
{
    if (!machine->wgmma)
        return "out_dtype e4m3: it needs compute capability 9.0, and kernels that were compiled for it";
    if (gated)
        return "out_dtype e4m3 with gated";
    return out_features % 32 != 0 ? "out_dtype e4m3 with out_features that are no multiple of 32" : NULL;
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
