#include "fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint32_t choose_bits(choices *c)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits = bits << 8 | choose_byte(c);
    return bits;
}

int32_t choose_int(choices *c, int32_t least, int32_t most)
{
    static const int32_t extremes[] = {INT32_MIN, INT32_MAX, INT32_MAX - 1, -1, 0, 1, 1 << 16, (1 << 16) + 1, 1 << 24, 1 << 28, 1 << 30};
    const uint8_t kind = choose_byte(c);
    if (kind == 255)
        return (int32_t)choose_bits(c);
    if (kind == 254)
        return extremes[choose(c, sizeof extremes / sizeof *extremes)];
    if (kind == 253)
        return most + 1;
    return least + kind % (most - least + 1);
}

float choose_float(choices *c)
{
    static const float values[] = {0.0f, 1.0f, -1.0f, 0.5f, 1e-6f, 3e38f, -3e38f, 1e-45f, INFINITY, -INFINITY, NAN, -0.0f};
    const uint8_t kind = choose_byte(c);
    if (kind < sizeof values / sizeof *values)
        return values[kind];
    if (kind < 128)
        return (float)(kind - 64) / 16;
    const uint32_t bits = choose_bits(c);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double choose_double(choices *c)
{
    const uint8_t kind = choose_byte(c);
    if (kind < 192)
        return kind / 128.0 - 0.25;
    return choose_float(c);
}

const char *memory_file(const void *data, size_t size, int64_t full_size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size ||
        (full_size > (int64_t)size && ftruncate(fd, full_size) != 0)) {
        fprintf(stderr, "cannot create a file in memory\n");
        exit(1);
    }
    return path;
}

static void *allocate(void *user, size_t size, size_t alignment)
{
    (void)user;
    return size > (size_t)64 << 20 ? NULL : aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

const rvit_allocator fuzz_allocator = {NULL, allocate, release};

_Noreturn void fuzz_fail(const char *what)
{
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

rvit_status expect_status_of(rvit_status status)
{
    if (status == RVIT_INTERNAL || status == RVIT_DEVICE_LOST)
        fuzz_fail(rvit_status_detail());
    if (status != RVIT_OK && rvit_status_detail()[0] == '\0')
        fuzz_fail("an error without a message");
    return status;
}
