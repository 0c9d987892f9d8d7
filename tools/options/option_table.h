/* Options of a command line as a table: what is parsed, checked and shown by --help comes from its rows. */
#ifndef RVIT_OPTIONS_OPTION_TABLE_H
#define RVIT_OPTIONS_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_IS_FLAG,      /* bool; takes no argument */
    OPTION_IS_INTEGER,   /* an integer of 4 or 8 bytes */
    OPTION_IS_NUMBER,    /* float or double */
    OPTION_IS_TEXT,      /* const char *, borrowed */
    OPTION_IS_CHOICE,    /* the value of a name: int32_t, or an enum */
    OPTION_IS_INTEGERS,  /* int32_t [capacity], one or more, and how many */
    OPTION_IS_ASCENDING, /* the same, each above the one before */
    OPTION_IS_NUMBERS    /* float [capacity]: as many numbers, or one for all */
};

struct option_row {
    const char *name, *argument; /* --name ARGUMENT; argument is NULL for a flag */
    const char *help;            /* a %s in it stands for what the argument may be: "0 to 1024", "f32 or f16" */
    enum option_type type;
    size_t offset, size;              /* of the value, in the struct that is filled */
    int64_t low, high;                /* whole numbers: the range; choices: of the values, which may have gaps */
    double least, most;               /* other numbers: the range */
    const char *(*choice)(int value); /* the name of a choice; NULL: there is none */
    size_t capacity, count_offset;    /* lists */
    unsigned commands;                /* the bits of those that have the option; 0: all */
    int given;                        /* a bit for "it was given" */
};

/* What follows the help in a row: the type and, as a member of the struct T, the place of the value. */
#define OPTION_PLACE(T, member) .offset = offsetof(T, member), .size = sizeof(((T *)0)->member)
#define OPTION_FLAG(T, member) .type = OPTION_IS_FLAG, OPTION_PLACE(T, member)
#define OPTION_TEXT(T, member) .type = OPTION_IS_TEXT, OPTION_PLACE(T, member)
#define OPTION_INTEGER(T, member, low_, high_) .type = OPTION_IS_INTEGER, OPTION_PLACE(T, member), .low = (low_), .high = (high_)
#define OPTION_NUMBER(T, member, least_, most_) .type = OPTION_IS_NUMBER, OPTION_PLACE(T, member), .least = (least_), .most = (most_)
#define OPTION_CHOICE(T, member, name_of, low_, high_) \
    .type = OPTION_IS_CHOICE, OPTION_PLACE(T, member), .choice = (name_of), .low = (low_), .high = (high_)
#define OPTION_LIST(T, member) OPTION_PLACE(T, member), .capacity = sizeof(((T *)0)->member) / sizeof(((T *)0)->member[0])
#define OPTION_INTEGERS(T, member, count, low_, high_) \
    .type = OPTION_IS_INTEGERS, OPTION_LIST(T, member), .count_offset = offsetof(T, count), .low = (low_), .high = (high_)
#define OPTION_ASCENDING(T, member, count, low_, high_) \
    .type = OPTION_IS_ASCENDING, OPTION_LIST(T, member), .count_offset = offsetof(T, count), .low = (low_), .high = (high_)
#define OPTION_NUMBERS(T, member, least_, most_) .type = OPTION_IS_NUMBERS, OPTION_LIST(T, member), .least = (least_), .most = (most_)

struct option_table {
    const char *program; /* as it is typed */
    const char *prefix;  /* of an option's name in complaints: "--" */
    const struct option_row *rows;
    size_t n_rows;
    size_t given_offset;                    /* of the int that collects the rows' `given` */
    void (*complain)(const char *sentence); /* without a full stop; may hold text of the command line */
};

/* A program, or one of its commands. */
struct option_command {
    const char *name;                 /* "" for a program without commands */
    const char *arguments;            /* those that are no options: "MODEL IMAGE..." */
    const char *text;                 /* what --help says first */
    const char *example;              /* NULL: none */
    int min_arguments, max_arguments; /* -1: any number */
    unsigned bit;                     /* in option_row.commands */
};

enum option_result { OPTION_PARSED, OPTION_HELPED, OPTION_REFUSED };

/* Fills the struct at `values`, which holds the defaults. argv[0] is passed over; the arguments come last afterwards, from
   argv[*out_first] on. HELPED: --help was printed. REFUSED: it complained. */
enum option_result option_table_parse(const struct option_table *table, const struct option_command *command, int argc, char **argv,
                                      void *values, int *out_first);
/* One value, as if it were given after the row's option. Complains and returns false if it is not valid. */
bool option_table_set(const struct option_table *table, const struct option_row *row, const char *text, void *values);
void option_table_help(const struct option_table *table, const struct option_command *command);

#endif
