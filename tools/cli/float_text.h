/* Floats as decimal text, fast: tables of logits are mostly that. */
#ifndef RVIT_CLI_FLOAT_TEXT_H
#define RVIT_CLI_FLOAT_TEXT_H

enum { FLOAT_TEXT_MOST = 24 }; /* characters of a value and what separates it from the next */

/* Writes what jansson does with nine digits, which tell every float: "%.9g", and ".0" behind an integer. Returns the end; NULL, and nothing
   is written, for a size out of 1e-4 up to 1e9, which would have an exponent, for zero and for what is not finite. */
char *float_text(char *out, float value);

#endif
