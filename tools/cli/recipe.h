/* How a model's pictures are prepared: what the command line says, else what is known of the model. */
#ifndef RVIT_CLI_RECIPE_H
#define RVIT_CLI_RECIPE_H

#include "cli.h"
#include "preprocess.h"

/* What of a recipe was given on the command line; OR of these. */
enum { RECIPE_CROP = 1 << 18, RECIPE_MEAN = 1 << 19, RECIPE_DEVIATION = 1 << 20 };
/* Takes what was not given from what is known of the model. EXIT_FILE, with a message: nothing tells it, or pictures are to be prepared in
   a way that is not this tool's. */
int recipe_settle(struct preprocess *recipe, int given, const rvit_model_info *info, const char *model);

#endif
