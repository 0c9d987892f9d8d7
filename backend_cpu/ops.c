/* Dispatch from an op to the function that runs it. */
#include "backend_cpu/cpu.h"

/* Returns 1 if the oracle has its own function for the op. */
static int run_oracle(rvit_cpu_device *device, const rvit_op *op)
{
    switch (op->type) {
#define RUN(TYPE, name)                            \
    case RVIT_OP_##TYPE:                           \
        rvit_cpu_oracle_##name(device, &op->name); \
        return 1;
        RVIT_CPU_ORACLES(RUN)
    default:
        return 0;
    }
}

void rvit_cpu_run_op(rvit_cpu_device *device, const rvit_op *op)
{
    device->hints = &op->hints;
    if (device->oracle && run_oracle(device, op))
        return;
    switch (op->type) {
#define RVIT_OP(TYPE, name)                 \
    case RVIT_OP_##TYPE:                    \
        rvit_cpu_##name(device, &op->name); \
        break;
#include "core/contract/ops.def"
    case RVIT_OP_COUNT:
        break;
    }
}

const char *rvit_cpu_supports(const rvit_device *device, const rvit_op *op)
{
    (void)device;
    (void)op;
    return NULL;
}
