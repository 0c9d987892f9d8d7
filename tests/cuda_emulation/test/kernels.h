/* Small kernels, some of them wrong on purpose. */
#ifndef EMU_TEST_KERNELS_H
#define EMU_TEST_KERNELS_H

#include <stdint.h>

typedef struct test_params {
    const void *in, *other;
    void *out;
    unsigned long long *states;
    int *counter;
    int n, option;
} test_params;

#endif
