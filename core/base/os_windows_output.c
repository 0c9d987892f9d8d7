/* Output files of programs on Windows. */
#define _CRT_RAND_S
#include "core/base/os_windows.h"

#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os_program.h"

/* Opens by CreateFileW, because the C library would not let others rename or remove the open file. mode: as of fdopen. */
static FILE *open_file(const char *path, DWORD access, DWORD disposition, DWORD flags, const char *mode, int *out_number)
{
    wchar_t *wide = rvit_utf16_path(path, out_number);
    if (wide == NULL)
        return NULL;
    const HANDLE handle = CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, disposition,
                                      FILE_ATTRIBUTE_NORMAL | flags, NULL);
    *out_number = handle == INVALID_HANDLE_VALUE ? (int)GetLastError() : 0;
    free(wide);
    if (handle == INVALID_HANDLE_VALUE)
        return NULL;
    const int descriptor = _open_osfhandle((intptr_t)handle, _O_BINARY | (access & GENERIC_WRITE ? 0 : _O_RDONLY));
    FILE *file = descriptor >= 0 ? _fdopen(descriptor, mode) : NULL;
    if (file != NULL)
        return file;
    *out_number = ERROR_TOO_MANY_OPEN_FILES;
    if (descriptor >= 0)
        (void)_close(descriptor);
    else
        (void)CloseHandle(handle);
    return NULL;
}

FILE *rvit_file_read_open(const char *path, int *out_number)
{
    return open_file(path, GENERIC_READ, OPEN_EXISTING, 0, "rb", out_number);
}

/* The permissions are inherited from the folder. */
FILE *rvit_file_create(const char *path, int is_private, int *out_number)
{
    (void)is_private;
    return open_file(path, GENERIC_WRITE, CREATE_NEW, 0, "wb", out_number);
}

int rvit_file_finish(FILE *file, const rvit_os_file_info *older)
{
    (void)older;
    if (fflush(file) == 0 && FlushFileBuffers((HANDLE)_get_osfhandle(_fileno(file))))
        return 0;
    return (int)GetLastError();
}

int rvit_file_rename(const char *from, const char *to)
{
    int number;
    wchar_t *wide_from = rvit_utf16_path(from, &number), *wide_to = wide_from != NULL ? rvit_utf16_path(to, &number) : NULL;
    if (wide_to != NULL && !MoveFileExW(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
        number = (int)GetLastError();
    free(wide_from);
    free(wide_to);
    return number;
}

void rvit_file_remove(const char *path)
{
    int number;
    wchar_t *wide = rvit_utf16_path(path, &number);
    if (wide != NULL)
        (void)DeleteFileW(wide);
    free(wide);
}

static void (*terminate)(void);

static BOOL WINAPI on_control(DWORD event)
{
    (void)event;
    terminate();
    return FALSE; /* the next handler ends the process */
}

void rvit_termination_watch(void (*handler)(void))
{
    terminate = handler;
    (void)SetConsoleCtrlHandler(on_control, TRUE);
}

uint64_t rvit_random_number(void)
{
    unsigned low = 0, high = 0;
    (void)rand_s(&low);
    (void)rand_s(&high);
    return (uint64_t)high << 32 | low;
}

FILE *rvit_temporary_file(char *path, size_t size, int *out_number)
{
    wchar_t folder[MAX_PATH + 1];
    const DWORD length = GetTempPathW(sizeof folder / sizeof folder[0], folder);
    const int n = length > 0 ? WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, folder, -1, path, (int)size, NULL, NULL) : 0;
    *out_number = ERROR_PATH_NOT_FOUND;
    if (n == 0 || (size_t)n + 32 > size)
        return NULL;
    (void)snprintf(path + n - 1, size - (size_t)n + 1, "raggedvit-%016llx", (unsigned long long)rvit_random_number());
    return open_file(path, GENERIC_READ | GENERIC_WRITE | DELETE, CREATE_NEW, FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, "wb+",
                     out_number);
}
