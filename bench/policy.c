#include "policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

static const struct setting {
    const char *name;
    rvit_prune_parameter bit;
} settings[] = {{"keep", RVIT_PRUNE_KEEP},       {"threshold", RVIT_PRUNE_THRESHOLD}, {"mass", RVIT_PRUNE_MASS},
                {"samples", RVIT_PRUNE_SAMPLES}, {"merge", RVIT_PRUNE_MERGES},        {"blocks", RVIT_PRUNE_BLOCKS},
                {"seed", RVIT_PRUNE_SEED}};

static void set(policy *p, const char *text)
{
    const char *value = strchr(text, '=');
    const size_t length = value != NULL ? (size_t)(value - text) : 0;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (length != strlen(settings[i].name) || strncmp(text, settings[i].name, length) != 0 || !(p->info.parameters & settings[i].bit))
            continue;
        char *end;
        rvit_prune_desc *desc = &p->desc;
        const double number = strtod(value + 1, &end);
        double blocks[RVIT_PRUNE_MAX_STAGES];
        switch (settings[i].bit) {
        case RVIT_PRUNE_KEEP:
            desc->keep = number;
            break;
        case RVIT_PRUNE_THRESHOLD:
            desc->threshold = number;
            break;
        case RVIT_PRUNE_MASS:
            desc->mass = number;
            break;
        case RVIT_PRUNE_SAMPLES:
            desc->n_samples = (int32_t)number;
            break;
        case RVIT_PRUNE_MERGES:
            desc->merges = (int32_t)number;
            break;
        case RVIT_PRUNE_SEED:
            desc->seed = (uint64_t)number;
            break;
        case RVIT_PRUNE_BLOCKS:
            desc->n_blocks = bench_list(value + 1, blocks, RVIT_PRUNE_MAX_STAGES);
            for (int32_t b = 0; b < desc->n_blocks; b++)
                desc->blocks[b] = (int32_t)blocks[b];
            return;
        }
        if (end != value + 1 && *end == '\0')
            return;
    }
    fprintf(stderr, "bench: '%s' is no setting of %s\n", text, p->name);
    exit(2);
}

policy policy_parse(const char *text)
{
    policy p = {.name = "", .desc = RVIT_PRUNE_DESC_INIT, .info = RVIT_PRUNE_INFO_INIT};
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    const char *name = strtok_r(copy, " ", &rest);
    bench_check(rvit_prune_from_name(name != NULL ? name : "", &p.desc.type), "--prune");
    for (int32_t i = 0; rvit_prune_list(i, &p.info) == RVIT_OK && p.info.type != p.desc.type; i++)
        ;
    p.name = p.info.name;
    for (char *one; (one = strtok_r(NULL, " ", &rest)) != NULL;) {
        const size_t used = strlen(p.settings);
        set(&p, one);
        snprintf(p.settings + used, sizeof p.settings - used, "%s%s", used > 0 ? " " : "", one);
    }
    return p;
}

int policy_list(const char *text, policy *out, int capacity)
{
    int n = 0;
    while (n < capacity) {
        const size_t length = strcspn(text, ";");
        char one[256];
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        out[n++] = policy_parse(one);
        if (text[length] == '\0')
            return n;
        text += length + 1;
    }
    fprintf(stderr, "bench: more than %d prune settings\n", capacity);
    exit(2);
}

void policy_describe(const policy *p, json_t *row)
{
    const double keep = p->desc.keep >= 0 ? p->desc.keep : p->info.default_keep;
    json_object_set_new(row, "prune", json_string(p->name));
    json_object_set_new(row, "settings", json_string(p->settings));
    json_object_set_new(row, "keep",
                        p->desc.type == RVIT_PRUNE_NONE                            ? json_real(1.0)
                        : (p->info.parameters & RVIT_PRUNE_KEEP) != 0 && keep >= 0 ? json_real(keep)
                                                                                   : json_null());
}
