/* Shared by the two paths of classify: images that host threads prepare as float32, and images that the device resizes. */
#ifndef RVIT_CLI_CLASSIFY_BATCH_H
#define RVIT_CLI_CLASSIFY_BATCH_H

#include "feature_file.h"
#include "mask.h"
#include "overlay.h"
#include "image_queue.h"
#include "report.h"

/* One runs, one waits to run and one is filled. The fourth hides the delay of the slowest thread of a batch. */
enum { CLASSIFY_SESSIONS = 4 };

struct classify {
    const struct options *options;
    struct engine engine;
    struct prune prune; /* completed for the model */
    struct labels labels;
    struct zero_shot texts; /* empty without --text-embeddings */
    float *scores;          /* [batch, texts.n_texts], with texts */
    rvit_image_recipe recipe;
    struct inputs inputs;
    int32_t *expected; /* [inputs.n_given]; NULL: unknown */
    struct mask mask;  /* empty without --prune mask */
    int32_t batch;
    int32_t max_tokens, max_patches;           /* with --variable-resolution: limits of a batch and of an image */
    rvit_session *sessions[CLASSIFY_SESSIONS]; /* only the first if host threads prepare the images */
    struct report_image *images;               /* [batch], of the current run */
    int64_t *positions;                        /* [batch]: positions of these images among all images */
    uint8_t *keep;                             /* [n_stages, batch, tokens], with a mask */
    bool on_device;                            /* the device resizes the images */
    struct image_plan plan;                    /* of images that the device resizes */
    struct image_queue *queue;
    struct feature_file features;
    bool has_drawn; /* the overlay was drawn, or its failure reported */
    struct report report;
};

/* Sets image `index` of a batch from its input. */
void classify_set_image(struct classify *self, int32_t index, const struct input *input, rvit_session *session);
/* Sets the masks of the first n images for a run. */
void classify_fill_mask(struct classify *self, int32_t n, rvit_run_args *run);
/* Draws the overlay of image 0 of the session's last run, and frees its pixels. target_width, target_height: as in rvit_image. Returns an
   exit code. */
int classify_overlay(struct classify *self, const rvit_session *session, struct image *image, int32_t target_width, int32_t target_height);
/* Reports the first n images of a session's last run, and those without a result as failures. */
int classify_report(struct classify *self, const rvit_session *session, int32_t n);
/* The exit code of a wait. Failures of single images do not end the command. */
int classify_waited(rvit_status status);

/* classify_images.c, for images that the device resizes. Resolves the limits of --variable-resolution; the plan and the session desc follow
   from them and the batch. */
int classify_images_resolve(struct classify *self);
void classify_images_desc(struct classify *self, rvit_session_desc *out);
/* Opens sessions and queue, and runs everything. */
int classify_images_open(struct classify *self, const rvit_session_desc *desc);
int classify_images_run(struct classify *self);
/* image_timings.c. After the run, measures decoding of all images by the same threads, and repeated runs of the first batches without
   decoding, and stores both rates in the report. Prints a message on failure; returns an exit code. */
int image_timings_measure(struct classify *self);

#endif
