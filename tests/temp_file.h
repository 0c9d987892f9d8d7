/* A temporary folder with files, and an allocator that counts and can fail. */
#ifndef RVIT_TESTS_TEMP_FILE_H
#define RVIT_TESTS_TEMP_FILE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <setjmp.h>
#include <unistd.h>

#include <cmocka.h>

#include <raggedvit/device.h>

#include "allocation_sites.h"

static char temp_folder[64];
static char temp_path[128];

static inline int temp_setup(void **state)
{
    (void)state;
    strcpy(temp_folder, "/tmp/raggedvit-test-XXXXXX");
    if (mkdtemp(temp_folder) == NULL)
        return -1;
    snprintf(temp_path, sizeof temp_path, "%s/file.safetensors", temp_folder);
    return 0;
}

static inline int temp_teardown(void **state)
{
    (void)state;
    (void)unlink(temp_path);
    return rmdir(temp_folder);
}

/* Writes the header's length in 8 bytes, the header, and data (NULL: zeros that take no space on disk). */
static inline void write_file(uint64_t header_length, const void *header, size_t header_size, const void *data, int64_t data_size)
{
    const int fd = open(temp_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(header_length >> 8 * i);
    assert_int_equal(write(fd, length, 8), 8);
    assert_int_equal(write(fd, header, header_size), (ssize_t)header_size);
    if (data != NULL)
        assert_int_equal(write(fd, data, (size_t)data_size), data_size);
    else
        assert_int_equal(ftruncate(fd, 8 + (off_t)header_size + data_size), 0);
    assert_int_equal(close(fd), 0);
}

/* The next file descriptor that open would return; it does not change if none leaked. */
static inline int next_descriptor(void)
{
    const int fd = open("/dev/null", O_RDONLY);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

typedef struct counter {
    int64_t calls, live;
    int64_t fail_at; /* index of the allocation that fails; -1: none */
} counter;

static inline void *counter_allocate(void *user, size_t size, size_t alignment)
{
    counter *c = user;
    if (c->calls++ == c->fail_at) {
        allocation_failed();
        return NULL;
    }
    c->live++;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static inline void counter_release(void *user, void *pointer)
{
    counter *c = user;
    c->live--;
    free(pointer);
}

#define ASSERT_DETAIL(word)                                                 \
    do {                                                                    \
        if (strstr(rvit_status_detail(), word) == NULL)                     \
            fail_msg("expected \"%s\" in: %s", word, rvit_status_detail()); \
    } while (0)

#endif
