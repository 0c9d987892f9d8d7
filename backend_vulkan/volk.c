/* volk, compiled in under names of our own. */
#define VOLK_IMPLEMENTATION
#include "vulkan_names.h"

#include <volk.h>
