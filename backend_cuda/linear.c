/* The linear op. linear_choose.c chooses the kernel. */
#include "backend_cuda/cu.h"

/* *out_gemm: the cuBLASLt GEMM, or NULL if cuBLASLt is not used. */
static rvit_status choose(rvit_cu_queue *queue, const rvit_linear_args *args, rvit_cu_linear_choice *out_choice,
                          const rvit_cu_lt_gemm **out_gemm)
{
    const rvit_cu_device *device = queue->device;
    rvit_cu_linear_facts facts = rvit_cu_linear_facts_of(queue, args);
    *out_gemm = NULL;
    *out_choice = device->choose_linear(&device->machine, &facts);
    if (out_choice->path != RVIT_CU_PATH_LT && out_choice->path != RVIT_CU_PATH_LT_EPILOGUE)
        return RVIT_OK;
    RVIT_TRY(rvit_cu_lt_prepare(queue, args, out_choice, out_gemm));
    if (*out_gemm != NULL)
        return RVIT_OK;
    facts.no_lt = 1;
    *out_choice = device->choose_linear(&device->machine, &facts);
    return RVIT_OK;
}

rvit_status rvit_cu_linear_reserve(rvit_cu_queue *queue, const rvit_linear_args *args)
{
    rvit_cu_linear_choice choice;
    const rvit_cu_lt_gemm *gemm;
    return choose(queue, args, &choice, &gemm);
}

rvit_status rvit_cu_linear(rvit_cu_queue *queue, const rvit_linear_args *args)
{
    rvit_cu_linear_choice choice;
    const rvit_cu_lt_gemm *gemm;
    RVIT_TRY(choose(queue, args, &choice, &gemm));
    switch (choice.path) {
    case RVIT_CU_PATH_LT:
    case RVIT_CU_PATH_LT_EPILOGUE:
        return rvit_cu_lt_run(queue, args, gemm);
#if CUDA_VERSION >= 12000
    case RVIT_CU_PATH_LARGE_M:
        return rvit_cu_linear_large_m(queue, args);
    case RVIT_CU_PATH_SMALL_M:
        return rvit_cu_linear_small_m(queue, args, &choice.small_m);
#endif
    default:
        return rvit_cu_linear_own(queue, args, &choice.tile);
    }
}
