/* Results of a session as typed arrays, for callers that know which ones the session has. */
#ifndef RVIT_CLI_SESSION_RESULTS_H
#define RVIT_CLI_SESSION_RESULTS_H

#include <raggedvit/experimental.h>

/* data is NULL if the session has no such result. */
static inline rvit_result_view session_result(const rvit_session *session, rvit_result what, int32_t index)
{
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    if (rvit_session_get(session, what, index, &view) != RVIT_OK)
        view.data = NULL;
    return view;
}

static inline const float *session_floats(const rvit_session *session, rvit_result what)
{
    return (const float *)session_result(session, what, 0).data;
}

static inline const int32_t *session_cu_seqlens(const rvit_session *session, int32_t stage)
{
    return (const int32_t *)session_result(session, RVIT_RESULT_CU_SEQLENS, stage).data;
}

/* The rows of one image: RVIT_RESULT_KEPT. */
static inline const int32_t *session_kept(const rvit_session *session, int32_t stage, int32_t image)
{
    const int32_t *kept = (const int32_t *)session_result(session, RVIT_RESULT_KEPT, stage).data;
    return kept == NULL ? NULL : kept + session_cu_seqlens(session, stage)[image];
}

/* RVIT_RESULT_SIZES. */
static inline const float *session_sizes(const rvit_session *session, int32_t stage, int32_t image)
{
    const float *sizes = (const float *)session_result(session, RVIT_RESULT_SIZES, stage).data;
    return sizes == NULL ? NULL : sizes + session_cu_seqlens(session, stage)[image];
}

/* The select op of a stage; NULL: there is none. */
static inline const rvit_select_args *session_select(const rvit_session *session, int32_t stage)
{
    return (const rvit_select_args *)session_result(session, RVIT_TRACE_SELECT, stage).data;
}

static inline int32_t session_n_stages(const rvit_session *session)
{
    rvit_session_info info = RVIT_SESSION_INFO_INIT;
    return rvit_session_get_info(session, &info) == RVIT_OK ? info.n_stages : 0;
}

#endif
