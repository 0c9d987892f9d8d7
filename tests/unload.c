/* usage: unload [PLUGIN LIBRARY]... Loads each plugin (unload_plugin.c), lets it start a device's threads, and unloads it. LIBRARY, the
   file that contains the code of the threads, must remain in memory. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int is_mapped(const char *path)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        found |= strstr(line, path) != NULL;
    if (maps != NULL)
        fclose(maps);
    return found;
}

int main(int n, char **files)
{
    for (int i = 1; i + 1 < n; i += 2) {
        void *plugin = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        void *symbol = plugin != NULL ? dlsym(plugin, "plugin_start") : NULL;
        int (*start)(void);
        memcpy(&start, &symbol, sizeof start);
        if (symbol == NULL || start() != 0) {
            printf("%s does not start: %s\n", files[i], plugin == NULL ? dlerror() : "it fails");
            return 1;
        }
        if (dlclose(plugin) != 0)
            return 1;
        /* Long enough for the threads to spin and then go to sleep. */
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        if (!is_mapped(files[i + 1])) {
            printf("%s was unmapped while its threads run\n", files[i + 1]);
            return 1;
        }
    }
    return 0;
}
