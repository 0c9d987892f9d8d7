/* Reads untrusted files: only regular files, with pread. A file that shrinks causes an error, never a signal. */
#ifndef RVIT_CORE_FILE_FILE_H
#define RVIT_CORE_FILE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <raggedvit/device.h>

#define RVIT_SHOWN_PATH 320

typedef struct rvit_file {
    intptr_t handle; /* RVIT_OS_CLOSED: closed */
    int64_t size, modified;
    char path[RVIT_SHOWN_PATH]; /* printable */
} rvit_file;

/* Opens a file. Sets file->path in any case. After BAD_FILE, which names the file, it is closed. */
rvit_status rvit_file_open(const char *path, rvit_file *file);
void rvit_file_close(rvit_file *file);
/* BAD_FILE: the file ends too early. */
rvit_status rvit_file_read(const rvit_file *file, int64_t offset, int64_t size, void *out_bytes);
/* BAD_FILE: size or modification time changed since the file was opened. */
rvit_status rvit_file_check_unchanged(const rvit_file *file);

/* Writes the path of file `name` in the folder of file `beside`. BAD_FILE names both if the path does not fit. */
rvit_status rvit_path_beside(char *out, size_t size, const char *beside, const char *name);

#endif
