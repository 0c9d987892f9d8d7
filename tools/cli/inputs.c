#include "inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "input_queue.h"
#include "lines.h"

static bool ends_with(const char *text, const char *ending)
{
    const size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcasecmp(text + n - m, ending) == 0;
}

static int add_list(struct inputs *in, const char *path)
{
    struct lines list;
    int code = lines_read(path, &list);
    if (code != EXIT_OK)
        return code;
    const char *slash = strrchr(path, '/');
    const int32_t first = in->files.n;
    for (int64_t i = 0; i < list.n_lines && code == EXIT_OK; i++) {
        const char *line = list.text[i];
        if (line[0])
            code = path_list_add(&in->files, path, line[0] != '/' && slash ? (size_t)(slash - path) + 1 : 0, line);
    }
    lines_free(&list);
    if (code == EXIT_OK && in->files.n == first)
        code = fail_with(EXIT_FILE, path, "the list names no image");
    return code;
}

uint64_t inputs_fingerprint(const struct inputs *in)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int32_t i = 0; i < in->files.n; i++) {
        const char *c = in->files.paths[i];
        do /* with the NUL, so that "ab", "c" is not "a", "bc" */
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
        while (*c++);
    }
    return hash;
}

static int add_argument(struct inputs *in, const char *argument)
{
    struct stat status;
    if (stat(argument, &status) == 0 && S_ISDIR(status.st_mode))
        return folder_read(argument, &in->files, &in->left_out);
    return ends_with(argument, ".txt") ? add_list(in, argument) : path_list_add(&in->files, "", 0, argument);
}

int inputs_open(char *const *arguments, int n_arguments, const struct preprocess *recipe, const struct video *video, int32_t tiles,
                int64_t limit, struct inputs *out)
{
    *out = (struct inputs){.recipe = recipe, .video = video, .tiles = tiles, .limit = limit ? limit : INT64_MAX};
    int code = EXIT_OK;
    for (int i = 0; i < n_arguments && code == EXIT_OK; i++)
        code = video ? path_list_add(&out->files, "", 0, arguments[i]) : add_argument(out, arguments[i]);
    for (int32_t i = 0; !video && i < out->files.n; i++)
        out->n_given += input_count_tiles(out, out->files.paths[i]);
    if (video)
        out->n_given = limit;
    out->total = out->limit < out->n_given ? out->limit : out->n_given;
    if (code != EXIT_OK)
        inputs_close(out);
    return code;
}

int inputs_start(struct inputs *in, int32_t n_threads, bool overlaps, int32_t ahead, bool keeps_first)
{
    return input_queue_create(in, n_threads, overlaps, ahead, keeps_first, &in->queue);
}

void inputs_close(struct inputs *in)
{
    input_queue_destroy(in->queue);
    path_list_free(&in->files);
    path_list_free(&in->left_out);
    for (int32_t i = 0; i < in->n_failures; i++)
        free(in->failures[i].text);
    free(in->failures);
    *in = (struct inputs){0};
}

bool inputs_note_failure(struct inputs *in, const struct input *input, const char *text)
{
    complain(in->video ? "standard input" : input->path, "%s", text);
    struct input_failure *failures = realloc(in->failures, (size_t)(in->n_failures + 1) * sizeof *failures);
    char *copy = strdup(text);
    if (failures)
        in->failures = failures;
    if (!failures || !copy) {
        complain(NULL, "out of memory");
        free(copy);
        return false;
    }
    int32_t i = in->n_failures++;
    for (; i > 0 && in->failures[i - 1].input.position > input->position; i--) /* files of a batch are read before it is computed */
        in->failures[i] = in->failures[i - 1];
    in->failures[i] = (struct input_failure){*input, copy};
    return true;
}

enum input_result inputs_next(struct inputs *in, bool waits, float *out_values, struct input *out)
{
    struct input_work work;
    for (;;) {
        const enum input_result result = input_queue_next(in->queue, waits, out_values, &work);
        if (result != INPUT_READY)
            return result;
        in->n_done = work.input.position + 1;
        if (!work.is_bad) {
            *out = work.input;
            return INPUT_READY;
        }
        if (!inputs_note_failure(in, &work.input, work.error.text))
            return INPUT_LOST;
    }
}

struct image inputs_take_first(struct inputs *in)
{
    return input_queue_take_first(in->queue);
}
