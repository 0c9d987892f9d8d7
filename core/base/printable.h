/* Text from files and users in messages. */
#ifndef RVIT_CORE_BASE_PRINTABLE_H
#define RVIT_CORE_BASE_PRINTABLE_H

#include <stddef.h>

/* Makes text from a file or a user printable for a message: control characters and invalid bytes become \xNN; a long text loses its middle,
   for "...": the beginning and the end of a path or a name say more. size: at least 8. */
void rvit_printable(char *out, size_t size, const char *text);

/* The same for one message, as rvit_fail(..., rvit_shown(name).text): it lives until the end of the expression. */
typedef struct rvit_shown_text {
    char text[96];
} rvit_shown_text;
rvit_shown_text rvit_shown(const char *text);

#endif
