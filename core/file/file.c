#include "core/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/printable.h"
#include "core/base/status.h"

static rvit_status open_failed(const char *path, const char *shown, int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return rvit_fail(RVIT_BAD_FILE, "%s: %s", shown, rvit_path_exists(path) ? "a dangling symbolic link" : "no such file");
    case ELOOP:
        return rvit_fail(RVIT_BAD_FILE, "%s: too many symbolic links, or a loop of them", shown);
    case EACCES:
    case EPERM:
        return rvit_fail(RVIT_BAD_FILE, "%s: permission denied", shown);
    case EMFILE:
    case ENFILE:
        return rvit_fail(RVIT_BAD_FILE, "%s: cannot open it: the process has too many open files", shown);
    default:
        return rvit_fail(RVIT_BAD_FILE, "%s: cannot open it (system error %d)", shown, error);
    }
}

static rvit_status stat_failed(const rvit_file *file)
{
    return rvit_fail(RVIT_BAD_FILE, "%s: cannot read its size and type (system error %d)", file->path, errno);
}

static rvit_status check_kind(rvit_file *file)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0)
        return stat_failed(file);
    if (S_ISDIR(info.st_mode))
        return rvit_fail(RVIT_BAD_FILE, "%s: is a folder, not a file", file->path);
    if (!S_ISREG(info.st_mode))
        return rvit_fail(RVIT_BAD_FILE, "%s: is not a regular file", file->path);
    file->size = info.st_size;
    file->modified = info.st_mtim;
    return RVIT_OK;
}

rvit_status rvit_file_open(const char *path, rvit_file *file)
{
    rvit_printable(file->path, sizeof file->path, path);
    /* O_NONBLOCK: opening a pipe must not block. */
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file->fd < 0)
        return open_failed(path, file->path, errno);
    const rvit_status status = check_kind(file);
    if (status != RVIT_OK)
        rvit_file_close(file);
    return status;
}

void rvit_file_close(rvit_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
}

rvit_status rvit_file_read(const rvit_file *file, int64_t offset, int64_t size, void *out_bytes)
{
    unsigned char *out = out_bytes;
    while (size > 0) {
        const ssize_t n = pread(file->fd, out, (size_t)size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rvit_fail(RVIT_BAD_FILE, "%s: cannot read at byte %" PRId64 " (system error %d)", file->path, offset, errno);
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
    struct stat info;
    if (fstat(file->fd, &info) != 0)
        return stat_failed(file);
    if (info.st_size != file->size || info.st_mtim.tv_sec != file->modified.tv_sec || info.st_mtim.tv_nsec != file->modified.tv_nsec)
        return rvit_fail(RVIT_BAD_FILE, "%s: the file has changed since it was opened", file->path);
    return RVIT_OK;
}

int rvit_path_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

rvit_status rvit_path_beside(char *out, size_t size, const char *beside, const char *name)
{
    const char *slash = strrchr(beside, '/');
    const size_t folder = slash == NULL ? 0 : (size_t)(slash - beside) + 1, length = strlen(name);
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
