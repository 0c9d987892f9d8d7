#include "feature_file.h"

#include <stdlib.h>
#include "session_results.h"

int feature_file_open(const char *path, bool grid, const rvit_model_info *model, struct feature_file *out)
{
    const int64_t lines = model->image_height / model->patch_size, columns = model->image_width / model->patch_size, dim = model->dim;
    *out = (struct feature_file){.grid = grid, .dim = model->dim};
    if (grid) {
        out->values = allocate((size_t)(lines * columns * dim), sizeof *out->values);
        if (!out->values)
            return EXIT_FAULT;
    }
    return npy_create(path, grid ? 4 : 2, grid ? (const int64_t[]){lines, columns, dim} : (const int64_t[]){dim}, &out->writer);
}

const float *feature_cls(const rvit_session *session, int32_t image, int32_t dim)
{
    return session_floats(session, RVIT_RESULT_FEATURES) + (int64_t)session_cu_seqlens(session, session_n_stages(session) - 1)[image] * dim;
}

int feature_file_add(struct feature_file *self, const rvit_session *session, int32_t n_images)
{
    int code = EXIT_OK;
    for (int32_t i = 0; i < n_images && code == EXIT_OK; i++) {
        if (rvit_session_image_status(session, i) != RVIT_OK)
            continue;
        const float *row = self->grid ? self->values : feature_cls(session, i, self->dim);
        const rvit_status status = self->grid ? rvit_session_feature_grid(session, i, 0.0f, self->values) : RVIT_OK;
        code = status == RVIT_OK ? npy_append(&self->writer, row) : complain_status(NULL, status);
    }
    return code;
}

int feature_file_commit(struct feature_file *self)
{
    return npy_commit(&self->writer);
}

void feature_file_close(struct feature_file *self)
{
    free(self->values);
    self->values = NULL;
    npy_close(&self->writer);
}
