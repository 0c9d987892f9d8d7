/* Command line options as a table of rows, from which parsing, checks, --help and the manual page are derived. */
#ifndef RVIT_OPTIONS_OPTION_TABLE_H
#define RVIT_OPTIONS_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_IS_FLAG,      /* bool; takes no argument */
    OPTION_IS_INTEGER,   /* an integer of 4 or 8 bytes */
    OPTION_IS_NUMBER,    /* float or double */
    OPTION_IS_TEXT,      /* const char *, which points into argv */
    OPTION_IS_CHOICE,    /* one of several names: an int32_t or an enum */
    OPTION_IS_INTEGERS,  /* int32_t [capacity], one or more numbers, and their count */
    OPTION_IS_ASCENDING, /* the same, strictly ascending */
    OPTION_IS_NUMBERS    /* float [capacity]: exactly capacity numbers, or one for all elements */
};

/* A row without a name starts a group; its help is the heading. */
struct option_row {
    const char *name, *argument; /* --name ARGUMENT; argument is NULL for a flag */
    const char *help;            /* %s stands for the range of the argument: "0 to 1024", "f32 or f16" */
    enum option_type type;
    size_t offset, size;              /* of the value in the struct */
    int64_t low, high;                /* range of integers, or of the values of choices, which may have gaps */
    double least, most;               /* range of other numbers */
    const char *(*choice)(int value); /* the name of a value; NULL if the value is not valid */
    size_t capacity, count_offset;    /* lists */
    unsigned commands;                /* bits of the commands that have the option; 0: all */
    int given;                        /* bit that records that the option was given */
};

/* Follows the help text in a row: the type and the location of the value, a member of the struct T. */
#define OPTION_MEMBER(T, member) .offset = offsetof(T, member), .size = sizeof(((T *)0)->member)
#define OPTION_FLAG(T, member) .type = OPTION_IS_FLAG, OPTION_MEMBER(T, member)
#define OPTION_TEXT(T, member) .type = OPTION_IS_TEXT, OPTION_MEMBER(T, member)
#define OPTION_INTEGER(T, member, low_, high_) .type = OPTION_IS_INTEGER, OPTION_MEMBER(T, member), .low = (low_), .high = (high_)
#define OPTION_NUMBER(T, member, least_, most_) .type = OPTION_IS_NUMBER, OPTION_MEMBER(T, member), .least = (least_), .most = (most_)
#define OPTION_CHOICE(T, member, name_of, low_, high_) \
    .type = OPTION_IS_CHOICE, OPTION_MEMBER(T, member), .choice = (name_of), .low = (low_), .high = (high_)
#define OPTION_LIST(T, member) OPTION_MEMBER(T, member), .capacity = sizeof(((T *)0)->member) / sizeof(((T *)0)->member[0])
#define OPTION_INTEGERS(T, member, count, low_, high_) \
    .type = OPTION_IS_INTEGERS, OPTION_LIST(T, member), .count_offset = offsetof(T, count), .low = (low_), .high = (high_)
#define OPTION_ASCENDING(T, member, count, low_, high_) \
    .type = OPTION_IS_ASCENDING, OPTION_LIST(T, member), .count_offset = offsetof(T, count), .low = (low_), .high = (high_)
#define OPTION_NUMBERS(T, member, least_, most_) .type = OPTION_IS_NUMBERS, OPTION_LIST(T, member), .least = (least_), .most = (most_)

struct option_table {
    const char *program; /* name of the program */
    const char *prefix;  /* prefix of option names in messages: "--" */
    const struct option_row *rows;
    size_t n_rows;
    size_t given_offset;                    /* offset of the int that collects the `given` bits of the rows */
    void (*complain)(const char *sentence); /* prints a sentence without a full stop; it may hold text from the command line */
};

/* A program, or one of its commands. */
struct option_command {
    const char *name;                 /* "" for a program without commands */
    const char *arguments;            /* arguments that are not options: "MODEL IMAGE..." */
    const char *text;                 /* introduction of --help and of the manual page */
    const char *example;              /* NULL: none */
    int min_arguments, max_arguments; /* max_arguments -1: any number */
    unsigned bit;                     /* bit in option_row.commands */
};

enum option_result { OPTION_PARSED, OPTION_HELPED, OPTION_REFUSED };

/* Fills the struct at `values`, which holds the defaults. Skips argv[0] and moves the arguments to the end, from argv[*out_first] on.
   Returns HELPED after printing --help and REFUSED after printing a message. */
enum option_result option_table_parse(const struct option_table *table, const struct option_command *command, int argc, char **argv,
                                      void *values, int *out_first);
/* Sets one value as if it were given after the row's option. Prints a message and returns false if it is not valid. */
bool option_table_set(const struct option_table *table, const struct option_row *row, const char *text, void *values);
void option_table_help(const struct option_table *table, const struct option_command *command);
/* Prints the section of a command in the manual page, as troff. */
void option_table_manual(const struct option_table *table, const struct option_command *command);
/* Prints text as troff, with its special characters escaped. */
void manual_print(const char *text);
/* Appends to the text in out, truncated at its end. */
__attribute__((format(printf, 3, 4))) void append_text(char *out, size_t out_size, const char *format, ...);
/* Prints text from the current column on and ends the line, wrapped at 100 columns. Further lines start at column indent. */
void wrap_print(const char *text, int column, int indent);

#endif
