/* Files that a command writes. They lie under a temporary name in their folder until they are whole, and take the place of an older file
   then, whose mode they keep. Whatever ends the command before, signals included but SIGKILL, leaves nothing. */
#ifndef RVIT_CLI_OUTPUT_FILE_H
#define RVIT_CLI_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

struct output_file {
    const char *path; /* borrowed */
    FILE *file;
    int slot;          /* of the temporary name; 0: there is none */
    struct stat older; /* st_mode 0: there is none */
    char reason[192];  /* of the first failure: a sentence without a full stop and without the file's name; else empty */
};

/* Refuses what stands there and is no regular file: a folder, a device, a pipe, a symbolic link. Each function returns false after a
   failure, which the ones after it repeat; `reason` says why. */
bool output_file_open(const char *path, struct output_file *out);
bool output_file_write(struct output_file *self, const void *data, size_t size);
/* What is written next replaces the beginning. */
bool output_file_rewind(struct output_file *self);
/* Writes all to the disk, still under the temporary name. */
bool output_file_finish(struct output_file *self);
/* The same, and gives the file its name. */
bool output_file_commit(struct output_file *self);
/* Removes what is not committed. This and commit do nothing to a struct of zeros. */
void output_file_close(struct output_file *self);

#endif
