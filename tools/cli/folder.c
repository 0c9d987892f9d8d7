#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "image_kind.h"
#include "option_table.h"

int path_list_add(struct path_list *self, const char *folder, size_t folder_length, const char *path)
{
    if (self->n == self->capacity) {
        const int32_t capacity = self->capacity ? 2 * self->capacity : 64;
        char **paths = realloc(self->paths, (size_t)capacity * sizeof *paths);
        if (!paths)
            return fail_with(EXIT_FAULT, NULL, "out of memory");
        self->paths = paths;
        self->capacity = capacity;
    }
    char *joined = allocate(folder_length + strlen(path) + 2, 1);
    if (!joined)
        return EXIT_FAULT;
    memcpy(joined, folder, folder_length);
    if (folder_length && folder[folder_length - 1] != '/')
        joined[folder_length++] = '/';
    strcpy(joined + folder_length, path);
    self->paths[self->n++] = joined;
    return EXIT_OK;
}

void path_list_free(struct path_list *self)
{
    for (int32_t i = 0; i < self->n; i++)
        free(self->paths[i]);
    free(self->paths);
    *self = (struct path_list){0};
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_from(struct path_list *self, int32_t first)
{
    if (self->n > first)
        qsort(self->paths + first, (size_t)(self->n - first), sizeof *self->paths, compare_paths);
}

static bool has_image_name(const char *name)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".dib"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(name), m = strlen(endings[i]);
        if (n >= m && strcasecmp(name + n - m, endings[i]) == 0)
            return true;
    }
    return false;
}

/* Whether a regular, readable file starts like an image. */
static bool begins_like_image(int folder, const char *name)
{
    char bytes[IMAGE_KIND_BYTES];
    struct stat status;
    const int file = openat(folder, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (file < 0)
        return false;
    const ssize_t n = fstat(file, &status) == 0 && S_ISREG(status.st_mode) ? read(file, bytes, sizeof bytes) : -1;
    close(file);
    return n > 0 && image_kind_of(bytes, (size_t)n) != NULL;
}

static void report_skipped(const char *folder, const struct path_list *skipped, int32_t first)
{
    enum { MAX_NAMES = 8 };
    char names[1024] = "";
    const int32_t n = skipped->n - first;
    for (int32_t i = 0; i < n && i < MAX_NAMES; i++) {
        const char *name = strrchr(skipped->paths[first + i], '/');
        append_text(names, sizeof names, "%s%s", i ? ", " : "", name ? name + 1 : skipped->paths[first + i]);
    }
    if (n > MAX_NAMES)
        append_text(names, sizeof names, " and %d more", n - MAX_NAMES);
    if (n > 0)
        complain(folder, "skipped, not %s: %s", n > 1 ? "images" : "an image", names);
}

int folder_read(const char *folder, struct path_list *images, struct path_list *skipped)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return fail_with(EXIT_FILE, folder, "the folder cannot be read: %s", strerror(errno));
    const int32_t first_image = images->n, first_skipped = skipped->n;
    int code = EXIT_OK;
    for (struct dirent *entry; code == EXIT_OK && (entry = readdir(directory));) {
        const char *name = entry->d_name;
        if (name[0] == '.')
            continue;
        const bool is_image = has_image_name(name) || begins_like_image(dirfd(directory), name);
        code = path_list_add(is_image ? images : skipped, folder, strlen(folder), name);
    }
    closedir(directory);
    if (code != EXIT_OK)
        return code;
    sort_from(images, first_image);
    sort_from(skipped, first_skipped);
    report_skipped(folder, skipped, first_skipped);
    if (images->n > first_image)
        return EXIT_OK;
    return fail_with(EXIT_FILE, folder, "no images in this folder; to use files in subfolders, name them in a list (.txt)");
}
