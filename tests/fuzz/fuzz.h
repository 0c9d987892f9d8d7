/* Shared by the fuzz targets. Each target is a program; the main function of libFuzzer or driver.c calls LLVMFuzzerTestOneInput. */
#ifndef RVIT_TESTS_FUZZ_H
#define RVIT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include <raggedvit/raggedvit.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An input that is read as a list of choices; zeros follow its end. */
typedef struct choices {
    const uint8_t *data;
    size_t size, at;
} choices;

static inline uint8_t choose_byte(choices *c)
{
    return c->at < c->size ? c->data[c->at++] : 0;
}

/* A number from 0 to n - 1. */
static inline int32_t choose(choices *c, int32_t n)
{
    return choose_byte(c) % n;
}

uint32_t choose_bits(choices *c);
/* Mostly a number from least to most, sometimes an extreme int32. */
int32_t choose_int(choices *c, int32_t least, int32_t most);
float choose_float(choices *c);
double choose_double(choices *c);

/* Creates a file of these bytes, padded with zeros to full_size if that is larger. The path is valid until the next call. */
const char *memory_file(const void *data, size_t size, int64_t full_size);

/* Uses malloc, but refuses very large requests. */
extern const rvit_allocator fuzz_allocator;

/* Prints a finding and aborts the program. */
_Noreturn void fuzz_fail(const char *what);
/* Checks the status of a call with any arguments: it must not be INTERNAL or DEVICE_LOST, and an error must have a message. */
rvit_status expect_status_of(rvit_status status);

#endif
