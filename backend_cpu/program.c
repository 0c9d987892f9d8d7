/* Programs: a copy of the ops, with the fused ops among them. A launch holds the device's lock, so launches are serialised. */
#include <string.h>

#include "backend_cpu/cpu.h"

rvit_status rvit_cpu_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program)
{
    rvit_cpu_program *program = rvit_alloc_new(&device->alloc, sizeof *program + (size_t)n_ops * (sizeof *ops + sizeof *program->fused));
    RVIT_TRY_MEMORY(program);
    memcpy(program->ops, ops, (size_t)n_ops * sizeof *ops);
    program->n_ops = n_ops;
    program->fused = (rvit_cpu_fused *)(program->ops + n_ops);
    for (int32_t i = 0; i < n_ops; i += program->fused[i].length)
        program->fused[i] = rvit_cpu_find_fused((rvit_cpu_device *)device, ops + i, n_ops - i);
    *out_program = &program->base;
    return RVIT_OK;
}

void rvit_cpu_program_destroy(rvit_program *program)
{
    rvit_alloc_free(&program->device->alloc, program);
}
