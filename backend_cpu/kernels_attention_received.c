/* The attention that a block of keys receives: a lane holds the sum of one key over the queries. Compiled once per instruction set. */
#include <math.h>

#include "backend_cpu/isa.h"
#include "backend_cpu/gemm.h"

#define KEYS RVIT_CPU_ATTENTION_KEYS
#define QUERIES RVIT_CPU_ATTENTION_QUERIES
#define DIM RVIT_CPU_MAX_HEAD_DIM

typedef struct state {
    float keys[DIM * KEYS]; /* [KEYS / PANEL][head_dim][PANEL] */
    float bias[KEYS], sums[KEYS];
    float logits[TILE_ROWS * KEYS];
    float queries[QUERIES * DIM]; /* used if queries are stored as 16 bits */
} state;

_Static_assert(sizeof(state) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "the state must fit the scratch memory");
_Static_assert(KEYS % PANEL == 0, "keys are whole panels");

INLINE void load_keys(const rvit_cpu_attention_received_tile *t, state *s, rvit_dtype dtype)
{
    const char *keys = (const char *)t->k + t->first_key * t->k_stride * rvit_cpu_size(dtype);
    for (int key = 0; key < t->n_keys; key += PANEL)
        pack_panel(keys + key * t->k_stride * rvit_cpu_size(dtype), t->k_stride, t->n_keys - key < PANEL ? t->n_keys - key : PANEL,
                   t->head_dim, s->keys + key * t->head_dim, dtype);
    for (int j = 0; j < KEYS; j++) {
        s->bias[j] = t->key_bias != NULL && j < t->n_keys ? t->key_bias[t->first_key + j] : 0.0f;
        s->sums[j] = 0.0f;
    }
}

/* rows: of a register tile that begins at `row` */
static void add_queries(const rvit_cpu_attention_received_tile *t, state *s, const float *q, int64_t q_stride, int64_t row, int rows)
{
    for (int key = 0; key < t->n_keys; key += PANEL)
        gemm_of(rows, t->n_keys - key)(q, q_stride, s->keys + key * t->head_dim, PANEL, t->head_dim, s->logits + key, KEYS, 0);
    for (int i = 0; i < rows; i++) {
        const float lse = t->lse[(row + i) * t->n_heads];
        if (lse == -INFINITY)
            continue;
        for (int j = 0; j < t->n_keys; j += VL) {
            const vec weight = vec_exp(vec_load(s->logits + i * KEYS + j) * t->scale + (vec_load(s->bias + j) - lse));
            vec_store(s->sums + j, vec_load(s->sums + j) + weight);
        }
    }
}

INLINE void received(const rvit_cpu_attention_received_tile *t, state *s, rvit_dtype dtype)
{
    load_keys(t, s, dtype);
    for (int64_t first = 0; first < t->len; first += QUERIES) {
        const int64_t n = t->len - first < QUERIES ? t->len - first : QUERIES;
        const float *q = (const float *)t->q + first * t->q_stride;
        int64_t q_stride = t->q_stride;
        if (dtype != RVIT_F32) {
            q_stride = (t->head_dim + VL - 1) / VL * VL;
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < t->head_dim; j += VL)
                    vec_store(s->queries + i * q_stride + j,
                              any_load(t->q, (first + i) * t->q_stride + j, t->head_dim - j < VL ? t->head_dim - j : VL, dtype));
            q = s->queries;
        }
        for (int64_t row = 0; row < n; row += TILE_ROWS)
            add_queries(t, s, q + row * q_stride, q_stride, first + row, n - row < TILE_ROWS ? (int)(n - row) : TILE_ROWS);
    }
    for (int j = 0; j < t->n_keys; j++)
        t->out[(t->first_key + j) * t->n_heads] = s->sums[j] / (float)t->len;
}

void ISA_NAME(rvit_cpu_attention_received_kernel)(const rvit_cpu_attention_received_tile *tile, float *scratch)
{
    state *s = (state *)(void *)scratch;
    WITH_DTYPE(tile->dtype, received, tile, s);
}
