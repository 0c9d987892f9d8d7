#include "shard_file.h"

#include <string.h>

#include "cli.h"
#include "core/base/os_program.h"

static int bad(const struct shard_file *part, const char *why)
{
    return fail_with(EXIT_FILE, part->path, "%s", why);
}

/* Skips blanks. Returns whether the file ends there. */
static bool at_end(FILE *file)
{
    int c;
    while ((c = getc(file)) == ' ' || c == '\t' || c == '\r' || c == '\n')
        continue;
    ungetc(c, file);
    return c == EOF;
}

/* Reads the next value of a file with one value per line. */
static int read_value(struct shard_file *part, json_t **out)
{
    json_error_t error;
    if (at_end(part->file))
        return bad(part, ferror(part->file) ? "cannot be read" : "is truncated: its summary is missing");
    *out = json_loadf(part->file, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*out)) {
        part->n_lines++;
        return EXIT_OK;
    }
    complain(part->path, "is not JSON output of classify: value %lld: %s", (long long)part->n_lines + 1,
             *out ? "not an object" : error.text);
    json_decref(*out);
    return EXIT_FILE;
}

static int64_t position_of(const json_t *item)
{
    const json_t *position = json_object_get(item, "position");
    return json_is_integer(position) && json_integer_value(position) >= 0 ? json_integer_value(position) : -1;
}

/* The next image or failure of an object. */
static json_t *next_of_arrays(struct shard_file *part)
{
    json_t *image = json_array_get(part->images, part->n_images), *failure = json_array_get(part->failed, part->n_failed);
    if (image && (!failure || position_of(image) <= position_of(failure))) {
        part->n_images++;
        return json_incref(image);
    }
    part->n_failed += failure != NULL;
    return json_incref(failure);
}

int shard_file_advance(struct shard_file *part)
{
    json_t *value = NULL;
    json_decref(part->next);
    part->next = NULL;
    if (!part->file) {
        value = next_of_arrays(part);
    } else if (!part->summary) {
        const int code = read_value(part, &value);
        if (code != EXIT_OK)
            return code;
        part->summary = json_incref(json_object_get(value, "summary"));
        if (part->summary) {
            json_decref(value);
            value = NULL;
            if (!at_end(part->file))
                return bad(part, "has data after its summary");
        }
    }
    part->next = value;
    if (!value)
        return EXIT_OK;
    const int64_t position = position_of(value);
    if (position < part->position || (position == part->position && !part->tiled) || position >= part->n_inputs ||
        !shard_has(&part->shard, position))
        return fail_with(EXIT_FILE, part->path, "an image has position %lld, which is not one of shard %d/%d after %lld",
                         (long long)position, part->shard.index, part->shard.n, (long long)part->position);
    part->position = position;
    return EXIT_OK;
}

/* Splits the object of --json into the part before "images", the images, and the part after them. */
static void split_object(struct shard_file *part)
{
    const char *key;
    json_t *value;
    json_t *before = json_object(), *after = json_object(), *to = before;
    json_object_foreach(part->root, key, value)
    {
        if (strcmp(key, "images") == 0)
            to = after;
        else
            json_object_set(to, key, value);
    }
    part->images = json_object_get(part->root, "images");
    part->failed = json_object_get(after, "failed");
    part->run = before;
    part->summary = after;
}

int shard_file_open(const char *path, struct shard_file *part)
{
    rvit_os_file_info info;
    char text[160];
    json_t *first;
    int number;
    *part = (struct shard_file){.path = path, .position = -1};
    if (rvit_os_look(path, 1, &info, &number) == RVIT_OS_OK && info.kind != RVIT_OS_REGULAR)
        return bad(part, "is not a regular file");
    part->file = rvit_file_read_open(path, &number);
    if (!part->file)
        return fail_with(EXIT_FILE, path, "cannot be read: %s", rvit_error_text(number, text, sizeof text));
    const int code = read_value(part, &first);
    if (code != EXIT_OK)
        return code;
    part->root = first;
    part->run = json_incref(json_object_get(first, "run"));
    if (!part->run) {
        const bool ends = at_end(part->file);
        fclose(part->file);
        part->file = NULL;
        if (!ends)
            return bad(part, "has more than one JSON value, and the first is not a run");
        split_object(part);
    }
    int index, n;
    if (!json_is_object(json_object_get(part->run, "inputs")) ||
        (!part->file && !(json_is_array(part->images) && json_is_array(part->failed))))
        return bad(part, "is not the output of classify --json or --ndjson");
    if (json_unpack(part->run, "{s:{s:i, s:i}}", "shard", "index", &index, "n", &n) != 0)
        return bad(part, "is of a run without --shard");
    if (n < 1 || n > MAX_SHARDS || index < 0 || index >= n)
        return bad(part, "has an invalid \"shard\"");
    part->shard = (struct shard){index, n};
    const json_t *inputs = json_object_get(part->run, "inputs");
    part->n_inputs = json_integer_value(json_object_get(inputs, "n"));
    part->tiled = json_is_integer(json_object_get(inputs, "tiles"));
    return EXIT_OK;
}

void shard_file_close(struct shard_file *part)
{
    if (part->file)
        fclose(part->file);
    json_decref(part->next);
    json_decref(part->run);
    json_decref(part->summary);
    json_decref(part->root);
}
