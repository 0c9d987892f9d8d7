#include "private_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option_table.h"

/* Words longer than this are cut; no name of a device is. */
enum { MAX_WORD = 512 };

static bool is_quote(char c)
{
    return c == '\'' || c == '"' || c == '`';
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Whether a value of the environment stands here, not as a part of a longer word. */
static size_t match_value(const char *text, const char *at, const char *variable)
{
    const char *value = getenv(variable);
    const size_t n = value ? strlen(value) : 0;
    if (n < 2 || strncmp(at, value, n) != 0)
        return 0;
    const bool whole = (at == text || !is_word(at[-1]) || !is_word(value[0])) && (!is_word(at[n]) || !is_word(value[n - 1]));
    return whole ? n : 0;
}

/* The length of the value that stands here; 0: none does. Longest first: a home folder contains the name of its user. */
static size_t match_values(const char *text, const char *at)
{
    static const char *const variables[] = {"HOME", "USERPROFILE", "USER", "LOGNAME", "USERNAME", "HOSTNAME", "COMPUTERNAME", "USERDOMAIN"};
    size_t longest = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const size_t n = match_value(text, at, variables[i]);
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Whether a pattern matches the begin of the text: h is a hexadecimal digit, other characters stand for themselves. */
static bool matches(const char *text, const char *pattern)
{
    for (; *pattern; pattern++, text++)
        if (*pattern == 'h' ? !isxdigit((unsigned char)*text) : *text != *pattern)
            return false;
    return !isxdigit((unsigned char)*text);
}

static size_t match_address(const char *text, const char *at)
{
    static const char *const patterns[] = {"hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh", "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh", "hhhh:hh:hh.h",
                                           "hhhhhhhh:hh:hh.h", "hh:hh.h"};
    if (at > text && isxdigit((unsigned char)at[-1]))
        return 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (matches(at, patterns[i]))
            return strlen(patterns[i]);
    return 0;
}

/* A slash or a backslash makes a path of a word, except in names such as "GTX 1650/PCIe/SSE2", "GNU/Linux" and "I/O". */
static bool is_path(const char *word)
{
    const char *slash = strpbrk(word, "/\\");
    if (!slash)
        return false;
    if (slash == word || *slash == '\\' || slash[-1] == ':' || slash[-1] == '.' || slash[-1] == '~')
        return slash[1] != 0 || *slash == '\\';
    for (const char *dot = strchr(word, '.'); dot; dot = strchr(dot + 1, '.'))
        if (isalpha((unsigned char)dot[1]) || dot[1] == '/' || dot[1] == '.')
            return true; /* a file's extension */
    return false;
}

/* The word from here on: to the closing quote after a quote, else to the next space, without punctuation at its end. */
static size_t word_length(const char *text, const char *at)
{
    const char *end = at > text && is_quote(at[-1]) ? strchr(at, at[-1]) : NULL;
    if (end)
        return (size_t)(end - at);
    size_t n = strcspn(at, " \t\r\n'\"`()<>[],;|");
    while (n > 1 && strchr(":.!?", at[n - 1]))
        n--;
    return n;
}

/* Copies the word from here on. */
static void copy_word(const char *at, size_t n, char word[MAX_WORD])
{
    snprintf(word, MAX_WORD, "%.*s", (int)(n < MAX_WORD ? n : MAX_WORD - 1), at);
}

/* The length of the path whose first word has n bytes: a folder's name may have a few spaces ("/home/Anna van Dam/x.so"). */
static size_t path_length(const char *text, const char *at, size_t n)
{
    char word[MAX_WORD];
    size_t end = n;
    for (int words = 0; words < 4 && at[end] == ' '; words++) {
        const size_t length = word_length(text, at + end + 1);
        copy_word(at + end + 1, length, word);
        end += 1 + length;
        if (length > 0 && is_path(word) && !strchr("/\\~", word[0]) && word[1] != ':') {
            n = end;
            words = -1;
        }
    }
    return n;
}

void private_remove(const char *text, char *out, size_t size)
{
    char word[MAX_WORD];
    const char *at = text;
    out[0] = 0;
    while (*at) {
        size_t n = match_values(text, at);
        if (n > 0) { /* what follows without a space belongs to the path */
            const bool has_slash = memchr(at, '/', n) || memchr(at, '\\', n) || at[n] == '/' || at[n] == '\\';
            append_text(out, size, has_slash ? "<path>" : "<removed>");
            at += n;
            at += has_slash ? word_length(text, at) : 0;
            continue;
        }
        n = match_address(text, at);
        if (n > 0) {
            append_text(out, size, "<removed>");
            at += n;
            continue;
        }
        const bool begins = at == text || strchr(" \t\r\n'\"`()<>[],;|=", at[-1]);
        n = begins ? word_length(text, at) : 0;
        copy_word(at, n, word);
        if (n > 0 && is_path(word)) {
            append_text(out, size, "<path>");
            at += path_length(text, at, n);
        } else {
            append_text(out, size, "%c", *at++);
        }
    }
}
