/* The MACs of an op, by which programs are split into submits. */
#include "backend_vulkan/vulkan.h"

static double rows_of(int32_t max_len, int64_t rows, int32_t n_images)
{
    const double max_rows = (double)max_len * n_images;
    return max_rows < (double)rows ? max_rows : (double)rows;
}

/* Memory-bound ops count one MAC per four bytes. */
static double traffic(const rvit_op *op)
{
    rvit_access accesses[RVIT_OP_MAX_ACCESSES];
    const int n = rvit_op_accesses(op, accesses);
    double bytes = 0.0;
    for (int i = 0; i < n; i++)
        if (accesses[i].view.buffer != NULL)
            bytes += (double)accesses[i].size;
    return bytes / 4.0;
}

double rvit_vk_macs(const rvit_op *op)
{
    const rvit_attention_args *a = &op->attention;
    const rvit_linear_args *l = &op->linear;
    const rvit_bipartite_match_args *m = &op->bipartite_match;
    const rvit_attention_received_args *r = &op->attention_received;
    const rvit_attention_pool_args *p = &op->attention_pool;
    switch (op->type) {
    case RVIT_OP_LINEAR:
        return (double)l->rows.capacity * l->in_features * (double)rvit_linear_columns(l);
    case RVIT_OP_ATTENTION:
        return 2.0 * rows_of(a->max_len, a->rows, a->n_images) * a->max_len * a->n_heads * a->head_dim;
    case RVIT_OP_ATTENTION_RECEIVED:
        return rows_of(r->max_len, r->rows, r->n_images) * r->max_len * r->n_heads * r->head_dim;
    case RVIT_OP_BIPARTITE_MATCH:
        return rows_of(m->max_len, m->rows, m->n_images) * m->max_len / (4.0 * m->group_size) * m->head_dim + traffic(op);
    case RVIT_OP_HEAD:
        return traffic(op) + (double)op->head.n_images * op->head.n_classes * op->head.dim;
    case RVIT_OP_ATTENTION_POOL:
        return traffic(op) + rows_of(p->max_len, p->rows, p->n_images) * p->dim * p->n_heads +
               (double)p->n_images * p->n_heads * p->head_dim * p->dim;
    default:
        return traffic(op);
    }
}
