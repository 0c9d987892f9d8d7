/* The parts of DLPack 1.x that the module uses: the layout of its structs and the meaning of their numbers, as
   https://dmlc.github.io/dlpack describes them. */
#ifndef RVIT_PYTHON_DLPACK_H
#define RVIT_PYTHON_DLPACK_H

#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

typedef struct dl_device {
    int32_t type, id;
} dl_device;

typedef struct dl_type {
    uint8_t code, bits;
    uint16_t lanes;
} dl_type;

typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_type dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: contiguous */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_version {
    uint32_t major, minor;
} dl_version;

typedef struct dl_managed {
    dl_version version;
    void *manager_context;
    void (*deleter)(struct dl_managed *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed;

/* The struct in a tensor type's __dlpack_c_exchange_api__, a capsule "dlpack_exchange_api". Functions return 0, or another number with a
   Python exception set (allocate: after a call of set_error). */
typedef struct dl_exchange_header {
    dl_version version;
    struct dl_exchange_header *previous; /* of an older major version, or NULL */
} dl_exchange_header;

typedef struct dl_exchange {
    dl_exchange_header header;
    int (*allocate)(dl_tensor *prototype, dl_managed **out, void *context, void (*set_error)(void *, const char *, const char *));
    int (*export_object)(void *object, dl_managed **out);
    int (*import_object)(dl_managed *tensor, void **out_object); /* takes the tensor */
    int (*borrow)(void *object, dl_tensor *out);                 /* NULL: not offered */
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out_stream);
} dl_exchange;

#endif
