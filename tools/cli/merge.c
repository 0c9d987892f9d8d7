/* raggedvit merge: combines the output of the shards of a classify run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_list.h"
#include "options.h"
#include "shard_file.h"

struct merge {
    struct shard_file *parts; /* [n], by shard index */
    int32_t n;
    int64_t wanted; /* the next position; -1: unknown after a sheet that could not be cut */
    int64_t n_images;
    json_t *failed;
    bool lines;
};

/* Checks that two parts are from the same run: everything before the images is equal except the shard index. */
static int check_same(const struct shard_file *a, const struct shard_file *b)
{
    const char *key;
    json_t *value;
    if (a->shard.n != b->shard.n)
        return fail_with(EXIT_FILE, b->path, "is one of %d shards, %s is one of %d", b->shard.n, a->path, a->shard.n);
    json_object_foreach(a->run, key, value)
    {
        const json_t *other = json_object_get(b->run, key);
        if (strcmp(key, "shard") == 0 || (other && json_equal(value, other)))
            continue;
        char *one = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        char *two = other ? json_dumps(other, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
        complain(b->path, "is of a different run than %s: \"%s\" is %.200s instead of %.200s", a->path, key, two ? two : "missing",
                 one ? one : "?");
        free(one);
        free(two);
        return EXIT_FILE;
    }
    return json_object_size(a->run) == json_object_size(b->run) ? EXIT_OK : check_same(b, a);
}

/* Opens the files, sorts them by shard, and checks that each shard is present once. */
static int open_all(struct merge *merge, char *const *paths, int n_paths)
{
    int code = EXIT_OK;
    merge->parts = NULL;
    for (int i = 0; i < n_paths && code == EXIT_OK; i++) {
        struct shard_file part;
        code = shard_file_open(paths[i], &part);
        if (code == EXIT_OK && !merge->parts) {
            merge->parts = allocate((size_t)part.shard.n, sizeof *merge->parts);
            merge->n = merge->parts ? part.shard.n : 0;
            code = merge->parts ? EXIT_OK : EXIT_FAULT;
        } else if (code == EXIT_OK) {
            const struct shard_file *first = merge->parts;
            while (!first->path)
                first++;
            code = check_same(first, &part);
        }
        if (code == EXIT_OK && merge->parts[part.shard.index].path)
            code = fail_with(EXIT_FILE, part.path, "is shard %d/%d, and so is %s", part.shard.index, part.shard.n,
                             merge->parts[part.shard.index].path);
        if (code == EXIT_OK)
            merge->parts[part.shard.index] = part;
        else
            shard_file_close(&part);
    }
    for (int32_t i = 0; i < merge->n && code == EXIT_OK; i++)
        if (!merge->parts[i].path)
            code = fail_with(EXIT_FILE, NULL, "shard %d/%d is missing", i, merge->n);
    return code;
}

static int missing(const struct merge *merge, int64_t position)
{
    return fail_with(EXIT_FILE, merge->parts[position % merge->n].path, "image %lld is missing", (long long)position);
}

/* An image or a failure, as classify prints it. */
static int add(struct merge *merge, struct shard_file *part)
{
    json_t *item = part->next;
    const bool failed = json_object_get(item, "error") != NULL;
    if (merge->wanted >= 0 && part->position > merge->wanted)
        return missing(merge, merge->wanted);
    const bool is_sheet = failed && part->tiled && json_is_null(json_object_get(item, "tile"));
    merge->wanted = is_sheet ? -1 : part->position + 1;
    if (failed)
        json_array_append(merge->failed, item);
    if (merge->lines || !failed) {
        if (!merge->lines)
            fputs(merge->n_images ? ",\n" : "\n", stdout);
        json_print(json_incref(item));
        if (merge->lines)
            putchar('\n');
    }
    merge->n_images += !failed;
    return EXIT_OK;
}

static int add_all(struct merge *merge)
{
    int code = EXIT_OK;
    for (int32_t i = 0; i < merge->n && code == EXIT_OK; i++)
        code = shard_file_advance(&merge->parts[i]);
    while (code == EXIT_OK) {
        struct shard_file *next = NULL;
        for (int32_t i = 0; i < merge->n; i++)
            if (merge->parts[i].next && (!next || merge->parts[i].position < next->position))
                next = &merge->parts[i];
        if (!next)
            break;
        code = add(merge, next);
        if (code == EXIT_OK)
            code = shard_file_advance(next);
    }
    if (code == EXIT_OK && merge->wanted >= 0 && merge->wanted < merge->parts->n_inputs)
        code = missing(merge, merge->wanted);
    return code;
}

static json_int_t sum_of(const struct merge *merge, const char *key)
{
    json_int_t sum = 0;
    for (int32_t i = 0; i < merge->n; i++)
        sum += json_integer_value(json_object_get(merge->parts[i].summary, key));
    return sum;
}

static double longest(const struct merge *merge, const char *key)
{
    double max = 0;
    for (int32_t i = 0; i < merge->n; i++) {
        const double value = json_number_value(json_object_get(merge->parts[i].summary, key));
        max = value > max ? value : max;
    }
    return max;
}

static json_t *sum_of_tokens(const struct merge *merge)
{
    json_int_t all = 0;
    json_t *kept = json_array();
    for (int32_t i = 0; i < merge->n; i++) {
        const json_t *tokens = json_object_get(merge->parts[i].summary, "tokens"), *stages = json_object_get(tokens, "kept");
        all += json_integer_value(json_object_get(tokens, "all"));
        for (size_t s = 0; s < json_array_size(stages); s++) {
            const json_int_t sum = json_integer_value(json_array_get(stages, s));
            if (s < json_array_size(kept))
                json_integer_set(json_array_get(kept, s), json_integer_value(json_array_get(kept, s)) + sum);
            else
                json_array_append_new(kept, json_integer(sum));
        }
    }
    return json_pack("{s:I, s:o}", "all", all, "kept", kept);
}

/* Rejects shards whose run stopped early. */
static int check_ends(const struct merge *merge)
{
    for (int32_t i = 0; i < merge->n; i++) {
        const json_t *code = json_object_get(merge->parts[i].summary, "exit_code");
        const json_int_t value = json_is_integer(code) ? json_integer_value(code) : -1;
        if (value != EXIT_OK && value != EXIT_PARTLY && value != EXIT_FILE)
            return fail_with(EXIT_FILE, merge->parts[i].path, "the run stopped early with exit code %lld", (long long)value);
    }
    if (sum_of(merge, "n_images") == merge->n_images && (size_t)sum_of(merge, "n_failed") == json_array_size(merge->failed))
        return EXIT_OK;
    return fail_with(EXIT_FILE, NULL, "the summaries count %lld images and %lld failures, but there are %lld and %zu",
                     (long long)sum_of(merge, "n_images"), (long long)sum_of(merge, "n_failed"), (long long)merge->n_images,
                     json_array_size(merge->failed));
}

/* The exit code of the whole run. */
static int judge(const struct merge *merge)
{
    if (merge->n_images == 0 && json_array_size(merge->failed) > 0)
        return EXIT_FILE;
    return longest(merge, "exit_code") > 0 ? EXIT_PARTLY : EXIT_OK;
}

static json_t *summary(const struct merge *merge, int code)
{
    const double seconds = longest(merge, "seconds");
    const json_int_t n_expected = sum_of(merge, "n_expected");
    const json_t *first = merge->parts->summary; /* every shard lists the whole folders */
    json_t *skipped = json_incref(json_object_get(first, "skipped"));
    json_t *object = json_pack(
        "{s:O, s:I, s:I, s:o, s:I, s:o, s:o, s:o, s:i}", "failed", merge->failed, "n_images", (json_int_t)merge->n_images, "n_failed",
        sum_of(merge, "n_failed"), "skipped", skipped ? skipped : json_array(), "n_skipped", (json_int_t)json_array_size(skipped),
        "seconds", json_number(seconds), "images_per_second", seconds > 0 ? json_number((double)merge->n_images / seconds) : json_null(),
        "elapsed", json_number(longest(merge, "elapsed")), "exit_code", code);
    json_object_set_new(object, "saturated", json_integer(sum_of(merge, "saturated")));
    if (n_expected) {
        json_object_set_new(object, "top1", json_number((double)sum_of(merge, "n_right") / (double)n_expected));
        json_object_set_new(object, "n_right", json_integer(sum_of(merge, "n_right")));
        json_object_set_new(object, "n_expected", json_integer(n_expected));
    }
    json_object_set_new(object, "tokens", sum_of_tokens(merge));
    return object;
}

/* Prints the merged output of the open parts. */
static int print_all(struct merge *merge)
{
    json_t *run = json_copy(merge->parts->run);
    json_object_del(run, "shard");
    if (merge->lines) {
        json_print_line(json_pack("{s:o}", "run", run));
    } else {
        json_print_open(run);
        fputs(", \"images\": [", stdout);
    }
    int code = add_all(merge);
    if (code == EXIT_OK)
        code = check_ends(merge);
    if (code != EXIT_OK)
        return code;
    code = judge(merge);
    if (merge->lines) {
        json_print(json_pack("{s:o}", "summary", summary(merge, code)));
    } else {
        fputs("\n], ", stdout);
        json_print_close(summary(merge, code));
    }
    putchar('\n');
    return code;
}

int run_merge(const struct options *options)
{
    struct merge merge = {.lines = options->ndjson, .failed = json_array()};
    int code = open_all(&merge, options->paths, options->n_paths);
    if (code == EXIT_OK && merge.parts)
        code = print_all(&merge);
    for (int32_t i = 0; i < merge.n; i++)
        shard_file_close(&merge.parts[i]);
    free(merge.parts);
    json_decref(merge.failed);
    return code;
}
