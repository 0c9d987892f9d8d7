/* The limits that control groups (Linux, versions 1 and 2) set for this process: the tightest among its group and that group's ancestors.
   root: the folder that contains /proc and /sys; "" except in tests. Missing or malformed files count as no limit. */
#ifndef RVIT_CORE_BASE_CGROUP_H
#define RVIT_CORE_BASE_CGROUP_H

#include <stdint.h>

/* The CPU quota in processors, rounded up, at least 1; INT64_MAX: no quota. */
int64_t rvit_cgroup_processors(const char *root);
/* Bytes left below the memory limit, with cached files counted as free. swap_free: free swap of the machine in bytes. INT64_MAX: no
   limit. */
int64_t rvit_cgroup_memory(const char *root, int64_t swap_free);

#endif
