/* Logging through the caller's callback. */
#ifndef RVIT_CORE_BASE_LOG_H
#define RVIT_CORE_BASE_LOG_H

#include <raggedvit/device.h>

__attribute__((format(printf, 2, 3))) void rvit_log(rvit_log_level level, const char *format, ...);

#endif
