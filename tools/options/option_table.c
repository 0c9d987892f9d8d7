#include "option_table.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WRAP_COLUMNS = 100, HELP_COLUMN = 24, HELP = 1 << 16, GROUPED_ROWS = 12 };

__attribute__((format(printf, 2, 3))) static void complain(const struct option_table *table, const char *format, ...)
{
    char *sentence = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&sentence, format, arguments) < 0)
        sentence = NULL;
    va_end(arguments);
    table->complain(sentence != NULL ? sentence : "out of memory");
    free(sentence);
}

void append_text(char *out, size_t out_size, const char *format, ...)
{
    const size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, out_size - used, format, arguments);
    va_end(arguments);
}

/* "auto, cpu or cuda" */
static void list_choices(const struct option_row *row, char *out, size_t out_size)
{
    const char *last = NULL;
    for (int64_t value = row->low; value <= row->high; value++) {
        const char *name = row->choice((int)value);
        if (name != NULL && last != NULL)
            append_text(out, out_size, "%s%s", out[0] ? ", " : "", last);
        last = name != NULL ? name : last;
    }
    append_text(out, out_size, "%s%s", out[0] ? " or " : "", last != NULL ? last : "");
}

/* The range of the argument, or of each number in it: "0 to 1024". */
static void describe_range(const struct option_row *row, char *out, size_t out_size)
{
    out[0] = '\0';
    switch (row->type) {
    case OPTION_IS_CHOICE:
        list_choices(row, out, out_size);
        break;
    case OPTION_IS_NUMBER:
    case OPTION_IS_NUMBERS:
        append_text(out, out_size, "%g", row->least);
        if (isinf(row->most))
            append_text(out, out_size, " or more");
        else
            append_text(out, out_size, " to %g", row->most);
        break;
    case OPTION_IS_INTEGER:
    case OPTION_IS_INTEGERS:
    case OPTION_IS_ASCENDING:
        append_text(out, out_size, "%" PRId64, row->low);
        if (row->high >= INT32_MAX)
            append_text(out, out_size, " or more");
        else
            append_text(out, out_size, " to %" PRId64, row->high);
        break;
    case OPTION_IS_FLAG:
    case OPTION_IS_TEXT:
        break;
    }
}

static void describe_expected(const struct option_row *row, char *out, size_t out_size)
{
    char range[512];
    describe_range(row, range, sizeof range);
    if (row->type == OPTION_IS_INTEGER)
        snprintf(out, out_size, "an integer, %s", range);
    else if (row->type == OPTION_IS_NUMBER)
        snprintf(out, out_size, "a number, %s", range);
    else if (row->type == OPTION_IS_NUMBERS)
        snprintf(out, out_size, "one number or %d comma-separated numbers, each %s", (int)row->capacity, range);
    else if (row->type == OPTION_IS_INTEGERS || row->type == OPTION_IS_ASCENDING)
        snprintf(out, out_size, "comma-separated %s, each %s, at most %d of them",
                 row->type == OPTION_IS_ASCENDING ? "ascending integers" : "integers", range, (int)row->capacity);
    else
        snprintf(out, out_size, "%s", range);
}

static bool read_integer(const struct option_row *row, const char *text, char **end, int64_t *out)
{
    errno = 0;
    *out = strtoll(text, end, 10);
    return *end != text && errno == 0 && *out >= row->low && *out <= row->high;
}

static bool read_number(const struct option_row *row, const char *text, char **end, double *out)
{
    *out = strtod(text, end);
    return *end != text && isfinite(*out) && *out >= row->least && *out <= row->most;
}

static bool set_integer(const struct option_row *row, const char *text, void *value)
{
    char *end;
    int64_t number;
    if (!read_integer(row, text, &end, &number) || *end != '\0')
        return false;
    const int32_t narrow = (int32_t)number;
    memcpy(value, row->size == sizeof narrow ? (const void *)&narrow : &number, row->size);
    return true;
}

static bool set_number(const struct option_row *row, const char *text, void *value)
{
    char *end;
    double number;
    if (!read_number(row, text, &end, &number) || *end != '\0')
        return false;
    const float narrow = (float)number;
    memcpy(value, row->size == sizeof narrow ? (const void *)&narrow : &number, row->size);
    return true;
}

static bool set_choice(const struct option_row *row, const char *text, void *value)
{
    for (int64_t i = row->low; i <= row->high; i++) {
        const char *name = row->choice((int)i);
        const int32_t found = (int32_t)i;
        if (name != NULL && strcmp(text, name) == 0) {
            memcpy(value, &found, sizeof found);
            return true;
        }
    }
    return false;
}

static bool set_integers(const struct option_row *row, const char *text, int32_t *out, int32_t *out_n)
{
    int32_t n = 0;
    for (const char *at = text;; at++) {
        char *end;
        int64_t number;
        if (!isdigit((unsigned char)*at) || !read_integer(row, at, &end, &number) || (size_t)n == row->capacity ||
            (row->type == OPTION_IS_ASCENDING && n > 0 && number <= out[n - 1]))
            return false;
        out[n++] = (int32_t)number;
        *out_n = n;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
        at = end;
    }
}

static bool set_numbers(const struct option_row *row, const char *text, float *out)
{
    size_t n = 0;
    for (const char *at = text;; at++) {
        char *end;
        double number;
        if (!read_number(row, at, &end, &number) || n == row->capacity)
            return false;
        out[n++] = (float)number;
        if (*end == '\0')
            break;
        if (*end != ',')
            return false;
        at = end;
    }
    if (n == 1)
        while (n < row->capacity)
            out[n++] = out[0];
    return n == row->capacity;
}

static bool set_value(const struct option_row *row, const char *text, char *values)
{
    void *value = values + row->offset;
    const bool yes = true;
    switch (row->type) {
    case OPTION_IS_FLAG:
        memcpy(value, &yes, sizeof yes);
        return true;
    case OPTION_IS_TEXT:
        memcpy(value, &text, sizeof text);
        return true;
    case OPTION_IS_INTEGER:
        return set_integer(row, text, value);
    case OPTION_IS_NUMBER:
        return set_number(row, text, value);
    case OPTION_IS_CHOICE:
        return set_choice(row, text, value);
    case OPTION_IS_INTEGERS:
    case OPTION_IS_ASCENDING:
        return set_integers(row, text, value, (int32_t *)(void *)(values + row->count_offset));
    case OPTION_IS_NUMBERS:
        return set_numbers(row, text, value);
    }
    return false;
}

bool option_table_set(const struct option_table *table, const struct option_row *row, const char *text, void *values)
{
    char expected[768];
    if (!set_value(row, text, values)) {
        describe_expected(row, expected, sizeof expected);
        complain(table, "%s%s is '%s', expected %s", table->prefix, row->name, text, expected);
        return false;
    }
    if (row->given != 0) {
        int *given = (int *)(void *)((char *)values + table->given_offset);
        *given |= row->given;
    }
    return true;
}

static bool has_row(const struct option_command *command, const struct option_row *row)
{
    return row->name != NULL && (row->commands == 0 || (row->commands & command->bit) != 0);
}

void wrap_print(const char *text, int column, int indent)
{
    for (const char *separator = ""; *text; separator = " ") {
        const int length = (int)strcspn(text, " ");
        if (separator[0] && column + 1 + length > WRAP_COLUMNS) {
            printf("\n%*s", indent, "");
            column = indent;
            separator = "";
        }
        printf("%s%.*s", separator, length, text);
        column += (int)strlen(separator) + length;
        text += length;
        text += *text == ' ';
    }
    putchar('\n');
}

static void print_row(const char *name, const char *argument, const char *help)
{
    const int used = printf("  --%s%s%s", name, argument != NULL ? " " : "", argument != NULL ? argument : "");
    if (used + 2 > HELP_COLUMN)
        putchar('\n');
    printf("%*s", used + 2 > HELP_COLUMN ? HELP_COLUMN : HELP_COLUMN - used, "");
    wrap_print(help, HELP_COLUMN, HELP_COLUMN);
}

/* The help of a row, with the range of its argument. */
static const char *row_help(const struct option_row *row, char *out, size_t out_size)
{
    char range[512];
    const char *slot = strstr(row->help, "%s");
    if (slot == NULL)
        return row->help;
    describe_range(row, range, sizeof range);
    snprintf(out, out_size, "%.*s%s%s", (int)(slot - row->help), row->help, range, slot + 2);
    return out;
}

/* Whether the table has groups, and the command has enough options to show them. */
static bool is_grouped(const struct option_table *table, const struct option_command *command)
{
    size_t n = 0;
    for (size_t i = 0; i < table->n_rows; i++)
        n += has_row(command, &table->rows[i]);
    return table->rows[0].name == NULL && n > GROUPED_ROWS;
}

/* Calls print for each row of a command, and print_group before the first row of each group if the command is grouped. */
static void for_each_row(const struct option_table *table, const struct option_command *command, void (*print_group)(const char *title),
                         void (*print)(const char *name, const char *argument, const char *help))
{
    char help[1024];
    const char *group = NULL;
    const bool grouped = is_grouped(table, command);
    for (size_t i = 0; i < table->n_rows; i++) {
        const struct option_row *row = &table->rows[i];
        if (row->name == NULL)
            group = row->help;
        if (!has_row(command, row))
            continue;
        if (group != NULL && grouped)
            print_group(group);
        group = NULL;
        print(row->name, row->argument, row_help(row, help, sizeof help));
    }
}

static void print_group(const char *title)
{
    printf("\n%s:\n", title);
}

void option_table_help(const struct option_table *table, const struct option_command *command)
{
    printf("usage: %s%s%s%s%s [options]\n\n", table->program, command->name[0] ? " " : "", command->name, command->arguments[0] ? " " : "",
           command->arguments);
    wrap_print(command->text, 0, 0);
    if (!is_grouped(table, command))
        puts("\noptions:");
    for_each_row(table, command, print_group, print_row);
    print_row("help", NULL, "print this help");
    if (command->example != NULL)
        printf("\nexample:\n  %s\n", command->example);
}

void manual_print(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout); /* at the start of a line these begin a request */
    for (; *text; text++)
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            putchar(*text);
}

static void print_manual_group(const char *title)
{
    printf(".PP\n.I %c%s:\n", toupper((unsigned char)title[0]), title + 1);
}

static void print_manual_row(const char *name, const char *argument, const char *help)
{
    fputs(".TP\n\\fB\\-\\-", stdout);
    manual_print(name);
    fputs("\\fR", stdout);
    if (argument != NULL)
        printf(" \\fI%s\\fR", argument);
    putchar('\n');
    manual_print(help);
    putchar('\n');
}

void option_table_manual(const struct option_table *table, const struct option_command *command)
{
    printf(".SS %s\n.B %s %s\n", command->name, table->program, command->name);
    if (command->arguments[0]) {
        fputs("\\fI", stdout);
        manual_print(command->arguments);
        puts("\\fR");
    }
    puts("[options]\n.PP");
    manual_print(command->text);
    putchar('\n');
    for_each_row(table, command, print_manual_group, print_manual_row);
    if (command->example != NULL) {
        fputs(".PP\nExample:\n.PP\n.nf\n.RS\n", stdout);
        manual_print(command->example);
        fputs("\n.RE\n.fi\n", stdout);
    }
}

/* The rows of a command for getopt_long, which returns a row's index + HELP + 1. */
static struct option *getopt_rows(const struct option_table *table, const struct option_command *command)
{
    struct option *out = calloc(table->n_rows + 2, sizeof *out);
    size_t n = 0;
    for (size_t i = 0; out != NULL && i < table->n_rows; i++) {
        const struct option_row *row = &table->rows[i];
        if (has_row(command, row))
            out[n++] = (struct option){row->name, row->argument != NULL ? required_argument : no_argument, NULL, (int)i + HELP + 1};
    }
    if (out != NULL)
        out[n] = (struct option){"help", no_argument, NULL, HELP};
    return out;
}

/* The argument that getopt_long examines next. optind does not show it afterwards, because getopt_long stays within a group of short
   options. */
static const char *next_option(int argc, char **argv)
{
    int i = optind > 0 ? optind : 1;
    while (i < argc && (argv[i][0] != '-' || argv[i][1] == '\0'))
        i++;
    return i < argc ? argv[i] : "";
}

static enum option_result parse(const struct option_table *table, const struct option_command *command, const struct option *rows, int argc,
                                char **argv, void *values)
{
    const char *space = command->name[0] ? " " : "";
    opterr = 0;
    optind = 0; /* restarts getopt for a second call */
    for (;;) {
        const char *at = next_option(argc, argv);
        const int id = getopt_long(argc, argv, ":h", rows, NULL);
        if (id == -1)
            break;
        if (id == 'h' || id == HELP) {
            option_table_help(table, command);
            return OPTION_HELPED;
        }
        if (id == ':' || id == '?') {
            const bool is_short = at[1] != '-', has_value = id == '?' && optopt >= HELP;
            complain(table, "%s%s%s%s%s; see '%s%s%s --help'", id == ':' || has_value ? "" : "unknown option ", at,
                     id == ':'   ? " requires a value"
                     : has_value ? ": this option takes no value"
                                 : "",
                     is_short ? "; write a file name like this as ./" : "", is_short ? at : "", table->program, space, command->name);
            return OPTION_REFUSED;
        }
        if (!option_table_set(table, &table->rows[id - HELP - 1], optarg, values))
            return OPTION_REFUSED;
    }
    const int n = argc - optind;
    if (n < command->min_arguments || (command->max_arguments >= 0 && n > command->max_arguments)) {
        complain(table, "%s takes %s; see '%s%s%s --help'", command->name[0] ? command->name : table->program,
                 command->arguments[0] ? command->arguments : "no arguments", table->program, space, command->name);
        return OPTION_REFUSED;
    }
    return OPTION_PARSED;
}

enum option_result option_table_parse(const struct option_table *table, const struct option_command *command, int argc, char **argv,
                                      void *values, int *out_first)
{
    struct option *rows = getopt_rows(table, command);
    if (rows == NULL) {
        complain(table, "out of memory");
        return OPTION_REFUSED;
    }
    const enum option_result result = parse(table, command, rows, argc, argv, values);
    free(rows);
    *out_first = optind;
    return result;
}
