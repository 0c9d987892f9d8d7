/* Reports failures: a status, and a sentence of detail for the calling thread. */
#ifndef RVIT_CORE_BASE_STATUS_H
#define RVIT_CORE_BASE_STATUS_H

#include <raggedvit/device.h>

/* Stores the formatted sentence as the thread's detail and returns status. The arguments may point into the current detail. rvit_printable
   shortens a long sentence. */
__attribute__((format(printf, 2, 3))) rvit_status rvit_fail(rvit_status status, const char *format, ...);

/* A function that recovers from a failed step must leave the thread's detail unchanged: it calls keep first and, at the end, restore, which
   puts the kept detail back if status is RVIT_OK. restore returns status. */
enum { RVIT_DETAIL_SIZE = 1024 };
typedef struct rvit_detail {
    char text[RVIT_DETAIL_SIZE];
} rvit_detail;
rvit_detail rvit_detail_keep(void);
rvit_status rvit_detail_restore(const rvit_detail *kept, rvit_status status);

#define RVIT_TRY(call)                   \
    do {                                 \
        rvit_status try_status = (call); \
        if (try_status != RVIT_OK)       \
            return try_status;           \
    } while (0)

#endif
