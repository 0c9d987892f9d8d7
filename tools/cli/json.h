/* Small additions to jansson. */
#ifndef RVIT_CLI_JSON_H
#define RVIT_CLI_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* A string, even if text is not UTF-8 (a path may not be); invalid bytes become '?'. */
json_t *json_text(const char *text);
/* JSON null if the value is not finite. */
json_t *json_number(double value);
json_t *json_integers(const int32_t *values, int32_t n);
json_t *json_floats(const float *values, int32_t n);

/* These print a value and release it. If memory runs out, the output counts as lost (cli.h). json_print_line ends the line. json_print_open
   omits the closing brace of an object and json_print_close the opening one, so that a long array can be printed in between. */
void json_print(json_t *value);
void json_print_line(json_t *value);
void json_print_open(json_t *object);
void json_print_close(json_t *object);
/* Prints the same as json_print of json_floats(values, n) in a sixth of the time. */
void json_print_floats(const float *values, int32_t n);

#endif
