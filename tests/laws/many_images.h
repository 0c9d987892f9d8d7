/* 70,000 images of length 4: more than a grid dimension of most devices holds. */
#ifndef RVIT_TESTS_MANY_IMAGES_H
#define RVIT_TESTS_MANY_IMAGES_H

#include "laws.h"

enum { N_IMAGES = 70000, LENGTH = 4, KINDS = 7, DIM = 8 };

/* An input of which image i holds what image i mod 7 holds, so seven results are checked and the rest compared with them. One row more
   than there are is NaN. */
array *repeated(const char *name, int64_t row_size);
array *uniform_cu(int32_t length);
/* Ends the test where it would take a minute or more (CUDA emulated: a block of threads for each image), unless all cases run. */
void skip_if_emulated(void);
/* That the results of images of the same kind are the same, and nothing lies past them. */
void expect_repeated(const array *a, int64_t image_size);

#endif
