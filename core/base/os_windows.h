/* Shared by the files of os.h and os_program.h on Windows. */
#ifndef RVIT_CORE_BASE_OS_WINDOWS_H
#define RVIT_CORE_BASE_OS_WINDOWS_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "core/base/os.h"

/* A path for functions of Windows, also where it is longer than MAX_PATH. NULL with an error number: it is not UTF-8
   (ERROR_NO_UNICODE_TRANSLATION), or there is no memory. On the heap, because a thread may have a stack of 64 KiB. Free the result. */
wchar_t *rvit_utf16_path(const char *path, int *out_number);

#endif
