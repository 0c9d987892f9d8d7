/* A plugin that holds the static library: several of them, of different versions, share a process. */
#include <raggedvit/raggedvit.h>

const char *plugin_version(void);

const char *plugin_version(void)
{
    return rvit_version();
}
