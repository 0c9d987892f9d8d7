/* raggedvit: token-pruned Vision Transformers whose speed-up shows on the clock.

   Pruning drops most patches of an image at almost no cost in accuracy, but the batch that is left is ragged, and at these sizes the
   host's part of a variable-length attention call costs more than the kernel. Here the host knows capacities only; how many tokens are
   left exists in cu_seqlens on the device alone. So a forward is recorded once and replayed with one dispatch, whatever the lengths turn
   out to be, on CUDA, on Vulkan or on the CPU.

   Three levels, each complete:
     ragged.h, prune.h  single ops on your own buffers and stream: rvit_attention, rvit_select, rvit_pack, rvit_unpack, ...
     device.h           a recorded program of such ops: rvit_record_begin, rvit_record_end, rvit_program_launch
     vit.h              a model and a session: a checkpoint, images in, logits and kept tokens out

   Classify one image (f32 [3, 224, 224], normalised) with half of the patches dropped after block 3; every call returns a rvit_status,
   left out here:

     rvit_device *device;         rvit_device_create(NULL, &device);
     rvit_checkpoint *checkpoint; rvit_checkpoint_open("deit.safetensors", NULL, &checkpoint);
     rvit_model *model;           rvit_model_create(device, checkpoint, NULL, &model);
     rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
     desc.prune.type = RVIT_PRUNE_L2;
     desc.prune.keep = 0.5;
     rvit_session *session;       rvit_session_create(model, &desc, &session);
     rvit_run_args run = RVIT_RUN_ARGS_INIT;
     run.n_images = 1;
     run.images = image;
     float logits[1000];          rvit_session_run(session, &run, logits);
     rvit_session_destroy(session);
     rvit_model_destroy(model);
     rvit_checkpoint_destroy(checkpoint);
     rvit_device_destroy(device); */
#ifndef RAGGEDVIT_RAGGEDVIT_H
#define RAGGEDVIT_RAGGEDVIT_H

#include <raggedvit/device.h>
#include <raggedvit/prune.h>
#include <raggedvit/ragged.h>
#include <raggedvit/status.h>
#include <raggedvit/vit.h>

#endif
