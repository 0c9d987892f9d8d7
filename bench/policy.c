#include "policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "options.h"

static const struct option_row settings[] = {OPTION_PRUNE_ROWS(policy, desc, 0)};
static const struct option_table table = {
    .prefix = "--prune: ", .rows = settings, .given_offset = offsetof(policy, given), .complain = bench_complain};

/* "keep=0.5" */
static void set(policy *p, const char *text)
{
    const char *value = strchr(text, '=');
    const size_t length = value != NULL ? (size_t)(value - text) : 0;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const struct option_row *row = &settings[i];
        if (length != strlen(row->name) || strncmp(text, row->name, length) != 0 || !(p->info.parameters & row->given))
            continue;
        if (!option_table_set(&table, row, value + 1, p))
            exit(2);
        return;
    }
    fprintf(stderr, "bench: '%s' is not a setting of %s\n", text, p->name);
    exit(2);
}

policy policy_parse(const char *text)
{
    policy p = {.name = "", .desc = RVIT_PRUNE_DESC_INIT, .info = RVIT_PRUNE_INFO_INIT};
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    const char *name = strtok_r(copy, " ", &rest);
    int32_t type = RVIT_PRUNE_NONE;
    bench_check(rvit_enum_from_name(RVIT_ENUM_PRUNE, name != NULL ? name : "", &type), "--prune");
    p.desc.type = (rvit_prune_type)type;
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
