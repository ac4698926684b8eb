#pragma once

/*
 * The parameters of a tool, as a table. Both the JSON Schema that clients see and the check of
 * their arguments are derived from it. Checked arguments can be read without further checks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

enum param_type {
    PARAM_TEXT,
    PARAM_REGEX,   /* Perl-compatible */
    PARAM_REGEXES, /* a list of regular expressions, or of texts with several */
    PARAM_CHOICE,  /* one of `choices`; read as its index */
    PARAM_INTEGER, /* from `least` to `most` */
    PARAM_NUMBER,  /* as PARAM_INTEGER, with a fraction */
    PARAM_BOOLEAN,
    PARAM_ADDRESS, /* "0x…", or a whole number */
    PARAM_OBJECT,  /* with `members` */
};

struct param {
    const char *name;
    enum param_type type;
    const char *what;
    const char *const *choices;  /* NULL-terminated */
    const struct param *members; /* ends as a list does */
    int64_t least, most;
    bool required;
    bool common; /* many tools have it: described once, for all of them */
};

/* Lists of parameters; each ends with one without a name. */
#define PARAM_LISTS_MAX 7
struct param_lists {
    const struct param *lists[PARAM_LISTS_MAX]; /* unused ones are NULL */
};

/*
 * {"type": "object", "properties": …}; NULL if memory is short. Common parameters have no
 * description there.
 */
json_t *params_schema(const struct param_lists *lists);

/* Appends a line for each parameter of a list: its name, and what it does. */
void params_describe(struct buf *out, const struct param *list);

/*
 * Fails with ERR_USAGE, naming the parameter and its requirement, if `arguments` (an object or
 * NULL) are invalid.
 */
int params_check(const struct param_lists *lists, const json_t *arguments, struct err *e);

/* ---- values of checked arguments; absent or null ones return the fallback */

bool params_has(const json_t *arguments, const char *name);
const char *params_text(const json_t *arguments, const char *name);
int64_t params_integer(const json_t *arguments, const char *name, int64_t fallback);
double params_number(const json_t *arguments, const char *name, double fallback);
bool params_boolean(const json_t *arguments, const char *name, bool fallback);
uint64_t params_address(const json_t *arguments, const char *name);

/* The index of a choice. */
uint32_t params_choice(const struct param_lists *lists, const json_t *arguments, const char *name);

/* A list of at most PARAMS_LIST_MAX texts. */
#define PARAMS_LIST_MAX 32
struct param_texts {
    const char *at[PARAMS_LIST_MAX];
    size_t len;
};
struct param_texts params_texts(const json_t *arguments, const char *name);
