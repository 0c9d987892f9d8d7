/* Every kernel, in one translation unit so that one image results. kernels.def lists the same names. Launch bounds follow the sizes that
   the host launches with (tile.h). */
#include "attention.cuh"
#include "attention_f32.cuh"
#include "attention_short.cuh"
#include "finish.cuh"
#include "head.cuh"
#include "layernorm.cuh"
#include "linear.cuh"
#include "linear_f32.cuh"
#include "linear_single.cuh"
#include "match.cuh"
#include "mean.cuh"
#include "merge.cuh"
#include "pack.cuh"
#include "patchify.cuh"
#include "select.cuh"

#include "../tile.h"

/* Kernels that have something to do before they wait for the one before them do so themselves. */
#define EARLY_KERNEL(name, threads, ctas, type, call)                                   \
    extern "C" __global__ void __launch_bounds__(threads, ctas) name(const type params) \
    {                                                                                   \
        launch_next();                                                                  \
        call(params);                                                                   \
    }
#define KERNEL(name, threads, ctas, type, call)                                         \
    extern "C" __global__ void __launch_bounds__(threads, ctas) name(const type params) \
    {                                                                                   \
        launch_next();                                                                  \
        wait_for_previous();                                                            \
        call(params);                                                                   \
    }

/* A call with template arguments holds commas: one name for each instance. */
#define INSTANCE(name, type, ...)                                   \
    static __device__ __forceinline__ void name(const type &params) \
    {                                                               \
        __VA_ARGS__(params);                                        \
    }

KERNEL(copy, 256, 1, rvit_cu_copy_params, copy_bytes)
KERNEL(patchify_f32, 256, 4, rvit_cu_patchify_params, patchify<float>)
KERNEL(patchify_f16, 256, 4, rvit_cu_patchify_params, patchify<f16>)
KERNEL(patchify_bf16, 256, 4, rvit_cu_patchify_params, patchify<bf16>)

/* Those with RVIT_CU_ROOMY bytes. What is compiled for others runs on them too, and leaves memory unused. */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
#define RING(DEPTH, STAGES, ROOMY_DEPTH, ROOMY_STAGES) ROOMY_DEPTH, ROOMY_STAGES
#define TALL_CTAS RVIT_CU_CTAS_D64_ROOMY_TALL
#else
#define RING(DEPTH, STAGES, ROOMY_DEPTH, ROOMY_STAGES) DEPTH, STAGES
#define TALL_CTAS RVIT_CU_CTAS_D64_TALL
#endif
#define LINEAR(T, NAME, ROWS, COLUMNS, WARP_ROWS, WARP_COLUMNS, DEPTH, STAGES, ROOMY_DEPTH, ROOMY_STAGES, CTAS, CHUNK, COST)     \
    INSTANCE(T##_##NAME, rvit_cu_linear_params,                                                                                  \
             linear_tile<T, ROWS, COLUMNS, WARP_ROWS, WARP_COLUMNS, RING(DEPTH, STAGES, ROOMY_DEPTH, ROOMY_STAGES), CHUNK>::run) \
    KERNEL(linear_##T##_##NAME, RVIT_CU_LINEAR_THREADS(ROWS, COLUMNS, WARP_ROWS, WARP_COLUMNS), CTAS, rvit_cu_linear_params, T##_##NAME)
#define SINGLE(T, NAME, ROWS, COLUMNS, WARP_ROWS, WARP_COLUMNS, STAGES, CTAS, COST)                                                \
    INSTANCE(T##_##NAME, rvit_cu_linear_params, linear_single<T, ROWS, COLUMNS, WARP_ROWS, WARP_COLUMNS, STAGES>::run)             \
    EARLY_KERNEL(linear_##T##_##NAME, RVIT_CU_SINGLE_THREADS(ROWS, COLUMNS, WARP_ROWS, WARP_COLUMNS), CTAS, rvit_cu_linear_params, \
                 T##_##NAME)
#define LINEAR_F16(...) LINEAR(f16, __VA_ARGS__)
#define LINEAR_BF16(...) LINEAR(bf16, __VA_ARGS__)
#define SINGLE_F16(...) SINGLE(f16, __VA_ARGS__)
#define SINGLE_BF16(...) SINGLE(bf16, __VA_ARGS__)
RVIT_CU_LINEAR_SHAPES(LINEAR_F16)
RVIT_CU_LINEAR_SINGLES(SINGLE_F16)
RVIT_CU_LINEAR_SHAPES(LINEAR_BF16)
RVIT_CU_LINEAR_SINGLES(SINGLE_BF16)
KERNEL(linear_f32_64x64, 256, RVIT_CU_CTAS_F32, rvit_cu_linear_params, linear_f32_tile::run)
KERNEL(finish_f32, 256, RVIT_CU_CTAS_FINISH, rvit_cu_finish_params, finish_product<float>)
KERNEL(finish_f16, 256, RVIT_CU_CTAS_FINISH, rvit_cu_finish_params, finish_product<f16>)
KERNEL(finish_bf16, 256, RVIT_CU_CTAS_FINISH, rvit_cu_finish_params, finish_product<bf16>)

/* A kernel for each class of lengths: a launch that jumps over the code of others waits for instructions. */
#define LAYERNORM(T, U)                                                                                              \
    EARLY_KERNEL(layernorm_##T##_256, 128, RVIT_CU_CTAS_NORM_256, rvit_cu_layernorm_params, layernorm<U>::held<2>)   \
    EARLY_KERNEL(layernorm_##T##_384, 128, RVIT_CU_CTAS_NORM_384, rvit_cu_layernorm_params, layernorm<U>::held<3>)   \
    EARLY_KERNEL(layernorm_##T##_768, 128, RVIT_CU_CTAS_NORM_768, rvit_cu_layernorm_params, layernorm<U>::held<6>)   \
    EARLY_KERNEL(layernorm_##T##_1024, 128, RVIT_CU_CTAS_NORM_1024, rvit_cu_layernorm_params, layernorm<U>::held<8>) \
    EARLY_KERNEL(layernorm_##T##_any, 128, RVIT_CU_CTAS_NORM_ANY, rvit_cu_layernorm_params, layernorm<U>::streamed)
LAYERNORM(f32, float)
LAYERNORM(f16, f16)
LAYERNORM(bf16, bf16)

#define ATTENTION(T, name, D, WARP_TILES, WARPS, CTAS, EXTRAS)                                                   \
    INSTANCE(T##_##name, rvit_cu_attention_params, attend<T, D, WARP_TILES, WARPS, RVIT_CU_STAGES_D##D, EXTRAS>) \
    KERNEL(attention_##T##_##name, WARPS * 32, CTAS, rvit_cu_attention_params, T##_##name)
#define SHORT_ATTENTION(T, KEYS)                                                                     \
    INSTANCE(T##_d64_short_##KEYS, rvit_cu_attention_params, short_attention<T, (KEYS) / 16>::run) \
    KERNEL(attention_##T##_d64_short_##KEYS, 96, 4, rvit_cu_attention_params, T##_d64_short_##KEYS)
#define ATTENTIONS(T)                                          \
    ATTENTION(T, d32, 32, 1, 4, 4, true)                       \
    ATTENTION(T, d64, 64, 1, 4, RVIT_CU_CTAS_D64, false)       \
    ATTENTION(T, d80, 80, 1, 4, 3, true)                       \
    ATTENTION(T, d96, 96, 1, 4, 3, true)                       \
    ATTENTION(T, d128, 128, 1, 4, 2, true)                     \
    ATTENTION(T, d64_2_warps, 64, 1, 2, 8, false)              \
    ATTENTION(T, d64_3_warps, 64, 1, 3, 5, false)              \
    ATTENTION(T, d64_tall, 64, 2, 4, TALL_CTAS, false)         \
    SHORT_ATTENTION(T, 32)                                     \
    SHORT_ATTENTION(T, 48)                                     \
    ATTENTION(T, d64_extras, 64, 1, 4, RVIT_CU_CTAS_D64, true) \
    ATTENTION(T, d64_extras_2_warps, 64, 1, 2, 8, true)        \
    ATTENTION(T, d64_extras_3_warps, 64, 1, 3, 5, true)
ATTENTIONS(f16)
ATTENTIONS(bf16)
KERNEL(attention_f32, 128, 1, rvit_cu_attention_params, attend_f32)

KERNEL(select_rows, 256, 3, rvit_cu_select_params, select_image)
KERNEL(mean_f32, 256, 4, rvit_cu_mean_params, mean_columns<float>)
KERNEL(mean_f16, 256, 4, rvit_cu_mean_params, mean_columns<f16>)
KERNEL(mean_bf16, 256, 4, rvit_cu_mean_params, mean_columns<bf16>)
KERNEL(match_rows, RVIT_CU_MATCH_THREADS, 1, rvit_cu_match_params, match_image)
KERNEL(merge_f32, 256, 4, rvit_cu_merge_params, merge_rows<float>)
KERNEL(merge_f16, 256, 4, rvit_cu_merge_params, merge_rows<f16>)
KERNEL(merge_bf16, 256, 4, rvit_cu_merge_params, merge_rows<bf16>)
KERNEL(pack, 256, 4, rvit_cu_pack_params, pack_rows)
KERNEL(unpack, 256, 4, rvit_cu_unpack_params, unpack_rows)
KERNEL(head_f32, 256, 2, rvit_cu_head_params, classify<float>)
KERNEL(head_f16, 256, 2, rvit_cu_head_params, classify<f16>)
KERNEL(head_bf16, 256, 2, rvit_cu_head_params, classify<bf16>)
