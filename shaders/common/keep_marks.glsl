// The keep marks, one byte per row, read and written as words of four rows. Adjacent images may share a word, which other workgroups may be
// writing. Define KEEP_BINDING.
#ifndef KEEP_MARKS_GLSL
#define KEEP_MARKS_GLSL

#define KEPT 1u
// Set until the layout is written: on the row that the fused token replaces, and on the last row of an image with a fused token.
#define FUSED 2u
#define FUSED_END 4u
#define EACH_BYTE 0x01010101u

layout(binding = KEEP_BINDING) coherent buffer Keep { uint keep_words[]; };

// Byte i of a word is row 4 * word + i. Returns a mask with all bits of the bytes of rows begin..end-1.
uint bytes_inside(uint word, uint begin, uint end)
{
    uint mask = 0;
    for (uint i = 0; i < 4; i++)
        if (word * 4 + i >= begin && word * 4 + i < end)
            mask |= 0xffu << i * 8;
    return mask;
}

uint load_marks(uint word, uint begin, uint end)
{
    const uint inside = bytes_inside(word, begin, end);
    return inside == 0 ? 0 : keep_words[uint(push.keep_at) + word] & inside;
}

void store_marks(uint word, uint begin, uint end, uint bytes)
{
    const uint inside = bytes_inside(word, begin, end);
    const uint at = uint(push.keep_at) + word;
    if (inside == 0xffffffffu) {
        keep_words[at] = bytes;
    } else if (inside != 0) {
        atomicAnd(keep_words[at], ~inside);
        atomicOr(keep_words[at], bytes & inside);
    }
}

// Sets or clears bits of a row's mark.
void add_mark(uint row, uint bits)
{
    atomicOr(keep_words[uint(push.keep_at) + row / 4], bits << row % 4 * 8);
}

void clear_mark(uint row, uint bits)
{
    atomicAnd(keep_words[uint(push.keep_at) + row / 4], ~(bits << row % 4 * 8));
}

#endif
