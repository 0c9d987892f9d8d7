/* Loads a model's weights. */
#ifndef RVIT_CORE_WEIGHTS_LOADER_H
#define RVIT_CORE_WEIGHTS_LOADER_H

#include "core/weights/model.h"

/* Visits all weights twice: first to assign their offsets in one buffer; then, with a stream, to read, convert and write them. */
typedef struct rvit_weights_loader {
    const rvit_checkpoint *checkpoint;
    rvit_model *model;
    rvit_stream *stream; /* NULL in the first pass */
    int64_t size;        /* bytes assigned so far */
    int64_t largest;     /* elements of the largest tensor */
    rvit_buffer *staging;
    int64_t start;                 /* offset in the weights of the start of the staging memory */
    int64_t copied, staged;        /* offsets in the weights: end of the part being copied, end of the part in staging memory */
    float *values, *more, *scales; /* scales: of a weight's rows, if the file has them */
} rvit_weights_loader;

/* Assigns an offset to n elements. */
rvit_status rvit_weights_place(rvit_weights_loader *l, int64_t n, rvit_dtype dtype, rvit_view *view);
/* Writes n values of l->values. */
rvit_status rvit_weights_write(rvit_weights_loader *l, int64_t n, rvit_dtype dtype, rvit_view view);
rvit_status rvit_weights_write_raw(rvit_weights_loader *l, const void *bytes, int64_t size, rvit_view view);
/* Enqueues the copy from staging memory. */
rvit_status rvit_weights_copy_staged(rvit_weights_loader *l);

/* The tensor of a role: its name, whether the family has one, and its values as float32. */
rvit_status rvit_weights_name(const rvit_weights_loader *l, rvit_role role, int32_t index, char name[RVIT_NAME_SIZE]);
int rvit_weights_has(const rvit_weights_loader *l, rvit_role role);
rvit_status rvit_weights_read(const rvit_weights_loader *l, rvit_role role, int32_t index, int64_t n, float *values);

/* These assign an offset to a tensor and, in the second pass, read and write it: a tensor of the file, converted to dtype; zeros for an
   absent bias; a tensor whose rows, and number of rows, are padded with zeros. */
rvit_status rvit_weights_load(rvit_weights_loader *l, rvit_role role, int32_t index, int64_t n, rvit_dtype dtype, rvit_view *view);
rvit_status rvit_weights_load_zeros(rvit_weights_loader *l, int64_t n, rvit_dtype dtype, rvit_view *view);
rvit_status rvit_weights_load_padded(rvit_weights_loader *l, rvit_role role, int32_t index, const int64_t size[2], const int64_t padded[2],
                                     rvit_dtype dtype, rvit_view *view);
/* A norm, without beta if it is an RMS norm. */
rvit_status rvit_weights_load_norm_of(rvit_weights_loader *l, rvit_role gamma, rvit_role beta, int32_t block, int64_t n, int64_t padded,
                                      rvit_view *out_gamma, rvit_view *out_beta);
rvit_status rvit_weights_load_norm(rvit_weights_loader *l, rvit_role gamma, rvit_role beta, int32_t block, rvit_view *out_gamma,
                                   rvit_view *out_beta);

/* The weight or bias of query, keys or values (part 0, 1, 2) of attention pooling. */
rvit_status rvit_weights_read_map_part(const rvit_weights_loader *l, int32_t part, int32_t bias, float *values);

/* load_block.c */
rvit_status rvit_weights_read_qkv(const rvit_weights_loader *l, rvit_role role, int32_t block, int64_t n, float *values);
rvit_status rvit_weights_load_block(rvit_weights_loader *l, int32_t b);

#endif
