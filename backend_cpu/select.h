/* Shared by the files of select. */
#ifndef RVIT_CPU_SELECT_H
#define RVIT_CPU_SELECT_H

#include "backend_cpu/cpu.h"

/* error is kind + 1 + 3 * image. */
enum { RVIT_CPU_SELECT_NAN = 0, RVIT_CPU_SELECT_PREFIX = 1, RVIT_CPU_SELECT_SUM = 2, RVIT_CPU_SELECT_FINE = 3 };

/* SAMPLE and MASS (select_sums.c): marks which of the n competing rows of an image are kept; returns the kind of error. scratch: the
   thread's own. */
int rvit_cpu_mark_sums(const rvit_select_args *args, const float *scores, int64_t n, uint8_t *keep, float *scratch);

/* The fused tokens of every image (select_fuse.c), once keep is marked. */
void rvit_cpu_fuse(rvit_cpu_device *device, const rvit_select_args *args);

#endif
