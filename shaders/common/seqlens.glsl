// The rows of one image. cu_seqlens comes from the device and is untrusted: both ends are clamped to the arrays.
#ifndef SEQLENS_GLSL
#define SEQLENS_GLSL

struct rvit_sequence {
    uint begin;
    uint len;
};

rvit_sequence clamp_sequence(int begin, int end, int max_len, int rows)
{
    const int first = clamp(begin, 0, rows);
    const int last = clamp(end, first, rows);
    return rvit_sequence(uint(first), uint(min(last - first, max_len)));
}

#endif
