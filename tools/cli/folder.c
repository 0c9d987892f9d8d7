#include "folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "core/base/os_program.h"
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
    if (*rvit_os_name_of(joined))
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
static bool begins_like_image(const char *path)
{
    char bytes[IMAGE_KIND_BYTES];
    rvit_os_file_info info;
    intptr_t file;
    int number;
    if (rvit_os_open(path, &file, &number) != RVIT_OS_OK)
        return false;
    const bool is_regular = rvit_os_get_info(file, &info) == 0 && info.kind == RVIT_OS_REGULAR;
    const int64_t n = is_regular ? rvit_os_read(file, 0, sizeof bytes, bytes, &number) : -1;
    rvit_os_close(file);
    return n > 0 && image_kind_of(bytes, (size_t)n) != NULL;
}

static void report_skipped(const char *folder, const struct path_list *skipped, int32_t first)
{
    enum { MAX_NAMES = 8 };
    char names[1024] = "";
    const int32_t n = skipped->n - first;
    for (int32_t i = 0; i < n && i < MAX_NAMES; i++) {
        append_text(names, sizeof names, "%s%s", i ? ", " : "", rvit_os_name_of(skipped->paths[first + i]));
    }
    if (n > MAX_NAMES)
        append_text(names, sizeof names, " and %d more", n - MAX_NAMES);
    if (n > 0)
        complain(folder, "skipped, not %s: %s", n > 1 ? "images" : "an image", names);
}

struct reading {
    const char *folder;
    struct path_list *images, *skipped;
};

static int add_name(void *user, const char *name)
{
    const struct reading *self = user;
    if (name[0] == '.')
        return EXIT_OK;
    struct path_list *images = self->images, *skipped = self->skipped;
    const int code = path_list_add(images, self->folder, strlen(self->folder), name);
    if (code != EXIT_OK || has_image_name(name) || begins_like_image(images->paths[images->n - 1]))
        return code;
    free(images->paths[--images->n]);
    return path_list_add(skipped, self->folder, strlen(self->folder), name);
}

int folder_read(const char *folder, struct path_list *images, struct path_list *skipped)
{
    struct reading reading = {folder, images, skipped};
    const int32_t first_image = images->n, first_skipped = skipped->n;
    char text[160];
    int number;
    const int code = rvit_folder_read(folder, add_name, &reading, &number);
    if (number != 0)
        return fail_with(EXIT_FILE, folder, "the folder cannot be read: %s", rvit_error_text(number, text, sizeof text));
    if (code != EXIT_OK)
        return code;
    sort_from(images, first_image);
    sort_from(skipped, first_skipped);
    report_skipped(folder, skipped, first_skipped);
    if (images->n > first_image)
        return EXIT_OK;
    return fail_with(EXIT_FILE, folder, "no images in this folder; to use files in subfolders, name them in a list (.txt)");
}
