#include "labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* The class names of config.json, possibly none. */
static int config_names(const rvit_checkpoint *checkpoint, struct lines *out)
{
    rvit_checkpoint_info info = RVIT_CHECKPOINT_INFO_INIT;
    if (rvit_checkpoint_get_info(checkpoint, &info) != RVIT_OK)
        return fail_with(EXIT_FAULT, NULL, "%s", rvit_status_detail());
    const size_t n = (size_t)info.n_class_names;
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += strlen(info.class_names[i]) + 1;
    *out = (struct lines){.text = allocate(n, sizeof *out->text), .memory = allocate(size, 1)};
    if (!out->text || !out->memory)
        return EXIT_FAULT;
    char *at = out->memory;
    for (size_t i = 0; i < n; i++) {
        out->text[i] = at;
        at += strlen(strcpy(at, info.class_names[i])) + 1;
    }
    out->n_lines = (int64_t)n;
    return EXIT_OK;
}

int labels_load(const char *path, const rvit_checkpoint *checkpoint, const char *texts, int32_t n_classes, struct labels *out)
{
    *out = (struct labels){.n_classes = n_classes};
    const char *metadata = n_classes > 0 && !texts ? rvit_checkpoint_metadata(checkpoint, "classes") : NULL;
    int code = EXIT_OK;
    if (path)
        code = lines_read(path, &out->names);
    else if (metadata)
        code = lines_split(metadata, ',', &out->names);
    else if (n_classes > 0 && !texts)
        code = config_names(checkpoint, &out->names);
    if (code == EXIT_OK && (out->names.n_lines == n_classes || (out->names.n_lines == 0 && !path && !metadata)))
        return code;
    if (code != EXIT_OK) {
        lines_free(&out->names);
        return code;
    }
    if (path && texts)
        code = fail_with(EXIT_FILE, path, "%lld class names, but %s has embeddings of %d texts", (long long)out->names.n_lines, texts,
                         n_classes);
    else if (path)
        code = fail_with(EXIT_FILE, path, "%lld class names, but the model has %d classes", (long long)out->names.n_lines, n_classes);
    else
        complain(NULL, "the checkpoint names %lld classes but has %d; they are shown by number", (long long)out->names.n_lines, n_classes);
    lines_free(&out->names);
    return code;
}

void labels_free(struct labels *self)
{
    lines_free(&self->names);
}

const char *labels_name(const struct labels *self, int32_t label_class)
{
    static char number[16];
    if (self->names.n_lines)
        return self->names.text[label_class];
    snprintf(number, sizeof number, "%d", label_class);
    return number;
}

/* Returns -1 if text is neither a name nor a number. Names take precedence, because a class may be called "7". */
static int32_t find_class(const struct labels *self, const char *text)
{
    for (int64_t i = 0; i < self->names.n_lines; i++)
        if (strcmp(self->names.text[i], text) == 0)
            return (int32_t)i;
    char *end;
    const long number = strtol(text, &end, 10);
    return end != text && !*end && number >= 0 && number < self->n_classes ? (int32_t)number : -1;
}

int labels_read_expected(const struct labels *self, const char *path, int64_t n_images, int32_t **out_classes)
{
    struct lines expected;
    int code = lines_read(path, &expected);
    if (code != EXIT_OK)
        return code;
    int32_t *classes = NULL;
    if (expected.n_lines != n_images)
        code = fail_with(EXIT_FILE, path, "%lld classes for %lld images", (long long)expected.n_lines, (long long)n_images);
    else if (!(classes = allocate((size_t)n_images, sizeof *classes)))
        code = EXIT_FAULT;
    for (int64_t i = 0; i < n_images && code == EXIT_OK; i++) {
        classes[i] = find_class(self, expected.text[i]);
        if (classes[i] < 0)
            code = fail_with(EXIT_FILE, path, "line %lld: '%.64s' is not a class of the model", (long long)i + 1, expected.text[i]);
    }
    lines_free(&expected);
    if (code == EXIT_OK)
        *out_classes = classes;
    else
        free(classes);
    return code;
}
