/* Command lines, standard streams and folders on Windows. */
#include "core/base/os_windows.h"

#include <shellapi.h>

#include <fcntl.h>
#include <io.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os_program.h"

static UINT console_code_page;

static void restore_console(void)
{
    (void)SetConsoleOutputCP(console_code_page);
}

/* Free the result. NULL: not valid Unicode, or no memory. */
static char *to_utf8(const wchar_t *text, DWORD flags)
{
    const int n = WideCharToMultiByte(CP_UTF8, flags, text, -1, NULL, 0, NULL, NULL);
    char *bytes = n > 0 ? malloc((size_t)n) : NULL;
    if (bytes != NULL)
        (void)WideCharToMultiByte(CP_UTF8, flags, text, -1, bytes, n, NULL, NULL);
    return bytes;
}

static void prepare_streams(void)
{
    FILE *const streams[] = {stdin, stdout, stderr};
    for (int i = 0; i < 3; i++) {
        if (_fileno(streams[i]) < 0) /* a closed stream has no descriptor; NUL takes the lowest one */
            (void)_open("NUL", _O_RDONLY | _O_BINARY);
        else
            (void)_setmode(_fileno(streams[i]), _O_BINARY);
    }
    console_code_page = GetConsoleOutputCP();
    if (console_code_page != 0 && console_code_page != CP_UTF8 && SetConsoleOutputCP(CP_UTF8))
        (void)atexit(restore_console); /* it belongs to the console, not to this process */
}

/* The arguments stay allocated until the process ends. */
int rvit_program_begin(int *argc, char ***argv)
{
    int n = 0;
    prepare_streams();
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **arguments = wide != NULL ? calloc((size_t)n + 1, sizeof *arguments) : NULL;
    int bad = arguments == NULL;
    for (int i = 0; !bad && i < n; i++) {
        arguments[i] = to_utf8(wide[i], i > 0 ? WC_ERR_INVALID_CHARS : 0);
        bad = arguments[i] == NULL ? i : 0;
    }
    LocalFree(wide);
    if (bad != 0)
        return bad;
    *argc = n;
    *argv = arguments;
    return 0;
}

const char *rvit_error_text(int number, char *text, size_t size)
{
    static const struct {
        int number;
        const char *text;
    } known[] = {
        {ERROR_FILE_NOT_FOUND, "No such file or directory"},
        {ERROR_PATH_NOT_FOUND, "No such file or directory"},
        {ERROR_INVALID_NAME, "No such file or directory"},
        {ERROR_INVALID_DRIVE, "No such file or directory"},
        {ERROR_BAD_NETPATH, "No such file or directory"},
        {ERROR_BAD_NET_NAME, "No such file or directory"},
        {ERROR_DIRECTORY, "Not a directory"},
        {ERROR_ACCESS_DENIED, "Permission denied"},
        {ERROR_FILE_EXISTS, "File exists"},
        {ERROR_ALREADY_EXISTS, "File exists"},
        {ERROR_TOO_MANY_OPEN_FILES, "Too many open files"},
        {ERROR_FILENAME_EXCED_RANGE, "File name too long"},
        {ERROR_DISK_FULL, "No space left on device"},
        {ERROR_HANDLE_DISK_FULL, "No space left on device"},
        {ERROR_WRITE_PROTECT, "Read-only file system"},
        {ERROR_NOT_ENOUGH_MEMORY, "Cannot allocate memory"},
        {ERROR_OUTOFMEMORY, "Cannot allocate memory"},
        {ERROR_NO_UNICODE_TRANSLATION, "the path is not valid UTF-8"},
        {0, "unknown reason"},
    };
    wchar_t message[256];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].number == number)
            return known[i].text;
    DWORD n = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, (DWORD)number, 0, message,
                             sizeof message / sizeof message[0], NULL);
    while (n > 0 && (message[n - 1] <= L' ' || message[n - 1] == L'.'))
        message[--n] = L'\0';
    if (n == 0 || WideCharToMultiByte(CP_UTF8, 0, message, -1, text, (int)size, NULL, NULL) == 0)
        (void)snprintf(text, size, "system error %d", number);
    return text;
}

int rvit_is_terminal(FILE *stream)
{
    const int descriptor = _fileno(stream);
    const HANDLE handle = descriptor >= 0 ? (HANDLE)_get_osfhandle(descriptor) : INVALID_HANDLE_VALUE;
    DWORD mode;
    return GetConsoleMode(handle, &mode) && SetConsoleMode(handle, mode | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

/* Standard input. A read cannot wait for two things at once: the stopping thread cancels it. */

struct rvit_input {
    rvit_mutex lock;
    HANDLE reader; /* the thread, while it reads; else NULL */
    int stops;
};

rvit_input *rvit_input_open(int *out_number)
{
    rvit_input *input = calloc(1, sizeof *input);
    *out_number = input == NULL ? ERROR_NOT_ENOUGH_MEMORY : 0;
    if (input != NULL)
        rvit_mutex_init(&input->lock);
    return input;
}

void rvit_input_stop(rvit_input *input)
{
    rvit_mutex_lock(&input->lock);
    input->stops = 1;
    while (input->reader != NULL) { /* it may be just before or after its read: then there is nothing to cancel yet */
        (void)CancelSynchronousIo(input->reader);
        rvit_mutex_unlock(&input->lock);
        Sleep(1);
        rvit_mutex_lock(&input->lock);
    }
    rvit_mutex_unlock(&input->lock);
}

void rvit_input_close(rvit_input *input)
{
    free(input);
}

int64_t rvit_input_read(rvit_input *input, void *out_bytes, size_t size, int *out_number)
{
    const HANDLE process = GetCurrentProcess(), handle = GetStdHandle(STD_INPUT_HANDLE);
    HANDLE reader = NULL;
    DWORD n = 0;
    if (!DuplicateHandle(process, GetCurrentThread(), process, &reader, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
        *out_number = (int)GetLastError();
        return RVIT_INPUT_FAILED;
    }
    rvit_mutex_lock(&input->lock);
    int stops = input->stops;
    input->reader = stops ? NULL : reader;
    rvit_mutex_unlock(&input->lock);
    int error = 0;
    if (!stops && !ReadFile(handle, out_bytes, size > 1 << 30 ? 1 << 30 : (DWORD)size, &n, NULL))
        error = (int)GetLastError();
    rvit_mutex_lock(&input->lock);
    input->reader = NULL;
    stops = input->stops;
    rvit_mutex_unlock(&input->lock);
    (void)CloseHandle(reader);
    if (stops)
        return RVIT_INPUT_STOPPED;
    *out_number = error;
    return error == 0 || error == ERROR_BROKEN_PIPE || error == ERROR_HANDLE_EOF ? (int64_t)n : RVIT_INPUT_FAILED;
}

int rvit_folder_read(const char *folder, int (*add)(void *user, const char *name), void *user, int *out_number)
{
    WIN32_FIND_DATAW entry;
    const size_t length = strlen(folder);
    char *pattern = malloc(length + 3);
    *out_number = ERROR_NOT_ENOUGH_MEMORY;
    if (pattern == NULL)
        return 0;
    memcpy(pattern, folder, length + 1);
    strcat(pattern, *rvit_os_name_of(folder) != '\0' ? "\\*" : "*");
    wchar_t *wide = rvit_utf16_path(pattern, out_number);
    free(pattern);
    if (wide == NULL)
        return 0;
    const HANDLE search = FindFirstFileExW(wide, FindExInfoBasic, &entry, FindExSearchNameMatch, NULL, FIND_FIRST_EX_LARGE_FETCH);
    *out_number = search == INVALID_HANDLE_VALUE ? (int)GetLastError() : 0;
    free(wide);
    int result = 0, more = search != INVALID_HANDLE_VALUE;
    while (more && result == 0 && *out_number == 0) {
        char *name = to_utf8(entry.cFileName, 0); /* a name that is not Unicode gets U+FFFD, and opening it fails */
        if (name == NULL)
            *out_number = ERROR_NOT_ENOUGH_MEMORY;
        else
            result = add(user, name);
        free(name);
        more = FindNextFileW(search, &entry);
    }
    if (search != INVALID_HANDLE_VALUE)
        (void)FindClose(search);
    return result;
}

int rvit_path_is_absolute(const char *path)
{
    return path[0] == '/' || path[0] == '\\' || (path[0] != '\0' && path[1] == ':');
}

void rvit_os_version(char *text, size_t size)
{
    /* GetVersionEx tells a program without a manifest an old version. */
    typedef LONG(WINAPI * get_version)(OSVERSIONINFOW *);
    HMODULE library = GetModuleHandleW(L"ntdll.dll");
    const get_version get = library ? (get_version)(void (*)(void))GetProcAddress(library, "RtlGetVersion") : NULL;
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    text[0] = 0;
    if (get && get(&version) == 0)
        snprintf(text, size, "Windows %lu.%lu.%lu", version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber);
}

void rvit_os_name(char *text, size_t size)
{
    rvit_os_version(text, size);
}

void rvit_crash_watch(void (*handler)(int number))
{
    static const int numbers[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)signal(numbers[i], handler);
}
