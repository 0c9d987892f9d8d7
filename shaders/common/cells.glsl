// A patch's place in its image, inside the grid whatever the cell holds.
#ifndef CELLS_GLSL
#define CELLS_GLSL

struct rvit_place {
    int y, x, height, width;
};

rvit_place place_of(ivec4 cell)
{
    const int height = clamp(cell.w >> 16, 1, RVIT_GRID_MAX_SIDE);
    const int width = clamp(cell.w & 65535, 1, RVIT_GRID_MAX_SIDE);
    return rvit_place(clamp(cell.z >> 16, 0, height - 1), clamp(cell.z & 65535, 0, width - 1), height, width);
}

#endif
