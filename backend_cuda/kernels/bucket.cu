/* An image of its own: older drivers cannot load it. */
#include "bucket.cuh"
