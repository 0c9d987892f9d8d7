/* The part of the guarded arrays that only the harness itself calls. */
#ifndef RVIT_TESTS_ARRAYS_H
#define RVIT_TESTS_ARRAYS_H

/* Frees every array and all scratch memory of the test that ended. */
void arrays_release(void);

#endif
