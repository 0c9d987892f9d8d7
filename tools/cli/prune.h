/* The options that say how patches are dropped: from the command line to what a session takes. What there is, and which policy uses what,
   comes from the library's table. */
#ifndef RVIT_CLI_PRUNE_H
#define RVIT_CLI_PRUNE_H

#include <jansson.h>

#include "cli.h"

struct prune {
    int32_t index; /* of the policy in the library's table */
    rvit_prune_desc desc;
    rvit_prune_info policy;
    const char *mask; /* its file; NULL: none */
    int given;        /* rvit_prune_parameter: those on the command line */
};

/* A parameter of a policy and the option that sets it. */
struct prune_parameter {
    rvit_prune_parameter bit;
    const char *option;
};
#define PRUNE_N_PARAMETERS 7
extern const struct prune_parameter prune_parameters[PRUNE_N_PARAMETERS];

#define PRUNE_MOST_POLICIES 64
/* Of the policy at an index of the library's table; NULL past the last. */
const char *prune_name(int index);
void prune_init(struct prune *out, rvit_prune_type type);
/* After the options: takes the policy at self->index. given: rvit_prune_parameter of the options, and more. */
void prune_settle_policy(struct prune *self, int given);
/* That the policy has the parameters it needs, and no other. Complains of what is wrong. */
bool prune_check(const struct prune *self);
/* For a model: what depends on it, left open so far, gets the policy's default. */
void prune_settle(struct prune *self, const rvit_model_info *model);

/* "l2, keep 0.5, block 3": of a settled one. */
void prune_describe(const struct prune *self, char *out, size_t out_size);
/* {"prune": "l2", "keep": 0.5, "blocks": [3], "threshold": null, ...}: null is what does not apply. */
json_t *prune_to_json(const struct prune *self);
/* "l2, evit": the policies that use the parameters; 0: all there are. */
void prune_list_names(int parameters, char *out, size_t out_size);

#endif
