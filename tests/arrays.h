/* Functions of the guarded arrays that only the harness uses. */
#ifndef RVIT_TESTS_ARRAYS_H
#define RVIT_TESTS_ARRAYS_H

/* Frees all arrays and scratch memory at the end of a test. */
void arrays_release(void);

#endif
