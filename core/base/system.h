/* How much of the machine this process may use. root: the folder in which /proc and /sys are looked up; "" except in tests. */
#ifndef RVIT_CORE_BASE_SYSTEM_H
#define RVIT_CORE_BASE_SYSTEM_H

#include <stdint.h>

/* Processors that are online, in the calling thread's affinity mask, and within the quota of its control groups, rounded up; 1 to 1024. */
int rvit_usable_processors(const char *root);
/* Bytes that the process can touch now without being killed for it; INT64_MAX: unknown. */
int64_t rvit_available_memory(const char *root);

#endif
