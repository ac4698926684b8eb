#include "symbols/substitute.h"

#include <string.h>

#define GROUPS_MAX 100u

void substitutions_release(struct substitutions *s)
{
    for (size_t i = 0; i < s->list.len; i++)
        regfree(&s->list.at[i].regex);
    vec_release(&s->list);
}

/* What a letter behind a backslash means; NULL: itself. `inside` a bracket expression. */
static const char *class_of(char letter, bool inside)
{
    switch (letter) {
    case 'd':
        return inside ? "0-9" : "[0-9]";
    case 'D':
        return inside ? NULL : "[^0-9]";
    case 'w':
        return inside ? "[:alnum:]_" : "[[:alnum:]_]";
    case 'W':
        return inside ? NULL : "[^[:alnum:]_]";
    case 's':
        return inside ? "[:space:]" : "[[:space:]]";
    case 'S':
        return inside ? NULL : "[^[:space:]]";
    default:
        return NULL;
    }
}

/* Writes an ECMAScript expression as a POSIX one. A backslash quotes inside brackets there only. */
static int translate(const char *from, size_t len, struct buf *to, struct err *e)
{
    bool inside = false;
    for (size_t i = 0; i < len; i++) {
        char c = from[i];
        if (c == '(' && !inside && i + 1 < len && from[i + 1] == '?')
            return err_set(e, ERR_USAGE, "groups that begin with (? are not known");
        if (c == '\\' && i + 1 < len) {
            const char *class = class_of(from[++i], inside);
            if (inside && !class && (from[i] == ']' || from[i] == '-' || from[i] == '^'))
                return err_set(e, ERR_USAGE, "\\%c inside of brackets is not known", from[i]);
            if (class)
                buf_puts(to, class);
            else if (inside)
                buf_u8(to, (uint8_t)from[i]);
            else
                buf_printf(to, "\\%c", from[i]);
            continue;
        }
        if (inside ? c == ']' : c == '[')
            inside = !inside;
        buf_u8(to, (uint8_t)c);
    }
    return 0;
}

int substitutions_add(struct substitutions *s, const char *text, struct err *e)
{
    struct substitution rule = {0};
    struct buf regex = {0};
    char cause[128];
    const char *semicolon = strchr(text, ';');
    if (!semicolon)
        return err_set(e, ERR_USAGE, "a substitution is \"REGEX;REPLACEMENT\", not '%s'", text);
    rule.replacement = semicolon + 1;
    int status = translate(text, (size_t)(semicolon - text), &regex, e);
    if (status == 0) {
        int failed = regcomp(&rule.regex, buf_str(&regex), REG_EXTENDED);
        if (failed != 0) {
            regerror(failed, &rule.regex, cause, sizeof cause);
            status = err_set(e, ERR_USAGE, "%s", cause);
        } else if (regex.failed || !vec_push(&s->list, rule)) {
            regfree(&rule.regex);
            status = err_no_memory(e, "a substitution");
        }
    }
    buf_release(&regex);
    if (status != 0 && e)
        err_prefix(e, "substitution '%s'", text);
    return status;
}

static void put_group(struct buf *out, const char *text, const regmatch_t *group)
{
    if (group->rm_so >= 0)
        buf_put(out, text + group->rm_so, (size_t)(group->rm_eo - group->rm_so));
}

/* The number of a group at p, after a dollar sign: as many of two digits as make a known one. */
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
                            const regmatch_t *found, unsigned groups)
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
    regmatch_t found[GROUPS_MAX];
    unsigned groups =
        (unsigned)(rule->regex.re_nsub < GROUPS_MAX ? rule->regex.re_nsub : GROUPS_MAX - 1);
    int flags = 0;
    while (regexec(&rule->regex, text, GROUPS_MAX, found, flags) == 0) {
        buf_put(out, text, (size_t)found[0].rm_so);
        put_replacement(out, rule->replacement, text, found, groups);
        text += found[0].rm_eo;
        flags = REG_NOTBOL;
        if (found[0].rm_so == found[0].rm_eo) {
            if (!*text)
                return;
            buf_u8(out, (uint8_t)*text++);
        }
    }
    buf_puts(out, text);
}

bool substitutions_apply(const struct substitutions *s, const char *path, struct buf *out)
{
    for (size_t i = 0; i < s->list.len; i++) {
        if (regexec(&s->list.at[i].regex, path, 0, NULL, 0) == 0) {
            replace_all(&s->list.at[i], path, out);
            return true;
        }
    }
    return false;
}
