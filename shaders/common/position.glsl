// The position of a patch in its image, clamped to the grid: the array may hold garbage.
#ifndef POSITION_GLSL
#define POSITION_GLSL

struct rvit_position {
    int y, x, height, width;
};

rvit_position position_of(ivec4 entry)
{
    const int height = clamp(entry.w >> 16, 1, RVIT_GRID_MAX_SIDE);
    const int width = clamp(entry.w & 65535, 1, RVIT_GRID_MAX_SIDE);
    return rvit_position(clamp(entry.z >> 16, 0, height - 1), clamp(entry.z & 65535, 0, width - 1), height, width);
}

#endif
