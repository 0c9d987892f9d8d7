#include "verify_parts.h"

int verify_session_run(rvit_session *session, const struct engine *engine, const float *images, const uint8_t *masks, int32_t n_images)
{
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = n_images;
    run.images = images;
    run.keep = masks;
    const rvit_status status = rvit_session_run(session, &run, NULL);
    if (status == RVIT_OK)
        return EXIT_OK;
    const int code = complain_status(engine->name, status);
    return is_of_images(status) ? EXIT_PARTLY : code;
}
