/* What the fuzz targets share. A target is a program of its own: libFuzzer's main, or driver.c's, calls LLVMFuzzerTestOneInput. */
#ifndef RVIT_TESTS_FUZZ_H
#define RVIT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include <raggedvit/raggedvit.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An input read as a list of choices; past its end there are zeros. */
typedef struct choices {
    const uint8_t *data;
    size_t size, at;
} choices;

static inline uint8_t choose_byte(choices *c)
{
    return c->at < c->size ? c->data[c->at++] : 0;
}

/* 0..n-1 */
static inline int32_t choose(choices *c, int32_t n)
{
    return choose_byte(c) % n;
}

uint32_t choose_bits(choices *c);
/* Mostly small, now and then at an end of the range. */
int32_t choose_int(choices *c, int32_t least, int32_t most);
float choose_float(choices *c);
double choose_double(choices *c);

/* A file of these bytes, then zeros up to full_size if that is more; the path holds until the next call. */
const char *memory_file(const void *data, size_t size, int64_t full_size);

/* malloc's, but for requests that no test machine should be asked for. */
extern const rvit_allocator fuzz_allocator;

/* A finding: says what, and ends the program. */
_Noreturn void fuzz_fail(const char *what);
/* The statuses that a call may give, whatever it was given: not INTERNAL, not DEVICE_LOST; a failure has a sentence. */
rvit_status expect_status_of(rvit_status status);

#endif
