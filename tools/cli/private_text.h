/* Removes what may identify a person or a machine from texts of drivers and of the system. */
#ifndef RVIT_CLI_PRIVATE_TEXT_H
#define RVIT_CLI_PRIVATE_TEXT_H

#include <stddef.h>

/* Replaces file paths, UUIDs, PCI addresses, and the values of the environment variables that hold the names of the user, the home folder
   and the host by "<path>" or "<removed>". Names of devices stay as they are. The result is truncated to size. */
void private_remove(const char *text, char *out, size_t size);

#endif
