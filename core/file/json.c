#include "core/base/os.h"
#include "core/file/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/sort.h"
#include "core/base/status.h"

typedef struct reader {
    const rvit_json_input *input;
    char *text;
    size_t size, at;
    rvit_json *values;
    int32_t n_values;
} reader;

#define JSON_FAIL(r, format, ...) \
    rvit_fail(RVIT_BAD_FILE, "%s:%s is not valid JSON: " format " (byte %zu)", (r)->input->path, (r)->input->what, __VA_ARGS__, (r)->at)

static rvit_status fail_at(const reader *r, const char *why)
{
    if (r->at >= r->size)
        why = "unterminated object, array or string";
    return JSON_FAIL(r, "%s", why);
}

static void skip_blanks(reader *r)
{
    while (r->at < r->size && strchr(" \t\r\n", r->text[r->at]) != NULL)
        r->at++;
}

/* An upper bound on the number of values, counted from brackets, commas and strings only. Bounds memory and depth. */
static rvit_status count_values(const reader *r, int32_t *out_n)
{
    const rvit_json_input *in = r->input;
    const char *nul = memchr(r->text, '\0', r->size);
    if (nul != NULL)
        return rvit_fail(RVIT_BAD_FILE, "%s:%s is not valid JSON: NUL at byte %zu", in->path, in->what, (size_t)(nul - r->text));
    int32_t n = 1, depth = 0, in_string = 0, escaped = 0;
    for (size_t i = 0; i < r->size; i++) {
        const char c = r->text[i];
        if (in_string) {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        in_string = c == '"';
        const int opens = c == '{' || c == '[';
        n += opens || c == ',';
        depth += opens - (c == '}' || c == ']');
        if (depth > in->max_depth)
            return rvit_fail(RVIT_BAD_FILE, "%s:%s nests deeper than %d levels (byte %zu)", in->path, in->what, (int)in->max_depth, i);
        if (n > in->max_values)
            return rvit_fail(RVIT_BAD_FILE, "%s:%s holds more than %d values", in->path, in->what, (int)in->max_values);
    }
    *out_n = n;
    return RVIT_OK;
}

/* Reads four hexadecimal digits at r->at; -1 if they are missing. */
static int32_t read_hex4(reader *r)
{
    int32_t code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char c = r->at < r->size ? r->text[r->at] : ' ';
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

static char *put_utf8(char *out, int32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char marks[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(marks[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--)
        *out++ = (char)(0x80 | (code >> (6 * i) & 0x3f));
    return out;
}

/* Reads the code after "\u" and joins surrogate pairs. */
static rvit_status read_unicode(reader *r, char **out)
{
    int32_t code = read_hex4(r);
    if (code >= 0xd800 && code < 0xdc00) {
        const int pair = r->at + 1 < r->size && r->text[r->at] == '\\' && r->text[r->at + 1] == 'u';
        r->at += pair ? 2 : 0;
        const int32_t low = pair ? read_hex4(r) : -1;
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
    } else if (code >= 0xdc00 && code < 0xe000) {
        code = -1;
    }
    if (code < 0)
        return fail_at(r, "invalid Unicode escape");
    if (code == 0)
        return fail_at(r, "\\u0000 (NUL) in a string");
    *out = put_utf8(*out, code);
    return RVIT_OK;
}

static rvit_status read_escape(reader *r, char **out)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char c = r->text[r->at++];
    if (c == 'u')
        return read_unicode(r, out);
    const char *found = c == '\0' ? NULL : strchr(escapes, c);
    if (found == NULL) {
        r->at--;
        return fail_at(r, "invalid escape");
    }
    *(*out)++ = meanings[found - escapes];
    return RVIT_OK;
}

/* The length of the UTF-8 sequence at text; 0 if it is invalid (overlong forms, surrogates, codes above 0x10ffff). */
static size_t utf8_length(const unsigned char *text)
{
    const unsigned char c = text[0];
    const size_t length = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    for (size_t i = 1; i < length; i++) /* a truncated sequence ends at the text's final NUL */
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && text[1] < 0xa0) || (c == 0xed && text[1] > 0x9f) || (c == 0xf0 && text[1] < 0x90) || (c == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

/* Reads a string whose opening quote is at r->at. */
static rvit_status read_string(reader *r, const char **out_string)
{
    char *out = r->text + ++r->at;
    *out_string = out;
    for (;;) {
        if (r->at >= r->size)
            return fail_at(r, NULL);
        const unsigned char c = (unsigned char)r->text[r->at];
        if (c == '"')
            break;
        if (c < 0x20)
            return JSON_FAIL(r, "control character 0x%x in a string", c);
        if (c == '\\') {
            r->at++;
            RVIT_TRY(read_escape(r, &out));
            continue;
        }
        const size_t length = c < 0x80 ? 1 : utf8_length((const unsigned char *)r->text + r->at);
        if (length == 0)
            return JSON_FAIL(r, "cannot decode byte 0x%x", c);
        memmove(out, r->text + r->at, length);
        out += length;
        r->at += length;
    }
    r->at++;
    *out = '\0';
    return RVIT_OK;
}

static size_t skip_digits(reader *r)
{
    const size_t begin = r->at;
    while (r->at < r->size && r->text[r->at] >= '0' && r->text[r->at] <= '9')
        r->at++;
    return r->at - begin;
}

/* Digits with an optional '-' before them. */
static rvit_status read_integer(reader *r, const char *digits, rvit_json *value)
{
    const int negative = *digits == '-';
    uint64_t n = 0;
    const uint64_t max = (uint64_t)INT64_MAX + (uint64_t)negative;
    for (const char *c = digits + negative; c < r->text + r->at; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        if (n > (max - digit) / 10)
            return fail_at(r, "integer out of range");
        n = 10 * n + digit;
    }
    value->type = RVIT_JSON_INTEGER;
    value->integer = negative ? (int64_t)(0 - n) : (int64_t)n;
    return RVIT_OK;
}

static rvit_status read_number(reader *r, rvit_json *value)
{
    const size_t begin = r->at;
    int is_real = 0;
    r->at += r->text[r->at] == '-';
    const size_t first = r->at, n_digits = skip_digits(r);
    if (n_digits == 0 || (n_digits > 1 && r->text[first] == '0'))
        return fail_at(r, "invalid number");
    if (r->at < r->size && r->text[r->at] == '.') {
        r->at++;
        is_real = 1;
        if (skip_digits(r) == 0)
            return fail_at(r, "invalid number");
    }
    if (r->at < r->size && (r->text[r->at] == 'e' || r->text[r->at] == 'E')) {
        r->at++;
        is_real = 1;
        r->at += r->at < r->size && (r->text[r->at] == '+' || r->text[r->at] == '-');
        if (skip_digits(r) == 0)
            return fail_at(r, "invalid number");
    }
    const int negative_zero = r->at - begin == 2 && r->text[begin] == '-' && r->text[first] == '0';
    if (!is_real && !negative_zero)
        return read_integer(r, r->text + begin, value);
    value->type = RVIT_JSON_REAL;
    value->real = rvit_strtod(r->text + begin);
    return isfinite(value->real) ? RVIT_OK : fail_at(r, "number out of range");
}

static rvit_status read_word(reader *r, rvit_json *value)
{
    static const struct {
        const char *word;
        rvit_json_type type;
    } words[] = {{"null", RVIT_JSON_NULL}, {"false", RVIT_JSON_FALSE}, {"true", RVIT_JSON_TRUE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t length = strlen(words[i].word);
        if (r->size - r->at >= length && memcmp(r->text + r->at, words[i].word, length) == 0) {
            value->type = words[i].type;
            r->at += length;
            return RVIT_OK;
        }
    }
    return fail_at(r, "expected a value");
}

static rvit_status read_key(reader *r, const char **out_key)
{
    skip_blanks(r);
    if (r->at >= r->size || r->text[r->at] != '"')
        return fail_at(r, "expected a key");
    RVIT_TRY(read_string(r, out_key));
    skip_blanks(r);
    if (r->at >= r->size || r->text[r->at] != ':')
        return fail_at(r, "expected ':'");
    r->at++;
    return RVIT_OK;
}

/* Reads a scalar, or the opening bracket of a container. */
static rvit_status read_head(reader *r, const char *key, rvit_json **out_value)
{
    skip_blanks(r);
    if (r->at >= r->size)
        return fail_at(r, NULL);
    rvit_json *value = &r->values[r->n_values++];
    *out_value = value;
    value->key = key;
    value->span = 1;
    const char c = r->text[r->at];
    if (c == '{' || c == '[') {
        value->type = c == '{' ? RVIT_JSON_OBJECT : RVIT_JSON_ARRAY;
        r->at++;
        return RVIT_OK;
    }
    if (c == '"') {
        value->type = RVIT_JSON_STRING;
        return read_string(r, &value->string);
    }
    return c == '-' || (c >= '0' && c <= '9') ? read_number(r, value) : read_word(r, value);
}

static char closing(const rvit_json *container)
{
    return container->type == RVIT_JSON_OBJECT ? '}' : ']';
}

/* Not recursive: `open` holds the containers that are not closed yet. */
static rvit_status read_values(reader *r)
{
    int32_t open[RVIT_JSON_MAX_DEPTH], depth = 0;
    const char *key = NULL;
    do {
        rvit_json *value = NULL;
        RVIT_TRY(read_head(r, key, &value));
        int is_first = 0;
        if (value->type == RVIT_JSON_ARRAY || value->type == RVIT_JSON_OBJECT) {
            open[depth++] = (int32_t)(value - r->values);
            is_first = 1;
        }
        key = NULL;
        while (depth > 0) {
            rvit_json *container = &r->values[open[depth - 1]];
            skip_blanks(r);
            const char c = r->at < r->size ? r->text[r->at] : '\0';
            if (c == closing(container)) {
                r->at++;
                container->span = r->n_values - open[--depth];
                is_first = 0;
                continue;
            }
            if (!is_first && c != ',')
                return fail_at(r, container->type == RVIT_JSON_OBJECT ? "expected ',' or '}'" : "expected ',' or ']'");
            r->at += !is_first;
            container->n++;
            if (container->type == RVIT_JSON_OBJECT)
                RVIT_TRY(read_key(r, &key));
            break;
        }
    } while (depth > 0);
    return RVIT_OK;
}

static int compare_keys(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* keys: has room for all values. */
static rvit_status check_keys(const reader *r, const char **keys)
{
    for (int32_t i = 0; i < r->n_values; i++) {
        const rvit_json *object = &r->values[i];
        if (object->type != RVIT_JSON_OBJECT)
            continue;
        size_t n = 0;
        for (const rvit_json *v = rvit_json_first(object); v != NULL; v = rvit_json_next(object, v))
            keys[n++] = v->key;
        rvit_sort(keys, n, sizeof *keys, compare_keys);
        for (size_t k = 1; k < n; k++)
            if (strcmp(keys[k - 1], keys[k]) == 0)
                return rvit_fail(RVIT_BAD_FILE, "%s:%s is not valid JSON: duplicate key '%s'", r->input->path, r->input->what,
                                 rvit_shown(keys[k]).text);
    }
    return RVIT_OK;
}

static rvit_status read_all(reader *r, rvit_alloc *alloc)
{
    RVIT_TRY(read_values(r));
    const char **keys = rvit_alloc_array(alloc, (size_t)r->n_values, sizeof *keys);
    RVIT_TRY_MEMORY(keys);
    const rvit_status status = check_keys(r, keys);
    rvit_alloc_free(alloc, keys);
    return status;
}

rvit_status rvit_json_parse(const rvit_json_input *input, rvit_alloc *alloc, rvit_json **out_root, size_t *out_end)
{
    reader r = {.input = input, .text = input->text, .size = input->size};
    int32_t n = 0;
    RVIT_TRY(count_values(&r, &n));
    r.values = rvit_alloc_array(alloc, (size_t)n, sizeof *r.values);
    RVIT_TRY_MEMORY(r.values);
    const rvit_status status = read_all(&r, alloc);
    if (status != RVIT_OK) {
        rvit_alloc_free(alloc, r.values);
        return status;
    }
    *out_root = r.values;
    *out_end = r.at;
    return RVIT_OK;
}

const rvit_json *rvit_json_first(const rvit_json *parent)
{
    return parent->span > 1 ? parent + 1 : NULL;
}

const rvit_json *rvit_json_next(const rvit_json *parent, const rvit_json *value)
{
    const rvit_json *next = value + value->span;
    return next < parent + parent->span ? next : NULL;
}

const rvit_json *rvit_json_get(const rvit_json *object, const char *key)
{
    if (object == NULL || object->type != RVIT_JSON_OBJECT)
        return NULL;
    for (const rvit_json *v = rvit_json_first(object); v != NULL; v = rvit_json_next(object, v))
        if (strcmp(v->key, key) == 0)
            return v;
    return NULL;
}
