/* Chooses the configuration of the small-M GEMM (kernels/linear_small_m.cuh) with the least time in a model of an SM
   (bench/notes/cuda-gemm.md). */
#include "backend_cuda/divide.h"
#include "backend_cuda/tile.h"

/* Bytes per clock: from L2, from other CTAs of the cluster, of shared memory. Clocks: overhead of a k step; from launch to first wgmma
   and from last wgmma to end, once for all CTAs that share an SM; of a round trip in a cluster. Fitted to all configurations of 108
   GEMMs on an H100 (bench/notes/cuda-gemm.md). */
enum { FROM_L2 = 40, FROM_CLUSTER = 13, SHARED = 128, STEP = 300, ENDS = 3500, TRIP = 1700 };

static const struct small_m_shape {
    int32_t rows, columns, threads, ctas, ctas_f32;
} shapes[] = {
#define SMALL_M(name, groups, columns, ctas, ctas_f32) {(groups)*64, columns, RVIT_CU_SMALL_M_THREADS(groups), ctas, ctas_f32},
    RVIT_CU_LINEAR_SMALL_M(SMALL_M)
#undef SMALL_M
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int32_t shared_of(const rvit_cu_small_m_config *config)
{
    const struct small_m_shape *s = &shapes[config->shape];
    return RVIT_CU_SMALL_M_SHARED(s->rows / 64, s->columns, config->stages, config->split_k);
}

/* CTAs per SM. */
static int32_t residency(const rvit_cu_machine *machine, const rvit_cu_small_m_config *config, int32_t out_size)
{
    const struct small_m_shape *s = &shapes[config->shape];
    const int32_t fit = machine->sm_shared / (shared_of(config) + 1024), ctas = out_size == 4 ? s->ctas_f32 : s->ctas;
    return fit < ctas ? fit : ctas;
}

static int64_t ctas_of(const rvit_cu_small_m_config *config, int64_t rows, int32_t out_features)
{
    const struct small_m_shape *s = &shapes[config->shape];
    return divide_up(rows, (int64_t)s->rows * config->cluster_m) * config->cluster_m *
           divide_up(out_features, (int64_t)s->columns * config->cluster_n) * config->cluster_n * config->split_k;
}

/* Whether the kernel supports the configuration. */
static int has_config(const rvit_cu_machine *machine, const rvit_cu_small_m_config *config, int32_t in_features, int32_t out_size)
{
    if (config->shape < 0 || config->shape >= RVIT_CU_N_SMALL_M_SHAPES || config->stages < 2 || config->stages > RVIT_CU_SMALL_M_STAGES ||
        config->split_k < 1 || config->cluster_n < 1 || config->cluster_m < 1)
        return 0;
    const struct small_m_shape *s = &shapes[config->shape];
    const int32_t unit = out_size == 4 ? 16 : 32, units = s->columns / unit, steps = (int32_t)divide_up(in_features, 64);
    /* With split-K, each CTA reduces whole units of one of a lane's two rows. Boxes have whole units of weight and multiples of eight
       rows of x. */
    const int divides = config->split_k == 1 || (config->split_k % 2 == 0 && units % (config->split_k / 2) == 0);
    const int has_kernel = out_size > 1 || (config->shape == RVIT_CU_SMALL_M_128x64 && config->split_k == 1);
    return has_kernel && divides && config->split_k <= steps && s->columns % (config->cluster_m * unit) == 0 &&
           s->rows % (config->cluster_n * 8) == 0 && config->split_k * config->cluster_n * config->cluster_m <= RVIT_CU_SMALL_M_CLUSTER &&
           shared_of(config) <= machine->max_shared;
}

/* The clocks of the busiest SM. */
static int64_t time_of(const rvit_cu_machine *machine, const rvit_cu_small_m_config *config, int64_t rows, int32_t in_features,
                       int32_t out_features, int32_t out_size)
{
    const struct small_m_shape *s = &shapes[config->shape];
    const int64_t outputs = (int64_t)s->rows * s->columns, steps = divide_up(divide_up(in_features, 64), config->split_k);
    const int64_t multiplies = outputs * 64 * 3 / 2 / 2048; /* at two thirds of the tensor cores' rate */
    const int64_t shared = 128 * (s->rows / 64 * (64 + s->columns) + s->rows + s->columns) / SHARED;
    const int64_t loads = 128 * (s->rows / config->cluster_n + s->columns / config->cluster_m) / FROM_L2;
    const int64_t added = config->split_k == 1 ? 0 : outputs * 4 * (config->split_k - 1) / config->split_k / FROM_CLUSTER + TRIP;
    /* Sums are activated and stored; with a residual, twice the bytes move. */
    const int64_t stored = outputs * (out_size == 4 ? 8 : 2) / config->split_k / FROM_L2;
    /* A cluster must fit in one GPC. Of an H100's 132 SMs, clusters of 4 can use about 112 and clusters of 8 about 80. */
    const int32_t cluster = config->split_k * config->cluster_n * config->cluster_m;
    const int64_t sms = cluster > 4 ? machine->n_sms * 20 / 33 : cluster > 2 ? machine->n_sms * 28 / 33 : machine->n_sms;
    const int64_t here = divide_up(ctas_of(config, rows, out_features), larger(sms, 1));
    return here * (steps * (larger(larger(multiplies, shared), loads) + STEP) + added + stored) +
           divide_up(here, residency(machine, config, out_size)) * ENDS;
}

/* As many stages as leave room for the CTAs that an SM gets. */
static int32_t stages_of(const rvit_cu_machine *machine, rvit_cu_small_m_config config, int64_t rows, int32_t out_features,
                         int32_t out_size)
{
    const struct small_m_shape *s = &shapes[config.shape];
    const int64_t here = divide_up(ctas_of(&config, rows, out_features), machine->n_sms);
    const int64_t wanted = here < (out_size == 4 ? s->ctas_f32 : s->ctas) ? here : out_size == 4 ? s->ctas_f32 : s->ctas;
    for (config.stages = RVIT_CU_SMALL_M_STAGES; config.stages > 3; config.stages--)
        if (shared_of(&config) <= machine->max_shared && wanted * (shared_of(&config) + 1024) <= machine->sm_shared)
            break;
    return config.stages;
}

static rvit_cu_small_m_config choose(const rvit_cu_machine *machine, int64_t rows, int32_t in_features, int32_t out_features,
                                     int32_t out_size)
{
    static const int32_t clusters[][3] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 1, 1}, {2, 2, 1},
                                          {2, 1, 2}, {2, 2, 2}, {4, 1, 1}, {4, 2, 1}, {4, 1, 2}}; /* split_k, cluster_n, cluster_m */
    rvit_cu_small_m_config best = {0};
    int64_t best_time = INT64_MAX;
    for (int32_t shape = 0; shape < RVIT_CU_N_SMALL_M_SHAPES; shape++)
        for (int i = 0; i < (int)(sizeof clusters / sizeof clusters[0]); i++) {
            rvit_cu_small_m_config config = {
                .shape = shape, .split_k = clusters[i][0], .cluster_n = clusters[i][1], .cluster_m = clusters[i][2]};
            config.stages = stages_of(machine, config, rows, out_features, out_size);
            if (!has_config(machine, &config, in_features, out_size))
                continue;
            const int64_t time = time_of(machine, &config, rows, in_features, out_features, out_size);
            if (time < best_time)
                best_time = time, best = config;
        }
    return best;
}

/* e4m3 to e4m3: each lane finishes few sums, because its instructions load more slowly than they run. No clusters, because they start
   later (bench/notes/cuda-fp8.md). A stage has 128 channels. */
static rvit_cu_small_m_config config_of_e4m3(int32_t in_features)
{
    const int64_t steps = divide_up(in_features, 128), stages = steps < RVIT_CU_SMALL_M_STAGES ? steps : RVIT_CU_SMALL_M_STAGES;
    return (rvit_cu_small_m_config){
        .shape = RVIT_CU_SMALL_M_128x64, .stages = (int32_t)larger(stages, 2), .split_k = 1, .cluster_n = 1, .cluster_m = 1};
}

rvit_cu_small_m_tile rvit_cu_tile_small_m_of(const rvit_cu_machine *machine, const rvit_cu_small_m_config *config, int64_t rows,
                                             int32_t in_features, int32_t out_features, int32_t out_size)
{
    rvit_cu_small_m_tile tile = {.config = *config};
    if (!has_config(machine, config, in_features, out_size))
        return tile;
    const struct small_m_shape *s = &shapes[config->shape];
    tile.rows = s->rows, tile.columns = s->columns;
    tile.ctas = (int32_t)ctas_of(config, rows, out_features);
    tile.cluster = config->split_k * config->cluster_n * config->cluster_m;
    tile.threads = s->threads;
    tile.shared = shared_of(config);
    return tile;
}

rvit_cu_small_m_tile rvit_cu_tile_small_m(const rvit_cu_machine *machine, int64_t rows, int32_t in_features, int32_t out_features,
                                          int32_t out_size)
{
    const rvit_cu_small_m_config config =
        out_size == 1 ? config_of_e4m3(in_features) : choose(machine, rows, in_features, out_features, out_size);
    return rvit_cu_tile_small_m_of(machine, &config, rows, in_features, out_features, out_size);
}
