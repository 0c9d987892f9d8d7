/* What a program asks of the operating system beyond what the library does: its command line, standard streams, terminals, folders and
   output files. os_posix_program.c, os_windows_program.c and os_windows_output.c, which are not part of the library. As in os.h, paths are
   in UTF-8 (POSIX: in any bytes), and error numbers are the system's, 0 without an error. */
#ifndef RVIT_CORE_BASE_OS_PROGRAM_H
#define RVIT_CORE_BASE_OS_PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/os.h"

/* Call first in main. Opens closed standard streams, so that no file opened later gets their descriptors and receives printed output;
   writing to such a stream fails. On Windows the arguments become UTF-8, and the streams pass on bytes. Returns the number of the argument
   that is not valid Unicode, else 0. */
int rvit_program_begin(int *argc, char ***argv);
/* "No such file or directory"; in the same words on each system where it has such an error. */
const char *rvit_error_text(int number, char *text, size_t size);
/* Whether the stream is a terminal that can clear a line ("\033[K"). */
int rvit_is_terminal(FILE *stream);

/* Standard input, read by one thread until another stops it. Returns NULL with an error number. */
typedef struct rvit_input rvit_input;
rvit_input *rvit_input_open(int *out_number);
void rvit_input_close(rvit_input *input);
/* Wakes the thread that reads; it and all later calls get RVIT_INPUT_STOPPED. */
void rvit_input_stop(rvit_input *input);
/* Waits, and returns the bytes read, 1 to size; 0 at the end; or one of these. */
enum { RVIT_INPUT_FAILED = -1, RVIT_INPUT_STOPPED = -2 };
int64_t rvit_input_read(rvit_input *input, void *out_bytes, size_t size, int *out_number);

/* Calls add for each name in the folder until it returns another value than 0, and returns that. *out_number: why the folder cannot be
   read. */
int rvit_folder_read(const char *folder, int (*add)(void *user, const char *name), void *user, int *out_number);
int rvit_path_is_absolute(const char *path);
/* fopen(path, "rb"). */
FILE *rvit_file_read_open(const char *path, int *out_number);

/* A file that did not exist. is_private: only its owner may open it. */
FILE *rvit_file_create(const char *path, int is_private, int *out_number);
/* Writes everything to disk, and gives the file the permissions of `older`, or those of a private file where that is not allowed; NULL:
   keeps its own. Returns an error number. */
int rvit_file_finish(FILE *file, const rvit_os_file_info *older);
/* Renames a closed file; it replaces an older one in one step. Returns an error number. */
int rvit_file_rename(const char *from, const char *to);
/* May be called in a handler of rvit_termination_watch. */
void rvit_file_remove(const char *path);
/* Calls the function when the user or the system ends the program, unless that is ignored; the program then ends. POSIX: in a signal
   handler. Windows: on a thread of its own. */
void rvit_termination_watch(void (*handler)(void));
/* Calls the function, in a signal handler, when the program crashes, in a driver for instance. It must end the program. */
void rvit_crash_watch(void (*handler)(int number));
/* "Debian GNU/Linux 12 (bookworm)"; without such a name that of rvit_os_version. */
void rvit_os_name(char *text, size_t size);
/* "Linux 6.1.0", "Darwin 24.1.0", "Windows 10.0.22631": the system's kernel without the suffix of its own build; "" if unknown. */
void rvit_os_version(char *text, size_t size);
/* For names of temporary files. */
uint64_t rvit_random_number(void);
/* An empty file that is gone once it is closed, and when the process ends. Its path, by which others in this process can open it, is
   written to path [size]. */
FILE *rvit_temporary_file(char *path, size_t size, int *out_number);

#endif
