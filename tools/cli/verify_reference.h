/* verify against what the model's own code computes. */
#ifndef RVIT_CLI_VERIFY_REFERENCE_H
#define RVIT_CLI_VERIFY_REFERENCE_H

#include "engine.h"

/* options->reference: the dump. Returns an exit code. */
int verify_reference(const struct options *options);

#endif
