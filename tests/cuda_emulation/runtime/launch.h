/* Runs a kernel over a grid. */
#ifndef EMU_LAUNCH_H
#define EMU_LAUNCH_H

#include "kernel.h"

namespace emu
{
struct launch_shape {
    unsigned grid[3], block[3], dynamic_shared;
    bool early;       /* programmatic dependent launch: may start before the previous launch ends */
    unsigned cluster; /* blocks per cluster; 0: the kernel's own */
};

/* Runs to the end. False if the kernel did something that loses a device, which report() has printed. arguments: one pointer per
   parameter. */
bool launch(const kernel &k, const launch_shape &shape, const void *const *arguments);

/* Describes an address that a kernel must not access, for the message. May be nullptr. */
extern const char *(*describe_address)(const void *address);
} // namespace emu

#endif
