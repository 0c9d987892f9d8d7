#include "wrap.h"

#include <stdio.h>
#include <string.h>

void wrap_print(const char *text, int column, int indent)
{
    for (const char *separator = ""; *text; separator = " ") {
        const int length = (int)strcspn(text, " ");
        if (separator[0] && column + 1 + length > WRAP_COLUMNS) {
            printf("\n%*s", indent, "");
            column = indent;
            separator = "";
        }
        printf("%s%.*s", separator, length, text);
        column += (int)strlen(separator) + length;
        text += length;
        text += *text == ' ';
    }
    putchar('\n');
}
