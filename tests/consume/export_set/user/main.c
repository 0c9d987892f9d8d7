#include <stdio.h>

const char *plugin_version(void);

int main(void)
{
    return puts(plugin_version()) < 0;
}
