/* The output of classify: text, one JSON object, or one per line. It is printed image by image and flushed after each batch. */
#ifndef RVIT_CLI_REPORT_H
#define RVIT_CLI_REPORT_H

#include "engine.h"
#include "inputs.h"
#include "labels.h"
#include "image_plan.h"
#include "zero_shot.h"

struct report {
    const struct options *options;
    const struct engine *engine;
    const struct labels *labels;
    const struct prune *prune;
    const struct zero_shot *texts; /* NULL: the model's own classes */
    int32_t n_classes, n_stages;
    int32_t max_tokens, max_patches; /* with --variable-resolution */
    bool compact;                    /* one line per image */
    bool shows, wipes;               /* shows: images are printed; wipes: over a progress bar */
    bool has_overlay, has_features;  /* they were written */
    int32_t n_top;
    int32_t n_failures; /* printed so far with --ndjson */
    /* over the images so far */
    int64_t n_images, n_right, n_expected;
    int64_t saturated; /* values saturated by the input scales of a quantized checkpoint */
    double seconds;    /* time of the runs */
    double start;
    double elapsed;                                  /* of the whole run; 0: not ended */
    double decoded_per_second, undecoded_per_second; /* of --timings, else 0 */
    double all_tokens;                               /* tokens of the unpruned images */
    double tokens[RVIT_PRUNE_MAX_STAGES];
    int32_t min_kept[RVIT_PRUNE_MAX_STAGES], max_kept[RVIT_PRUNE_MAX_STAGES];
};

struct report_image {
    const char *path;
    int32_t tile;                /* -1: the whole image */
    int64_t frame;               /* -1: not a video frame */
    int64_t position;            /* among all inputs */
    int32_t expected;            /* -1: unknown */
    const float *logits;         /* [n_classes]; NULL without a head and texts */
    const rvit_session *session; /* its last run has this image at `index` */
    int32_t index;
    bool is_bad;            /* it has no result; the fields below are undefined */
    int32_t tokens;         /* of the unpruned image */
    int32_t lines, columns; /* patch grid with --variable-resolution, else 0 */
    int32_t tokens_kept[RVIT_PRUNE_MAX_STAGES];
};

void report_begin(struct report *self, const struct options *options, const struct engine *engine, const struct prune *prune,
                  const struct labels *labels, const struct zero_shot *texts, int32_t n_stages, const struct inputs *inputs, int32_t batch,
                  const struct image_plan *plan);
/* With --ndjson, also prints the failures of inputs before the image. */
void report_add(struct report *self, const struct inputs *inputs, const struct report_image *image);
/* Flushes the output after a batch. */
void report_flush(const struct report *self);
/* code: exit code of the command. */
void report_end(struct report *self, const struct inputs *inputs, int code);

#endif
