/* The kernels, as the images that the build compiled of them. */
#include "backend_cuda/cu.h"

#include <stdio.h>

#include "backend_cuda/tile.h"

/* kernels/kernels.cu as fat binaries, and the CUDA versions that compiled them. */
extern const unsigned long long rvit_cu_image[];
extern const int rvit_cu_image_version;
#if defined(RVIT_HAVE_CUDA_OLDER_IMAGE)
extern const unsigned long long rvit_cu_older_image[];
extern const int rvit_cu_older_image_version;
#endif

/* In the order in which they are tried. */
static const struct {
    const unsigned long long *code;
    const int *version;
} images[] = {
    {rvit_cu_image, &rvit_cu_image_version},
#if defined(RVIT_HAVE_CUDA_OLDER_IMAGE)
    {rvit_cu_older_image, &rvit_cu_older_image_version},
#endif
};
enum { N_IMAGES = sizeof images / sizeof images[0] };

enum { SHARED_FIXED, SHARED_DYNAMIC, SHARED_MAPPED = SHARED_DYNAMIC, SHARED_PAIRED = SHARED_DYNAMIC };
static const struct {
    const char *name;
    int shared;
} kernels[RVIT_CU_N_KERNELS] = {
#define RVIT_CU_KERNEL(name, params, threads, ctas, wait, shared, ...) {#name, SHARED_##shared},
#include "backend_cuda/kernels/kernels.def"
};

/* The series of drivers that loads the machine code of every CUDA release with this major version; 0: a later version. */
static int least_series(int version)
{
    const int major = version / 1000;
    return major == 11 ? 450 : major == 12 ? 525 : major == 13 ? 580 : 0;
}

static size_t append(char *text, size_t size, size_t length, const char *before, int version)
{
    const int series = least_series(version);
    const int n = series != 0 ? snprintf(text + length, size - length, "%sCUDA %d.%d (driver %d or newer)", before, version / 1000,
                                         version % 1000 / 10, series)
                              : snprintf(text + length, size - length, "%sCUDA %d.%d", before, version / 1000, version % 1000 / 10);
    return n < 0 ? length : length + (size_t)n < size ? length + (size_t)n : size - 1;
}

/* result: of the last image that was tried; CUDA_SUCCESS: all are too new for the driver. */
static rvit_status no_kernels(const rvit_cu_device *device, int version, CUresult result)
{
    char built[160] = "", advice[96], failure[96] = "";
    size_t length = 0;
    for (int i = 0; i < N_IMAGES; i++)
        length = append(built, sizeof built, length, i == 0 ? "" : " and ", *images[i].version);
    if (result == CUDA_SUCCESS) {
        if (least_series(version) != 0)
            (void)snprintf(advice, sizeof advice, "update the driver, or use a build by CUDA %d", version / 1000);
        else
            (void)snprintf(advice, sizeof advice, "update the driver");
    } else {
        const char *name = NULL;
        (void)device->driver->cuGetErrorName(result, &name);
        (void)snprintf(advice, sizeof advice, "build with the device's architecture in RVIT_CUDA_ARCHS");
        (void)snprintf(failure, sizeof failure, " (cuModuleLoadData failed: %s (%d))", name != NULL ? name : "unknown result", (int)result);
    }
    return rvit_fail(RVIT_UNSUPPORTED,
                     "cuda: the driver loads no kernels of this build for %s: they were compiled by %s, the driver is of CUDA %d.%d; %s%s",
                     device->base.info.name, built, version / 1000, version % 1000 / 10, advice, failure);
}

/* Whether the result concerns the image, not the device's state. */
static int is_of_image(CUresult result)
{
    return result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_INVALID_SOURCE ||
           result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_NOT_SUPPORTED ||
           result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND || result == CUDA_ERROR_JIT_COMPILATION_DISABLED;
}

static rvit_status load_image(rvit_cu_device *device)
{
    CUresult result = CUDA_SUCCESS;
    int version = 0;
    RVIT_CU_TRY(device->driver, cuDriverGetVersion, (&version));
    for (int i = 0; i < N_IMAGES; i++) {
        if (*images[i].version / 1000 > version / 1000)
            continue;
        result = device->driver->cuModuleLoadData(&device->module, images[i].code);
        if (result == CUDA_SUCCESS)
            return RVIT_OK;
        device->module = NULL;
        if (!is_of_image(result))
            return rvit_cu_fail(device->driver, result, "cuModuleLoadData");
    }
    return no_kernels(device, version, result);
}

/* The wgmma kernels are present if sm_90a code was loaded. Otherwise they are empty, and accept fewer threads than a launch needs. */
static rvit_status find_wgmma(rvit_cu_device *device)
{
#if CUDA_VERSION >= 12000
    int threads = 0;
    RVIT_CU_TRY(device->driver, cuFuncGetAttribute,
                (&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device->kernels[RVIT_CU_attention_f16_hopper_d64]));
    device->machine.wgmma &= threads >= 128 && device->driver->cuTensorMapEncodeTiled != NULL;
#else
    device->machine.wgmma = 0;
#endif
    return RVIT_OK;
}

rvit_status rvit_cu_kernels_load(rvit_cu_device *device)
{
    RVIT_TRY(load_image(device));
    for (int i = 0; i < RVIT_CU_N_KERNELS; i++) {
        RVIT_CU_TRY(device->driver, cuModuleGetFunction, (&device->kernels[i], device->module, kernels[i].name));
        /* Allows all dynamic shared memory that the device has; each launch requests what it needs. */
        if (kernels[i].shared == SHARED_DYNAMIC)
            RVIT_CU_TRY(device->driver, cuFuncSetAttribute,
                        (device->kernels[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, device->machine.max_shared));
    }
    /* Code that was JIT-compiled for an older architecture does not wait for the previous kernel. */
    int architecture = 0;
    RVIT_CU_TRY(device->driver, cuFuncGetAttribute, (&architecture, CU_FUNC_ATTRIBUTE_PTX_VERSION, device->kernels[0]));
    if (architecture < 90)
        device->machine.early = 0;
    device->e4m3 = architecture >= 89;
    RVIT_TRY(find_wgmma(device));
    /* JIT-compiled code for a device with more shared memory uses more than this device's launches would request. */
    if (RVIT_CU_IS_LARGE(architecture) && device->machine.sm_shared < RVIT_CU_LARGE_SMEM)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "cuda: this build has no kernels for %s: the lowest of RVIT_CUDA_ARCHS is %d, which has more shared "
                         "memory; build with the device's architecture",
                         device->base.info.name, architecture);
    return RVIT_OK;
}
