/* Files on POSIX systems. */
#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__APPLE__)
#define st_mtim st_mtimespec
#endif

rvit_os_error rvit_os_open(const char *path, intptr_t *out_file, int *out_number)
{
    /* O_NONBLOCK: opening a pipe must not block. */
    *out_file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *out_number = *out_file < 0 ? errno : 0;
    switch (*out_number) {
    case 0:
        return RVIT_OS_OK;
    case ENOENT:
    case ENOTDIR:
        return RVIT_OS_NOT_FOUND;
    case ELOOP:
        return RVIT_OS_LOOP;
    case EACCES:
    case EPERM:
        return RVIT_OS_DENIED;
    case EMFILE:
    case ENFILE:
        return RVIT_OS_TOO_MANY_FILES;
    default:
        return RVIT_OS_OTHER;
    }
}

void rvit_os_close(intptr_t file)
{
    (void)close((int)file);
}

int rvit_os_get_info(intptr_t file, rvit_os_file_info *out_info)
{
    struct stat info;
    if (fstat((int)file, &info) != 0)
        return errno;
    out_info->kind = S_ISREG(info.st_mode) ? RVIT_OS_REGULAR : S_ISDIR(info.st_mode) ? RVIT_OS_FOLDER : RVIT_OS_SPECIAL;
    out_info->size = info.st_size;
    out_info->modified = (int64_t)((uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec);
    return 0;
}

int64_t rvit_os_read(intptr_t file, int64_t offset, int64_t size, void *out_bytes, int *out_number)
{
    ssize_t n;
    do
        n = pread((int)file, out_bytes, (size_t)size, (off_t)offset);
    while (n < 0 && errno == EINTR);
    *out_number = n < 0 ? errno : 0;
    return n;
}

int rvit_os_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

const char *rvit_os_name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}
