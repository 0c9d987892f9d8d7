/* The tokens that a session kept, in ascending order. */
#ifndef RVIT_CLI_KEPT_H
#define RVIT_CLI_KEPT_H

#include <jansson.h>

#include "cli.h"

struct kept_row {
    int32_t token; /* index in the unpruned image; -1: a fused token */
    int32_t size;  /* number of tokens merged into it, 1 if unmerged */
};

/* The number of the patch in row-major order. Models that merge patch groups order their tokens by group. columns: of the image's patch
   grid, used only for these models. */
int32_t kept_patch(const rvit_model_info *model, int32_t columns, int32_t token);

/* Gets the rows of an image after a stage, fused tokens first. out has room for all tokens of the unpruned image. Returns the number of
   rows. */
int32_t kept_rows(const rvit_session *session, int32_t stage, int32_t image, struct kept_row *out);

/* The patch numbers of each stage, and their sizes (NULL unless the policy merges). columns: as above. NULL if out of memory. */
json_t *kept_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model, int32_t columns);
json_t *kept_sizes_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model, int32_t columns);

#endif
