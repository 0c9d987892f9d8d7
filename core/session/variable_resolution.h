/* Runs with variable resolution: images of different grids in one batch. */
#ifndef RVIT_CORE_SESSION_VARIABLE_RESOLUTION_H
#define RVIT_CORE_SESSION_VARIABLE_RESOLUTION_H

#include "core/plan/state.h"

/* Checks the grids of a run against the capacities and fills run_cu_seqlens. */
rvit_status rvit_variable_lay_out(const rvit_session *session, const rvit_run_args *args);
/* Writes the input of a laid out run for the device: grids, number of patches, patches. */
void rvit_variable_write_input(rvit_session *session, const rvit_run_args *args);
int32_t rvit_variable_patches(const rvit_session *session, int32_t n_images);

/* The position of a patch of the last run in its image, in raster order. */
int32_t rvit_variable_raster_index(const rvit_session *session, int32_t image, int32_t patch);

#endif
