// Sums the counts of select_keep.comp up to the layout after the selection and reports the first error; one group.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/select.glsl"

layout(binding = RVIT_SELECT_ERROR) writeonly buffer Error { int error[]; };

#define SHARE 4 // consecutive images of a thread
#define NO_ERROR 0xffffffffu
shared uint first_error;

void main()
{
    const uint n_images = uint(push.n_images);
    const uint base = uint(push.out_cu_seqlens_at) + 1;
    const uint rank = group_rank();
    if (rank == 0) {
        first_error = NO_ERROR;
        out_cu_seqlens[base - 1] = 0;
    }
    barrier();
    uint sum_before = 0;
    for (uint first = 0; first < n_images; first += THREADS * SHARE) {
        uint counts[SHARE];
        uint sum = 0;
        for (uint i = 0; i < SHARE; i++) {
            const uint image = first + rank * SHARE + i;
            counts[i] = image < n_images ? out_cu_seqlens[base + image] : 0;
            if ((counts[i] & RVIT_SELECT_ERROR_FLAG) != 0) {
                atomicMin(first_error, image);
                counts[i] &= ~RVIT_SELECT_ERROR_FLAG;
            }
            sum += counts[i];
        }
        uint total;
        uint running = sum_before + group_exclusive_add(sum, total);
        for (uint i = 0; i < SHARE; i++) {
            const uint image = first + rank * SHARE + i;
            running += counts[i];
            // Only a broken layout, whose images overlap, keeps more rows than there are.
            if (image < n_images)
                out_cu_seqlens[base + image] = min(running, uint(push.rows));
        }
        sum_before = min(sum_before + total, uint(push.rows));
    }
    barrier();
    if (HAS_ERROR != 0 && rank == 0)
        error[uint(push.error_at)] =
            first_error == NO_ERROR ? 0 : int(first_error * 2 + (MODE == RVIT_SELECT_MASK_MODE ? 2 : 1));
}
