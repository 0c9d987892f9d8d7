/* The machine, and how much of it this process may use; system_linux.c, system_macos.c or system_windows.c. root: on Linux the folder in
 * which /proc and /sys are looked up; "" except in tests. */
#ifndef RVIT_CORE_BASE_SYSTEM_H
#define RVIT_CORE_BASE_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

/* Processors that are online. */
int rvit_online_processors(void);

/* Processors that are online, in the calling thread's affinity mask, and within the quota of its control groups, rounded up; 1 to 1024. */
int rvit_usable_processors(const char *root);
/* Bytes that the process can touch now without being killed for it; INT64_MAX: unknown. */
int64_t rvit_available_memory(const char *root);
/* Bytes of memory of the machine; 0: unknown. */
int64_t rvit_total_memory(void);

/* "AMD EPYC 9354 32-Core Processor", "Cortex-A55 + Cortex-A78"; "CPU" if unknown. */
void rvit_cpu_name(const char *root, char *name, size_t size);
/* On arm64: the instructions that processor and system have, RVIT_ARM64_*. */
enum { RVIT_ARM64_DOTPROD = 1, RVIT_ARM64_I8MM = 2, RVIT_ARM64_BF16 = 4 };
int rvit_arm64_features(void);
/* Asks the system to let the process use AMX tiles. Returns 0 or the system's error number. */
int rvit_allow_amx(void);

#endif
