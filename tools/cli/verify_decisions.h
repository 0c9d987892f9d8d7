/* The decisions of the sessions of verify, judged stage by stage. */
#ifndef RVIT_CLI_VERIFY_DECISIONS_H
#define RVIT_CLI_VERIFY_DECISIONS_H

#include "verify_parts.h"

/* After the sessions are made; prints a message on failure. Return exit codes. */
int decisions_open(struct verify *self);
/* Adds the last runs of A and B. differs: whether any image has different tokens. Where it has, A runs again with B's, unless its policy
   cannot: then an image is judged up to the first stage that differs. */
int decisions_judge(struct verify *self, int32_t n_images, bool differs);
void decisions_close(struct verify *self);

#endif
