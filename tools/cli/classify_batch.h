/* What classify's two ways share: inputs that threads prepare as float32, and images that the device resizes. */
#ifndef RVIT_CLI_CLASSIFY_BATCH_H
#define RVIT_CLI_CLASSIFY_BATCH_H

#include "feature_file.h"
#include "mask.h"
#include "overlay.h"
#include "image_queue.h"
#include "report.h"

/* One runs, one waits for its turn, one is filled; and one more, since a batch is late by as much as the slowest of its threads. */
enum { CLASSIFY_SESSIONS = 4 };

struct classify {
    const struct options *options;
    struct engine engine;
    struct prune prune; /* completed for the model */
    struct labels labels;
    struct zero_shot texts; /* with --text-embeddings, else empty */
    float *scores;          /* [batch, texts.n_texts], with texts */
    struct preprocess recipe;
    struct inputs inputs;
    int32_t *expected; /* [inputs.n_given]; NULL: unknown */
    struct mask mask;  /* used with --prune mask, else empty */
    int32_t batch;
    int32_t max_tokens, max_patches;           /* with --variable-resolution: of a batch, and of an image */
    rvit_session *sessions[CLASSIFY_SESSIONS]; /* the others of images alone */
    struct report_image *images;               /* [batch], of the current run */
    int64_t *positions;                        /* [batch]: positions of these images among all given ones */
    uint8_t *keep;                             /* [n_stages, batch, tokens], with a mask */
    bool on_device;                            /* images are resized there */
    struct image_plan plan;                    /* of these */
    struct image_queue *queue;
    struct feature_file features;
    bool has_drawn; /* the overlay, or that it cannot be drawn was said */
    struct report report;
};

/* Image `index` of a batch, from its input. */
void classify_set_image(struct classify *self, int32_t index, const struct input *input, rvit_session *session);
/* Keeps the stages' masks of the first n images for a run. */
void classify_fill_mask(struct classify *self, int32_t n, rvit_run_args *run);
/* Draws image 0 of the session's last run, with its image, which it frees. Returns an exit code. */
int classify_overlay(struct classify *self, const rvit_session *session, struct image *image, struct preprocess_geometry geometry,
                     int32_t lines, int32_t columns);
/* Reports the first n images of a session's last run; those that have no result as failures. */
int classify_report(struct classify *self, const rvit_session *session, int32_t n);
/* What a wait means: single images without a result end nothing. */
int classify_waited(rvit_status status);

/* classify_images.c, where the device resizes the images. Settles what --variable-resolution limits; then plan and the desc of a session
   follow from that and the batch. */
int classify_images_resolve(struct classify *self);
void classify_images_desc(struct classify *self, rvit_session_desc *out);
/* Sessions and queue, and the whole run. */
int classify_images_open(struct classify *self, const rvit_session_desc *desc);
int classify_images_run(struct classify *self);
/* image_timings.c: what of the time is decoding. After a run of all images: the rate of decoding only, of the same images by the
   same threads, and that of everything but decoding, of the first batches repeated, into the report. Prints a message on failure; returns
   an exit code. */
int image_timings_measure(struct classify *self);

#endif
