/* Prints a pruned forward of the bundled model on a computed image with the portable kernels, bit by bit: the kept tokens and the logits.
   tests/cross.sh compares the output of different processors and C libraries.

   usage: cross_forward MODEL.safetensors */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <raggedvit/raggedvit.h>

static void need(rvit_status status)
{
    if (status != RVIT_OK) {
        fprintf(stderr, "%s: %s\n", rvit_status_name(status), rvit_status_detail());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    desc.kernels = "portable";
    rvit_device *device = NULL;
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    need(rvit_device_create(&desc, &device));
    need(rvit_checkpoint_open(argv[1], NULL, &checkpoint));
    need(rvit_model_create(device, checkpoint, NULL, &model));
    need(rvit_model_get_info(model, &info));
    rvit_checkpoint_destroy(checkpoint);

    rvit_session_desc session_desc = RVIT_SESSION_DESC_INIT;
    rvit_prune_desc prune = RVIT_PRUNE_DESC_INIT;
    prune.type = RVIT_PRUNE_EVIT;
    prune.keep = 0.5;
    session_desc.prune = &prune;
    rvit_session *session = NULL;
    need(rvit_session_create(model, &session_desc, &session));

    /* Numbers of few bits, which are the same on every machine, in patches of different contrast. */
    const size_t n = (size_t)3 * (size_t)info.image_size * (size_t)info.image_size;
    float *image = malloc(n * sizeof *image);
    if (image == NULL)
        return 1;
    uint32_t random = 1;
    for (size_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        image[i] = (float)((int)(random >> 24) - 128) * (float)(1 + i / 16 % 13) * 0x1p-10f;
    }
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = 1;
    run.input.data = image;
    need(rvit_session_run(session, &run, NULL));

    for (int stage = 0; stage < 64; stage++) {
        rvit_result_view kept = RVIT_RESULT_VIEW_INIT;
        if (rvit_session_get(session, RVIT_RESULT_KEPT, stage, &kept) != RVIT_OK)
            break;
        printf("kept %d:", stage);
        for (int64_t i = 0; i < kept.rows; i++)
            printf(" %d", (int)((const int32_t *)kept.data)[i]);
        printf("\n");
    }
    rvit_result_view logits = RVIT_RESULT_VIEW_INIT;
    need(rvit_session_get(session, RVIT_RESULT_LOGITS, 0, &logits));
    printf("logits:");
    for (int c = 0; c < info.n_classes; c++) {
        uint32_t bits;
        memcpy(&bits, (const float *)logits.data + c, sizeof bits);
        printf(" %08" PRIx32, bits);
    }
    printf("\n");
    free(image);
    rvit_session_destroy(session);
    rvit_model_destroy(model);
    rvit_device_destroy(device);
    return 0;
}
