/* The images of a folder, and lists of paths. */
#ifndef RVIT_CLI_FOLDER_H
#define RVIT_CLI_FOLDER_H

#include <stddef.h>
#include <stdint.h>

struct path_list {
    char **paths;
    int32_t n, capacity;
};

/* Adds a path inside the folder of folder_length characters; 0: the path itself. Prints a message on failure; returns an exit code. */
int path_list_add(struct path_list *self, const char *folder, size_t folder_length, const char *path);
void path_list_free(struct path_list *self);

/* Adds the entries of a folder to two sorted lists: images, which have the suffix of a supported format or start like an image of any
   format, and skipped entries, which a message lists. Ignores names that start with a dot. Prints a message on failure, also if there is no
   image; returns an exit code. */
int folder_read(const char *folder, struct path_list *images, struct path_list *skipped);

#endif
