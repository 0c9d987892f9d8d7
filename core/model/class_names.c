#include "core/model/class_names.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CLASSES = 1 << 16, NUMBER_SIZE = 12 };

/* The class that a member of the list names; -1: none. position: the member's index. */
static int32_t number_of(const rvit_json *list, const rvit_json *value, int32_t position)
{
    if (list->type == RVIT_JSON_ARRAY)
        return position;
    int32_t number = 0;
    const char *at = value->key;
    while (*at >= '0' && *at <= '9' && number < MAX_CLASSES)
        number = 10 * number + (*at++ - '0');
    return *at == '\0' && at != value->key && number < MAX_CLASSES ? number : -1;
}

/* Fills `out`, unless it is NULL. Returns the number of classes, or -1; *out_size: the size of the texts. */
static int32_t walk(const rvit_json *list, rvit_class_names *out, size_t *out_size)
{
    int32_t n = 0, position = 0;
    for (const rvit_json *v = rvit_json_first(list); v != NULL; v = rvit_json_next(list, v), position++) {
        const int32_t number = number_of(list, v, position);
        if (number < 0)
            return -1;
        n = number >= n ? number + 1 : n;
        if (v->type != RVIT_JSON_STRING)
            continue;
        const size_t size = strlen(v->string) + 1;
        if (out != NULL) {
            char *text = (char *)(out->names + out->n) + *out_size;
            memcpy(text, v->string, size);
            out->names[number] = text;
        }
        *out_size += size;
    }
    return n;
}

rvit_status rvit_class_names_read(const rvit_json *root, rvit_alloc *alloc, rvit_class_names *out_names)
{
    const rvit_json *list = rvit_json_get(root, "label_names");
    size_t size = 0;
    if (list == NULL)
        list = rvit_json_get(root, "id2label");
    if (out_names->names != NULL || list == NULL || (list->type != RVIT_JSON_ARRAY && list->type != RVIT_JSON_OBJECT))
        return RVIT_OK;
    const int32_t n = walk(list, NULL, &size);
    if (n <= 0)
        return RVIT_OK;
    const size_t pointers = (size_t)n * sizeof *out_names->names;
    char *memory = rvit_alloc_new(alloc, pointers + size + (size_t)n * NUMBER_SIZE);
    RVIT_TRY_MEMORY(memory);
    *out_names = (rvit_class_names){(const char **)(void *)memory, n};
    size = 0;
    (void)walk(list, out_names, &size);
    for (int32_t i = 0; i < n; i++)
        if (out_names->names[i] == NULL) {
            char *text = memory + pointers + size + (size_t)i * NUMBER_SIZE;
            (void)snprintf(text, NUMBER_SIZE, "%d", (int)i);
            out_names->names[i] = text;
        }
    return RVIT_OK;
}

void rvit_class_names_free(rvit_alloc *alloc, rvit_class_names *names)
{
    rvit_alloc_free(alloc, (void *)names->names);
    *names = (rvit_class_names){NULL, 0};
}
