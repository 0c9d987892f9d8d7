/* The .npy file of --features: the features of each image before the head. */
#ifndef RVIT_CLI_FEATURE_FILE_H
#define RVIT_CLI_FEATURE_FILE_H

#include "cli.h"
#include "npy.h"

struct feature_file {
    struct npy_writer writer;
    bool grid;
    int32_t dim;
    float *values; /* [patches, dim], the grid of one image */
};

/* grid: writes [images, rows, columns, dim] with zeros for dropped patches, else the CLS rows, [images, dim]. These functions print a
   message on failure and return an exit code. */
int feature_file_open(const char *path, bool grid, const rvit_model_info *model, struct feature_file *out);
/* Adds the features of the last run of a session with RVIT_OUTPUT_FEATURES. */
int feature_file_add(struct feature_file *self, const rvit_session *session, int32_t n_images);
int feature_file_commit(struct feature_file *self);
/* Removes a file that is not committed. May be called if it was never opened. */
void feature_file_close(struct feature_file *self);

/* An image's CLS row, f32 [dim]. */
const float *feature_cls(const rvit_session *session, int32_t image, int32_t dim);

#endif
