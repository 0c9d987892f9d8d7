/* A device with a model on it. */
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
    rvit_memory_info memory;      /* of the last session created */
    rvit_precision_choice choice; /* of the precision asked for */
    bool is_oracle;
    struct nvjpeg *nvjpeg; /* with --decoder nvjpeg, after engine_decoder; else NULL */
    char name[192];        /* "cpu 0: NAME, subgroup tier, f32" */
};

/* Opens the checkpoint. Prints a message on failure; returns an exit code. Rejects a model that does not take RGB images. */
int engine_checkpoint(const struct options *options, rvit_checkpoint **out);

/* index -1: the backend's first choice. sleeps: a thread that waits for the device leaves its core to others, and goes on some 30 us later.
 */
int engine_open(const struct options *options, rvit_backend backend, int32_t index, rvit_tier tier, bool oracle, rvit_precision precision,
                bool sleeps, const rvit_checkpoint *checkpoint, struct engine *out);
/* Adds why --dtype auto took what it took, if it was given. */
void engine_reason_to_json(const struct engine *self, json_t *object);
/* Opens what --decoder names, if this device has to do with it. Prints a message on failure; returns an exit code. */
int engine_decoder(struct engine *self, const struct options *options);
/* After the inputs that use its decoder. */
void engine_close(struct engine *self);

/* Numbers of an input of the model. */
int64_t engine_image_length(const struct engine *self);

/* Whether there can be so many sessions: the device takes their arrays, and has room for them. */
bool engine_fits(const struct engine *self, const rvit_session_desc *desc, int32_t n_sessions);
/* Halves max_images, which nobody asked for, until the sessions fit. */
void engine_fit(const struct engine *self, int32_t n_sessions, rvit_session_desc *desc);
/* Says that fewer images a run than usual are taken. */
void engine_tell_batch(int32_t usual, int32_t batch);

int engine_session_of(struct engine *self, const rvit_session_desc *desc, rvit_session **out);
/* trace: as in rvit_session_desc; outputs: OR of rvit_output values. */
int engine_session(struct engine *self, const rvit_prune_desc *prune, int32_t max_images, int32_t trace, int32_t outputs,
                   rvit_session **out);

#endif
