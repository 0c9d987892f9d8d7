/* Arrays in NumPy's file format. */
#ifndef RVIT_CLI_NPY_H
#define RVIT_CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "output_file.h"

#define NPY_MAX_DIMS 4

struct npy {
    char type[8]; /* "|u1", "<f4" */
    bool fortran_order;
    int n_dims;
    int64_t shape[NPY_MAX_DIMS];
    const void *data;
    size_t data_size; /* bytes, at least one per element of the shape */
};

/* Whether the data begins like a .npy file. */
bool npy_is(const void *data, size_t size);
/* *out points into data. Returns false with the reason in *out_error, "the header ...". */
bool npy_parse(const void *data, size_t size, struct npy *out, const char **out_error);

/* Writes float32 [n, ...] row by row; n is set at the end. */
struct npy_writer {
    struct output_file output;
    int n_dims;
    int64_t shape[NPY_MAX_DIMS]; /* shape[0] grows */
};

/* tail [n_dims - 1]: the shape of a row. These functions print a message on failure and return an exit code. */
int npy_create(const char *path, int n_dims, const int64_t *tail, struct npy_writer *out);
int npy_append(struct npy_writer *self, const float *row);
int npy_commit(struct npy_writer *self);
/* Removes a file that is not committed. May be called if it was never created. */
void npy_close(struct npy_writer *self);

#endif
