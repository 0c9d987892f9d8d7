/* The pruning settings that a model is prepared for. A request chooses one of them; the default is the first. */
#ifndef RVIT_TRITON_SETTINGS_H
#define RVIT_TRITON_SETTINGS_H

#include <stdbool.h>

#include "api.h"

#include <raggedvit/raggedvit.h>

struct setting {
    rvit_prune_desc desc;
    rvit_prune_info policy;
    int given;   /* rvit_prune_parameter bits that the configuration sets */
    double keep; /* kept fraction as set or the policy's default; negative if the policy has none */
    char text[128];
};

enum { MAX_SETTINGS = 16 };

struct settings {
    struct setting list[MAX_SETTINGS];
    int32_t n;
    char text[1024]; /* all settings, for messages: "l2 keep=0.5; none" */
};

/* first: desc and given of the parameters keep, blocks, ...; policy: the parameter policy; further: the parameter settings, or NULL. */
TRITONSERVER_Error *settings_make(struct settings *self, const char *policy, const struct setting *first, const char *further);

/* The choice of a request. policy NULL, keep negative: not set. */
struct setting_choice {
    const char *policy;
    double keep;
};
/* Index of the first matching setting, or -1. */
int32_t settings_find(const struct settings *self, const struct setting_choice *wish);

#endif
