#define PCRE2_CODE_UNIT_WIDTH 8

#include "base/pattern.h"

#include <pcre2.h>
#include <stdlib.h>

#define LENGTH_MAX (64u << 10)
#define STEPS_MAX 1000000u
#define DEPTH_MAX 100000u
#define HEAP_MAX_KB (8u << 10)

struct pattern {
    pcre2_code *code;
    pcre2_match_data *found;
    pcre2_match_context *limits;
    unsigned groups;
};

static pcre2_code *compile(const char *text, size_t len, struct err *e)
{
    int code = 0;
    PCRE2_SIZE at = 0;
    unsigned char why[128];
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) {
        err_no_memory(e, "a regular expression");
        return NULL;
    }
    pcre2_set_max_pattern_length(context, LENGTH_MAX);
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)text, len, PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY,
                                         &code, &at, context);
    pcre2_compile_context_free(context);
    if (!compiled) {
        pcre2_get_error_message(code, why, sizeof why);
        err_set(e, ERR_USAGE, "no regular expression: %s at character %zu", (const char *)why,
                (size_t)at + 1);
    }
    return compiled;
}

struct pattern *pattern_new(const char *text, size_t len, struct err *e)
{
    pcre2_code *code = compile(text, len, e);
    if (!code)
        return NULL;
    struct pattern *p = calloc(1, sizeof *p);
    pcre2_match_data *found = pcre2_match_data_create_from_pattern(code, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    if (!p || !found || !limits) {
        pcre2_match_context_free(limits);
        pcre2_match_data_free(found);
        pcre2_code_free(code);
        free(p);
        err_no_memory(e, "a regular expression");
        return NULL;
    }
    pcre2_set_match_limit(limits, STEPS_MAX);
    pcre2_set_depth_limit(limits, DEPTH_MAX);
    pcre2_set_heap_limit(limits, HEAP_MAX_KB);
    *p = (struct pattern){code, found, limits, 0};
    pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &p->groups);
    return p;
}

void pattern_free(struct pattern *p)
{
    if (!p)
        return;
    pcre2_match_context_free(p->limits);
    pcre2_match_data_free(p->found);
    pcre2_code_free(p->code);
    free(p);
}

unsigned pattern_groups(const struct pattern *p)
{
    return p->groups;
}

bool pattern_matches(struct pattern *p, const char *text, size_t len)
{
    return pattern_find(p, text, len, 0, NULL, 0);
}

bool pattern_find(struct pattern *p, const char *text, size_t len, size_t from,
                  struct pattern_span *spans, unsigned n)
{
    int count =
        pcre2_match(p->code, (PCRE2_SPTR)(len ? text : ""), len, from, 0, p->found, p->limits);
    if (count < 0)
        return false;
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(p->found);
    for (size_t i = 0; i < n; i++) {
        bool none = i >= (size_t)count || at[2 * i] == PCRE2_UNSET || at[2 * i] > at[2 * i + 1];
        spans[i] = none ? (struct pattern_span){.none = true}
                        : (struct pattern_span){at[2 * i], at[2 * i + 1], false};
    }
    return true;
}
