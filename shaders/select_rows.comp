// Lists the kept rows of each image, an image to a group.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/select.glsl"

layout(binding = RVIT_SELECT_KEEP) readonly buffer Keep { uint keep_words[]; };
layout(binding = RVIT_SELECT_SRC_ROWS) writeonly buffer SrcRows { int src_rows[]; };

void main()
{
    const uint image = group_index();
    if (image >= uint(push.n_images))
        return;
    const rvit_sequence rows = image_rows(image);
    const uint end = rows.begin + rows.len;
    const uint rank = group_rank();
    uint to = out_cu_seqlens[uint(push.out_cu_seqlens_at) + image];
    for (uint first_word = rows.begin / 4; first_word < (end + 3) / 4; first_word += THREADS) {
        const uint word = first_word + rank;
        const uint inside = bytes_inside(word, rows.begin, end);
        const uint kept = inside == 0 ? 0 : keep_words[uint(push.keep_at) + word] & inside;
        uint total;
        uint at = to + group_exclusive_add(bitCount(kept), total);
        for (uint i = 0; i < 4; i++)
            if ((kept >> i * 8 & 1u) != 0) {
                if (at < uint(push.rows))
                    src_rows[uint(push.src_rows_at) + at] = int(word * 4 + i);
                at++;
            }
        to += total;
    }
}
