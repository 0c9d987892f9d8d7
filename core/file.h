/* Reading files that may be hostile: regular files only, with pread, so that a file that shrinks is an error and never a signal. */
#ifndef RVIT_CORE_FILE_H
#define RVIT_CORE_FILE_H

#include <time.h>

#include <stddef.h>
#include <stdint.h>

#include <raggedvit/status.h>

#define RVIT_SHOWN_PATH 320

typedef struct rvit_file {
    int fd; /* -1: closed */
    int64_t size;
    struct timespec modified;
    char path[RVIT_SHOWN_PATH]; /* fit to be printed */
} rvit_file;

/* BAD_FILE names the file; file->path is set in any case, and the file is then closed. */
rvit_status rvit_file_open(const char *path, rvit_file *file);
void rvit_file_close(rvit_file *file);
/* BAD_FILE if the file ends before. */
rvit_status rvit_file_read(const rvit_file *file, int64_t offset, int64_t size, void *out_bytes);
/* BAD_FILE if size or time of modification are not what they were when the file was opened. */
rvit_status rvit_file_check_unchanged(const rvit_file *file);

/* Something of this name is there, if only a link that leads nowhere. */
int rvit_path_exists(const char *path);
/* Writes the path of name in the folder of beside. BAD_FILE names both if it does not fit. */
rvit_status rvit_path_beside(char *out, size_t size, const char *beside, const char *name);

/* Copies text from a file or a user so that it may stand in a message: control characters and stray bytes become \xNN, a long text is
   cut and ends with "...". size is at least 8. */
void rvit_printable(char *out, size_t size, const char *text);
/* The same of a path; of a long one its end, which says more than its beginning. */
void rvit_path_printable(char out[RVIT_SHOWN_PATH], const char *path);

#endif
