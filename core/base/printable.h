/* Makes text from files and users safe to show in messages. */
#ifndef RVIT_CORE_BASE_PRINTABLE_H
#define RVIT_CORE_BASE_PRINTABLE_H

#include <stddef.h>

/* Control characters and invalid bytes become \xNN. In a long text "..." replaces the middle, because the ends of a path or a name say
   more. size: at least 8. */
void rvit_printable(char *out, size_t size, const char *text);

/* The same for one message, as rvit_fail(..., rvit_shown(name).text): the result lives until the end of the expression. */
typedef struct rvit_shown_text {
    char text[96];
} rvit_shown_text;
rvit_shown_text rvit_shown(const char *text);

#endif
