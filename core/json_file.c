#include "core/json_file.h"

#include "core/file.h"
#include "core/status.h"

enum { MAX_SIZE = 32 << 20, MAX_VALUES = 1 << 19, MAX_DEPTH = 32, SHOWN_ERROR = 200 };

/* Bounds the parser's memory and recursion before it runs. */
static rvit_status scan(const char *path, const char *text, size_t size)
{
    int32_t depth = 0, n_values = 0, in_string = 0, escaped = 0;
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        if (c == '\0')
            return rvit_fail(RVIT_BAD_FILE, "%s: NUL at byte %zu", path, i);
        if (in_string) {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        in_string = c == '"';
        if (c == ',' || c == '{' || c == '[')
            n_values++;
        if (c == '{' || c == '[')
            depth++;
        if (c == '}' || c == ']')
            depth--;
        if (depth > MAX_DEPTH)
            return rvit_fail(RVIT_BAD_FILE, "%s: nests deeper than %d levels (byte %zu)", path, MAX_DEPTH, i);
        if (n_values > MAX_VALUES)
            return rvit_fail(RVIT_BAD_FILE, "%s: holds more than %d values", path, MAX_VALUES);
    }
    return RVIT_OK;
}

static rvit_status parse(const char *path, const char *text, size_t size, json_t **out_root)
{
    json_error_t error = {0};
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    /* Some failures for want of memory come without a message. */
    if (root == NULL && (json_error_code(&error) == json_error_out_of_memory || error.text[0] == '\0'))
        return rvit_fail(RVIT_OUT_OF_HOST_MEMORY, "%s: host memory: none left to parse it", path);
    if (root == NULL) {
        char shown[SHOWN_ERROR];
        rvit_printable(shown, sizeof shown, error.text);
        return rvit_fail(RVIT_BAD_FILE, "%s: is not valid JSON: %s (byte %d)", path, shown, error.position);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return rvit_fail(RVIT_BAD_FILE, "%s: its top level is not an object", path);
    }
    *out_root = root;
    return RVIT_OK;
}

static rvit_status read_all(const rvit_file *file, rvit_alloc *alloc, json_t **out_root)
{
    if (file->size > MAX_SIZE)
        return rvit_fail(RVIT_BAD_FILE, "%s: %lld bytes are more than the %d that are read", file->path, (long long)file->size, MAX_SIZE);
    char *text = rvit_alloc_new(alloc, (size_t)file->size);
    if (text == NULL)
        return RVIT_OUT_OF_HOST_MEMORY;
    rvit_status status = rvit_file_read(file, 0, file->size, text);
    if (status == RVIT_OK)
        status = scan(file->path, text, (size_t)file->size);
    if (status == RVIT_OK)
        status = parse(file->path, text, (size_t)file->size, out_root);
    rvit_alloc_free(alloc, text);
    return status;
}

rvit_status rvit_json_read(const char *path, rvit_alloc *alloc, json_t **out_root)
{
    rvit_file file;
    RVIT_TRY(rvit_file_open(path, &file));
    const rvit_status status = read_all(&file, alloc, out_root);
    rvit_file_close(&file);
    return status;
}
