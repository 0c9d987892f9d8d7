/* Values of options. Each complains of a text that it cannot take, by the option's name. */
#ifndef RVIT_CLI_PARSE_H
#define RVIT_CLI_PARSE_H

#include <stdbool.h>
#include <stdint.h>

bool parse_integer(const char *option, const char *text, int64_t low, int64_t high, int64_t *out);
/* high may be INFINITY: any finite number from low on. */
bool parse_real(const char *option, const char *text, double low, double high, double *out);
/* names may have gaps, NULL. */
bool parse_name(const char *option, const char *text, const char *const *names, int n_names, int *out);
/* Ascending numbers from 0, as 3,6,9. */
bool parse_list(const char *option, const char *text, int32_t capacity, int32_t *out, int32_t *out_n);
/* One number for each of the three colours, as 0.485,0.456,0.406, or one for all. */
bool parse_colours(const char *option, const char *text, double low, double high, float *out);

#endif
