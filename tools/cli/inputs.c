#include "inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/os_program.h"
#include "input_workers.h"
#include "lines.h"

#define MAX_MEMORY ((int64_t)256 << 20) /* of images prepared ahead */

struct slot {
    bool is_done;
    struct input_work work;
    float *values;
};

/* Image i is prepared in slot i % n_slots. The lock of the workers protects what changes. */
struct input_queue {
    struct input_workers workers;
    size_t image_length;
    float *values;
    struct slot *slots;
    int64_t n_slots;
    int64_t n_given;
};

static void *work(void *argument)
{
    struct input_queue *self = argument;
    struct input_workers *workers = &self->workers;
    struct nvjpeg_decoder *decoder = workers->inputs->nvjpeg ? nvjpeg_decoder_create(workers->inputs->nvjpeg) : NULL;
    for (struct input_taken taken; input_workers_take(workers, decoder, &taken);) {
        struct slot *slot = &self->slots[taken.number % self->n_slots];
        struct image image = {0};
        if (!input_work_prepare(workers->inputs, decoder, &taken.work, slot->values, taken.keeps ? &image : NULL))
            taken.work.is_bad = true;
        input_work_free(&taken.work);
        rvit_mutex_lock(&workers->lock);
        slot->work = taken.work;
        slot->is_done = true;
        input_workers_offer(workers, &taken, &image);
        rvit_condition_signal(&workers->done);
        rvit_mutex_unlock(&workers->lock);
        image_free(&image);
    }
    nvjpeg_decoder_destroy(decoder);
    return NULL;
}

static void end_queue(struct inputs *in)
{
    struct input_queue *self = in->queue;
    if (!self)
        return;
    input_workers_stop(&self->workers, NULL, NULL);
    input_workers_close(&self->workers);
    free(self->slots);
    free(self->values);
    free(self);
    in->queue = NULL;
}

int inputs_start(struct inputs *in, int32_t n_threads, bool overlaps, int32_t ahead, bool keeps_first)
{
    struct input_queue *self = in->queue = allocate(1, sizeof *self);
    if (!self)
        return EXIT_FAULT;
    int code = input_workers_open(&self->workers, in, overlaps, keeps_first);
    n_threads = input_workers_size(in, n_threads);
    self->image_length = 3 * (size_t)in->recipe->width * (size_t)in->recipe->height;
    const int64_t max = MAX_MEMORY / (int64_t)(self->image_length * sizeof(float));
    self->n_slots = ahead < max ? ahead : max;
    if (self->n_slots <= n_threads)
        self->n_slots = n_threads + 1;
    self->workers.limit = self->n_slots;
    self->slots = allocate((size_t)self->n_slots, sizeof *self->slots);
    self->values = allocate((size_t)self->n_slots * self->image_length, sizeof *self->values);
    if (code == EXIT_OK && (!self->slots || !self->values))
        code = EXIT_FAULT;
    for (int64_t i = 0; code == EXIT_OK && i < self->n_slots; i++)
        self->slots[i].values = self->values + (size_t)i * self->image_length;
    if (code == EXIT_OK)
        code = input_workers_start(&self->workers, n_threads, work, self);
    if (code != EXIT_OK)
        end_queue(in);
    return code;
}

/* Gets the next image or failure, without its sheet and frame. Never returns INPUT_LOST. */
static enum input_result next_of_queue(struct input_queue *self, bool waits, float *out_values, struct input_work *out)
{
    struct input_workers *workers = &self->workers;
    struct slot *slot = &self->slots[self->n_given % self->n_slots];
    enum input_result result = INPUT_READY;
    rvit_mutex_lock(&workers->lock);
    workers->waited_for = true;
    rvit_condition_signal(&workers->may_work);
    while (result == INPUT_READY && !slot->is_done) {
        if (self->n_given == workers->n_taken && workers->ended)
            result = INPUT_END;
        else if (self->n_given == workers->n_taken && !waits)
            result = INPUT_LATER;
        else
            rvit_condition_wait(&workers->done, &workers->lock);
    }
    workers->waited_for = false;
    rvit_mutex_unlock(&workers->lock);
    if (result != INPUT_READY)
        return result;
    *out = slot->work;
    if (!out->is_bad)
        memcpy(out_values, slot->values, self->image_length * sizeof *out_values);
    rvit_mutex_lock(&workers->lock);
    slot->is_done = false;
    self->n_given++;
    workers->limit++;
    if (!out->is_bad)
        workers->keeps_first = false;
    rvit_condition_signal(&workers->may_work);
    rvit_mutex_unlock(&workers->lock);
    return INPUT_READY;
}

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
    const size_t folder = (size_t)(rvit_os_name_of(path) - path);
    const int32_t first = in->files.n;
    for (int64_t i = 0; i < list.n_lines && code == EXIT_OK; i++) {
        const char *line = list.text[i];
        if (line[0])
            code = path_list_add(&in->files, path, rvit_path_is_absolute(line) ? 0 : folder, line);
    }
    lines_free(&list);
    if (code == EXIT_OK && in->files.n == first)
        code = fail_with(EXIT_FILE, path, "the list is empty");
    return code;
}

uint64_t inputs_fingerprint(const struct inputs *in)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int32_t i = 0; i < in->files.n; i++) {
        const char *c = in->files.paths[i];
        do /* with the NUL, so that "ab", "c" differs from "a", "bc" */
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
        while (*c++);
    }
    return hash;
}

static int add_argument(struct inputs *in, const char *argument)
{
    rvit_os_file_info info;
    int number;
    if (rvit_os_look(argument, 1, &info, &number) == RVIT_OS_OK && info.kind == RVIT_OS_FOLDER)
        return folder_read(argument, &in->files, &in->skipped);
    return ends_with(argument, ".txt") ? add_list(in, argument) : path_list_add(&in->files, "", 0, argument);
}

int inputs_open(char *const *arguments, int n_arguments, const rvit_image_recipe *recipe, const struct video *video, int32_t tiles,
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

void inputs_close(struct inputs *in)
{
    end_queue(in);
    path_list_free(&in->files);
    path_list_free(&in->skipped);
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
    for (; i > 0 && in->failures[i - 1].input.position > input->position; i--) /* the files of a batch are read before it is computed */
        in->failures[i] = in->failures[i - 1];
    in->failures[i] = (struct input_failure){*input, copy};
    return true;
}

enum input_result inputs_next(struct inputs *in, bool waits, float *out_values, struct input *out)
{
    struct input_work work;
    for (;;) {
        const enum input_result result = next_of_queue(in->queue, waits, out_values, &work);
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
    return input_workers_take_first(&in->queue->workers);
}
