/* Uses the library from C99: compares the versions of headers and library, and runs attention on one row, which returns v. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <raggedvit/cuda.h>
#include <raggedvit/raggedvit.h>
#include <raggedvit/vulkan.h>

#define TRY(call)                                                     \
    do {                                                              \
        if ((call) != RVIT_OK) {                                      \
            fprintf(stderr, "%s: %s\n", #call, rvit_status_detail()); \
            return 1;                                                 \
        }                                                             \
    } while (0)

int main(void)
{
    char version[32];
    sprintf(version, "%d.%d.%d", RVIT_VERSION_MAJOR, RVIT_VERSION_MINOR, RVIT_VERSION_PATCH);
    if (strcmp(version, rvit_version()) != 0) {
        fprintf(stderr, "the headers have version %s, the library %s\n", version, rvit_version());
        return 1;
    }

    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    rvit_device *device = NULL;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    rvit_device *none = NULL;
    void *context = NULL;
    desc.backend = RVIT_BACKEND_CPU;
    desc.n_threads = 1;
    TRY(rvit_device_create(&desc, &device));
    TRY(rvit_stream_create(device, &stream));
    TRY(rvit_buffer_create(device, 4096, RVIT_BUFFER_UPLOAD, &buffer));
    if (rvit_cuda_device_context(device, &context) == RVIT_OK) {
        fprintf(stderr, "a CPU device has a CUDA context\n");
        return 1;
    }
    if (rvit_vulkan_device_create(NULL, NULL, &none) == RVIT_OK) {
        fprintf(stderr, "a Vulkan device was created from NULL\n");
        return 1;
    }

    int32_t cu_seqlens[2] = {0, 1};
    float row[3][8] = {{1, 2, 3, 4, 5, 6, 7, 8}, {8, 7, 6, 5, 4, 3, 2, 1}, {.5f, -1, 2, -3, 4, -5, 6, -7}};
    char *memory = rvit_buffer_host(buffer);
    memcpy(memory, cu_seqlens, sizeof cu_seqlens);
    memcpy(memory + 64, row, sizeof row);
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.n_images = args.n_heads = args.max_len = 1;
    args.head_dim = 8;
    args.rows = 1;
    args.cu_seqlens.buffer = args.q.buffer = args.k.buffer = args.v.buffer = args.out.buffer = buffer;
    args.q.offset = 64;
    args.k.offset = 64 + sizeof row[0];
    args.v.offset = 64 + 2 * sizeof row[0];
    args.out.offset = 1024;
    TRY(rvit_attention(stream, &args));
    TRY(rvit_stream_synchronize(stream));
    if (memcmp(memory + 1024, row[2], sizeof row[2]) != 0) {
        fprintf(stderr, "attention on one row does not return that row\n");
        return 1;
    }
    if (rvit_count_table(RVIT_COUNT_FLOOR, strtod("nan", NULL), 0, 1, cu_seqlens) != RVIT_INVALID_ARGUMENT) {
        fprintf(stderr, "a NaN was accepted: the library was compiled with fast-math\n");
        return 1;
    }
    rvit_buffer_destroy(buffer);
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
    printf("C works with raggedvit %s\n", version);
    return 0;
}
