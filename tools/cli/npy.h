/* Arrays in NumPy's file format. */
#ifndef RVIT_CLI_NPY_H
#define RVIT_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NPY_MAX_DIMS 4

struct npy {
    char type[8]; /* "|u1", "<f4" */
    bool fortran_order;
    int n_dims;
    int64_t shape[NPY_MAX_DIMS];
    const void *data;
    size_t data_size; /* bytes there are, at least what the shape asks for at one byte an element */
};

/* Whether the data begins as such a file. */
bool npy_is(const void *data, size_t size);
/* Borrows data. False: *out_error says what is wrong, "the header ...". */
bool npy_parse(const void *data, size_t size, struct npy *out, const char **out_error);

/* Writes float32 [n, ...] piece by piece; n is filled in at the end. */
struct npy_writer {
    FILE *file;
    const char *path;
    int n_dims;
    int64_t shape[NPY_MAX_DIMS]; /* shape[0] grows */
};

/* n_dims and tail [n_dims - 1]: the shape of one row. Each complains and returns an exit code. */
int npy_create(const char *path, int n_dims, const int64_t *tail, struct npy_writer *out);
int npy_append(struct npy_writer *self, const float *row);
/* Safe on one that was never created, or is closed. */
int npy_close(struct npy_writer *self);

#endif
