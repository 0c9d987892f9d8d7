#include "prune.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "option_table.h"

#define OFFSETS(desc_field, info_field) offsetof(rvit_prune_desc, desc_field), offsetof(rvit_prune_info, info_field)
const struct prune_parameter prune_parameters[PRUNE_N_PARAMETERS] = {
    {RVIT_PRUNE_KEEP, "keep", "[--keep R]", false, OFFSETS(keep, default_keep)},
    {RVIT_PRUNE_BLOCKS, "blocks", "--blocks LIST", false, 0, 0},
    {RVIT_PRUNE_THRESHOLD, "threshold", "--threshold T", false, OFFSETS(threshold, default_threshold)},
    {RVIT_PRUNE_MASS, "mass", "[--mass P]", false, OFFSETS(mass, default_mass)},
    {RVIT_PRUNE_SAMPLES, "samples", "--samples PATCHES", true, OFFSETS(n_samples, default_samples)},
    {RVIT_PRUNE_MERGES, "merge", "--merge R", true, OFFSETS(merges, default_merges)},
    {RVIT_PRUNE_SEED, "seed", "--seed 0", true, 0, 0},
    {RVIT_PRUNE_ALPHA, "alpha", "[--alpha A]", false, OFFSETS(alpha, default_alpha)},
    {RVIT_PRUNE_OBJECT_BLOCK, "object-block", "[--object-block B]", true, offsetof(rvit_prune_desc, object_block), 0},
    {RVIT_PRUNE_TAU, "tau", "[--tau T]", false, OFFSETS(tau, default_tau)},
};

static double number_at(const void *base, size_t offset, bool whole)
{
    const void *value = (const char *)base + offset;
    return offset == 0 ? -1 : whole ? *(const int32_t *)value : *(const double *)value;
}

double prune_default(const struct prune_parameter *parameter, const rvit_prune_info *policy)
{
    const double value = number_at(policy, parameter->info_offset, parameter->whole);
    return parameter->bit == RVIT_PRUNE_SAMPLES && value == 0 ? -1 : value;
}

const char *prune_name(int index)
{
    rvit_prune_info info = RVIT_PRUNE_INFO_INIT;
    return rvit_prune_list(index, &info) == RVIT_OK ? info.name : NULL;
}

void prune_init(struct prune *out, rvit_prune_type type)
{
    *out = (struct prune){.desc = RVIT_PRUNE_DESC_INIT, .policy = RVIT_PRUNE_INFO_INIT};
    while (rvit_prune_list(out->index, &out->policy) == RVIT_OK && out->policy.type != type)
        out->index++;
    out->desc.type = type;
}

void prune_resolve_policy(struct prune *self, int given)
{
    self->policy = (rvit_prune_info)RVIT_PRUNE_INFO_INIT;
    if (rvit_prune_list(self->index, &self->policy) == RVIT_OK)
        self->desc.type = self->policy.type;
    self->given = given;
}

void prune_list_names(int parameters, char *out, size_t out_size)
{
    rvit_prune_info info = RVIT_PRUNE_INFO_INIT;
    out[0] = 0;
    for (int32_t i = 0; rvit_prune_list(i, &info) == RVIT_OK; i++)
        if ((info.parameters & parameters) == parameters)
            append_text(out, out_size, "%s%s", out[0] ? ", " : "", info.name);
}

bool prune_check(const struct prune *self)
{
    const rvit_prune_info *policy = &self->policy;
    char users[512];
    for (int i = 0; i < PRUNE_N_PARAMETERS; i++)
        if (self->given & ~policy->parameters & (int)prune_parameters[i].bit) {
            prune_list_names(prune_parameters[i].bit, users, sizeof users);
            complain(NULL, "--%s is not used by --prune %s, but by: %s", prune_parameters[i].option, policy->name, users);
            return false;
        }
    if (self->mask && policy->type != RVIT_PRUNE_MASK)
        complain(NULL, "--mask is not used by --prune %s, but by: mask", policy->name);
    else if (!self->mask && policy->type == RVIT_PRUNE_MASK)
        complain(NULL, "--prune mask needs --mask FILE");
    else if (policy->parameters & RVIT_PRUNE_THRESHOLD && policy->default_threshold < 0 && !(self->given & RVIT_PRUNE_THRESHOLD))
        complain(NULL, "--prune %s needs --threshold", policy->name);
    else if (self->given & RVIT_PRUNE_KEEP && self->given & RVIT_PRUNE_MASS)
        complain(NULL, "--prune %s takes --keep or --mass, not both", policy->name);
    else
        return true;
    return false;
}

void prune_resolve(struct prune *self, const rvit_model_info *model)
{
    const rvit_prune_info *policy = &self->policy;
    rvit_prune_desc *desc = &self->desc;
    const bool wants_blocks = policy->parameters & RVIT_PRUNE_BLOCKS && desc->n_blocks == 0;
    if (wants_blocks && policy->n_default_blocks < 0)
        for (int32_t block = policy->default_blocks[0]; block < model->depth && desc->n_blocks < RVIT_PRUNE_MAX_STAGES; block++)
            desc->blocks[desc->n_blocks++] = block;
    else if (wants_blocks)
        for (; desc->n_blocks < policy->n_default_blocks; desc->n_blocks++)
            desc->blocks[desc->n_blocks] =
                policy->default_blocks[desc->n_blocks] + (policy->default_blocks[desc->n_blocks] < 0 ? model->depth : 0);
    if (policy->parameters & RVIT_PRUNE_SAMPLES && desc->n_samples == 0)
        desc->n_samples = policy->default_samples ? policy->default_samples : model->tokens - model->n_prefix;
    if (policy->parameters & RVIT_PRUNE_OBJECT_BLOCK && desc->object_block < 0) {
        const int32_t default_block = (int32_t)floor(policy->default_object_part * model->depth + 0.5) - 1, last = desc->blocks[0];
        desc->object_block = default_block < 0 ? 0 : default_block < last ? default_block : last;
    }
}

/* The value of a numeric parameter except the seed, from the command line or the policy's default; negative if there is none. */
static double value_of(const struct prune *self, const struct prune_parameter *parameter)
{
    if (!(self->policy.parameters & (int)parameter->bit))
        return -1;
    if (parameter->bit == RVIT_PRUNE_MASS && value_of(self, &prune_parameters[0]) >= 0) /* a kept fraction replaces it */
        return -1;
    const double given = number_at(&self->desc, parameter->desc_offset, parameter->whole);
    return given >= 0 ? given : prune_default(parameter, &self->policy);
}

void prune_describe(const struct prune *self, char *out, size_t out_size)
{
    const rvit_prune_desc *desc = &self->desc;
    snprintf(out, out_size, "%s", self->policy.name);
    for (int i = 0; i < PRUNE_N_PARAMETERS; i++) {
        const double value = value_of(self, &prune_parameters[i]);
        if (value >= 0)
            append_text(out, out_size, ", %s %.9g", prune_parameters[i].option, value);
    }
    if (self->policy.parameters & RVIT_PRUNE_SEED)
        append_text(out, out_size, ", seed %" PRIu64, desc->seed);
    for (int32_t i = 0; i < desc->n_blocks; i++)
        append_text(out, out_size, "%s%d", i > 0 ? "," : desc->n_blocks > 1 ? ", blocks " : ", block ", desc->blocks[i]);
    if (self->mask)
        append_text(out, out_size, ", of %s", self->mask);
}

json_t *prune_to_json(const struct prune *self)
{
    json_t *object =
        json_pack("{s:s, s:o, s:o}", "prune", self->policy.name, "blocks", json_integers(self->desc.blocks, self->desc.n_blocks), "seed",
                  self->policy.parameters & RVIT_PRUNE_SEED ? json_integer((json_int_t)self->desc.seed) : json_null());
    for (int i = 0; i < PRUNE_N_PARAMETERS; i++) {
        const double value = value_of(self, &prune_parameters[i]);
        if (prune_parameters[i].desc_offset != 0)
            json_object_set_new(object, prune_parameters[i].option,
                                value < 0                   ? json_null()
                                : prune_parameters[i].whole ? json_integer((json_int_t)value)
                                                            : json_number(value));
    }
    json_object_set_new(object, "mask", self->mask ? json_text(self->mask) : json_null());
    return object;
}
