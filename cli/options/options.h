#pragma once

/*
 * Parses command lines. Option values are parsed in full or rejected with ERR_USAGE naming the
 * option. Also prints a command's errors.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/print_error.h"
#include "cli/options/option_table.h"
#include "trace/file/container.h"

/* How a command reads its arguments. */
struct command_line {
    const struct option_group *options;
    const struct option_rule *rules; /* NULL: none */
    bool in_order;                   /* options end at the first other argument */
    const char *arguments;           /* for completion: option_print_completions */
    /*
     * The arguments that are no options: `name` is in the error when it is missing, the field is a
     * const char *. NULL: any, which `rest` checks.
     */
    const struct option_row *positional;
    const char *footer;   /* behind the options in --help; NULL: nothing */
    const char *usage;    /* --help: what is before the options */
    const char *hint;     /* printed after an error; NULL: the first line of `usage` */
    const char *version;  /* for 'V', instead of tidemark's; NULL: tidemark's */
    FILE *usage_to;       /* NULL: standard output */
    FILE *hint_to;        /* NULL: standard error */
    bool nameless_errors; /* errors without the command's name before them */
    int refused;          /* exit status of an invalid command line; 0: 2 */
    bool help_refused;    /* --help ends with that, too, as most official tools do */
    /*
     * Called with the arguments that are no options; false with `e` when the command line is
     * invalid. NULL: nothing more to check.
     */
    bool (*rest)(void *ctx, int n, char **arguments, struct err *e);
};

/* -1: go on; else the exit status: help was printed, or the command line is invalid. */
int command_line_parse(const struct command_line *line, void *ctx, int argc, char **argv);

/* Takes the value of the option `name` into the command's struct `ctx`. */
bool option_take_value(const struct option_group *groups, void *ctx, const char *name,
                       const char *value, struct err *e);

/* --memory SIZE into a uint64_t, for memory_bound_set. */
extern const struct option_row memory_rows[];
#define MEMORY_GROUP(TYPE, MEMBER)                                                                 \
    {                                                                                              \
        .rows = memory_rows, .base = offsetof(TYPE, MEMBER)                                        \
    }

#define QUIET_ROW(TYPE, MEMBER)                                                                    \
    {                                                                                              \
        "--quiet", NULL, "without the progress line on a terminal", OPTION_FIELD(TYPE, MEMBER)     \
    }

/* Rules for the site, in a struct skiplist. */
#define SKIP_ROWS(TYPE, MEMBER, WHERE)                                                             \
    {"--skip", "REGEX",                                                                            \
     "pass over functions or files that match " WHERE " (as in Perl); may be given several times", \
     .type = VALUE_SKIP, OPTION_FIELD(TYPE, MEMBER)},                                              \
    {                                                                                              \
        "--no-skip", "REGEX",                                                                      \
            "do not pass over functions or files that match, whatever else says so; may be "       \
            "given several times",                                                                 \
            .type = VALUE_NO_SKIP, OPTION_FIELD(TYPE, MEMBER)                                      \
    }

#define OPTION_HELP_ROW                                                                            \
    {                                                                                              \
        "--help", .letter = 'h', .type = VALUE_HELP, .help = "this text"                           \
    }
#define OPTION_VERSION_ROW                                                                         \
    {                                                                                              \
        "--version", .letter = 'V', .type = VALUE_VERSION, .help = "the version"                   \
    }

/* For `rest`: a single trace. */
bool option_one_trace(int n, char **arguments, const char **trace, struct err *e);

/* A decimal number from `least` to `most`. */
bool option_u64(const char *text, const char *option, uint64_t least, uint64_t most, uint64_t *out,
                struct err *e);

/* A number from `least` to `most`, fractions allowed. */
bool option_real(const char *text, const char *option, double least, double most, double *out,
                 struct err *e);

/* Seconds, fractions allowed, not negative. */
bool option_seconds(const char *text, const char *option, double *out, struct err *e);

/* "lz4", "lz4hc", "zstd" or "zstd:LEVEL"; the number of streams does not change. */
bool option_compression(const char *text, struct container_options *out, struct err *e);

/* A time in nanoseconds or with a unit (ns, us, ms, s, m, h), such as -1.5s. */
bool option_time(const char *text, const char *option, int64_t *out, struct err *e);

/*
 * A range of time "A:B", in nanoseconds since the trace began or with a unit (ns, us, ms, s, m, h),
 * such as "1.5s:2m". Either side may be left out. B is exclusive and must be later than A.
 */
bool option_range(const char *text, const char *option, int64_t *begin, int64_t *end,
                  struct err *e);
