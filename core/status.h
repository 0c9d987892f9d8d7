/* Reports failures inside the library. */
#ifndef RVIT_CORE_STATUS_H
#define RVIT_CORE_STATUS_H

#include <raggedvit/status.h>

/* Stores the formatted sentence as the thread's detail and returns status. */
__attribute__((format(printf, 2, 3))) rvit_status rvit_fail(rvit_status status, const char *format, ...);

#define RVIT_TRY(call)                   \
    do {                                 \
        rvit_status try_status = (call); \
        if (try_status != RVIT_OK)       \
            return try_status;           \
    } while (0)

#endif
