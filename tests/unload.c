/* usage: unload PLUGIN... Loads plugins (unload_plugin.c), lets each start a device's threads, and unloads it. The threads must outlive
 * that. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(int n, char **plugins)
{
    for (int i = 1; i < n; i++) {
        void *plugin = dlopen(plugins[i], RTLD_NOW | RTLD_LOCAL);
        void *symbol = plugin != NULL ? dlsym(plugin, "plugin_start") : NULL;
        int (*start)(void);
        memcpy(&start, &symbol, sizeof start);
        if (symbol == NULL || start() != 0) {
            printf("%s does not start: %s\n", plugins[i], plugin == NULL ? dlerror() : "it fails");
            return 1;
        }
        if (dlclose(plugin) != 0)
            return 1;
        /* Long enough for the threads to look for work, and to go to sleep. */
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
    return 0;
}
