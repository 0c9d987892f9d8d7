/* Modules and launches. A module's image is only checked for its format; the kernels are those compiled into this library. */
#include <string.h>

#include "driver.h"

using namespace emu;

namespace
{
bool is_image(const void *image)
{
    static const unsigned char fatbin[4] = {0x50, 0xed, 0x55, 0xba}, wrapped[4] = {0xb1, 0x43, 0x62, 0x46}, elf[4] = {0x7f, 'E', 'L', 'F'};
    return memcmp(image, fatbin, 4) == 0 || memcmp(image, wrapped, 4) == 0 || memcmp(image, elf, 4) == 0 ||
           memcmp(image, "//\n/", 3) == 0 || memcmp(image, ".ver", 4) == 0;
}

CUfunction known_function(CUfunction function)
{
    for (CUmodule module : state().modules)
        for (auto &entry : module->functions)
            if (&entry.second == function)
                return function;
    report("use of a function whose module is not loaded");
    return nullptr;
}

CUresult launch_on(CUstream stream, CUfunction function, const launch_shape &shape, void **parameters, void **extra)
{
    if (!known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    operation op = {};
    if (const CUresult refused = launch_of(function, shape, parameters, extra, &op))
        return refused;
    if (stream->captured == nullptr && fault_launch())
        return state().lost = CUDA_ERROR_ILLEGAL_ADDRESS;
    return submit(stream, std::move(op));
}
} // namespace

CUresult emu::launch_of(CUfunction function, const launch_shape &shape, void **parameters, void **extra, operation *out_op)
{
    if (known_function(function) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    const kernel &k = *function->entry;
    const unsigned(&grid)[3] = shape.grid, (&block)[3] = shape.block;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535 || block[0] == 0 ||
        block[1] == 0 || block[2] == 0 || block[0] > 1024 || block[1] > 1024 || block[2] > 64 ||
        (uint64_t)block[0] * block[1] * block[2] > 1024) {
        report("%s: grid %u x %u x %u of blocks %u x %u x %u", k.name, grid[0], grid[1], grid[2], block[0], block[1], block[2]);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (shape.dynamic_shared > (unsigned)function->max_dynamic_shared) {
        report("%s: %u bytes of dynamic shared memory, the limit is %d", k.name, shape.dynamic_shared, function->max_dynamic_shared);
        return CUDA_ERROR_INVALID_VALUE;
    }
    const unsigned cluster = shape.cluster ? shape.cluster : k.cluster;
    if (cluster > 8 || grid[0] % cluster != 0 || (shape.cluster > 1 && k.cluster > 1 && shape.cluster != k.cluster) ||
        (cluster > 1 && model().capability < 90)) {
        report("%s: a grid of %u blocks in clusters of %u", k.name, grid[0], cluster);
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    }
    if (extra != nullptr || (parameters == nullptr && k.n_parameters > 0))
        return CUDA_ERROR_INVALID_VALUE;
    operation op = {};
    op.kind = operation::LAUNCH;
    op.function = function;
    op.shape = shape;
    op.shape.cluster = cluster;
    for (int i = 0; i < k.n_parameters; i++) {
        const size_t at = (op.parameters.size() + k.alignments[i] - 1) / k.alignments[i] * k.alignments[i];
        op.parameters.resize(at + k.sizes[i]);
        op.offsets.push_back(at);
        memcpy(op.parameters.data() + at, parameters[i], k.sizes[i]);
    }
    *out_op = std::move(op);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    EMU_CALL(CONTEXT);
    if (const CUresult refused = forbidden_while_capturing())
        return refused;
    if (module == nullptr || image == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_image(image))
        return CUDA_ERROR_INVALID_IMAGE;
    if (model().capability < 80)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (const CUresult refused = fault_image())
        return refused;
    if (fault_allocation())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *module = new CUmod_st();
    state().modules.insert(*module);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    EMU_CALL(CONTEXT);
    if (state().modules.count(module) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    flush_all();
    state().modules.erase(module);
    delete module;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    EMU_CALL(CONTEXT);
    if (function == nullptr || name == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (state().modules.count(module) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    const kernel *k = kernel_find(name);
    if (k == nullptr)
        return CUDA_ERROR_NOT_FOUND;
    CUfunc_st &f = module->functions[k];
    if (f.entry == nullptr)
        f = {k, default_dynamic_shared()};
    *function = &f;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    EMU_CALL(CONTEXT);
    if (known_function(function) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > model().shared_per_block)
            return CUDA_ERROR_INVALID_VALUE;
        function->max_dynamic_shared = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return value < -1 || value > 100 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Attributes that depend on the compiler are unknown here. */
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    EMU_CALL(CONTEXT);
    if (value == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (known_function(function) == nullptr)
        return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->max_dynamic_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = compiled_for();
        return CUDA_SUCCESS;
    default:
        report("cuFuncGetAttribute: the emulation does not know attribute %d", (int)attribute);
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Supports the attributes for programmatic dependent launch and for the cluster size. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    EMU_CALL(CONTEXT);
    if (config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr))
        return CUDA_ERROR_INVALID_VALUE;
    bool early = false;
    unsigned cluster = 0;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute &a = config->attrs[i];
        if (a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            early = a.value.programmaticStreamSerializationAllowed != 0;
        else if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && a.value.clusterDim.x > 0 && a.value.clusterDim.y == 1 &&
                 a.value.clusterDim.z == 1)
            cluster = a.value.clusterDim.x;
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    const launch_shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                                {config->blockDimX, config->blockDimY, config->blockDimZ},
                                config->sharedMemBytes,
                                early,
                                cluster};
    return launch_on(config->hStream, function, shape, parameters, extra);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared, CUstream stream, void **parameters, void **extra)
{
    EMU_CALL(CONTEXT);
    const launch_shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, false, 0};
    return launch_on(stream, function, shape, parameters, extra);
}
