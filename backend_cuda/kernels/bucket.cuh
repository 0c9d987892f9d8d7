/* The smallest bucket that has room for the live rows. */
#ifndef RVIT_BUCKET_CUH
#define RVIT_BUCKET_CUH

#include "elements.cuh"

extern "C" __global__ void choose_bucket(const rvit_cu_bucket_params params)
{
    const int rows = live_rows(params.rows);
    int bucket = 0;
    while (bucket < params.n_buckets - 1 && params.bucket_rows[bucket] < rows)
        bucket++;
    choose_branch(params.handle, (unsigned)bucket);
}

#endif
