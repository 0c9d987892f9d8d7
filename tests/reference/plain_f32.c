#include <math.h>

#define REAL float
#define NAME(op) op##_f32
#define EXP expf
#define LOG logf
#define SQRT sqrtf
#define ERF erff
#define TANH tanhf
#include "plain_body.h"
