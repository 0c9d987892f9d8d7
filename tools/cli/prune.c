#include "prune.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

const struct prune_parameter prune_parameters[PRUNE_N_PARAMETERS] = {
    {RVIT_PRUNE_KEEP, "keep"}, {RVIT_PRUNE_BLOCKS, "blocks"},   {RVIT_PRUNE_THRESHOLD, "threshold"},
    {RVIT_PRUNE_MASS, "mass"}, {RVIT_PRUNE_SAMPLES, "samples"}, {RVIT_PRUNE_MERGES, "merge"},
    {RVIT_PRUNE_SEED, "seed"}, {RVIT_PRUNE_ALPHA, "alpha"},     {RVIT_PRUNE_OBJECT_BLOCK, "object-block"},
    {RVIT_PRUNE_TAU, "tau"},
};

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

void prune_settle_policy(struct prune *self, int given)
{
    self->policy = (rvit_prune_info)RVIT_PRUNE_INFO_INIT;
    if (rvit_prune_list(self->index, &self->policy) == RVIT_OK)
        self->desc.type = self->policy.type;
    self->given = given;
}

/* Appends to the text in out, truncated at its end. */
__attribute__((format(printf, 3, 4))) static void append(char *out, size_t out_size, const char *format, ...)
{
    const size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, out_size - used, format, arguments);
    va_end(arguments);
}

void prune_list_names(int parameters, char *out, size_t out_size)
{
    rvit_prune_info info = RVIT_PRUNE_INFO_INIT;
    out[0] = 0;
    for (int32_t i = 0; rvit_prune_list(i, &info) == RVIT_OK; i++)
        if ((info.parameters & parameters) == parameters)
            append(out, out_size, "%s%s", out[0] ? ", " : "", info.name);
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
    if (self->mask && policy->type != RVIT_PRUNE_MASK) {
        complain(NULL, "--mask is not used by --prune %s, but by: mask", policy->name);
        return false;
    }
    if (!self->mask && policy->type == RVIT_PRUNE_MASK) {
        complain(NULL, "--prune mask needs --mask FILE");
        return false;
    }
    if (policy->parameters & RVIT_PRUNE_THRESHOLD && policy->default_threshold < 0 && !(self->given & RVIT_PRUNE_THRESHOLD)) {
        complain(NULL, "--prune %s needs --threshold", policy->name);
        return false;
    }
    if (self->given & RVIT_PRUNE_KEEP && self->given & RVIT_PRUNE_MASS) {
        complain(NULL, "--prune %s takes --keep or --mass, not both", policy->name);
        return false;
    }
    return true;
}

void prune_settle(struct prune *self, const rvit_model_info *model)
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
        const int32_t usual = (int32_t)floor(policy->default_object_part * model->depth + 0.5) - 1, last = desc->blocks[0];
        desc->object_block = usual < 0 ? 0 : usual < last ? usual : last;
    }
}

/* The value of a numeric parameter (except the seed): given, or the policy's default; negative if it has none. */
static double value_of(const struct prune *self, rvit_prune_parameter parameter)
{
    const rvit_prune_info *policy = &self->policy;
    const rvit_prune_desc *desc = &self->desc;
    if (!(policy->parameters & (int)parameter))
        return -1;
    switch (parameter) {
    case RVIT_PRUNE_KEEP:
        return desc->keep >= 0 ? desc->keep : policy->default_keep;
    case RVIT_PRUNE_THRESHOLD:
        return desc->threshold >= 0 ? desc->threshold : policy->default_threshold;
    case RVIT_PRUNE_MASS: /* replaced by a given fraction */
        return value_of(self, RVIT_PRUNE_KEEP) >= 0 ? -1 : desc->mass >= 0 ? desc->mass : policy->default_mass;
    case RVIT_PRUNE_SAMPLES:
        return desc->n_samples;
    case RVIT_PRUNE_MERGES:
        return desc->merges >= 0 ? desc->merges : policy->default_merges;
    case RVIT_PRUNE_ALPHA:
        return desc->alpha >= 0 ? desc->alpha : policy->default_alpha;
    case RVIT_PRUNE_OBJECT_BLOCK:
        return desc->object_block;
    case RVIT_PRUNE_TAU:
        return desc->tau;
    case RVIT_PRUNE_SEED:
    case RVIT_PRUNE_BLOCKS:
        break;
    }
    return -1;
}

void prune_describe(const struct prune *self, char *out, size_t out_size)
{
    const rvit_prune_desc *desc = &self->desc;
    snprintf(out, out_size, "%s", self->policy.name);
    for (int i = 0; i < PRUNE_N_PARAMETERS; i++) {
        const double value = value_of(self, prune_parameters[i].bit);
        if (value >= 0)
            append(out, out_size, ", %s %.9g", prune_parameters[i].option, value);
    }
    if (self->policy.parameters & RVIT_PRUNE_SEED)
        append(out, out_size, ", seed %" PRIu64, desc->seed);
    for (int32_t i = 0; i < desc->n_blocks; i++)
        append(out, out_size, "%s%d", i > 0 ? "," : desc->n_blocks > 1 ? ", blocks " : ", block ", desc->blocks[i]);
    if (self->mask)
        append(out, out_size, ", of %s", self->mask);
}

json_t *prune_to_json(const struct prune *self)
{
    json_t *object =
        json_pack("{s:s, s:o, s:o}", "prune", self->policy.name, "blocks", json_integers(self->desc.blocks, self->desc.n_blocks), "seed",
                  self->policy.parameters & RVIT_PRUNE_SEED ? json_integer((json_int_t)self->desc.seed) : json_null());
    for (int i = 0; i < PRUNE_N_PARAMETERS; i++) {
        const rvit_prune_parameter bit = prune_parameters[i].bit;
        const double value = value_of(self, bit);
        if (bit == RVIT_PRUNE_BLOCKS || bit == RVIT_PRUNE_SEED)
            continue;
        const bool whole = bit == RVIT_PRUNE_SAMPLES || bit == RVIT_PRUNE_MERGES || bit == RVIT_PRUNE_OBJECT_BLOCK;
        json_object_set_new(object, prune_parameters[i].option,
                            value < 0 ? json_null()
                            : whole   ? json_integer((json_int_t)value)
                                      : json_number(value));
    }
    json_object_set_new(object, "mask", self->mask ? json_text(self->mask) : json_null());
    return object;
}
