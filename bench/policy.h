/* Prune settings as text: "l2 keep=0.5", "tome merge=8 blocks=2,5". The names are the tool's options. */
#ifndef RVIT_BENCH_POLICY_H
#define RVIT_BENCH_POLICY_H

#include <jansson.h>

#include <raggedvit/raggedvit.h>

typedef struct policy {
    const char *name;   /* static */
    char settings[128]; /* "keep=0.5"; empty: the policy's defaults */
    rvit_prune_desc desc;
    rvit_prune_info info;
    int given; /* rvit_prune_parameter */
} policy;

/* Ends the program on text that it cannot parse, or on a setting that the policy does not have. */
policy policy_parse(const char *text);
/* Parses settings separated by semicolons. Returns their number. */
int policy_list(const char *text, policy *out, int capacity);
/* Adds "prune", "settings" and "keep" (1 without pruning, null for a policy without a fraction) to a row of a report. */
void policy_describe(const policy *p, json_t *row);

#endif
