#include "core/model/config/read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/status.h"

enum { MAX_VALUE = 1 << 20, SHOWN_NAME = 64 };

const char *rvit_config_where(const rvit_config_reader *r, const char *field, char out[RVIT_FACT_WHERE])
{
    snprintf(out, RVIT_FACT_WHERE, "%s: %s%s", r->name, r->section, field);
    return out;
}

const char *rvit_config_where_default(const rvit_config_reader *r, const rvit_json *object, const char *field, char out[RVIT_FACT_WHERE])
{
    rvit_config_where(r, field, out);
    const size_t n = strlen(out);
    if (rvit_config_get(object, field) == NULL)
        snprintf(out + n, RVIT_FACT_WHERE - n, " (default)");
    return out;
}

const rvit_json *rvit_config_get(const rvit_json *object, const char *field)
{
    const rvit_json *value = rvit_json_get(object, field);
    return value == NULL || value->type == RVIT_JSON_NULL ? NULL : value;
}

static rvit_status bad(const rvit_config_reader *r, const char *field, const char *expected)
{
    return rvit_fail(RVIT_BAD_FILE, "%s: %s%s is not %s", r->path, r->section, field, expected);
}

/* Some writers write integers as 16.0. */
static int is_number(const rvit_json *value, double *out)
{
    if (value->type != RVIT_JSON_INTEGER && value->type != RVIT_JSON_REAL)
        return 0;
    *out = value->type == RVIT_JSON_REAL ? value->real : (double)value->integer;
    return isfinite(*out);
}

rvit_status rvit_config_integer(const rvit_config_reader *r, const rvit_json *object, const char *field, int64_t min, int64_t max,
                                int64_t *out)
{
    const rvit_json *value = rvit_config_get(object, field);
    if (value == NULL)
        return RVIT_OK;
    double number;
    if (!is_number(value, &number) || number != floor(number))
        return bad(r, field, "an integer");
    if (number < (double)min || number > (double)max)
        return rvit_fail(RVIT_BAD_FILE, "%s: %s%s is %.9g, expected %lld..%lld", r->path, r->section, field, number, (long long)min,
                         (long long)max);
    *out = (int64_t)number;
    return RVIT_OK;
}

rvit_status rvit_config_number(const rvit_config_reader *r, const rvit_json *object, const char *field, double *out)
{
    const rvit_json *value = rvit_config_get(object, field);
    if (value == NULL)
        return RVIT_OK;
    double number;
    if (!is_number(value, &number) || !((float)number > 0) || !isfinite((float)number))
        return bad(r, field, "a number above 0");
    *out = number;
    return RVIT_OK;
}

rvit_status rvit_config_bool(const rvit_config_reader *r, const rvit_json *object, const char *field, int32_t *out)
{
    const rvit_json *value = rvit_config_get(object, field);
    if (value == NULL)
        return RVIT_OK;
    if (value->type != RVIT_JSON_TRUE && value->type != RVIT_JSON_FALSE)
        return bad(r, field, "true or false");
    *out = value->type == RVIT_JSON_TRUE;
    return RVIT_OK;
}

rvit_status rvit_config_string(const rvit_config_reader *r, const rvit_json *object, const char *field, const char **out)
{
    const rvit_json *value = rvit_config_get(object, field);
    if (value == NULL)
        return RVIT_OK;
    if (value->type != RVIT_JSON_STRING)
        return bad(r, field, "a string");
    *out = value->string;
    return RVIT_OK;
}

rvit_status rvit_config_object(const rvit_config_reader *r, const rvit_json *object, const char *field, const rvit_json **out)
{
    const rvit_json *value = rvit_config_get(object, field);
    if (value == NULL)
        return RVIT_OK;
    if (value->type != RVIT_JSON_OBJECT)
        return bad(r, field, "an object");
    *out = value;
    return RVIT_OK;
}

static int is_extent(const rvit_json *value, double *out)
{
    return value != NULL && is_number(value, out) && *out >= 1 && *out <= MAX_VALUE && *out == floor(*out);
}

rvit_status rvit_config_size(const rvit_config_reader *r, const rvit_json *object, const char *field, double out[2], int32_t *out_given)
{
    const rvit_json *value = rvit_config_get(object, field);
    *out_given = value != NULL;
    if (value == NULL)
        return RVIT_OK;
    const rvit_json *height = value, *width = value;
    if (value->type == RVIT_JSON_OBJECT) {
        height = rvit_json_get(value, "height");
        width = rvit_json_get(value, "width");
    } else if (value->type == RVIT_JSON_ARRAY) {
        /* [height, width] or [channels, height, width]. */
        const rvit_json *first = rvit_json_first(value);
        if (value->n < 1 || value->n > 3)
            return bad(r, field, "a size in pixels");
        height = value->n == 3 ? rvit_json_next(value, first) : first;
        width = value->n == 1 ? height : rvit_json_next(value, height);
    }
    if (!is_extent(height, &out[0]) || !is_extent(width, &out[1]))
        return bad(r, field, "a size in pixels");
    return RVIT_OK;
}

rvit_status rvit_config_integer_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact)
{
    char where[RVIT_FACT_WHERE];
    int64_t value = -1;
    RVIT_TRY(rvit_config_integer(r, object, field, 0, MAX_VALUE, &value));
    if (value >= 0)
        rvit_facts_set(r->facts, fact, (double)value, rvit_config_where(r, field, where));
    return RVIT_OK;
}

rvit_status rvit_config_number_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact)
{
    char where[RVIT_FACT_WHERE];
    double value = 0;
    RVIT_TRY(rvit_config_number(r, object, field, &value));
    if (value > 0)
        rvit_facts_set(r->facts, fact, value, rvit_config_where(r, field, where));
    return RVIT_OK;
}

rvit_status rvit_config_size_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact)
{
    char where[RVIT_FACT_WHERE];
    double size[2];
    int32_t given;
    RVIT_TRY(rvit_config_size(r, object, field, size, &given));
    if (given)
        rvit_facts_set_several(r->facts, fact, size, 2, rvit_config_where(r, field, where));
    return RVIT_OK;
}

rvit_status rvit_config_colours_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, double min, rvit_fact fact)
{
    char where[RVIT_FACT_WHERE];
    const rvit_json *value = rvit_config_get(object, field);
    if (value == NULL)
        return RVIT_OK;
    double colours[3];
    const rvit_json *one = value->type == RVIT_JSON_ARRAY ? rvit_json_first(value) : value;
    if (value->type == RVIT_JSON_ARRAY && value->n != 1 && value->n != 3)
        return bad(r, field, "a list of three numbers");
    for (int i = 0; i < 3; i++) {
        if (one == NULL || !is_number(one, &colours[i]) || colours[i] < min || colours[i] > 1)
            return bad(r, field, min > 0 ? "three numbers above 0 and up to 1" : "three numbers from 0 to 1");
        if (value->type == RVIT_JSON_ARRAY && value->n == 3)
            one = rvit_json_next(value, one);
    }
    rvit_facts_set_several(r->facts, fact, colours, 3, rvit_config_where(r, field, where));
    return RVIT_OK;
}

rvit_status rvit_config_word_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact,
                                  const rvit_config_word *words, int names_it)
{
    char where[RVIT_FACT_WHERE], shown[SHOWN_NAME];
    const char *word = NULL;
    RVIT_TRY(rvit_config_string(r, object, field, &word));
    if (word == NULL)
        return RVIT_OK;
    rvit_config_where(r, field, where);
    for (; words->word != NULL; words++)
        if (strcmp(words->word, word) == 0) {
            rvit_facts_set(r->facts, fact, words->value, where);
            return RVIT_OK;
        }
    if (!names_it) {
        rvit_config_unsupported(r, field);
        return RVIT_OK;
    }
    rvit_printable(shown, sizeof shown, word);
    rvit_unsupported_add(r->unsupported, "%s is '%s', which is not supported", where, shown);
    rvit_facts_set_text(r->facts, fact, shown, where);
    return RVIT_OK;
}

rvit_status rvit_config_activation_fact(const rvit_config_reader *r, const rvit_json *object, const char *field, rvit_fact fact)
{
    static const rvit_config_word words[] = {
        {"gelu", RVIT_ACTIVATION_GELU},
        {"gelu_python", RVIT_ACTIVATION_GELU},
        {"gelu_erf", RVIT_ACTIVATION_GELU},
        {"gelu_pytorch_tanh", RVIT_ACTIVATION_GELU_TANH},
        {"gelu_python_tanh", RVIT_ACTIVATION_GELU_TANH},
        {"gelu_new", RVIT_ACTIVATION_GELU_TANH},
        {"gelu_tanh", RVIT_ACTIVATION_GELU_TANH},
        {"quick_gelu", RVIT_ACTIVATION_QUICK_GELU},
        {"quickgelu", RVIT_ACTIVATION_QUICK_GELU},
        {"silu", RVIT_ACTIVATION_SILU},
        {"swish", RVIT_ACTIVATION_SILU},
        {NULL, 0},
    };
    return rvit_config_word_fact(r, object, field, fact, words, 1);
}

void rvit_config_unsupported(const rvit_config_reader *r, const char *field)
{
    char shown[SHOWN_NAME];
    rvit_printable(shown, sizeof shown, field);
    rvit_unsupported_add(r->unsupported, "%s: %s%s is not supported", r->name, r->section, shown);
}
