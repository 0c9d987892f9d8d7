/* Runs attention inside your own CUDA code: in your context, on your stream and memory, ordered between your copies. This example opens
   the driver at run time, so it compiles without the CUDA toolkit. With cuda.h, pass your CUcontext, CUstream and CUdeviceptr in the same
   way; with the runtime API, pass your cudaStream_t and pointers.

   usage: cuda_stream     exits with 77 and the reason if there is no CUDA driver */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <raggedvit/cuda.h>
#include <raggedvit/raggedvit.h>

enum { HEADS = 3, HEAD_DIM = 64, DIM = HEADS * HEAD_DIM, ROWS = 40 };

static void need(rvit_status status)
{
    if (status != RVIT_OK) {
        fprintf(stderr, "%s: %s\n", rvit_status_name(status), rvit_status_detail());
        exit(status == RVIT_UNAVAILABLE || status == RVIT_UNSUPPORTED ? 77 : 1);
    }
}

static void cuda(const char *call, int result)
{
    if (result != 0) {
        fprintf(stderr, "%s failed with CUresult %d\n", call, result);
        exit(strcmp(call, "cuInit") == 0 ? 77 : 1); /* a driver without a GPU */
    }
}

/* Declares int (*name)(arguments) and sets it to this symbol of the driver. */
#define DRIVER(name, symbol, arguments)                     \
    int(*name) arguments = NULL;                            \
    *(void **)&name = dlsym(driver, symbol);                \
    if (name == NULL) {                                     \
        fprintf(stderr, "libcuda.so.1 lacks %s\n", symbol); \
        return 77;                                          \
    }

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) {
        fprintf(stderr, "no CUDA driver: %s\n", dlerror());
        return 77;
    }
    DRIVER(init, "cuInit", (unsigned flags))
    DRIVER(context_retain, "cuDevicePrimaryCtxRetain", (void **out, int device))
    DRIVER(context_push, "cuCtxPushCurrent_v2", (void *context))
    DRIVER(stream_create, "cuStreamCreate", (void **out, unsigned flags))
    DRIVER(stream_wait, "cuStreamSynchronize", (void *stream))
    DRIVER(memory_take, "cuMemAlloc_v2", (uint64_t * out, size_t size))
    DRIVER(memory_free, "cuMemFree_v2", (uint64_t address))
    DRIVER(copy, "cuMemcpyAsync", (uint64_t to, uint64_t from, size_t size, void *stream)) /* host addresses too */

    /* Your objects: the primary context (which the runtime API and PyTorch use too), a stream and memory. */
    void *context = NULL, *cu_stream = NULL;
    uint64_t memory = 0;
    cuda("cuInit", init(0));
    cuda("cuDevicePrimaryCtxRetain", context_retain(&context, 0));
    cuda("cuCtxPushCurrent", context_push(context));
    cuda("cuStreamCreate", stream_create(&cu_stream, 1));
    const int64_t qkv_size = ROWS * 3 * DIM * (int64_t)sizeof(float), out_size = ROWS * DIM * (int64_t)sizeof(float);
    cuda("cuMemAlloc", memory_take(&memory, (size_t)(qkv_size + out_size) + 16));

    /* The library's objects for them. Wrapping neither copies nor takes ownership. */
    rvit_device *device = NULL;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    need(rvit_cuda_device_create(NULL, NULL, &device)); /* NULL: the thread's current context */
    need(rvit_stream_wrap(device, cu_stream, &stream));
    rvit_memory_desc desc = RVIT_MEMORY_DESC_INIT;
    desc.type = RVIT_MEMORY_CUDA;
    desc.address = (void *)(uintptr_t)memory;
    desc.size = qkv_size + out_size + 16;
    need(rvit_buffer_wrap(device, &desc, &buffer));

    /* Two images of 30 and 10 rows. All keys are zero, so the softmax weights are equal and each result is the mean of v over its image.
       v is the row number, so the results are 14.5 and 34.5. */
    static float qkv[ROWS][3][DIM], out[ROWS][DIM];
    const int32_t cu_seqlens[4] = {0, 30, ROWS};
    for (int row = 0; row < ROWS; row++)
        for (int d = 0; d < DIM; d++) {
            qkv[row][0][d] = 1;
            qkv[row][2][d] = (float)row;
        }
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.n_images = 2;
    args.n_heads = HEADS;
    args.head_dim = HEAD_DIM;
    args.max_len = args.rows = ROWS;
    args.q = (rvit_view){buffer, 0};
    args.k = (rvit_view){buffer, DIM * sizeof(float)};
    args.v = (rvit_view){buffer, 2 * DIM * sizeof(float)};
    args.q_stride = args.k_stride = args.v_stride = 3 * DIM;
    args.out = (rvit_view){buffer, qkv_size};
    args.cu_seqlens = (rvit_view){buffer, qkv_size + out_size};
    cuda("cuMemcpyAsync", copy(memory, (uintptr_t)qkv, (size_t)qkv_size, cu_stream));
    cuda("cuMemcpyAsync", copy(memory + (uint64_t)(qkv_size + out_size), (uintptr_t)cu_seqlens, sizeof cu_seqlens, cu_stream));
    need(rvit_attention(stream, &args)); /* after the copies, on your stream; the host does not wait */
    cuda("cuMemcpyAsync", copy((uintptr_t)out, memory + (uint64_t)qkv_size, (size_t)out_size, cu_stream));
    cuda("cuStreamSynchronize", stream_wait(cu_stream));

    double largest = 0;
    for (int row = 0; row < ROWS; row++)
        for (int d = 0; d < DIM; d++)
            largest = fmax(largest, fabs(out[row][d] - (row < 30 ? 14.5 : 34.5)));
    printf("attention on the caller's stream and memory, largest error %.2g\n", largest);
    rvit_buffer_destroy(buffer);
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
    cuda("cuMemFree", memory_free(memory));
    return largest < 1e-3 ? 0 : 1;
}
