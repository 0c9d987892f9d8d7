/* 70,000 images of length 4: more than a grid dimension of most devices holds. */
#ifndef RVIT_TESTS_MANY_IMAGES_H
#define RVIT_TESTS_MANY_IMAGES_H

#include "properties.h"

enum { N_IMAGES = 70000, LENGTH = 4, KINDS = 7, DIM = 8 };

/* An input where image i equals image i mod 7: seven results are checked, and the others are compared with them. One extra row is NaN. */
array *repeated(const char *name, int64_t row_size);
array *uniform_cu(int32_t length);
/* Skips the test on the emulated CUDA driver, where it takes a minute or more, unless all cases run. */
void skip_if_emulated(void);
/* Checks that equal images have equal results, and that nothing is written past them. */
void expect_repeated(const array *a, int64_t image_size);

#endif
