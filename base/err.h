#pragma once

/*
 * Errors as values. Library code fills a `struct err` and returns -1; only `cli/` prints it and
 * turns its code into an exit status. The text names the location (file, section, offset) and the
 * cause in words that a user can act on, with no trailing newline.
 */

#include <stdbool.h>

enum err_code {
    ERR_NONE = 0,
    ERR_CHECK,   /* a check that the user requested failed */
    ERR_USAGE,   /* the command line is wrong */
    ERR_INPUT,   /* bytes from a client or a file that cannot be decoded */
    ERR_OUTPUT,  /* the output exists or cannot be written */
    ERR_CONNECT, /* no connection to the client */
    ERR_MEMORY,  /* an allocation failed */
};

struct err {
    enum err_code code;
    char text[512];
};

/* Fills `e` (may be NULL) and returns -1, so that a caller can write `return err_set(…)`. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prepends "<prefix>: " to the text of `e`. Returns -1. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Sets ERR_MEMORY for an allocation needed for `what`. Returns -1. */
int err_no_memory(struct err *e, const char *what);

/* Like err_set, with ": <strerror(errno)>" appended. Returns -1. */
int err_errno(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets ERR_USAGE: "OPTION is VALUES, not 'VALUE'". Returns false. */
bool refuse_value(struct err *e, const char *option, const char *values, const char *value);

/*
 * Compilers and clang-tidy see one file at a time. These wrappers show them that the functions
 * above always return -1, so that they do not follow paths that take a failure for a success.
 */
static inline int err_failed(int status)
{
    (void)status;
    return -1;
}
#define err_set(...) err_failed(err_set(__VA_ARGS__))
#define err_prefix(...) err_failed(err_prefix(__VA_ARGS__))
#define err_no_memory(...) err_failed(err_no_memory(__VA_ARGS__))
#define err_errno(...) err_failed(err_errno(__VA_ARGS__))

/* The exit status of a tidemark command that ends with this error (0 to 5). */
int err_exit_status(const struct err *e);
