/* Writes files atomically: under a temporary name in the same folder until they are complete; then they replace an older file and keep its
   mode. If the command ends early, also by a signal other than SIGKILL, no file is left. */
#ifndef RVIT_CLI_OUTPUT_FILE_H
#define RVIT_CLI_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/base/os_program.h"

struct output_file {
    const char *path; /* not owned */
    FILE *file;
    int slot; /* of the temporary name; 0: none */
    bool replaces;
    rvit_os_file_info older; /* the replaced file */
    char reason[192];        /* of the first failure, without a full stop and the file's name; else empty */
};

/* Rejects an existing folder, device, pipe or symbolic link. After a failure, this and all later functions return false, and `reason` says
   why. */
bool output_file_open(const char *path, struct output_file *out);
bool output_file_write(struct output_file *self, const void *data, size_t size);
/* The next write starts at the beginning. */
bool output_file_rewind(struct output_file *self);
/* Writes everything to disk, still under the temporary name. */
bool output_file_finish(struct output_file *self);
/* Finishes the file and renames it. */
bool output_file_commit(struct output_file *self);
/* Removes the file if it is not committed. This and commit do nothing for a zeroed struct. */
void output_file_close(struct output_file *self);

#endif
