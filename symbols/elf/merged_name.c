#include "symbols/elf/merged_name.h"

#include <string.h>

#define LEVELS_MAX 64u /* deeper brackets are part of what is around them */

static bool opens(char c)
{
    return c == '<' || c == '(' || c == '[' || c == '{';
}

static bool closes(char c)
{
    return c == '>' || c == ')' || c == ']' || c == '}';
}

/* The length of an operator's name at `i`, whose brackets are none, and of "->"; else 0. */
static size_t operator_at(struct view t, size_t i)
{
    static const char word[] = "operator";
    size_t n = sizeof word - 1, at = i;
    if (t.len - i >= 2 && memcmp(t.p + i, "->", 2) == 0)
        return 2;
    if (t.len - i <= n || memcmp(t.p + i, word, n) != 0)
        return 0;
    at += n;
    if (t.len - at >= 2 && (memcmp(t.p + at, "()", 2) == 0 || memcmp(t.p + at, "[]", 2) == 0))
        return n + 2;
    while (at < t.len && strchr("<>=-", t.p[at]))
        at++;
    return at - i;
}

/* The length of what separates arguments at `i`: ", ", ",", or Rust's " as "; else 0. */
static size_t separator_at(struct view t, size_t i)
{
    if (t.p[i] == ',')
        return t.len - i > 1 && t.p[i + 1] == ' ' ? 2 : 1;
    return t.len - i >= 4 && memcmp(t.p + i, " as ", 4) == 0 ? 4 : 0;
}

/* The end of the argument that `i` is in: what separates it from the next, or the bracket. */
static size_t end_of_argument(struct view t, size_t i, bool all)
{
    size_t depth = 0, skip;
    for (; i < t.len; i += skip) {
        char c = t.p[i];
        skip = operator_at(t, i);
        if (skip)
            continue;
        skip = 1;
        if (depth == 0 && (closes(c) || (!all && separator_at(t, i))))
            break;
        depth += opens(c);
        depth -= closes(c);
    }
    return i;
}

/* Replaces the contents of brackets "<…>" with none inside. */
static void blank_innermost(struct view name, struct buf *out)
{
    size_t skip;
    for (size_t i = 0; i < name.len; i += skip) {
        skip = operator_at(name, i);
        skip = skip ? skip : 1;
        buf_put(out, name.p + i, skip);
        if (skip > 1 || name.p[i] != '<')
            continue;
        size_t end = i + 1;
        while (end < name.len && name.p[end] != '<' && name.p[end] != '>')
            end++;
        if (end < name.len && name.p[end] == '>' && name.p[end - 1] != '-') {
            buf_puts(out, "_");
            skip = end - i;
        }
    }
}

struct merge {
    struct view name, other;
    size_t i, j; /* how far they are read */
    struct buf *out;
    size_t starts[LEVELS_MAX]; /* in `out`: of the current argument of each level of brackets */
    size_t level;
};

/* Takes what is the same in both. False if nothing is, or brackets are too deep. */
static bool take(struct merge *m)
{
    if (m->i == m->name.len)
        return false;
    size_t n = operator_at(m->name, m->i), separator = n ? 0 : separator_at(m->name, m->i);
    char c = n ? 0 : m->name.p[m->i];
    n = n ? n : separator ? separator : 1;
    if (m->name.len - m->i < n || m->other.len - m->j < n ||
        memcmp(m->name.p + m->i, m->other.p + m->j, n) != 0 || (opens(c) && m->level == LEVELS_MAX))
        return false;
    buf_put(m->out, m->name.p + m->i, n);
    m->i += n;
    m->j += n;
    if (opens(c))
        m->starts[m->level++] = m->out->len;
    else if (closes(c) && m->level > 0)
        m->level--;
    else if (separator && m->level > 0)
        m->starts[m->level - 1] = m->out->len;
    return true;
}

/*
 * Replaces the current argument of both, and those after it if one has more, and takes what is
 * behind. False if they have none or are no sound names.
 */
static bool blank(struct merge *m)
{
    if (m->level == 0)
        return false;
    size_t i = end_of_argument(m->name, m->i, false), j = end_of_argument(m->other, m->j, false);
    if (i < m->name.len && j < m->other.len && m->name.p[i] != m->other.p[j]) {
        i = end_of_argument(m->name, m->i, true);
        j = end_of_argument(m->other, m->j, true);
    }
    m->out->len = m->starts[m->level - 1];
    buf_puts(m->out, "_");
    m->i = i;
    m->j = j;
    return take(m);
}

bool merged_name(struct view name, struct view other, struct buf *out)
{
    struct merge m = {.name = name, .other = other, .out = out};
    size_t begin = out->len;
    if (view_equal(name, other)) {
        buf_put(out, name.p, name.len);
        return !out->failed;
    }
    while (m.i < name.len || m.j < other.len) {
        if (!take(&m) && !blank(&m)) {
            out->len = begin;
            blank_innermost(name, out);
            break;
        }
    }
    return !out->failed;
}
