/* A device and a model on it. */
#ifndef RVIT_CLI_ENGINE_H
#define RVIT_CLI_ENGINE_H

#include "json.h"
#include "nvjpeg.h"
#include "options.h"

struct engine {
    rvit_device *device;
    rvit_model *model;
    rvit_device_info device_info;
    rvit_model_info model_info;
    rvit_memory_info memory;      /* of the last created session */
    rvit_precision_choice choice; /* for the requested precision */
    bool is_oracle;
    struct nvjpeg *nvjpeg; /* NULL without --decoder nvjpeg */
    char name[192];        /* "cpu 0: NAME, subgroup tier, f32" */
};

/* Opens the checkpoint. Prints a message on failure; returns an exit code. Rejects a model that does not take RGB images. */
int engine_checkpoint(const struct options *options, rvit_checkpoint **out);

/* index -1: the first device of the backend. sleeps: a waiting thread frees its core and resumes about 30 us later. */
int engine_open(const struct options *options, rvit_backend backend, int32_t index, rvit_tier tier, bool oracle, rvit_precision precision,
                bool sleeps, const rvit_checkpoint *checkpoint, struct engine *out);
/* Loads a model onto the open device, as engine_open does. */
rvit_status engine_load(struct engine *self, const rvit_checkpoint *checkpoint, rvit_precision precision);
/* Adds the reason for the choice of --dtype auto, if there is one. */
void engine_reason_to_json(const struct engine *self, json_t *object);
/* Opens the JPEG decoder of --decoder if it runs on this device. Prints a message on failure; returns an exit code. */
int engine_decoder(struct engine *self, const struct options *options);
/* Close the inputs that use its decoder first. */
void engine_close(struct engine *self);

/* Number of values of a model input. */
int64_t engine_image_length(const struct engine *self);

/* Whether the device supports n_sessions of these sessions and has memory for them. */
bool engine_fits(const struct engine *self, const rvit_session_desc *desc, int32_t n_sessions);
/* Halves max_images, which is not from the command line, until the sessions fit. */
void engine_fit(const struct engine *self, int32_t n_sessions, rvit_session_desc *desc);
/* Reports a smaller batch than the default. */
void engine_report_batch(int32_t default_batch, int32_t batch);

int engine_session_of(struct engine *self, const rvit_session_desc *desc, rvit_session **out);
/* trace: as in rvit_session_desc; outputs: OR of rvit_output values. */
int engine_session(struct engine *self, const rvit_prune_desc *prune, int32_t max_images, int32_t trace, int32_t outputs,
                   rvit_session **out);

#endif
