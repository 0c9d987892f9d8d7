/* Files and shared libraries on Windows. Paths are in UTF-8. */
#include "core/base/os.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns NULL if the path is not UTF-8, or without memory. On the heap, because a thread may have a stack of 64 KiB. Free the result. */
static wchar_t *to_utf16(const char *path)
{
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = n > 0 ? malloc((size_t)n * sizeof *wide) : NULL;
    if (wide != NULL)
        (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, n);
    return wide;
}

rvit_os_error rvit_os_open(const char *path, intptr_t *out_file, int *out_number)
{
    wchar_t *wide = to_utf16(path);
    *out_file = RVIT_OS_CLOSED;
    *out_number = ERROR_INVALID_NAME;
    if (wide == NULL)
        return RVIT_OS_NOT_FOUND;
    /* FILE_FLAG_BACKUP_SEMANTICS also opens folders, so that they can be named as such. */
    const HANDLE file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                                    FILE_FLAG_BACKUP_SEMANTICS, NULL);
    *out_number = (int)GetLastError();
    free(wide);
    if (file != INVALID_HANDLE_VALUE) {
        *out_file = (intptr_t)file;
        *out_number = 0;
        return RVIT_OS_OK;
    }
    switch (*out_number) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
        return RVIT_OS_NOT_FOUND;
    case ERROR_CANT_RESOLVE_FILENAME:
        return RVIT_OS_LOOP;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        return RVIT_OS_DENIED;
    case ERROR_TOO_MANY_OPEN_FILES:
        return RVIT_OS_TOO_MANY_FILES;
    default:
        return RVIT_OS_OTHER;
    }
}

void rvit_os_close(intptr_t file)
{
    (void)CloseHandle((HANDLE)file);
}

int rvit_os_get_info(intptr_t file, rvit_os_file_info *out_info)
{
    BY_HANDLE_FILE_INFORMATION info;
    if (GetFileType((HANDLE)file) != FILE_TYPE_DISK) {
        *out_info = (rvit_os_file_info){.kind = RVIT_OS_SPECIAL};
        return 0;
    }
    if (!GetFileInformationByHandle((HANDLE)file, &info))
        return (int)GetLastError();
    out_info->kind = info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? RVIT_OS_FOLDER : RVIT_OS_REGULAR;
    out_info->size = (int64_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
    out_info->modified = (int64_t)((uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime);
    return 0;
}

int64_t rvit_os_read(intptr_t file, int64_t offset, int64_t size, void *out_bytes, int *out_number)
{
    const DWORD most = size > 1 << 30 ? 1 << 30 : (DWORD)size;
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD n = 0;
    *out_number = 0;
    if (ReadFile((HANDLE)file, out_bytes, most, &n, &at) || GetLastError() == ERROR_HANDLE_EOF)
        return n;
    *out_number = (int)GetLastError();
    return -1;
}

int rvit_os_exists(const char *path)
{
    wchar_t *wide = to_utf16(path);
    const int exists = wide != NULL && GetFileAttributesW(wide) != INVALID_FILE_ATTRIBUTES;
    free(wide);
    return exists;
}

const char *rvit_os_name_of(const char *path)
{
    const char *name = path;
    for (const char *at = path; *at != '\0'; at++)
        if (*at == '/' || *at == '\\' || (*at == ':' && at == path + 1))
            name = at + 1;
    return name;
}

const char *rvit_library_open(const char *const *files, const char *const *symbols, int needed, int n, void **functions, char *why_not,
                              size_t size)
{
    HMODULE library = NULL;
    const char *const *file = files;
    DWORD error = 0;
    for (; *file != NULL && library == NULL; file += library == NULL) {
        wchar_t *wide = to_utf16(*file);
        library = wide != NULL ? LoadLibraryExW(wide, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS) : NULL;
        error = library == NULL ? GetLastError() : 0;
        free(wide);
    }
    if (library == NULL) {
        (void)snprintf(why_not, size,
                       error == ERROR_BAD_EXE_FORMAT ? "%s is for another architecture" : "%s cannot be opened (system error %lu)",
                       files[0], (unsigned long)error);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        const FARPROC symbol = GetProcAddress(library, symbols[i]);
        memcpy(&functions[i], &symbol, sizeof functions[i]);
        if (functions[i] == NULL && i < needed) {
            (void)snprintf(why_not, size, "%s has no symbol %s: it is too old, or another library of that name", *file, symbols[i]);
            (void)FreeLibrary(library);
            return NULL;
        }
    }
    return *file;
}
