#include "core/file/json_file.h"

#include <string.h>

#include "core/base/status.h"
#include "core/file/file.h"

enum { MAX_SIZE = 32 << 20, MAX_VALUES = 1 << 19 };

static rvit_status parse(const rvit_file *file, rvit_alloc *alloc, rvit_json_file *out_file)
{
    const rvit_json_input input = {file->path, "", out_file->text, (size_t)file->size, RVIT_JSON_MAX_DEPTH, MAX_VALUES};
    size_t end = 0;
    RVIT_TRY(rvit_json_parse(&input, alloc, &out_file->root, &end));
    end += strspn(input.text + end, " \t\r\n");
    if (end != input.size)
        return rvit_fail(RVIT_BAD_FILE, "%s: is not valid JSON: more than one value (byte %zu)", file->path, end);
    if (out_file->root->type != RVIT_JSON_OBJECT)
        return rvit_fail(RVIT_BAD_FILE, "%s: its top level is not an object", file->path);
    return RVIT_OK;
}

static rvit_status read_all(const rvit_file *file, rvit_alloc *alloc, rvit_json_file *out_file)
{
    if (file->size > MAX_SIZE)
        return rvit_fail(RVIT_BAD_FILE, "%s: its %lld bytes exceed the limit of %d", file->path, (long long)file->size, MAX_SIZE);
    out_file->text = rvit_alloc_new(alloc, (size_t)file->size + 1);
    RVIT_TRY_MEMORY(out_file->text);
    RVIT_TRY(rvit_file_read(file, 0, file->size, out_file->text));
    return parse(file, alloc, out_file);
}

rvit_status rvit_json_file_read(const char *path, rvit_alloc *alloc, rvit_json_file *out_file)
{
    rvit_file file;
    RVIT_TRY(rvit_file_open(path, &file));
    *out_file = (rvit_json_file){NULL, NULL};
    const rvit_status status = read_all(&file, alloc, out_file);
    rvit_file_close(&file);
    if (status != RVIT_OK)
        rvit_json_file_free(alloc, out_file);
    return status;
}

void rvit_json_file_free(rvit_alloc *alloc, rvit_json_file *file)
{
    rvit_alloc_free(alloc, file->root);
    rvit_alloc_free(alloc, file->text);
    *file = (rvit_json_file){NULL, NULL};
}
