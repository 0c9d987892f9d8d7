/* The tile scheduler of persistent attention CTAs. A tile is a block of query rows of a head of an image. For 32 images at a time, tiles
   are sorted by image length, longest first, and dealt to the CTAs in boustrophedon order, so that all have about the same work. This
   needs no counter in memory, and every warp of a CTA finds the same tiles. */
#ifndef RVIT_ATTENTION_TILES_CUH
#define RVIT_ATTENTION_TILES_CUH

#include "attention.cuh"

/* The CTA's next tile, counted from the first tile of the 32 images, and whether the current pass deals tiles in reverse order. */
struct tile_position {
    int next, back;

    __device__ __forceinline__ void step()
    {
        next += back ? 2 * (int)blockIdx.x + 1 : 2 * (int)(gridDim.x - blockIdx.x) - 1;
        back ^= 1;
    }
};

/* Used by a whole warp; each lane holds one of 32 images. Images with fewer than least_rows rows, or with end_rows and more, are
   skipped. */
struct tile_walk {
    tile_position at;
    int first;    /* of the 32 images */
    int begin, n; /* of the lane's image: its first tile and the number of its tiles */
    int all;      /* tiles of the 32 images */
    int shorter;  /* whether a non-empty image with fewer than least_rows rows was skipped */

    __device__ __forceinline__ tile_walk(tile_position from) : at(from), first(-32), begin(0), n(0), all(0), shorter(0)
    {
    }
    static __device__ __forceinline__ image_rows image(const rvit_cu_attention_hopper_params &params, int i)
    {
        return rows_of_image(params.rows.cu_seqlens, i, params.rows.rows, params.rows.max_len);
    }
    __device__ __forceinline__ void load(const rvit_cu_attention_hopper_params &params, int rows, int least_rows, int end_rows)
    {
        const int lane = (int)(threadIdx.x & 31);
        int length = 0;
        if (first + lane < params.n_images)
            length = image(params, first + lane).len;
        begin = all = 0;
        shorter |= warp_any(length > 0 && length < least_rows);
        if (length < least_rows || length >= end_rows)
            length = 0;
        n = (length + rows - 1) / rows * params.rows.n_heads;
#pragma unroll 1
        for (int i = 0; i < 32; i++) {
            const int other = shuffle(length, i), count = shuffle(n, i);
            if (other > length || (other == length && i < lane))
                begin += count;
            all += count;
        }
    }
    /* rows: per tile. Returns false if there are no more tiles. */
    __device__ __forceinline__ bool next(const rvit_cu_attention_hopper_params &params, int rows, int least_rows, int end_rows,
                                         attention_work &work)
    {
        while (at.next >= all) {
            at.next -= all;
            all = 0;
            if (first + 32 >= params.n_images)
                return false;
            first += 32;
            load(params, rows, least_rows, end_rows);
        }
        const int lane = find_first(warp_ballot(at.next >= begin && at.next < begin + n)), tile = at.next - shuffle(begin, lane);
        at.step();
        const image_rows r = image(params, first + lane);
        work.begin = r.begin, work.length = r.len;
        const int blocks = (work.length + rows - 1) / rows;
        work.head = tile / blocks, work.row_block = tile % blocks;
        return true;
    }
};

#endif
