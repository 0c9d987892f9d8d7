/* Files and shared libraries on Windows. Paths are in UTF-8. */
#include "core/base/os_windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Paths of MAX_PATH characters, less 12 for folders, work only in full and behind a prefix. */
static wchar_t *lengthen(wchar_t *path)
{
    static const wchar_t local[] = L"\\\\?\\", server[] = L"\\\\?\\UNC";
    const DWORD n = wcslen(path) < MAX_PATH - 12 || wcsncmp(path, local, 4) == 0 ? 0 : GetFullPathNameW(path, 0, NULL, NULL);
    wchar_t *full = n > 0 ? malloc((n + 8) * sizeof *full) : NULL;
    if (full == NULL)
        return path;
    const DWORD length = GetFullPathNameW(path, n, full + 8, NULL);
    if (length == 0 || length >= n) {
        free(full);
        return path;
    }
    const int is_server = full[8] == L'\\' && full[9] == L'\\'; /* \\server\share becomes \\?\UNC\server\share */
    wcscpy(full, is_server ? server : local);
    memmove(full + wcslen(full), full + 8 + is_server, (length + 1 - (size_t)is_server) * sizeof *full);
    free(path);
    return full;
}

wchar_t *rvit_utf16_path(const char *path, int *out_number)
{
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = n > 0 ? malloc((size_t)n * sizeof *wide) : NULL;
    *out_number = n == 0 ? ERROR_NO_UNICODE_TRANSLATION : wide == NULL ? ERROR_NOT_ENOUGH_MEMORY : 0;
    if (wide == NULL)
        return NULL;
    (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, n);
    return lengthen(wide);
}

static rvit_os_error error_of(int number)
{
    switch (number) {
    case 0:
        return RVIT_OS_OK;
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_INVALID_DRIVE:
    case ERROR_DIRECTORY:
    case ERROR_BAD_NETPATH:
    case ERROR_BAD_NET_NAME:
        return RVIT_OS_NOT_FOUND;
    case ERROR_CANT_RESOLVE_FILENAME:
        return RVIT_OS_LOOP;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        return RVIT_OS_DENIED;
    case ERROR_TOO_MANY_OPEN_FILES:
        return RVIT_OS_TOO_MANY_FILES;
    case ERROR_NO_UNICODE_TRANSLATION:
        return RVIT_OS_NOT_UTF8;
    default:
        return RVIT_OS_OTHER;
    }
}

/* Opens a file or, because of FILE_FLAG_BACKUP_SEMANTICS, a folder, so that it can be named as such. */
static rvit_os_error open_path(const char *path, DWORD access, DWORD flags, intptr_t *out_file, int *out_number)
{
    wchar_t *wide = rvit_utf16_path(path, out_number);
    *out_file = RVIT_OS_CLOSED;
    if (wide == NULL)
        return error_of(*out_number);
    const HANDLE file = CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                                    FILE_FLAG_BACKUP_SEMANTICS | flags, NULL);
    *out_number = file == INVALID_HANDLE_VALUE ? (int)GetLastError() : 0;
    free(wide);
    if (file != INVALID_HANDLE_VALUE)
        *out_file = (intptr_t)file;
    return error_of(*out_number);
}

rvit_os_error rvit_os_open(const char *path, intptr_t *out_file, int *out_number)
{
    return open_path(path, GENERIC_READ, 0, out_file, out_number);
}

void rvit_os_close(intptr_t file)
{
    (void)CloseHandle((HANDLE)file);
}

static int is_link(HANDLE file, DWORD attributes)
{
    FILE_ATTRIBUTE_TAG_INFO info;
    return attributes & FILE_ATTRIBUTE_REPARSE_POINT && GetFileInformationByHandleEx(file, FileAttributeTagInfo, &info, sizeof info) &&
           (info.ReparseTag == IO_REPARSE_TAG_SYMLINK || info.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT);
}

int rvit_os_get_info(intptr_t file, rvit_os_file_info *out_info)
{
    BY_HANDLE_FILE_INFORMATION info;
    const HANDLE handle = (HANDLE)file;
    const DWORD type = GetFileType(handle);
    *out_info = (rvit_os_file_info){.kind = type == FILE_TYPE_PIPE ? RVIT_OS_PIPE : RVIT_OS_SPECIAL};
    if (type != FILE_TYPE_DISK)
        return 0;
    if (!GetFileInformationByHandle(handle, &info))
        return (int)GetLastError();
    out_info->kind = is_link(handle, info.dwFileAttributes)             ? RVIT_OS_LINK
                     : info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? RVIT_OS_FOLDER
                                                                        : RVIT_OS_REGULAR;
    out_info->size = (int64_t)((uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow);
    out_info->modified = (int64_t)((uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime);
    out_info->volume = info.dwVolumeSerialNumber;
    out_info->id = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow;
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

rvit_os_error rvit_os_look(const char *path, int follows_links, rvit_os_file_info *out_info, int *out_number)
{
    intptr_t file;
    const rvit_os_error error = open_path(path, 0, follows_links ? 0 : FILE_FLAG_OPEN_REPARSE_POINT, &file, out_number);
    if (error != RVIT_OS_OK)
        return error;
    *out_number = rvit_os_get_info(file, out_info);
    rvit_os_close(file);
    return error_of(*out_number);
}

int rvit_os_exists(const char *path)
{
    rvit_os_file_info info;
    int number;
    return rvit_os_look(path, 0, &info, &number) != RVIT_OS_NOT_FOUND;
}

const char *rvit_os_name_of(const char *path)
{
    const char *name = path;
    for (const char *at = path; *at != '\0'; at++)
        if (*at == '/' || *at == '\\' || (*at == ':' && at == path + 1))
            name = at + 1;
    return name;
}

/* Like LoadLibraryW, but never from the current folder. */
static HMODULE load_library(const char *name, int *out_number)
{
    enum { FLAGS = LOAD_LIBRARY_SEARCH_DEFAULT_DIRS, MOST = 32768 };
    wchar_t *wide = rvit_utf16_path(name, out_number);
    HMODULE library = wide != NULL ? LoadLibraryExW(wide, NULL, FLAGS) : NULL;
    if (library == NULL && wide != NULL)
        *out_number = (int)GetLastError();
    if (library == NULL && *out_number == ERROR_MOD_NOT_FOUND) { /* toolkits, unlike drivers, install their libraries in PATH */
        wchar_t *folders = malloc(2 * MOST * sizeof *folders), *found = folders + MOST;
        if (folders != NULL && GetEnvironmentVariableW(L"PATH", folders, MOST) - 1 < MOST - 1 &&
            SearchPathW(folders, wide, NULL, MOST, found, NULL) - 1 < MOST - 1) {
            library = LoadLibraryExW(found, NULL, FLAGS | LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR);
            *out_number = library == NULL ? (int)GetLastError() : 0;
        }
        free(folders);
    }
    free(wide);
    return library;
}

const char *rvit_library_open(const char *const *files, const char *const *symbols, int needed, int n, void **functions, char *why_not,
                              size_t size)
{
    HMODULE library = NULL;
    const char *const *file = files;
    int error = 0;
    for (; *file != NULL && library == NULL; file += library == NULL)
        library = load_library(*file, &error);
    if (library == NULL) {
        if (error == ERROR_MOD_NOT_FOUND)
            (void)snprintf(why_not, size, "%s: cannot be opened: No such file or directory", files[0]);
        else
            (void)snprintf(why_not, size,
                           error == ERROR_BAD_EXE_FORMAT ? "%s is for another architecture" : "%s cannot be opened (system error %d)",
                           files[0], error);
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
