/* The prune options: from the command line to a session's rvit_prune_desc. The policies and their parameters come from the library's
   table. */
#ifndef RVIT_CLI_PRUNE_H
#define RVIT_CLI_PRUNE_H

#include <jansson.h>
#include <stddef.h>

#include "cli.h"

struct prune {
    int32_t index; /* index of the policy in the library's table */
    rvit_prune_desc desc;
    rvit_prune_info policy;
    const char *mask; /* mask file; NULL: none */
    int given;        /* rvit_prune_parameter bits given on the command line */
};

/* A parameter of a policy and the option that sets it. */
struct prune_parameter {
    rvit_prune_parameter bit;
    const char *option;
    const char *absent;  /* how it is shown where the policy has no default */
    bool whole;          /* an int32_t, else a double */
    size_t given, usual; /* offsets in rvit_prune_desc and rvit_prune_info; 0: it is no number, or has no default there */
};
#define PRUNE_N_PARAMETERS 10
extern const struct prune_parameter prune_parameters[PRUNE_N_PARAMETERS];
/* Of a numeric parameter; negative: the policy has none. */
double prune_default(const struct prune_parameter *parameter, const rvit_prune_info *policy);

#define PRUNE_MOST_POLICIES 64
/* The name of a policy in the library's table; NULL past the last one. */
const char *prune_name(int index);
void prune_init(struct prune *out, rvit_prune_type type);
/* Call after parsing: selects the policy at self->index. given: rvit_prune_parameter bits of the options, and more. */
void prune_resolve_policy(struct prune *self, int given);
/* Checks that the policy has the parameters it needs, and no other. Prints a message on failure. */
bool prune_check(const struct prune *self);
/* Completes the description for a model: parameters that depend on it and were not given get the policy's default. */
void prune_resolve(struct prune *self, const rvit_model_info *model);

/* "l2, keep 0.5, block 3": describes a completed policy. */
void prune_describe(const struct prune *self, char *out, size_t out_size);
/* {"prune": "l2", "keep": 0.5, "blocks": [3], "threshold": null, ...}; null: the policy does not use it. */
json_t *prune_to_json(const struct prune *self);
/* "l2, evit": the policies that use these parameters; 0: all policies. */
void prune_list_names(int parameters, char *out, size_t out_size);

#endif
