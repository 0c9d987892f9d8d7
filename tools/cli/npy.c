#include "npy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char magic[] = "\x93NUMPY";
#define MAGIC_SIZE 6
#define HEADER_SIZE 128 /* header size when writing: room for any shape, and a multiple of 64 */

bool npy_is(const void *data, size_t size)
{
    return size >= MAGIC_SIZE && memcmp(data, magic, MAGIC_SIZE) == 0;
}

/* The text after 'key': in the header, which is a Python dict, or NULL. */
static const char *find_value(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (!at)
        return NULL;
    at += strlen(key);
    at += strspn(at, "'\" ");
    return *at == ':' ? at + 1 + strspn(at + 1, " ") : NULL;
}

static bool parse_type(const char *text, struct npy *out)
{
    const size_t length = text && (*text == '\'' || *text == '"') ? strcspn(text + 1, "'\"") : 0;
    if (length == 0 || length >= sizeof out->type)
        return false;
    memcpy(out->type, text + 1, length);
    out->type[length] = 0;
    return true;
}

static bool parse_shape(const char *text, struct npy *out)
{
    if (!text || *text != '(')
        return false;
    for (text += 1 + strspn(text + 1, " "); *text != ')'; text += strspn(text, " ,")) {
        char *end;
        errno = 0;
        const long long length = strtoll(text, &end, 10);
        if (!isdigit((unsigned char)*text) || errno || out->n_dims == NPY_MAX_DIMS || !strchr(" ,)", *end) || !*end)
            return false;
        out->shape[out->n_dims++] = length;
        text = end;
    }
    return true;
}

bool npy_parse(const void *data, size_t size, struct npy *out, const char **out_error)
{
    const uint8_t *bytes = data;
    const size_t prefix = size > MAGIC_SIZE && bytes[MAGIC_SIZE] > 1 ? 12 : 10;
    *out = (struct npy){0};
    *out_error = "the header is truncated";
    if (size < prefix)
        return false;
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (prefix == 12)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (size - prefix < length)
        return false;
    char *header = allocate(length + 1, 1);
    *out_error = "out of memory";
    if (!header)
        return false;
    memcpy(header, bytes + prefix, length);
    const char *order = find_value(header, "fortran_order");
    const bool ok = parse_type(find_value(header, "descr"), out) && parse_shape(find_value(header, "shape"), out) && order;
    out->fortran_order = order && strncmp(order, "True", 4) == 0;
    free(header);
    *out_error = "the header cannot be read, or has more than four dimensions";
    if (!ok)
        return false;
    out->data = bytes + prefix + length;
    out->data_size = size - prefix - length;
    *out_error = "the data is truncated";
    bool is_empty = false;
    for (int i = 0; i < out->n_dims; i++)
        is_empty |= out->shape[i] == 0;
    size_t left = out->data_size;
    for (int i = 0; i < out->n_dims && !is_empty; i++) {
        if ((uint64_t)out->shape[i] > left)
            return false;
        left /= (size_t)out->shape[i];
    }
    return true;
}

static int done(const struct npy_writer *self, bool good)
{
    if (good)
        return EXIT_OK;
    return fail_with(EXIT_FAULT, self->output.path, "%s", self->output.reason);
}

static bool write_header(struct npy_writer *self)
{
    char text[HEADER_SIZE - 10 + 1], shape[100] = "";
    size_t used = 0;
    for (int i = 0; i < self->n_dims; i++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%" PRId64 ", ", self->shape[i]);
    snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%.*s), }", (int)used - (self->n_dims > 1 ? 2 : 1),
             shape);
    uint8_t header[HEADER_SIZE];
    memcpy(header, magic, MAGIC_SIZE);
    memcpy(header + MAGIC_SIZE, (const uint8_t[]){1, 0, HEADER_SIZE - 10, 0}, 4);
    memset(header + 10, ' ', HEADER_SIZE - 10);
    memcpy(header + 10, text, strlen(text));
    header[HEADER_SIZE - 1] = '\n';
    return output_file_write(&self->output, header, HEADER_SIZE);
}

int npy_create(const char *path, int n_dims, const int64_t *tail, struct npy_writer *out)
{
    *out = (struct npy_writer){.n_dims = n_dims};
    memcpy(out->shape + 1, tail, (size_t)(n_dims - 1) * sizeof *tail);
    return done(out, output_file_open(path, &out->output) && write_header(out));
}

int npy_append(struct npy_writer *self, const float *row)
{
    size_t length = 1;
    for (int i = 1; i < self->n_dims; i++)
        length *= (size_t)self->shape[i];
    self->shape[0]++;
    return done(self, output_file_write(&self->output, row, length * sizeof *row));
}

int npy_commit(struct npy_writer *self)
{
    return done(self, output_file_rewind(&self->output) && write_header(self) && output_file_commit(&self->output));
}

void npy_close(struct npy_writer *self)
{
    output_file_close(&self->output);
}
