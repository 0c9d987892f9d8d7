/* Images that a run could not prune. The others of the run have their results. */
#include <string.h>

#include "core/entry.h"
#include "core/vit_session.h"

enum { KINDS = 3 }; /* of errors of rvit_select */

/* number: of rvit_session.image_errors. */
static rvit_status fail_image(const rvit_session *s, int32_t image, int32_t number)
{
    static const char *const words[KINDS] = {"a score is NaN", "the given mask drops a prefix token",
                                             "scores are negative, infinite or all zero, and cannot be added up"};
    const int32_t stage = (number - 1) / KINDS;
    return rvit_fail(RVIT_INVALID_ARGUMENT, "image %d: %s at prune stage %d (block %d)", (int)image, words[(number - 1) % KINDS],
                     (int)stage, (int)s->plan->schedule.blocks[stage]);
}

rvit_status rvit_session_take_errors(rvit_session *s)
{
    const rvit_session_plan *plan = s->plan;
    const size_t n = (size_t)plan->desc.max_images;
    int32_t *image_errors = rvit_session_host(s, plan->image_errors);
    if (s->has_image_errors)
        memset(image_errors, 0, n * sizeof *image_errors);
    s->has_image_errors = 0;
    rvit_status status = RVIT_OK;
    for (int32_t i = 0; i < plan->schedule.n_stages; i++) {
        int32_t *reported = rvit_session_host(s, plan->stages[i].error);
        if (reported == NULL || reported[0] == 0)
            continue;
        for (size_t image = 0; image < n; image++)
            if (reported[1 + image] != 0 && image_errors[image] == 0)
                image_errors[image] = KINDS * i + reported[1 + image];
        if (status == RVIT_OK)
            status = fail_image(s, (reported[0] - 1) / KINDS, KINDS * i + (reported[0] - 1) % KINDS + 1);
        memset(reported, 0, (1 + n) * sizeof *reported);
        s->has_image_errors = 1;
    }
    return status;
}

rvit_status rvit_session_image_status(const rvit_session *session, int32_t image)
{
    RVIT_ENTRY;
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_image_status: session is NULL");
    if (!session->has_results || image < 0 || image >= session->n_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_image_status: there is no result of image %d", (int)image);
    const int32_t *image_errors = rvit_session_host(session, session->plan->image_errors);
    return session->has_image_errors && image_errors[image] != 0 ? fail_image(session, image, image_errors[image]) : RVIT_OK;
}
