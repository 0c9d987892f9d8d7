// The position of a patch in its image, clamped to the grid: the array may hold garbage.
#ifndef POSITION_GLSL
#define POSITION_GLSL

struct rvit_position {
    int y, x, height, width;
};

rvit_position position_of(ivec4 cell)
{
    const int height = clamp(cell.w >> 16, 1, RVIT_GRID_MAX_SIDE);
    const int width = clamp(cell.w & 65535, 1, RVIT_GRID_MAX_SIDE);
    return rvit_position(clamp(cell.z >> 16, 0, height - 1), clamp(cell.z & 65535, 0, width - 1), height, width);
}

#endif
