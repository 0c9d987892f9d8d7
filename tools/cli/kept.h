/* The tokens that a session kept, in ascending order. */
#ifndef RVIT_CLI_KEPT_H
#define RVIT_CLI_KEPT_H

#include <jansson.h>

#include "cli.h"

struct kept_row {
    int32_t token; /* index in the unpruned image; -1: a fused token */
    int32_t size;  /* number of tokens that it stands for: 1 unless merged */
};

/* The number of a patch among those of its image line after line: in towers that merge squares of patches tokens are in another order.
   columns: of the image's grid; used by these alone. */
int32_t kept_patch(const rvit_model_info *model, int32_t columns, int32_t token);

/* The rows of an image after a stage, fused tokens first. out has room for all tokens of the unpruned image. Returns the number of rows. */
int32_t kept_rows(const rvit_session *session, int32_t stage, int32_t image, struct kept_row *out);

/* For each stage the patch numbers and, for a policy that merges, their sizes (else NULL). columns: as above. Also NULL when out of
   memory. */
json_t *kept_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model, int32_t columns);
json_t *kept_sizes_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model, int32_t columns);

#endif
