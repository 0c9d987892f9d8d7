#include "inputs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "lines.h"

static bool ends_with(const char *text, const char *ending)
{
    const size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcasecmp(text + n - m, ending) == 0;
}

/* folder may be empty: path is then used unchanged. */
static int add_path(struct inputs *in, const char *folder, size_t folder_length, const char *path)
{
    if (in->n_paths == in->capacity) {
        const int32_t capacity = in->capacity ? 2 * in->capacity : 64;
        char **paths = realloc(in->paths, (size_t)capacity * sizeof *paths);
        if (!paths) {
            complain(NULL, "out of memory");
            return EXIT_FAULT;
        }
        in->paths = paths;
        in->capacity = capacity;
    }
    char *joined = allocate(folder_length + strlen(path) + 2, 1);
    if (!joined)
        return EXIT_FAULT;
    memcpy(joined, folder, folder_length);
    if (folder_length && folder[folder_length - 1] != '/')
        joined[folder_length++] = '/';
    strcpy(joined + folder_length, path);
    in->paths[in->n_paths++] = joined;
    return EXIT_OK;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_folder(struct inputs *in, const char *folder)
{
    DIR *directory = opendir(folder);
    if (!directory) {
        complain(folder, "the folder cannot be read: %s", strerror(errno));
        return EXIT_FILE;
    }
    const int32_t first = in->n_paths;
    int code = EXIT_OK;
    for (struct dirent *entry; code == EXIT_OK && (entry = readdir(directory));) {
        const char *name = entry->d_name;
        if (name[0] != '.' && (ends_with(name, ".png") || ends_with(name, ".jpg") || ends_with(name, ".jpeg")))
            code = add_path(in, folder, strlen(folder), name);
    }
    closedir(directory);
    if (code != EXIT_OK)
        return code;
    if (in->n_paths == first) {
        complain(folder, "no .png, .jpg or .jpeg files in this folder; to use files in subfolders, name them in a list (.txt)");
        return EXIT_FILE;
    }
    qsort(in->paths + first, (size_t)(in->n_paths - first), sizeof *in->paths, compare_paths);
    return EXIT_OK;
}

static int add_list(struct inputs *in, const char *path)
{
    struct lines list;
    int code = lines_read(path, &list);
    if (code != EXIT_OK)
        return code;
    const char *slash = strrchr(path, '/');
    const int32_t first = in->n_paths;
    for (int64_t i = 0; i < list.n_lines && code == EXIT_OK; i++) {
        const char *line = list.text[i];
        if (line[0])
            code = add_path(in, path, line[0] != '/' && slash ? (size_t)(slash - path) + 1 : 0, line);
    }
    lines_free(&list);
    if (code == EXIT_OK && in->n_paths == first) {
        complain(path, "the list names no image");
        code = EXIT_FILE;
    }
    return code;
}

/* Number of tiles in a file according to its header; 0 if it cannot be read or tiled, which inputs_next reports. */
static int64_t count_tiles(const struct inputs *in, const char *path)
{
    struct image_error error;
    int32_t width, height;
    if (in->tiles == 0)
        return 1;
    if (!image_load_size(path, &width, &height, &error) || width % in->tiles || height % in->tiles)
        return 0;
    return (int64_t)(width / in->tiles) * (height / in->tiles);
}

int inputs_open(char *const *arguments, int n_arguments, const struct preprocess *recipe, int32_t tiles, int64_t limit, struct inputs *out)
{
    *out = (struct inputs){.recipe = recipe, .tiles = tiles, .limit = limit ? limit : INT64_MAX};
    int code = EXIT_OK;
    for (int i = 0; i < n_arguments && code == EXIT_OK; i++) {
        struct stat status;
        if (stat(arguments[i], &status) == 0 && S_ISDIR(status.st_mode))
            code = add_folder(out, arguments[i]);
        else if (ends_with(arguments[i], ".txt"))
            code = add_list(out, arguments[i]);
        else
            code = add_path(out, "", 0, arguments[i]);
    }
    for (int32_t i = 0; i < out->n_paths; i++)
        out->n_given += count_tiles(out, out->paths[i]);
    out->total = out->limit < out->n_given ? out->limit : out->n_given;
    if (code == EXIT_OK) {
        out->failures = allocate((size_t)out->n_paths, sizeof *out->failures);
        if (!out->failures)
            code = EXIT_FAULT;
    }
    if (code != EXIT_OK)
        inputs_close(out);
    return code;
}

void inputs_close(struct inputs *in)
{
    for (int32_t i = 0; i < in->n_paths; i++)
        free(in->paths[i]);
    for (int32_t i = 0; i < in->n_failures; i++)
        free(in->failures[i].text); /* NOLINT(clang-analyzer-core.NullDereference): there are none before the array is */
    free(in->paths);
    free(in->failures);
    image_free(&in->sheet);
    *in = (struct inputs){0};
}

static bool load_file(struct inputs *in, struct image_error *error)
{
    image_free(&in->sheet);
    if (!image_load(in->paths[in->file], &in->sheet, error))
        return false;
    if (in->tiles == 0 || (in->sheet.width % in->tiles == 0 && in->sheet.height % in->tiles == 0))
        return true;
    snprintf(error->text, sizeof error->text, "%d x %d pixels cannot be cut into tiles of %d", in->sheet.width, in->sheet.height,
             in->tiles);
    return false;
}

static int note_failure(struct inputs *in, const struct image_error *error)
{
    complain(in->paths[in->file], "%s", error->text);
    char *text = strdup(error->text);
    if (!text) {
        complain(NULL, "out of memory");
        return -1;
    }
    in->failures[in->n_failures++] = (struct input_failure){in->file, text};
    return 0;
}

int inputs_next(struct inputs *in, struct input *out)
{
    for (; in->file < in->n_paths && in->position < in->limit; in->file++, in->tile = 0) {
        struct image_error error;
        if (in->tile == 0 && !load_file(in, &error)) {
            if (note_failure(in, &error) != 0)
                return -1;
            in->position += count_tiles(in, in->paths[in->file]);
            continue;
        }
        const int32_t columns = in->tiles ? in->sheet.width / in->tiles : 1;
        if (in->tile >= (in->tiles ? columns * (in->sheet.height / in->tiles) : 1))
            continue;
        *out = (struct input){in->paths[in->file], in->tiles ? in->tile : -1, in->position++, image_whole(&in->sheet)};
        if (in->tiles) {
            out->pixels.pixels += in->tile / columns * in->tiles * out->pixels.stride + (int64_t)(in->tile % columns) * in->tiles * 3;
            out->pixels.width = out->pixels.height = in->tiles;
        }
        in->tile++;
        return 1;
    }
    return 0;
}

int inputs_next_prepared(struct inputs *in, float *out_values, struct input *out, struct image *out_view)
{
    struct image_error error;
    for (;;) {
        const int found = inputs_next(in, out);
        if (found <= 0 || preprocess_picture(out->pixels, in->recipe, in->tiles > 0, out_values, out_view, &error))
            return found;
        if (in->tiles) {
            complain(out->path, "%s", error.text);
            return -1;
        }
        if (note_failure(in, &error) != 0)
            return -1;
    }
}
