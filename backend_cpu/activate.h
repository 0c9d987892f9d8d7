/* Activations by name. Included by kernel files only. */
#ifndef RVIT_CPU_ACTIVATE_H
#define RVIT_CPU_ACTIVATE_H

#include "backend_cpu/kernels.h"
#include "backend_cpu/vector.h"

INLINE vec activate(rvit_cpu_activation activation, float slope, float cubic, vec v)
{
    return activation == RVIT_CPU_GELU ? vec_gelu(v) : activation == RVIT_CPU_SIGMOID ? vec_sigmoid(v, slope, cubic) : v;
}

#endif
