#include "symbols/elf/substitute.h"

#include <string.h>

#define GROUPS_MAX 100u

void substitutions_release(struct substitutions *s)
{
    for (size_t i = 0; i < s->list.len; i++)
        pattern_free(s->list.at[i].regex);
    vec_release(&s->list);
}

int substitutions_add(struct substitutions *s, const char *text, struct err *e)
{
    const char *semicolon = strchr(text, ';');
    if (!semicolon)
        return err_set(e, ERR_USAGE, "a substitution is \"REGEX;REPLACEMENT\", not '%s'", text);
    struct substitution rule = {.replacement = semicolon + 1};
    rule.regex = pattern_new(text, (size_t)(semicolon - text), e);
    if (!rule.regex)
        return e ? err_prefix(e, "substitution '%s'", text) : -1;
    if (!vec_push(&s->list, rule)) {
        pattern_free(rule.regex);
        return err_no_memory(e, "a substitution");
    }
    return 0;
}

static void put_group(struct buf *out, const char *text, const struct pattern_span *group)
{
    if (!group->none)
        buf_put(out, text + group->start, group->end - group->start);
}

/*
 * The group number at p, after a dollar sign. Takes two digits if they name an existing group, else
 * one.
 */
static unsigned group_number(const char *p, unsigned groups, unsigned *digits)
{
    unsigned number = 0;
    *digits = 0;
    for (unsigned i = 0; i < 2 && p[i] >= '0' && p[i] <= '9'; i++) {
        unsigned next = number * 10 + (unsigned)(p[i] - '0');
        if (next > groups)
            break;
        number = next;
        *digits = i + 1;
    }
    return number;
}

static void put_replacement(struct buf *out, const char *replacement, const char *text,
                            const struct pattern_span *found, unsigned groups)
{
    for (const char *p = replacement; *p; p++) {
        unsigned digits;
        if (p[0] != '$') {
            buf_u8(out, (uint8_t)*p);
            continue;
        }
        unsigned number = group_number(p + 1, groups, &digits);
        if (p[1] == '$' || p[1] == '&') {
            if (p[1] == '$')
                buf_u8(out, '$');
            else
                put_group(out, text, &found[0]);
            p++;
        } else if (number > 0) {
            put_group(out, text, &found[number]);
            p += digits;
        } else {
            buf_u8(out, '$');
        }
    }
}

static void replace_all(const struct substitution *rule, const char *text, struct buf *out)
{
    struct pattern_span found[GROUPS_MAX];
    unsigned known = pattern_groups(rule->regex);
    unsigned groups = known < GROUPS_MAX ? known : GROUPS_MAX - 1;
    size_t len = strlen(text), done = 0;
    while (pattern_find(rule->regex, text, len, done, found, groups + 1)) {
        buf_put(out, text + done, found[0].start - done);
        put_replacement(out, rule->replacement, text, found, groups);
        done = found[0].end;
        if (found[0].start < found[0].end)
            continue;
        if (done == len)
            return;
        buf_u8(out, (uint8_t)text[done++]);
    }
    buf_puts(out, text + done);
}

bool substitutions_apply(const struct substitutions *s, const char *path, struct buf *out)
{
    for (size_t i = 0; i < s->list.len; i++) {
        if (pattern_matches(s->list.at[i].regex, path, strlen(path))) {
            replace_all(&s->list.at[i], path, out);
            return true;
        }
    }
    return false;
}
