#ifndef TIDEMARK_MCP_PARAMS_H
#define TIDEMARK_MCP_PARAMS_H

/*
 * What a tool takes, as a table: the JSON Schema that clients see and the check of what they send
 * are made of the same rows. Whatever passes the check can be read without looking again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

enum param_type {
    PARAM_TEXT,
    PARAM_REGEX,   /* as Perl has them */
    PARAM_REGEXES, /* a list of them, or of texts that hold some */
    PARAM_CHOICE,  /* one of `choices`; read as its number */
    PARAM_INTEGER, /* from `least` to `most` */
    PARAM_NUMBER,  /* the same with a fraction */
    PARAM_BOOLEAN,
    PARAM_ADDRESS, /* "0x…", or a whole number */
};

struct param {
    const char *name;
    enum param_type type;
    const char *what;
    const char *const *choices; /* ends with NULL */
    int64_t least, most;
    bool required;
};

/* Lists of parameters, the last of which has no name. */
#define PARAM_LISTS_MAX 5
struct param_lists {
    const struct param *lists[PARAM_LISTS_MAX]; /* NULL where there are fewer */
};

/* {"type": "object", "properties": …}; NULL when memory is short. */
json_t *params_schema(const struct param_lists *lists);

/* ERR_USAGE, with the name and what is wanted, when `arguments` (an object or NULL) do not fit. */
int params_check(const struct param_lists *lists, const json_t *arguments, struct err *e);

/* ---- values of checked arguments; what is not there, or null, is the fallback */

bool params_has(const json_t *arguments, const char *name);
const char *params_text(const json_t *arguments, const char *name);
int64_t params_integer(const json_t *arguments, const char *name, int64_t fallback);
double params_number(const json_t *arguments, const char *name, double fallback);
bool params_boolean(const json_t *arguments, const char *name, bool fallback);
uint64_t params_address(const json_t *arguments, const char *name);

/* The number of a choice. */
uint32_t params_choice(const struct param_lists *lists, const json_t *arguments, const char *name);

/* A list of texts, at most PARAMS_LIST_MAX. */
#define PARAMS_LIST_MAX 32
struct param_texts {
    const char *at[PARAMS_LIST_MAX];
    size_t len;
};
struct param_texts params_texts(const json_t *arguments, const char *name);

#endif
