#include "core/file/file.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/printable.h"
#include "core/base/status.h"

static rvit_status open_failed(const char *path, const char *shown, rvit_os_error error, int number)
{
    switch (error) {
    case RVIT_OS_NOT_FOUND:
        return rvit_fail(RVIT_BAD_FILE, "%s: %s", shown, rvit_os_exists(path) ? "a dangling symbolic link" : "no such file");
    case RVIT_OS_LOOP:
        return rvit_fail(RVIT_BAD_FILE, "%s: too many symbolic links, or a loop of them", shown);
    case RVIT_OS_DENIED:
        return rvit_fail(RVIT_BAD_FILE, "%s: permission denied", shown);
    case RVIT_OS_TOO_MANY_FILES:
        return rvit_fail(RVIT_BAD_FILE, "%s: cannot open it: the process has too many open files", shown);
    case RVIT_OS_NOT_UTF8:
        return rvit_fail(RVIT_BAD_FILE, "%s: the path is not valid UTF-8", shown);
    default:
        return rvit_fail(RVIT_BAD_FILE, "%s: cannot open it (system error %d)", shown, number);
    }
}

static rvit_status get_info(const rvit_file *file, rvit_os_file_info *out_info)
{
    const int number = rvit_os_get_info(file->handle, out_info);
    if (number == 0)
        return RVIT_OK;
    return rvit_fail(RVIT_BAD_FILE, "%s: cannot read its size and type (system error %d)", file->path, number);
}

static rvit_status check_kind(rvit_file *file)
{
    rvit_os_file_info info;
    RVIT_TRY(get_info(file, &info));
    if (info.kind == RVIT_OS_FOLDER)
        return rvit_fail(RVIT_BAD_FILE, "%s: is a folder, not a file", file->path);
    if (info.kind != RVIT_OS_REGULAR)
        return rvit_fail(RVIT_BAD_FILE, "%s: is not a regular file", file->path);
    file->size = info.size;
    file->modified = info.modified;
    return RVIT_OK;
}

rvit_status rvit_file_open(const char *path, rvit_file *file)
{
    int number;
    rvit_printable(file->path, sizeof file->path, path);
    const rvit_os_error error = rvit_os_open(path, &file->handle, &number);
    if (error != RVIT_OS_OK) {
        file->handle = RVIT_OS_CLOSED;
        return open_failed(path, file->path, error, number);
    }
    const rvit_status status = check_kind(file);
    if (status != RVIT_OK)
        rvit_file_close(file);
    return status;
}

void rvit_file_close(rvit_file *file)
{
    if (file->handle != RVIT_OS_CLOSED)
        rvit_os_close(file->handle);
    file->handle = RVIT_OS_CLOSED;
}

rvit_status rvit_file_read(const rvit_file *file, int64_t offset, int64_t size, void *out_bytes)
{
    unsigned char *out = out_bytes;
    while (size > 0) {
        int number;
        const int64_t n = rvit_os_read(file->handle, offset, size, out, &number);
        if (n < 0)
            return rvit_fail(RVIT_BAD_FILE, "%s: cannot read at byte %" PRId64 " (system error %d)", file->path, offset, number);
        if (n == 0)
            return rvit_fail(RVIT_BAD_FILE, "%s: ends at byte %" PRId64 ": the file has shrunk since it was opened", file->path, offset);
        out += n;
        offset += n;
        size -= n;
    }
    return RVIT_OK;
}

rvit_status rvit_file_check_unchanged(const rvit_file *file)
{
    rvit_os_file_info info;
    RVIT_TRY(get_info(file, &info));
    if (info.size != file->size || info.modified != file->modified)
        return rvit_fail(RVIT_BAD_FILE, "%s: the file has changed since it was opened", file->path);
    return RVIT_OK;
}

rvit_status rvit_path_beside(char *out, size_t size, const char *beside, const char *name)
{
    const size_t folder = (size_t)(rvit_os_name_of(beside) - beside), length = strlen(name);
    if (folder + length + 1 > size) {
        char shown[RVIT_SHOWN_PATH], shown_name[RVIT_SHOWN_PATH];
        rvit_printable(shown, sizeof shown, beside);
        rvit_printable(shown_name, sizeof shown_name, name);
        return rvit_fail(RVIT_BAD_FILE, "%s: the path of '%s' in its folder is longer than %zu bytes", shown, shown_name, size - 1);
    }
    memcpy(out, beside, folder);
    memcpy(out + folder, name, length + 1);
    return RVIT_OK;
}
