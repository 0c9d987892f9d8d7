/* A plugin that contains the static library. Several plugins with different versions may be in one process. */
#include <raggedvit/raggedvit.h>

const char *plugin_version(void);

const char *plugin_version(void)
{
    return rvit_version();
}
