#include "kept.h"

#include <stdlib.h>
#include "session_results.h"

static int compare_rows(const void *a, const void *b)
{
    const struct kept_row *row_a = a, *row_b = b;
    return (row_a->token > row_b->token) - (row_a->token < row_b->token);
}

int32_t kept_patch(const rvit_model_info *model, int32_t columns, int32_t token)
{
    const int32_t side = model->merge, patch = token - model->n_prefix;
    if (side == 0)
        return patch;
    const int32_t group = patch / (side * side), inner = patch % (side * side), across = columns / side;
    return (group / across * side + inner / side) * columns + group % across * side + inner % side;
}

int32_t kept_rows(const rvit_session *session, int32_t stage, int32_t image, struct kept_row *out)
{
    const int32_t *cu_seqlens = session_cu_seqlens(session, stage), *kept = session_kept(session, stage, image);
    const float *sizes = session_sizes(session, stage, image);
    const int32_t n = cu_seqlens && kept ? cu_seqlens[image + 1] - cu_seqlens[image] : 0;
    for (int32_t i = 0; i < n; i++)
        out[i] = (struct kept_row){kept[i], sizes ? (int32_t)sizes[i] : 1};
    qsort(out, (size_t)n, sizeof *out, compare_rows);
    return n;
}

static json_t *stages_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model, int32_t columns, bool sizes)
{
    struct kept_row *rows = allocate((size_t)model->tokens, sizeof *rows);
    json_t *stages = rows ? json_array() : NULL;
    for (int32_t s = 0; stages && s < session_n_stages(session); s++) {
        json_t *list = json_array();
        const int32_t n = kept_rows(session, s, image, rows);
        int32_t n_patches = 0;
        for (int32_t i = 0; i < n; i++)
            if (rows[i].token >= model->n_prefix)
                rows[n_patches++] = (struct kept_row){kept_patch(model, columns, rows[i].token), rows[i].size};
        qsort(rows, (size_t)n_patches, sizeof *rows, compare_rows);
        for (int32_t i = 0; i < n_patches; i++)
            json_array_append_new(list, json_integer(sizes ? rows[i].size : rows[i].token));
        json_array_append_new(stages, list);
    }
    free(rows);
    return stages;
}

json_t *kept_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model, int32_t columns)
{
    return stages_to_json(session, image, model, columns, false);
}

json_t *kept_sizes_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model, int32_t columns)
{
    return session_sizes(session, 0, image) ? stages_to_json(session, image, model, columns, true) : NULL;
}
