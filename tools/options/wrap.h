/* Text for a terminal. */
#ifndef RVIT_OPTIONS_WRAP_H
#define RVIT_OPTIONS_WRAP_H

#define WRAP_COLUMNS 100

/* Prints text, starting at the current column, broken at blanks into lines of at most WRAP_COLUMNS. Further lines start at column indent.
   Ends the line. */
void wrap_print(const char *text, int column, int indent);

#endif
