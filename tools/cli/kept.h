/* The tokens that a session kept, in ascending order. */
#ifndef RVIT_CLI_KEPT_H
#define RVIT_CLI_KEPT_H

#include <jansson.h>

#include "cli.h"

struct kept_row {
    int32_t token; /* of the unpruned image; -1: a fused one */
    int32_t size;  /* tokens it stands for: 1, unless merged */
};

/* An image's rows after a stage, fused ones first; out holds as many as the unpruned image has tokens. Returns how many there are. */
int32_t kept_rows(const rvit_session *session, int32_t stage, int32_t image, struct kept_row *out);

/* For each stage the patch numbers, and for a policy that merges their sizes (NULL for others). NULL also when out of memory. */
json_t *kept_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model);
json_t *kept_sizes_to_json(const rvit_session *session, int32_t image, const rvit_model_info *model);

#endif
