#pragma once

/*
 * Expressions on the figures of a trace, or of two, for checks in CI:
 *
 *     peak>512M and not leaked(pool="gpu")>0
 *     count(site=~"parse")>1000
 *     peak>+5%                     compared with a base: did it rise by more than 5 %?
 *
 *     expression = comparison { ("and" | "or" | "&&" | "||") comparison }     "and" binds closer
 *     comparison = ["not" | "!"] ( "(" expression ")" | term op value )
 *     term       = metric [ "(" selector { "," selector } ")" ]
 *     selector   = key ("=" | "!=" | "=~" | "!~") "text"                  =~: Perl-compatible
 *     op         = ">" | ">=" | "<" | "<=" | "=" | "==" | "!="
 *     value      = ["+" | "-"] number [unit] ["%"]                 K, M, G, KiB, …: units of 1024
 *
 * A value with a sign is a change from the base. Parser and evaluator do not depend on traces: a
 * function supplies the figures.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pattern.h"
#include "base/vec.h"
#include "base/view.h"

enum budget_metric {
    BUDGET_PEAK,   /* bytes */
    BUDGET_LEAKED, /* bytes live at the end; the same as "live" */
    BUDGET_LEAKED_COUNT,
    BUDGET_TOTAL,     /* bytes of all allocations */
    BUDGET_COUNT,     /* allocations */
    BUDGET_TEMPORARY, /* blocks freed at once */
    BUDGET_LARGEST,   /* bytes of the largest block */
    BUDGET_FAULTS,    /* memory faults; accepts the selector pool only */
    BUDGET_RESIDENT, /* resident bytes: of the process, or of the blocks of selected sites, pools */
    BUDGET_METRICS,
};

enum budget_key { BUDGET_POOL, BUDGET_SITE, BUDGET_FILE, BUDGET_IMAGE, BUDGET_KEYS };

struct budget_selector {
    enum budget_key key;
    bool negated;
    bool is_regex;
    char *text;
    struct pattern *regex;
};

struct budget_term {
    enum budget_metric metric;
    const char *word; /* the metric's name as in the expression; static */
    VEC(struct budget_selector) selectors;
};

enum budget_op { BUDGET_GT, BUDGET_GE, BUDGET_LT, BUDGET_LE, BUDGET_EQ, BUDGET_NE };

enum budget_kind { BUDGET_COMPARE, BUDGET_NOT, BUDGET_AND, BUDGET_OR };

struct budget_node {
    enum budget_kind kind;
    uint32_t left, right; /* nodes; BUDGET_COMPARE: left is a term */
    enum budget_op op;
    double value;
    bool is_change;  /* from the base */
    bool is_percent; /* of the base */
};

struct budget {
    char *text;
    VEC(struct budget_node) nodes;
    VEC(struct budget_term) terms;
    uint32_t root;
    bool needs_base; /* some value is a change */
};

/* `b` need not be initialised. ERR_USAGE with the position and the cause. */
int budget_parse(struct budget *b, const char *text, struct err *e);
void budget_release(struct budget *b);

/* The names that the selectors of a term match. */
struct budget_names {
    struct view pool, site, file, image;
};

/* Whether all selectors with keys in `keys` (a set of 1 << key) match these names. */
bool budget_term_takes(const struct budget_term *t, const struct budget_names *n, unsigned keys);

/* Whether the name of its key is one that the selector wants. */
bool budget_selector_takes(const struct budget_selector *s, struct view name);

/* As in the expression: site=~"parse" */
struct buf;
void budget_put_selector(struct buf *out, const struct budget_selector *s);

/* Whether a term has selectors of one of these keys. */
bool budget_term_has(const struct budget_term *t, unsigned keys);

#define BUDGET_ROW_KEYS (1u << BUDGET_SITE | 1u << BUDGET_FILE | 1u << BUDGET_IMAGE)

enum budget_side {
    BUDGET_NOW,     /* of the trace */
    BUDGET_BASE,    /* of the one that it is compared with */
    BUDGET_CHANGED, /* of the trace, to be compared with the base: with noise, as far as certain */
};

/* The figure of a term. */
typedef double budget_figure(void *ctx, const struct budget_term *t, enum budget_side side);

/*
 * Whether the expression is true. Appends the figures it used to `why`, for people: "peak is 8.00
 * MiB (8,388,608)".
 */
bool budget_holds(const struct budget *b, budget_figure *figure, void *ctx, struct buf *why);
