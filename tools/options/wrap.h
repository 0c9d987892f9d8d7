/* Text for a terminal. */
#ifndef RVIT_OPTIONS_WRAP_H
#define RVIT_OPTIONS_WRAP_H

#define WRAP_COLUMNS 100

/* Prints text from the column where the line stands, broken at blanks so that no line is longer than WRAP_COLUMNS; further lines begin at
   column indent. Ends the line. */
void wrap_print(const char *text, int column, int indent);

#endif
