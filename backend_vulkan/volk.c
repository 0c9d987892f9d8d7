/* volk, compiled in under our own symbol names. */
#define VOLK_IMPLEMENTATION
#include "vulkan_names.h"

#include <volk.h>
