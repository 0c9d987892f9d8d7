/* The images of a folder, and lists of paths. */
#ifndef RVIT_CLI_FOLDER_H
#define RVIT_CLI_FOLDER_H

#include <stddef.h>
#include <stdint.h>

struct path_list {
    char **paths;
    int32_t n, capacity;
};

/* Adds the path in a folder, of which folder_length characters count; 0: path is used unchanged. Prints a message on failure; returns an
   exit code. */
int path_list_add(struct path_list *self, const char *folder, size_t folder_length, const char *path);
void path_list_free(struct path_list *self);

/* Adds what the folder holds, each list sorted by name: images are files with the name of a kind that is read, and files that begin like
   an image of any kind, whatever their name. The rest is left out, and named in a message; names that begin with a dot are passed over.
   Prints a message on failure, also where there is no image; returns an exit code. */
int folder_read(const char *folder, struct path_list *images, struct path_list *left_out);

#endif
