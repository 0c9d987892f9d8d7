/* raggedvit: Vision Transformers with token pruning that is faster in wall-clock time, not only in
   FLOPs.

   Pruning drops most patches of an image at almost no cost in accuracy, but leaves a ragged batch.
   At these sizes the host cost of a variable-length attention call exceeds the time of its kernel.
   In raggedvit the host knows capacities only; the number of remaining tokens exists only on the
   device, in cu_seqlens. A forward is therefore recorded once and replayed with one dispatch,
   whatever the lengths, on CUDA, Vulkan or the CPU.

   Three levels, each usable by itself:
     ops.h, prune.h, image.h   single ops on your own buffers and stream: rvit_attention, rvit_select, ...
     device.h                  a recorded program of ops: rvit_record_begin, rvit_program_launch
     model.h, session.h        a model and a session: from checkpoint and images to logits and kept tokens

   Example: classify one image (f32 [3, 224, 224], normalised) and drop half of the patches after
   block 3. Every call returns an rvit_status, not checked here:

     rvit_device *device;         rvit_device_create(NULL, &device);
     rvit_checkpoint *checkpoint; rvit_checkpoint_open("deit.safetensors", NULL, &checkpoint);
     rvit_model *model;           rvit_model_create(device, checkpoint, NULL, &model);
     rvit_prune_desc prune = RVIT_PRUNE_DESC_INIT;
     prune.type = RVIT_PRUNE_L2;
     prune.keep = 0.5;
     rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
     desc.prune = &prune;
     rvit_session *session;       rvit_session_create(model, &desc, &session);
     rvit_run_args run = RVIT_RUN_ARGS_INIT;
     run.n_images = 1;
     run.input.data = image;
     float logits[1000];          rvit_session_run(session, &run, logits);
     rvit_session_destroy(session);
     rvit_model_destroy(model);
     rvit_checkpoint_destroy(checkpoint);
     rvit_device_destroy(device); */
#ifndef RAGGEDVIT_RAGGEDVIT_H
#define RAGGEDVIT_RAGGEDVIT_H

#include <raggedvit/device.h>
#include <raggedvit/image.h>
#include <raggedvit/model.h>
#include <raggedvit/ops.h>
#include <raggedvit/prune.h>
#include <raggedvit/session.h>

#endif
