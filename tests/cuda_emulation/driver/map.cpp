/* Tensor maps for TMA, as far as the backend uses them: elements of 1 and 2 bytes, swizzled boxes. */
#include <string.h>

#include "driver.h"
#include "runtime/device.h"

using namespace emu;

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *sizes,
                                const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill)
{
    EMU_CALL(INITIALISED);
    if ((uintptr_t)map % 64 != 0 || (uintptr_t)address % 16 != 0 || rank < 2 || rank > 5 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
        swizzle != CU_TENSOR_MAP_SWIZZLE_128B || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ||
        (type != CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 && type != CU_TENSOR_MAP_DATA_TYPE_UINT8)) {
        report("cuTensorMapEncodeTiled: arguments that are invalid or unknown to the emulation");
        return CUDA_ERROR_INVALID_VALUE;
    }
    const uint32_t element = type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1 : 2;
    tensor_map m = {TENSOR_MAP_MAGIC, 128, static_cast<const unsigned char *>(address), element, rank, {}, {}, {element}};
    for (cuuint32_t i = 0; i < rank; i++) {
        if (sizes[i] == 0 || sizes[i] > 1ull << 32 || box[i] == 0 || box[i] > 256 || steps[i] != 1 ||
            (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= 1ull << 40))) {
            report("cuTensorMapEncodeTiled: invalid dimension %u", (unsigned)i);
            return CUDA_ERROR_INVALID_VALUE;
        }
        m.size[i] = (uint32_t)sizes[i];
        m.box[i] = box[i];
        if (i > 0)
            m.stride[i] = strides[i - 1];
    }
    if (box[0] * element > 128) {
        report("cuTensorMapEncodeTiled: the box is wider than the swizzle");
        return CUDA_ERROR_INVALID_VALUE;
    }
    memset(map, 0, sizeof *map);
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}
