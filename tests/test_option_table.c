/* Tests command line options of the tool and the benchmarks: accepted values, and the messages for rejected ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "option_table.h"

struct values {
    bool flag;
    int32_t narrow;
    uint64_t wide;
    float single;
    double real;
    const char *text;
    int32_t choice;
    int32_t any[3], n_any, ascending[3], n_ascending;
    float colours[3];
    int given;
};

enum { FIRST = 1, SECOND = 2 };

static const char *choice(int value)
{
    return value == 3 ? "three" : value == 5 ? "five" : value == 6 ? "six" : NULL;
}

typedef struct values T;

static const struct option_row rows[] = {
    {"flag", NULL, "a flag", OPTION_FLAG(T, flag)},
    {"narrow", "N", "%s (4)", OPTION_INTEGER(T, narrow, -2, 1024), .given = 4},
    {"wide", "N", "%s", OPTION_INTEGER(T, wide, 0, INT64_MAX), .commands = FIRST},
    {"single", "X", "%s", OPTION_NUMBER(T, single, 0.25, 1)},
    {"real", "X", "%s", OPTION_NUMBER(T, real, 0, INFINITY), .commands = SECOND, .given = 8},
    {"text", "TEXT", "text", OPTION_TEXT(T, text)},
    {"choice", "NAME", "%s", OPTION_CHOICE(T, choice, choice, 3, 6)},
    {"any", "LIST", "each %s", OPTION_INTEGERS(T, any, n_any, 1, 9)},
    {"ascending", "LIST", "each %s", OPTION_ASCENDING(T, ascending, n_ascending, 0, INT32_MAX)},
    {"colours", "R,G,B", "each %s", OPTION_NUMBERS(T, colours, 0, 1)},
};

static char complaint[2048];

static void complain(const char *sentence)
{
    snprintf(complaint, sizeof complaint, "%s", sentence);
}

static const struct option_table table = {.program = "program",
                                          .prefix = "--",
                                          .rows = rows,
                                          .n_rows = sizeof rows / sizeof rows[0],
                                          .given_offset = offsetof(T, given),
                                          .complain = complain};

/* Splits the arguments at spaces, and inserts the program's name first. */
static enum option_result parse(unsigned command, const char *line, T *values, int *out_n_arguments)
{
    const struct option_command syntax = {
        .name = "run", .arguments = "A [B]", .text = "", .min_arguments = 1, .max_arguments = 2, .bit = command};
    static char copy[2048];
    char *argv[32] = {(char *)(uintptr_t) "run"}, *rest = NULL;
    int argc = 1, first = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    complaint[0] = '\0';
    const enum option_result result = option_table_parse(&table, &syntax, argc, argv, values, &first);
    *out_n_arguments = argc - first;
    return result;
}

static void every_type(void **state)
{
    (void)state;
    T v = {.text = "before"};
    int n;
    const char *line =
        "a --flag --narrow -2 --wide 9223372036854775807 --single 0.25 --text -x b --choice five --any 9,1,9 --ascending 0,1,7 "
        "--colours 0,0.5,1";
    assert_int_equal(parse(FIRST, line, &v, &n), OPTION_PARSED);
    assert_int_equal(n, 2);
    assert_string_equal(complaint, "");
    assert_true(v.flag && v.narrow == -2 && v.wide == INT64_MAX && v.single == 0.25f && v.choice == 5);
    assert_string_equal(v.text, "-x");
    assert_true(v.n_any == 3 && v.any[0] == 9 && v.any[1] == 1 && v.any[2] == 9);
    assert_true(v.n_ascending == 3 && v.ascending[0] == 0 && v.ascending[1] == 1 && v.ascending[2] == 7);
    assert_true(v.colours[0] == 0 && v.colours[1] == 0.5f && v.colours[2] == 1);
    assert_int_equal(v.given, 4);

    /* An option of another command; --name=value; one number for all stages; the last of two values counts. */
    v = (T){.narrow = 4};
    assert_int_equal(parse(SECOND, "a --real=1e300 --colours 0.5 --single 1 --any 1 --any 2,3 --ascending 2147483647", &v, &n),
                     OPTION_PARSED);
    assert_int_equal(n, 1);
    assert_true(v.real == 1e300 && v.single == 1 && v.narrow == 4 && !v.flag);
    assert_true(v.colours[0] == 0.5f && v.colours[1] == 0.5f && v.colours[2] == 0.5f);
    assert_true(v.n_any == 2 && v.any[0] == 2 && v.any[1] == 3 && v.n_ascending == 1 && v.ascending[0] == INT32_MAX);
    assert_int_equal(v.given, 8);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *sentence;
    } cases[] = {
        {"a --narrow 1025", "--narrow is '1025', expected an integer, -2 to 1024"},
        {"a --narrow 2x", "--narrow is '2x', expected an integer, -2 to 1024"},
        {"a --narrow 9223372036854775808", "--narrow is '9223372036854775808', expected an integer, -2 to 1024"},
        {"a --wide -1", "--wide is '-1', expected an integer, 0 or more"},
        {"a --single nan", "--single is 'nan', expected a number, 0.25 to 1"},
        {"a --single 0.2", "--single is '0.2', expected a number, 0.25 to 1"},
        {"a --choice four", "--choice is 'four', expected three, five or six"},
        {"a --any 1,0", "--any is '1,0', expected comma-separated integers, each 1 to 9, at most 3 of them"},
        {"a --any 1,2,3,4", "--any is '1,2,3,4', expected comma-separated integers, each 1 to 9, at most 3 of them"},
        {"a --any 1;2", "--any is '1;2', expected comma-separated integers, each 1 to 9, at most 3 of them"},
        {"a --ascending 3,", "--ascending is '3,', expected comma-separated ascending integers, each 0 or more, at most 3 of them"},
        {"a --ascending 3,3", "--ascending is '3,3', expected comma-separated ascending integers, each 0 or more, at most 3 of them"},
        {"a --ascending -1", "--ascending is '-1', expected comma-separated ascending integers, each 0 or more, at most 3 of them"},
        {"a --colours 0,1", "--colours is '0,1', expected one number or 3 comma-separated numbers, each 0 to 1"},
        {"a --colours 2", "--colours is '2', expected one number or 3 comma-separated numbers, each 0 to 1"},
        {"a --text", "--text requires a value; see 'program run --help'"},
        {"a --other 1", "unknown option --other; see 'program run --help'"},
        {"a --text -xy b -pq", "unknown option -pq; write a file name like this as ./-pq; see 'program run --help'"},
        {"a -x b", "unknown option -x; write a file name like this as ./-x; see 'program run --help'"},
        {"a b -dash.png", "unknown option -dash.png; write a file name like this as ./-dash.png; see 'program run --help'"},
        {"a --help=b", "--help=b: this option takes no value; see 'program run --help'"},
        {"a --real 1", "unknown option --real; see 'program run --help'"}, /* an option of another command */
        {"--flag", "run takes A [B]; see 'program run --help'"},
        {"a b c", "run takes A [B]; see 'program run --help'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        T v = {.narrow = 4, .choice = 3};
        int n;
        assert_int_equal(parse(FIRST, cases[i].line, &v, &n), OPTION_REFUSED);
        assert_string_equal(complaint, cases[i].sentence);
        assert_true(v.narrow == 4 && v.choice == 3 && v.wide == 0 && v.single == 0 && v.given == 0);
    }
    char line[1600] = "a --choice ";
    memset(line + strlen(line), 'x', 1500);
    T v = {.choice = 3};
    int n;
    assert_int_equal(parse(FIRST, line, &v, &n), OPTION_REFUSED);
    assert_non_null(strstr(complaint, "expected three, five or six"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
