/* The checkpoint for the targets that run models. */
#ifndef RVIT_TESTS_FUZZ_SMALL_MODEL_H
#define RVIT_TESTS_FUZZ_SMALL_MODEL_H

#include "fuzz.h"

/* One CLS token and patches of 4 x 4. */
enum { DIM = 64, DEPTH = 3, TOKENS = 5, IMAGE = 3 * 8 * 8, CLASSES = 4 };

/* Writes the checkpoint, with a predictor for every block, and returns its path, which is valid until the next memory_file. */
const char *small_model(void);

#endif
