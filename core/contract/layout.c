/* The cu_seqlens layout on the host: validation, and construction from a keep mask. */
#include <stddef.h>

#include <raggedvit/ops.h>

#include "core/base/entry.h"
#include "core/base/status.h"

rvit_status rvit_cu_seqlens_check(const int32_t *cu_seqlens, int32_t n_images, int32_t max_len, int64_t rows)
{
    RVIT_ENTRY;
    if (cu_seqlens == NULL || n_images < 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "cu_seqlens is NULL, or n_images is negative");
    if (cu_seqlens[0] != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "cu_seqlens[0] is %d, expected 0", (int)cu_seqlens[0]);
    for (int32_t i = 0; i < n_images; i++) {
        const int64_t begin = cu_seqlens[i], end = cu_seqlens[i + 1];
        if (end < begin)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "cu_seqlens decreases at image %d: %lld to %lld", (int)i, (long long)begin,
                             (long long)end);
        if (end - begin > max_len)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "cu_seqlens gives image %d %lld rows, but max_len is %d", (int)i,
                             (long long)(end - begin), (int)max_len);
        if (end > rows)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "cu_seqlens ends image %d at row %lld, but the capacity is %lld rows", (int)i,
                             (long long)end, (long long)rows);
    }
    return RVIT_OK;
}

rvit_status rvit_layout_from_mask(const uint8_t *keep, int32_t n_images, int32_t tokens, int32_t n_prefix, int32_t *out_cu_seqlens,
                                  int32_t *out_src_rows)
{
    RVIT_ENTRY;
    if (n_images < 0 || tokens < 0 || n_prefix < 0 || n_prefix > tokens)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "mask layout: n_images is %d, tokens is %d, n_prefix is %d, expected 0 or more and n_prefix <= tokens",
                         (int)n_images, (int)tokens, (int)n_prefix);
    const int64_t rows = (int64_t)n_images * tokens;
    if (rows > INT32_MAX)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "mask layout: %lld rows exceed the int32 range", (long long)rows);
    if (out_cu_seqlens == NULL || (rows > 0 && (keep == NULL || out_src_rows == NULL)))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "mask layout: keep, out_cu_seqlens or out_src_rows is NULL");
    for (int32_t i = 0; i < n_images; i++)
        for (int32_t j = 0; j < n_prefix; j++)
            if (keep[(int64_t)i * tokens + j] == 0)
                return rvit_fail(RVIT_INVALID_ARGUMENT, "mask layout: the mask of image %d drops prefix token %d", (int)i, (int)j);
    int32_t kept = 0;
    out_cu_seqlens[0] = 0;
    for (int32_t i = 0; i < n_images; i++) {
        for (int32_t j = 0; j < tokens; j++)
            if (keep[(int64_t)i * tokens + j] != 0)
                out_src_rows[kept++] = i * tokens + j;
        out_cu_seqlens[i + 1] = kept;
    }
    return RVIT_OK;
}
