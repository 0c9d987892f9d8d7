/* Checks the refusal of an invalid call. */
#ifndef RVIT_TESTS_BAD_INPUT_H
#define RVIT_TESTS_BAD_INPUT_H

#include "good_ops.h"

/* The call is refused with a detail that names `word`, eager and recorded, and the op itself still works. Outputs are checked to be
   untouched by expect_nothing_written before the first good call. */
void expect_refused(const good_op *op, const any_args *invalid, const char *word);

/* No array of the test has changed since arrays_upload. */
void expect_nothing_written(void);

#endif
