/* What the control groups of this process allow (Linux, versions 1 and 2): the tightest of the group's own limits and its ancestors'.
   root: the folder in which /proc and /sys are looked up, "" but in tests. What is missing or garbage is no limit. */
#ifndef RVIT_CORE_CGROUP_H
#define RVIT_CORE_CGROUP_H

#include <stdint.h>

/* Processors that the quota is worth, rounded up, at least 1; INT64_MAX: there is no quota. */
int64_t rvit_cgroup_processors(const char *root);
/* Bytes left below the memory limit, the page cache of files counted as free; swap_free: bytes of swap that the machine has left.
   INT64_MAX: there is no limit. */
int64_t rvit_cgroup_memory(const char *root, int64_t swap_free);

#endif
