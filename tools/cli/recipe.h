/* How a model's images are prepared, by the command line or else by the model's files. */
#ifndef RVIT_CLI_RECIPE_H
#define RVIT_CLI_RECIPE_H

#include "cli.h"

/* Settings of the command line. */
struct recipe_options {
    double crop; /* fraction of the resized edges that the model sees; 0: not set */
    int fit;     /* rvit_fit; filter: rvit_filter; 0: not set */
    int filter;
    float mean[3], deviation[3];
};
/* Bits for which of mean and deviation are set. */
enum { RECIPE_MEAN = 1 << 19, RECIPE_DEVIATION = 1 << 20 };

/* Completes the settings with those of the model. Prints a message and returns EXIT_FILE if they are missing or not supported. */
int recipe_resolve(const struct recipe_options *given, int which, const rvit_checkpoint *checkpoint, const char *model,
                   rvit_image_recipe *out);

/* The source or the value of a property of the model, or "" if unknown. */
const char *recipe_origin(const rvit_checkpoint *checkpoint, const char *fact);
const char *recipe_value(const rvit_checkpoint *checkpoint, const char *fact);
/* Resolves everything except mean and deviation, from the options and the recipe of the model. Returns false if the preparation is not
   supported. */
bool recipe_geometry(const struct recipe_options *given, const rvit_image_recipe *known, rvit_image_recipe *out);

#endif
