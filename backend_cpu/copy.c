/* The copy op. */
#include <string.h>

#include "backend_cpu/cpu.h"

void rvit_cpu_copy(rvit_cpu_device *device, const rvit_copy_args *a)
{
    (void)device;
    memcpy(rvit_cpu_at(a->destination), rvit_cpu_at(a->source), (size_t)a->size);
}
