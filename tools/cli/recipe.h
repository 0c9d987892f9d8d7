/* How a model's images are prepared: what the command line says, else what is known of the model. */
#ifndef RVIT_CLI_RECIPE_H
#define RVIT_CLI_RECIPE_H

#include "cli.h"
#include "preprocess.h"

/* What the command line gives. */
struct recipe_options {
    double crop; /* share of the resized edges that the model sees; 0: not given */
    int fit;     /* rvit_fit, filter: rvit_filter; 0: not given */
    int filter;
    float mean[3], deviation[3];
};
/* Which of the colours were given; OR of these. */
enum { RECIPE_MEAN = 1 << 19, RECIPE_DEVIATION = 1 << 20 };

/* Takes what was not given from what is known of the model. EXIT_FILE, with a message: nothing tells it, or images are to be prepared in
   a way that is not this tool's. */
int recipe_resolve(const struct recipe_options *given, int which, const rvit_checkpoint *checkpoint, const rvit_model_info *info,
                   const char *model, struct preprocess *out);

/* Where a fact about the model comes from, or what it says; "" where nothing tells it. */
const char *recipe_origin(const rvit_checkpoint *checkpoint, const char *fact);
const char *recipe_value(const rvit_checkpoint *checkpoint, const char *fact);
/* Without looking at the colours; false: in a way that is not this tool's. */
bool recipe_geometry(const struct recipe_options *given, const rvit_model_info *info, struct preprocess *out);

#endif
