/* Running a kernel over a grid. */
#ifndef EMU_LAUNCH_H
#define EMU_LAUNCH_H

#include "kernel.h"

namespace emu
{
struct launch_shape {
    unsigned grid[3], block[3], dynamic_shared;
    bool early;       /* may begin before the launch before it has ended */
    unsigned cluster; /* blocks side by side that run at the same time; 0: as the kernel says */
};

/* Runs it to the end. False if it did something that loses a device; report() has said what. arguments: one pointer a parameter. */
bool launch(const kernel &k, const launch_shape &shape, const void *const *arguments);

/* Asked for each address a kernel should not have touched: what it is, for the message. May be nullptr. */
extern const char *(*describe_address)(const void *address);
} // namespace emu

#endif
