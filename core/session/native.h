/* Runs of native resolution: images of any grids in one batch. */
#ifndef RVIT_CORE_SESSION_NATIVE_H
#define RVIT_CORE_SESSION_NATIVE_H

#include "core/plan/state.h"

/* Checks the grids of a run against the capacities and lays out its rows: run_cu_seqlens. */
rvit_status rvit_native_lay_out(const rvit_session *session, const rvit_run_args *args);
/* Writes what the run takes from the host. */
void rvit_native_hand_over(rvit_session *session, const rvit_run_args *args);
/* Patches of the run that was laid out. */
int32_t rvit_native_patches(const rvit_session *session, int32_t n_images);

/* The place of a patch of an image of the last run in its grid, line after line. */
int32_t rvit_native_place(const rvit_session *session, int32_t image, int32_t patch);

#endif
