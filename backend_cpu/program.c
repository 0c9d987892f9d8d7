/* Programs: a copy of the list of ops. A launch holds the device's lock throughout, so launches run one after another. */
#include <string.h>

#include "backend_cpu/cpu.h"

rvit_status rvit_cpu_program_create(rvit_device *device, const rvit_op *ops, int32_t n_ops, rvit_program **out_program)
{
    rvit_cpu_program *program = rvit_alloc_new(&device->alloc, sizeof *program + (size_t)n_ops * sizeof *ops);
    if (program == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    memcpy(program->ops, ops, (size_t)n_ops * sizeof *ops);
    program->n_ops = n_ops;
    *out_program = &program->base;
    return RVIT_OK;
}

void rvit_cpu_program_destroy(rvit_program *program)
{
    rvit_alloc_free(&program->device->alloc, program);
}
