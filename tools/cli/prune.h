/* Converts the pruning options of the command line to a session's rvit_prune_desc, with the policies of the library's table. */
#ifndef RVIT_CLI_PRUNE_H
#define RVIT_CLI_PRUNE_H

#include <jansson.h>
#include <stddef.h>

#include "cli.h"

struct prune {
    int32_t index; /* index of the policy in the library's table */
    rvit_prune_desc desc;
    rvit_prune_info policy;
    const char *mask; /* mask file or NULL */
    int given;        /* rvit_prune_parameter bits set on the command line */
};

/* A parameter of a policy and the option that sets it. */
struct prune_parameter {
    rvit_prune_parameter bit;
    const char *option;
    const char *absent;              /* how it is shown for a policy without a default */
    bool whole;                      /* int32_t, else double */
    size_t desc_offset, info_offset; /* offsets in rvit_prune_desc and rvit_prune_info; 0: not a number, or no default */
};
#define PRUNE_N_PARAMETERS 10
extern const struct prune_parameter prune_parameters[PRUNE_N_PARAMETERS];
/* Default of a numeric parameter; negative if the policy has none. */
double prune_default(const struct prune_parameter *parameter, const rvit_prune_info *policy);

#define PRUNE_MAX_POLICIES 64
/* The name of a policy in the library's table, or NULL after the last. */
const char *prune_name(int index);
void prune_init(struct prune *out, rvit_prune_type type);
/* Call after parsing: selects the policy at self->index. given: rvit_prune_parameter bits of the options, and other bits. */
void prune_resolve_policy(struct prune *self, int given);
/* Checks that the policy has its required parameters and no unsupported ones. Prints a message on failure. */
bool prune_check(const struct prune *self);
/* Sets parameters that depend on the model and are not on the command line to the policy's defaults. */
void prune_resolve(struct prune *self, const rvit_model_info *model);

/* Describes a resolved policy: "l2, keep 0.5, block 3". */
void prune_describe(const struct prune *self, char *out, size_t out_size);
/* {"prune": "l2", "keep": 0.5, "blocks": [3], "threshold": null, ...}. null: not used by the policy. */
json_t *prune_to_json(const struct prune *self);
/* Lists the policies that use these parameters: "l2, evit". 0: all policies. */
void prune_list_names(int parameters, char *out, size_t out_size);

#endif
