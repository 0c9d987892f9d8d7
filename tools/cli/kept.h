/* The tokens that a session kept, in ascending order. */
#ifndef RVIT_CLI_KEPT_H
#define RVIT_CLI_KEPT_H

#include <jansson.h>

#include "cli.h"

struct kept_row {
    int32_t token; /* index in the unpruned image; -1: a fused token */
    int32_t size;  /* number of tokens that it stands for: 1 unless merged */
};

/* The rows of an image after a stage, fused tokens first. out has room for all tokens of the unpruned image. Returns the number of rows. */
int32_t kept_rows(const rvit_session *session, int32_t stage, int32_t image, struct kept_row *out);

/* For each stage the patch numbers and, for a policy that merges, their sizes (else NULL). Also NULL when out of memory. */
json_t *kept_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model);
json_t *kept_sizes_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model);

#endif
