/* The form of the GEMM for few rows (kernels/linear_few.cuh): the least time by a model of an SM (bench/notes/cuda-small.md). */
#include "backend_cuda/divide.h"
#include "backend_cuda/tile.h"

/* Bytes a clock that an SM gets from L2 and from other CTAs of a cluster, and that its shared memory moves. Clocks of a step besides what
   it multiplies and moves; from a launch to the first products, and from the last to the end, once for all CTAs that are on an SM together;
   of a round trip in a cluster. Fitted to all forms of 108 products on an H100 (bench/notes/cuda-small.md). */
enum { FROM_L2 = 40, FROM_CLUSTER = 13, SHARED = 128, STEP = 300, ENDS = 3500, TRIP = 1700 };

static const struct few_shape {
    int32_t rows, columns, threads, ctas, ctas_f32;
} shapes[] = {
#define FEW(name, groups, columns, ctas, ctas_f32) {(groups)*64, columns, RVIT_CU_FEW_THREADS(groups), ctas, ctas_f32},
    RVIT_CU_LINEAR_FEWS(FEW)
#undef FEW
};

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int32_t shared_of(const rvit_cu_few_form *form)
{
    const struct few_shape *s = &shapes[form->shape];
    return RVIT_CU_FEW_SHARED(s->rows / 64, s->columns, form->stages, form->parts);
}

/* CTAs that an SM has room for. */
static int32_t residency(const rvit_cu_machine *machine, const rvit_cu_few_form *form, int32_t out_size)
{
    const struct few_shape *s = &shapes[form->shape];
    const int32_t fit = machine->sm_shared / (shared_of(form) + 1024), ctas = out_size == 4 ? s->ctas_f32 : s->ctas;
    return fit < ctas ? fit : ctas;
}

static int64_t ctas_of(const rvit_cu_few_form *form, int64_t rows, int32_t out_features)
{
    const struct few_shape *s = &shapes[form->shape];
    return divide_up(rows, (int64_t)s->rows * form->above) * form->above * divide_up(out_features, (int64_t)s->columns * form->beside) *
           form->beside * form->parts;
}

/* Whether the kernel has the form. */
static int has_few(const rvit_cu_machine *machine, const rvit_cu_few_form *form, int32_t in_features, int32_t out_size)
{
    if (form->shape < 0 || form->shape >= RVIT_CU_N_FEW_SHAPES || form->stages < 2 || form->stages > RVIT_CU_FEW_STAGES ||
        form->parts < 1 || form->beside < 1 || form->above < 1)
        return 0;
    const struct few_shape *s = &shapes[form->shape];
    const int32_t unit = out_size == 4 ? 16 : 32, units = s->columns / unit, steps = (int32_t)divide_up(in_features, 64);
    /* Each CTA adds units of one of a lane's two rows; boxes are of whole units of weight, and of eight rows of x. */
    const int divides = form->parts == 1 || (form->parts % 2 == 0 && units % (form->parts / 2) == 0);
    const int has_kernel = out_size > 1 || (form->shape == RVIT_CU_FEW_128x64 && form->parts == 1);
    return has_kernel && divides && form->parts <= steps && s->columns % (form->above * unit) == 0 && s->rows % (form->beside * 8) == 0 &&
           form->parts * form->beside * form->above <= RVIT_CU_FEW_CLUSTER && shared_of(form) <= machine->max_shared;
}

/* The busiest SM's clocks. */
static int64_t time_of(const rvit_cu_machine *machine, const rvit_cu_few_form *form, int64_t rows, int32_t in_features,
                       int32_t out_features, int32_t out_size)
{
    const struct few_shape *s = &shapes[form->shape];
    const int64_t outputs = (int64_t)s->rows * s->columns, steps = divide_up(divide_up(in_features, 64), form->parts);
    const int64_t products = outputs * 64 * 3 / 2 / 2048; /* at two thirds of the tensor cores' rate */
    const int64_t shared = 128 * (s->rows / 64 * (64 + s->columns) + s->rows + s->columns) / SHARED;
    const int64_t loads = 128 * (s->rows / form->beside + s->columns / form->above) / FROM_L2;
    const int64_t added = form->parts == 1 ? 0 : outputs * 4 * (form->parts - 1) / form->parts / FROM_CLUSTER + TRIP;
    /* The sums of a lane are activated and stored, with a residual twice as many bytes as without. */
    const int64_t stored = outputs * (out_size == 4 ? 8 : 2) / form->parts / FROM_L2;
    /* A cluster lies in a part of the device whose SMs it may not divide: of an H100's 132, fours find some 112 and eights some 80. */
    const int32_t cluster = form->parts * form->beside * form->above;
    const int64_t sms = cluster > 4 ? machine->n_sms * 20 / 33 : cluster > 2 ? machine->n_sms * 28 / 33 : machine->n_sms;
    const int64_t here = divide_up(ctas_of(form, rows, out_features), most(sms, 1));
    return here * (steps * (most(most(products, shared), loads) + STEP) + added + stored) +
           divide_up(here, residency(machine, form, out_size)) * ENDS;
}

/* As many stages as leave room for the CTAs that an SM gets. */
static int32_t stages_of(const rvit_cu_machine *machine, rvit_cu_few_form form, int64_t rows, int32_t out_features, int32_t out_size)
{
    const struct few_shape *s = &shapes[form.shape];
    const int64_t here = divide_up(ctas_of(&form, rows, out_features), machine->n_sms);
    const int64_t wanted = here < (out_size == 4 ? s->ctas_f32 : s->ctas) ? here : out_size == 4 ? s->ctas_f32 : s->ctas;
    for (form.stages = RVIT_CU_FEW_STAGES; form.stages > 3; form.stages--)
        if (shared_of(&form) <= machine->max_shared && wanted * (shared_of(&form) + 1024) <= machine->sm_shared)
            break;
    return form.stages;
}

static rvit_cu_few_form choose(const rvit_cu_machine *machine, int64_t rows, int32_t in_features, int32_t out_features, int32_t out_size)
{
    static const int32_t ways[][3] = {{1, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 1, 1}, {2, 2, 1},
                                      {2, 1, 2}, {2, 2, 2}, {4, 1, 1}, {4, 2, 1}, {4, 1, 2}}; /* parts, beside, above */
    rvit_cu_few_form best = {0};
    int64_t least_time = INT64_MAX;
    for (int32_t shape = 0; shape < RVIT_CU_N_FEW_SHAPES; shape++)
        for (int i = 0; i < (int)(sizeof ways / sizeof ways[0]); i++) {
            rvit_cu_few_form form = {.shape = shape, .parts = ways[i][0], .beside = ways[i][1], .above = ways[i][2]};
            form.stages = stages_of(machine, form, rows, out_features, out_size);
            if (!has_few(machine, &form, in_features, out_size))
                continue;
            const int64_t time = time_of(machine, &form, rows, in_features, out_features, out_size);
            if (time < least_time)
                least_time = time, best = form;
        }
    return best;
}

/* Of bytes, which become bytes: a lane finishes few sums, as its instructions come slower than they run, and nothing is shared, as clusters
   begin later (bench/notes/cuda-fp8.md). A stage has 128 channels. */
static rvit_cu_few_form form_of_bytes(int32_t in_features)
{
    const int64_t steps = divide_up(in_features, 128), stages = steps < RVIT_CU_FEW_STAGES ? steps : RVIT_CU_FEW_STAGES;
    return (rvit_cu_few_form){.shape = RVIT_CU_FEW_128x64, .stages = (int32_t)most(stages, 2), .parts = 1, .beside = 1, .above = 1};
}

rvit_cu_few_tile rvit_cu_tile_few_of(const rvit_cu_machine *machine, const rvit_cu_few_form *form, int64_t rows, int32_t in_features,
                                     int32_t out_features, int32_t out_size)
{
    rvit_cu_few_tile tile = {.form = *form};
    if (!has_few(machine, form, in_features, out_size))
        return tile;
    const struct few_shape *s = &shapes[form->shape];
    tile.rows = s->rows, tile.columns = s->columns;
    tile.ctas = (int32_t)ctas_of(form, rows, out_features);
    tile.cluster = form->parts * form->beside * form->above;
    tile.threads = s->threads;
    tile.shared = shared_of(form);
    return tile;
}

rvit_cu_few_tile rvit_cu_tile_few(const rvit_cu_machine *machine, int64_t rows, int32_t in_features, int32_t out_features, int32_t out_size)
{
    const rvit_cu_few_form form = out_size == 1 ? form_of_bytes(in_features) : choose(machine, rows, in_features, out_features, out_size);
    return rvit_cu_tile_few_of(machine, &form, rows, in_features, out_features, out_size);
}
