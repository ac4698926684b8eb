#pragma once

/*
 * Options as data: a row describes an option, groups of rows a command. Parsing, the text of
 * --help, "did you mean" and completion in shells read the same rows. options.h has the parser.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* What a value is, and what of the group's struct it is stored in. */
enum option_value {
    VALUE_PLAIN,   /* bool: true; with an argument a const char *: the value */
    VALUE_SET,     /* no value. bool or enum: `least` */
    VALUE_PAIR,    /* two values, each a const char *: at `at` and at `second` */
    VALUE_WORD,    /* bool or enum: `least` and the index of the value in `words` */
    VALUE_NUMBER,  /* unsigned integer from `least` to `most`; most 0: as much as it can hold */
    VALUE_COUNT,   /* uint64_t: a number with or without "," between thousands */
    VALUE_BYTES,   /* uint64_t: a size such as 1.5M */
    VALUE_SECONDS, /* double */
    VALUE_REAL,    /* double from `least` to `most` */
    VALUE_TIME,    /* int64_t, ns: option_time */
    VALUE_RANGE,   /* two int64_t, at `at` and at `second`: option_range */
    VALUE_MEMORY_BOUND, /* uint64_t: a size of at least 96M, or a percentage of memory_physical() */
    VALUE_FILE_VERSION, /* uint32_t */
    VALUE_LAYOUT,       /* const struct file_layout *: of a file version */
    VALUE_COMPRESSION,  /* struct container_options: option_compression */
    VALUE_SKIP,         /* struct skiplist: skiplist_add */
    VALUE_NO_SKIP,      /* struct skiplist: skiplist_keep */
    VALUE_EXPRESSION,   /* struct budgets: an expression on figures */
    VALUE_CHANGE,       /* the same, or on their change */
    VALUE_IGNORED,      /* nothing: accepted for compatibility */
    VALUE_HELP,         /* prints --help */
    VALUE_VERSION,      /* prints the version */
};

/*
 * `ctx`: the row's field, or the group's struct when the row names none. `value`: NULL when an
 * optional one was left out.
 */
typedef bool option_take(void *ctx, const char *option, const char *value, struct err *e);

struct option_row {
    const char *name;     /* "--by"; "-m" when there is a letter only; NULL: the end of the rows */
    const char *argument; /* "N", "[=N]" when it is optional, "M N" for a pair,
                           * "[A:B]" for a range that may be left out; NULL: none */
    const char *help;     /* NULL: not in --help. "{}" stands for `words` */
    const char *initial;  /* the value when the option is not given; --help shows it. NULL: none */
    /*
     * The values, as --help and errors show them: "text, json or csv". A `take` that returns false
     * without an error rejects a value that is not one of them. Not for free text.
     */
    const char *words;
    option_take *take; /* stores the value, in place of `type` */
    uint64_t least, most;
    enum option_value type;
    unsigned at, size, second; /* the field; OPTION_FIELD */
    unsigned given;            /* a bool that is set when the option is given; 0: none */
    char letter;               /* 0: none */
};

#define OPTION_FIELD(TYPE, FIELD)                                                                  \
    .at = (unsigned)offsetof(TYPE, FIELD), .size = sizeof(((TYPE *)0)->FIELD)

struct option_group {
    const struct option_row *rows; /* NULL: the end of the groups */
    size_t base;                   /* offset of the rows' struct in the command's */
    const char *title;             /* in --help; NULL: none */
    bool hidden;                   /* not in --help */
};

enum option_rule_kind {
    OPTION_EXCLUDES, /* none of `options` goes with one of `others` */
    OPTION_NEEDS,    /* each of `options` needs one of `others` */
    OPTION_ONE_OF,   /* at most one of `options` */
};

/*
 * Options are separated by spaces. "--by=type" means that option with that value, "--by!=type" with
 * another.
 */
struct option_rule {
    const char *options; /* NULL: the end of the rules */
    enum option_rule_kind kind;
    const char *others;
    const char *message; /* NULL: "A does not go with B" or "A goes with B" */
};

enum { OPTION_ROWS_MAX = 128 }; /* of a command */

/* The row of index `i` among all `groups`, and its group; NULL behind the last one. */
const struct option_row *option_at(const struct option_group *groups, unsigned i,
                                   const struct option_group **group);

/* Whether the option has a value that cannot be left out. */
bool option_needs_value(const struct option_row *row);

/* The index of `value` in `words`; -1 when it is none of them. */
int option_word_index(const char *words, const char *value);

/* Prints the rows of --help. */
void option_print_help(const struct option_group *groups, FILE *to);

/*
 * Prints what can complete the last of `words`, the words behind the command: a line each, with a
 * tabulator and a description behind options. `arguments`: what can be in place of an option, as in
 * option_row.words; NULL: files, which the shell knows.
 */
void option_print_completions(const struct option_group *groups, const char *arguments, int n,
                              char **words, FILE *to);

/* The option whose name is most similar to the unknown `text`; NULL if none is similar. */
const char *option_nearest(const struct option_group *groups, const char *text);
