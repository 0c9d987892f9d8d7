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

static rvit_os_error error_of(int number)
{
    switch (number) {
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

rvit_os_error rvit_os_open(const char *path, intptr_t *out_file, int *out_number)
{
    /* O_NONBLOCK: opening a pipe must not block. */
    *out_file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *out_number = *out_file < 0 ? errno : 0;
    return error_of(*out_number);
}

void rvit_os_close(intptr_t file)
{
    (void)close((int)file);
}

static rvit_os_kind kind_of(mode_t mode)
{
    return S_ISREG(mode)    ? RVIT_OS_REGULAR
           : S_ISDIR(mode)  ? RVIT_OS_FOLDER
           : S_ISLNK(mode)  ? RVIT_OS_LINK
           : S_ISFIFO(mode) ? RVIT_OS_PIPE
                            : RVIT_OS_SPECIAL;
}

static void set_info(const struct stat *info, rvit_os_file_info *out)
{
    *out = (rvit_os_file_info){.kind = kind_of(info->st_mode),
                               .size = info->st_size,
                               .modified = (int64_t)((uint64_t)info->st_mtim.tv_sec * 1000000000u + (uint64_t)info->st_mtim.tv_nsec),
                               .volume = (uint64_t)info->st_dev,
                               .id = (uint64_t)info->st_ino,
                               .mode = info->st_mode & 07777,
                               .owner = info->st_uid,
                               .group = info->st_gid};
}

int rvit_os_get_info(intptr_t file, rvit_os_file_info *out_info)
{
    struct stat info;
    if (fstat((int)file, &info) != 0)
        return errno;
    set_info(&info, out_info);
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

rvit_os_error rvit_os_look(const char *path, int follows_links, rvit_os_file_info *out_info, int *out_number)
{
    struct stat info;
    *out_number = (follows_links ? stat(path, &info) : lstat(path, &info)) != 0 ? errno : 0;
    if (*out_number == 0)
        set_info(&info, out_info);
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
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}
