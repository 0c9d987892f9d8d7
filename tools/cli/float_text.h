/* Fast conversion of floats to decimal text, for arrays of logits. */
#ifndef RVIT_CLI_FLOAT_TEXT_H
#define RVIT_CLI_FLOAT_TEXT_H

enum { MAX_FLOAT_TEXT = 24 }; /* characters of a value and its separator */

/* Writes a float like jansson with nine digits, which identify every float: "%.9g", with ".0" after an integer. Returns the end, or NULL
   without writing if the magnitude is not from 1e-4 up to 1e9 (zero, infinity and NaN included). */
char *float_text(char *out, float value);

#endif
