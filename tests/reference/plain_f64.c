#include <math.h>

#define REAL double
#define NAME(op) op##_f64
#define EXP exp
#define LOG log
#define SQRT sqrt
#define ERF erf
#define TANH tanh
#include "plain_body.h"
