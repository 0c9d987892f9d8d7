/* Chooses the kernel of a linear op on CUDA, with the reason. These are pure functions of the device and of what the host knows about the
   op. No CUDA types. */
#ifndef RVIT_CU_LINEAR_CHOOSE_H
#define RVIT_CU_LINEAR_CHOOSE_H

#include <raggedvit/ops.h>

#include "backend_cuda/tile.h"

/* cuBLASLt is asked for no activation except tanh GELU, and it adds a bias only in the type of the output. The epilogue kernel does the
   rest in place, so a 16-bit output is rounded twice. */
#define RVIT_CU_LINEAR_PATHS(PATH)                                         \
    PATH(LT, "cuBLASLt")                                                   \
    PATH(LT_EPILOGUE, "cuBLASLt, then the epilogue kernel")                \
    PATH(LARGE_M, "wgmma, large M")         /* linear_hopper.cuh */        \
    PATH(SMALL_M, "wgmma, small M")         /* linear_small_m.cuh */       \
    PATH(TILES, "persistent tiles")         /* linear.cuh */               \
    PATH(NONPERSISTENT, "one tile per CTA") /* linear_nonpersistent.cuh */ \
    PATH(E4M3, "e4m3")                      /* linear.cuh */               \
    PATH(F32, "f32")

#define RVIT_CU_LINEAR_REASONS(WHY)                                                                               \
    WHY(SMALL_M_E4M3, "there are few tiles, and the output is e4m3")                                              \
    WHY(SMALL_M_ACTIVATED, "there are few tiles, and cuBLASLt would need a second pass for the activation")       \
    WHY(SMALL_M_UNKNOWN, "there are few tiles, and the row count is only on the device, or the residual repeats") \
    WHY(LARGE_M_E4M3, "no other kernel writes e4m3 for this many tiles")                                          \
    WHY(LARGE_M_UNKNOWN, "the row count is only on the device, or the residual repeats")                          \
    WHY(LARGE_M_TILES, "there are enough tiles to be faster than cuBLASLt")                                       \
    WHY(LT_WHOLE, "cuBLASLt does it in one pass")                                                                 \
    WHY(LT_E4M3, "cuBLASLt is so much faster for e4m3 that a second pass pays off")                               \
    WHY(LT_WIDE, "a second pass over float32 loses no precision")                                                 \
    WHY(LT_LARGE, "the GEMM is so large that a second pass pays off")                                             \
    WHY(EMPTY, "there are no rows")                                                                               \
    WHY(GATED, "cuBLASLt has no gated GEMM")                                                                      \
    WHY(REPEATS, "cuBLASLt cannot add a residual that repeats")                                                   \
    WHY(UNKNOWN, "the row count is only on the device")                                                           \
    WHY(EARLY, "the GEMM is so small that an early launch saves more than cuBLASLt does")                         \
    WHY(NARROW, "cuBLASLt needs a second pass, which needs rows of a multiple of 16 bytes")                       \
    WHY(ONE_PASS, "cuBLASLt needs a second pass, which does not pay off")                                         \
    WHY(RESIDUAL, "cuBLASLt needs a second pass, which must not follow a residual")                               \
    WHY(NO_LT, "cuBLASLt is not installed, or has no algorithm for it")

typedef enum rvit_cu_linear_path {
#define PATH(name, text) RVIT_CU_PATH_##name,
    RVIT_CU_LINEAR_PATHS(PATH)
#undef PATH
        RVIT_CU_N_PATHS
} rvit_cu_linear_path;

typedef enum rvit_cu_linear_why {
    RVIT_CU_WHY_NOT, /* this path is not used */
#define WHY(name, text) RVIT_CU_WHY_##name,
    RVIT_CU_LINEAR_REASONS(WHY)
#undef WHY
        RVIT_CU_N_REASONS
} rvit_cu_linear_why;

/* What the host knows about an op. */
typedef struct rvit_cu_linear_facts {
    rvit_dtype dtype, out_dtype;
    int64_t rows; /* at capacity */
    int32_t in_features, out_features;
    rvit_activation activation;
    int32_t gated, has_bias, has_residual;
    int32_t repeats;      /* the residual may have fewer rows than the output */
    int32_t live;         /* the row count is only on the device */
    int32_t may_pad;      /* the padding rows up to capacity may be computed */
    int32_t narrow_bias;  /* the bias also exists in the type of the output */
    int32_t is_unaligned; /* an array is not aligned to 16 bytes */
    int32_t no_lt;        /* cuBLASLt is missing, or has no algorithm for the op */
} rvit_cu_linear_facts;

typedef struct rvit_cu_linear_choice {
    rvit_cu_linear_path path;
    rvit_cu_linear_why why;
    int32_t lt_adds_bias, lt_activates; /* LT, LT_EPILOGUE: what cuBLASLt does besides the GEMM */
    rvit_cu_small_m_tile small_m;       /* SMALL_M */
    rvit_cu_linear_tile tile;           /* TILES, NONPERSISTENT, E4M3, F32 */
} rvit_cu_linear_choice;

rvit_cu_linear_choice rvit_cu_linear_choose(const rvit_cu_machine *machine, const rvit_cu_linear_facts *facts);
/* Whether a wgmma kernel, LARGE_M or SMALL_M, supports the op. */
int rvit_cu_linear_has_kernel(const rvit_cu_machine *machine, const rvit_cu_linear_facts *facts, rvit_cu_linear_path path);
/* Why an op with an e4m3 output is unsupported, or NULL. Only LARGE_M and SMALL_M write e4m3. */
const char *rvit_cu_linear_lacks_e4m3(const rvit_cu_machine *machine, int32_t out_features, int32_t gated);
/* Whether the GEMM should write e4m3 itself. Otherwise it writes 16 bits, and quantize converts them. */
int rvit_cu_linear_makes_e4m3(const rvit_cu_machine *machine, int64_t rows, int32_t out_features);

const char *rvit_cu_linear_path_name(rvit_cu_linear_path path);
const char *rvit_cu_linear_why_text(rvit_cu_linear_why why);

#endif
