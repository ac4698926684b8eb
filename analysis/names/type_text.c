#include "analysis/names/type_text.h"

#include <string.h>

#define BRACKETS_MAX 256u
#define SHORTEN_DEPTH 32u
#define ARGUMENTS_MAX 32u

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || (c & 0x80);
}

static bool starts(const char *p, const char *end, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(end - p) >= n && memcmp(p, with, n) == 0;
}

static bool view_is(struct view v, const char *text)
{
    return view_equal(v, view_of(text));
}

static struct view between(const char *p, const char *end)
{
    while (p < end && *p == ' ')
        p++;
    while (p < end && end[-1] == ' ')
        end--;
    return (struct view){p, (size_t)(end - p)};
}

/* ---- brackets */

/*
 * The position after text that contains no brackets: an operator's name, a character or string, the
 * arrow of a return type. NULL if there is none here. `begin`: of the whole text.
 */
static const char *past_symbols(const char *begin, const char *p, const char *end)
{
    static const char *const symbols[] = {"<=>", "<<=", ">>=", "->*", "->", "<<", ">>",
                                          "<=",  ">=",  "<",   ">",   "()", "[]", NULL};
    static const char word[] = "operator";
    if (*p == '-' && starts(p, end, "->"))
        return p + 2;
    if (*p == '\'') {
        if (end - p >= 3 && p[1] != '\\' && p[2] == '\'')
            return p + 3;
        const char *close =
            end - p >= 4 && p[1] == '\\' ? memchr(p + 3, '\'', (size_t)(end - p - 3)) : NULL;
        return close ? close + 1 : p + 1;
    }
    if (*p == '"') {
        const char *close = memchr(p + 1, '"', (size_t)(end - p - 1));
        return close ? close + 1 : p + 1;
    }
    if (*p != 'o' || !starts(p, end, word) || (p > begin && is_word(p[-1])))
        return NULL;
    p += sizeof word - 1;
    for (size_t i = 0; symbols[i]; i++) {
        if (starts(p, end, symbols[i]))
            return p + strlen(symbols[i]);
    }
    return p;
}

static char opening_of(char close)
{
    return close == ')' ? '(' : close == ']' ? '[' : close == '}' ? '{' : close == '>' ? '<' : 0;
}

/*
 * The position after the bracket that closes the one at `p`; NULL if there is none. Between
 * parentheses, < and > may be operators: what they open ends with the parenthesis at the latest.
 */
static const char *past_bracket(const char *begin, const char *p, const char *end)
{
    char open[BRACKETS_MAX];
    unsigned n = 0;
    while (p < end) {
        const char *past = past_symbols(begin, p, end);
        char c = *p;
        char opening = opening_of(c);
        if (past) {
            p = past;
            continue;
        }
        p++;
        if (c == '(' || c == '<' || c == '[' || c == '{') {
            if (n == BRACKETS_MAX)
                return NULL;
            open[n++] = c;
        } else if (c == '>' && n && open[n - 1] != '<') {
            continue;
        } else if (opening) {
            while (n && open[n - 1] != opening)
                n--;
            if (n == 0)
                return NULL;
            if (--n == 0)
                return p;
        }
    }
    return NULL;
}

/* ---- qualified names */

static bool is_inline_namespace(struct view name)
{
    static const char *const names[] = {"__1", "__2", "__cxx11", "__ndk1", "__8", "__cxx1998"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (view_is(name, names[i]))
            return true;
    }
    return false;
}

struct taker {
    const char *begin, *p, *end;
    struct name_parts *out;
    const char *name; /* of the current part; NULL: nothing yet */
    const char *name_end;
    bool is_function; /* else a type: without a return type */
};

/* Ends the current part. */
static bool finish_part(struct taker *t, struct view args)
{
    struct view name = {t->name, t->name ? (size_t)(t->name_end - t->name) : 0};
    t->name = NULL;
    if (name.len == 0)
        return false;
    if (t->out->n == 1 && args.len == 0 && view_is(t->out->at[0].name, "std") &&
        is_inline_namespace(name))
        return true;
    if (t->out->n == NAME_PARTS_MAX)
        return false;
    t->out->at[t->out->n++] = (struct name_part){.name = name, .args = args};
    return true;
}

/* `<X>::f`, as Rust writes functions of a type. Those of traits (`<X as Y>::f`) are rejected. */
static bool take_self_type(struct taker *t)
{
    const char *past = past_bracket(t->begin, t->p, t->end);
    struct name_parts inner;
    if (!past || !starts(past, t->end, "::"))
        return false;
    if (!name_parts_of_type((struct view){t->p + 1, (size_t)(past - t->p - 2)}, &inner) ||
        inner.rest.len)
        return false;
    *t->out = inner;
    t->p = past + 2;
    return true;
}

/*
 * Template arguments of the current part, or after `::` of the previous one, as Rust writes them.
 */
static bool take_arguments(struct taker *t)
{
    const char *past = past_bracket(t->begin, t->p, t->end);
    if (!past)
        return false;
    struct view args = {t->p + 1, (size_t)(past - t->p - 2)};
    bool first = !t->name && t->out->n == 0;
    if (first)
        return take_self_type(t);
    t->p = past;
    if (t->name)
        return finish_part(t, args);
    if (t->out->at[t->out->n - 1].args.len == 0)
        t->out->at[t->out->n - 1].args = args;
    return true;
}

/* A parenthesis or brace: part of a name, or the parameters that end it. *end is set then. */
static bool take_parenthesis(struct taker *t, bool *end)
{
    const char *past = past_bracket(t->begin, t->p, t->end);
    if (!past)
        return false;
    bool is_name = *t->p == '{' || starts(t->p, t->end, "(anonymous namespace)");
    bool is_decltype = t->name && t->name_end - t->name == 8 && starts(t->name, t->end, "decltype");
    if (!is_name && !is_decltype) {
        *end = true;
        return !starts(past, t->end, "::") && !starts(past, t->end, " const::");
    }
    if (!t->name)
        t->name = t->p;
    t->p = t->name_end = past;
    return true;
}

/* Takes the next token. False if the text is no name; sets *end at the end of the name. */
static bool take(struct taker *t, bool *end)
{
    char c = *t->p;
    if (c == ':' && starts(t->p, t->end, "::")) {
        bool ok = !t->name || finish_part(t, (struct view){NULL, 0});
        t->p += 2;
        return ok;
    }
    if (c == '<')
        return take_arguments(t);
    if (c == '(' || c == '{')
        return take_parenthesis(t, end);
    if (c == '[' && starts(t->p, t->end, "[abi:")) {
        t->p = past_bracket(t->begin, t->p, t->end);
        return t->p != NULL;
    }
    if (c == ' ' && t->is_function) {
        t->out->n = 0; /* that was a return type or a keyword */
        t->name = NULL;
        t->p++;
        return true;
    }
    if ((c == '*' || c == '&') && t->is_function) {
        t->p++; /* of a return type: a space follows */
        return true;
    }
    if (!is_word(c)) {
        *end = true;
        return true;
    }
    if (past_symbols(t->begin, t->p, t->end))
        return false; /* an operator */
    if (!t->name)
        t->name = t->p;
    t->name_end = ++t->p;
    return true;
}

static bool take_name(struct view text, bool is_function, struct name_parts *out)
{
    struct taker t = {.begin = text.p,
                      .p = text.p,
                      .end = text.p + text.len,
                      .out = out,
                      .is_function = is_function};
    bool end = false;
    out->n = 0;
    if (text.len == 0 || text.len > TYPE_TEXT_MAX)
        return false;
    while (t.p < t.end && !end) {
        if (!take(&t, &end))
            return false;
    }
    if (t.name && !finish_part(&t, (struct view){NULL, 0}))
        return false;
    out->rest = (struct view){t.p, (size_t)(t.end - t.p)};
    return out->n != 0;
}

bool name_parts_of_function(struct view text, struct name_parts *out)
{
    return take_name(text, true, out);
}

bool name_parts_of_type(struct view text, struct name_parts *out)
{
    return take_name(text, false, out);
}

size_t name_parts_join(const struct name_parts *parts, char *out, size_t size)
{
    size_t len = 0;
    for (unsigned i = 0; i < parts->n; i++) {
        struct view name = parts->at[i].name;
        if (len + name.len + 3 > size)
            return 0;
        if (i) {
            memcpy(out + len, "::", 2);
            len += 2;
        }
        memcpy(out + len, name.p, name.len);
        len += name.len;
    }
    out[len] = 0;
    return len;
}

/* ---- arguments */

/* Splits off the first argument. False if there is none left. */
static bool next_argument(struct view *args, struct view *out)
{
    if (args->len == 0)
        return false; /* then there may be no buffer either */
    const char *begin = args->p;
    const char *p = begin;
    const char *end = args->p + args->len;
    while (p < end && *p != ',') {
        const char *past = past_symbols(begin, p, end);
        if (!past && (*p == '<' || *p == '(' || *p == '[' || *p == '{'))
            past = past_bracket(begin, p, end);
        p = past ? past : p + 1;
    }
    *out = between(begin, p);
    p += p < end;
    *args = (struct view){p, (size_t)(end - p)};
    return true;
}

struct view type_argument(struct view args, unsigned number)
{
    struct view one;
    while (next_argument(&args, &one)) {
        if (number-- == 0)
            return one;
    }
    return (struct view){"", 0};
}

/* ---- short types */

/* A standard library's template whose argument may be omitted. */
static bool is_default(struct view arg, struct view first)
{
    static const char *const anyway[] = {"allocator", "char_traits"};
    static const char *const of_first[] = {"less", "hash", "equal_to", "default_delete"};
    struct name_parts parts;
    if (view_is(arg, "alloc::alloc::Global"))
        return true;
    if (!name_parts_of_type(arg, &parts) || parts.n != 2 || parts.rest.len ||
        !view_is(parts.at[0].name, "std") || parts.at[1].args.len == 0)
        return false;
    for (size_t i = 0; i < sizeof anyway / sizeof *anyway; i++) {
        if (view_is(parts.at[1].name, anyway[i]))
            return true;
    }
    for (size_t i = 0; i < sizeof of_first / sizeof *of_first; i++) {
        if (view_is(parts.at[1].name, of_first[i]))
            return view_equal(type_argument(parts.at[1].args, 0), first);
    }
    return false;
}

static void put_short(struct buf *out, struct view type, unsigned depth);

static bool stands_at(const struct buf *out, size_t at, const char *text)
{
    size_t n = strlen(text);
    return out->len >= at + n && memcmp(out->data + at, text, n) == 0;
}

/* Appends the arguments of the template whose name is in `out` from `base` on. */
static void put_arguments(struct buf *out, size_t base, struct view args, unsigned depth)
{
    struct view list[ARGUMENTS_MAX];
    unsigned n = 0;
    bool standard = stands_at(out, base, "std::") || stands_at(out, base, "alloc::") ||
                    stands_at(out, base, "hashbrown::");
    struct view rest = args;
    while (n < ARGUMENTS_MAX && next_argument(&rest, &list[n]))
        n++;
    bool all = rest.len == 0;
    while (all && standard && n > 1 && is_default(list[n - 1], list[0]))
        n--;
    buf_puts(out, "<");
    for (unsigned i = 0; i < n; i++) {
        buf_puts(out, i ? ", " : "");
        put_short(out, list[i], depth);
    }
    if (!all) {
        buf_puts(out, ", ");
        buf_put(out, rest.p, rest.len);
    }
    buf_puts(out, ">");
}

static void replace(struct buf *out, size_t base, const char *what, const char *with)
{
    size_t n = strlen(what);
    if (!out->failed && out->len == base + n && memcmp(out->data + base, what, n) == 0) {
        out->len = base;
        buf_puts(out, with);
    }
}

/* The start of the qualified name at the end of `out`, not before `from`. */
static size_t name_begin(const struct buf *out, size_t from)
{
    size_t at = out->len;
    while (at > from && (is_word((char)out->data[at - 1]) || out->data[at - 1] == ':'))
        at--;
    return at;
}

static bool ends_with_std(const struct buf *out, size_t from)
{
    if (out->len - from < 5 || memcmp(out->data + out->len - 5, "std::", 5) != 0)
        return false;
    char before = out->len - from > 5 ? (char)out->data[out->len - 6] : ' ';
    return !is_word(before) && before != ':';
}

/* Appends a word, or skips an inline namespace and `::` after it. */
static const char *put_word(struct buf *out, size_t from, const char *p, const char *end)
{
    const char *past = p;
    while (past < end && is_word(*past))
        past++;
    struct view word = {p, (size_t)(past - p)};
    if (starts(past, end, "::") && is_inline_namespace(word) && ends_with_std(out, from))
        return past + 2;
    buf_put(out, p, word.len);
    return past;
}

static void put_short(struct buf *out, struct view type, unsigned depth)
{
    const char *p = type.p;
    const char *end = type.p + type.len;
    size_t from = out->len;
    while (p < end && !out->failed) {
        const char *past = past_symbols(type.p, p, end);
        if (past) {
            buf_put(out, p, (size_t)(past - p));
        } else if (*p == '<' && depth && (past = past_bracket(type.p, p, end)) != NULL) {
            size_t base = name_begin(out, from);
            put_arguments(out, base, (struct view){p + 1, (size_t)(past - p - 2)}, depth - 1);
            replace(out, base, "std::basic_string<char>", "std::string");
            replace(out, base, "std::basic_string<wchar_t>", "std::wstring");
        } else if (is_word(*p)) {
            past = put_word(out, from, p, end);
        } else {
            buf_put(out, p, 1);
            past = p + 1;
        }
        p = past;
    }
}

void type_put_short(struct buf *out, struct view type)
{
    put_short(out, type, SHORTEN_DEPTH);
}
