/* The prune policies that a model is prepared for. A request chooses one of them; without a wish it gets the first. */
#ifndef RVIT_TRITON_SETTINGS_H
#define RVIT_TRITON_SETTINGS_H

#include <stdbool.h>

#include "api.h"

#include <raggedvit/raggedvit.h>

struct setting {
    rvit_prune_desc desc;
    rvit_prune_info policy;
    int given;   /* rvit_prune_parameter bits that the configuration gives */
    double keep; /* kept fraction: as given, or the policy's own; negative: the policy has none */
    char text[128];
};

enum { SETTINGS_MOST = 16 };

struct settings {
    struct setting list[SETTINGS_MOST];
    int32_t n;
    char text[1024]; /* all of them, for messages: "l2 keep=0.5; none" */
};

/* first: desc and given of the parameters keep, blocks, ...; policy: the parameter policy; further: the parameter settings, or NULL. */
TRITONSERVER_Error *settings_make(struct settings *self, const char *policy, const struct setting *first, const char *further);

/* What a request asks for. policy: NULL: not given; keep: negative: not given. */
struct setting_wish {
    const char *policy;
    double keep;
};
/* Index of the first setting that fits; -1: none does. */
int32_t settings_find(const struct settings *self, const struct setting_wish *wish);

#endif
