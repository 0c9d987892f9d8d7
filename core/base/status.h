/* Reports failures inside the library. */
#ifndef RVIT_CORE_BASE_STATUS_H
#define RVIT_CORE_BASE_STATUS_H

#include <raggedvit/device.h>

/* Stores the formatted sentence as the thread's detail and returns status. The arguments may point into the detail before. A long sentence
   loses its middle (rvit_printable). */
__attribute__((format(printf, 2, 3))) rvit_status rvit_fail(rvit_status status, const char *format, ...);

/* A function that tries what may fail and then succeeds leaves the thread's detail as it was: it keeps the detail first and settles its
   status at the end, which gives the kept one back if the status is RVIT_OK. */
enum { RVIT_DETAIL_SIZE = 1024 };
typedef struct rvit_detail {
    char text[RVIT_DETAIL_SIZE];
} rvit_detail;
rvit_detail rvit_detail_keep(void);
/* Returns status. */
rvit_status rvit_detail_restore(const rvit_detail *kept, rvit_status status);

#define RVIT_TRY(call)                   \
    do {                                 \
        rvit_status try_status = (call); \
        if (try_status != RVIT_OK)       \
            return try_status;           \
    } while (0)

#endif
