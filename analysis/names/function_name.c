#include "analysis/names/function_name.h"

#include <string.h>

struct scanner {
    const char *p;
    const char *end;
    char *out;
    size_t len;
    bool marks; /* template arguments within the name become <…> */
};

static void put(struct scanner *s, const char *from, size_t n)
{
    size_t room = FUNCTION_NAME_SIZE - 1 - s->len;
    if (n > room)
        n = room;
    memcpy(s->out + s->len, from, n);
    s->len += n;
}

static bool at(const struct scanner *s, const char *what)
{
    if (s->p == s->end || *s->p != *what)
        return false;
    size_t n = strlen(what);
    return (size_t)(s->end - s->p) >= n && memcmp(s->p, what, n) == 0;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$';
}

/* The position after the bracket that closes the one at `p`, or the end of the text. */
static const char *after_bracket(const char *p, const char *end)
{
    unsigned depth = 0;
    for (; p < end; p++) {
        if (*p == '(' || *p == '<' || *p == '[' || *p == '{')
            depth++;
        else if ((*p == ')' || *p == '>' || *p == ']' || *p == '}') && p[-1] != '-' && --depth == 0)
            return p + 1;
    }
    return end;
}

/* Copies `operator…` up to its parameters. False if this is an ordinary word. */
static bool take_operator(struct scanner *s)
{
    static const char word[] = "operator";
    const char *next = s->p + sizeof word - 1;
    if (!at(s, word) || (s->len && is_word(s->out[s->len - 1])) ||
        (next < s->end && is_word(*next)))
        return false;
    if (s->end - next >= 2 && next[0] == '(' && next[1] == ')')
        next += 2;
    while (next < s->end && *next != '(')
        next++;
    put(s, s->p, (size_t)(next - s->p));
    s->p = next;
    return true;
}

/* Parameters end the name, unless something local to the function follows. */
static bool take_parenthesis(struct scanner *s)
{
    static const char anonymous[] = "(anonymous namespace)";
    const char *next = after_bracket(s->p, s->end);
    if (at(s, anonymous)) {
        put(s, anonymous, sizeof anonymous - 1);
        s->p = next;
        return true;
    }
    bool decltype_of = s->len >= 8 && memcmp(s->out + s->len - 8, "decltype", 8) == 0;
    s->p = next;
    if (at(s, " const::") || at(s, " const &::"))
        s->p += at(s, " const::") ? 6 : 8;
    return decltype_of || s->len == 0 || at(s, "::") || at(s, ".");
}

/* `<X as Y>::f`: the name of f in X, as Rust writes implementations of traits. */
static bool take_trait(struct scanner *s)
{
    const char *next = after_bracket(s->p, s->end);
    const char *p = s->p + 1;
    while (next - p >= 4 && memcmp(p, " as ", 4) != 0)
        p = *p == '<' ? after_bracket(p, next) : p + 1;
    if (next - p < 4)
        return false;
    const char *open = memchr(s->p + 1, '<', (size_t)(p - s->p - 1));
    put(s, s->p + 1, (size_t)((open ? open : p) - s->p - 1));
    s->p = next;
    return true;
}

/* `<X>::f`: the name of f in X, as Rust writes functions of a type. */
static bool take_self(struct scanner *s)
{
    const char *next = after_bracket(s->p, s->end);
    const char *p = s->p + 1;
    if (s->end - next < 2 || memcmp(next, "::", 2) != 0)
        return false;
    while (p < next - 1 && *p != '<')
        p++;
    put(s, s->p + 1, (size_t)(p - s->p - 1));
    s->p = next;
    return s->len != 0;
}

static bool at_suffix(const struct scanner *s)
{
    static const char *const suffixes[] = {"@",           ".cold",    ".part.",
                                           ".constprop.", ".isra.",   ".lto_priv.",
                                           ".llvm.",      " [clone ", " [with "};
    if (*s->p != '@' && *s->p != '.' && *s->p != ' ')
        return false;
    for (size_t i = 0; s->len && i < sizeof suffixes / sizeof *suffixes; i++) {
        if (at(s, suffixes[i]))
            return true;
    }
    return false;
}

/* Takes the next token. False at the end of the name. */
static bool take(struct scanner *s)
{
    if (at_suffix(s))
        return false;
    if (take_operator(s))
        return true;
    char c = *s->p;
    if (c == '(')
        return take_parenthesis(s);
    if (c == '<' && s->len == 0 && (take_trait(s) || take_self(s)))
        return true;
    if ((c == '<' || c == '[') && s->len) {
        if (c == '<' && s->len >= 2 && memcmp(s->out + s->len - 2, "::", 2) == 0)
            s->len -= 2; /* Rust's `f::<T>` */
        s->p = after_bracket(s->p, s->end);
        if (s->marks && c == '<' && at(s, "::"))
            put(s, "<…>", sizeof "<…>" - 1);
        return true;
    }
    const char *quote = c == '`' ? memchr(s->p, '\'', (size_t)(s->end - s->p)) : NULL;
    if (c == '{' || quote) {
        const char *next = quote ? quote + 1 : after_bracket(s->p, s->end);
        put(s, s->p, (size_t)(next - s->p));
        s->p = next;
        return true;
    }
    s->p++;
    if (c == ' ') {
        s->len = 0; /* that was a return type or a keyword */
        while (s->p < s->end && (*s->p == '*' || *s->p == '&'))
            s->p++;
    } else {
        put(s, &c, 1);
    }
    return true;
}

bool function_is_unnamed(struct view text, struct view *neighbour)
{
    static const char prefix[] = "near ";
    const size_t n = sizeof prefix - 1;
    const char *plus = text.len > n ? memrchr(text.p, '+', text.len) : NULL;
    if (!plus || memcmp(text.p, prefix, n) != 0 || plus < text.p + n)
        return false;
    const size_t digits = text.len - (size_t)(plus + 1 - text.p);
    if (digits < 3 || memcmp(plus + 1, "0x", 2) != 0)
        return false;
    if (neighbour)
        *neighbour = (struct view){text.p + n, (size_t)(plus - text.p) - n};
    return true;
}

static size_t bare_name(struct view text, char out[FUNCTION_NAME_SIZE], bool marks)
{
    out[0] = 0;
    if (text.len == 0)
        return 0; /* an empty text may have no place */
    struct scanner s = {.p = text.p, .end = text.p + text.len, .out = out, .marks = marks};
    while (!function_is_unnamed(text, NULL) && s.p < s.end && take(&s))
        ;
    if (s.len == 0)
        put(&s, text.p, text.len);
    out[s.len] = 0;
    return s.len;
}

size_t function_name(struct view text, char out[FUNCTION_NAME_SIZE])
{
    return bare_name(text, out, false);
}

void function_name_short(struct buf *out, struct view text)
{
    char name[FUNCTION_NAME_SIZE];
    struct view neighbour;
    if (function_is_unnamed(text, &neighbour)) {
        const char *end = neighbour.p + neighbour.len;
        buf_put(out, text.p, (size_t)(neighbour.p - text.p));
        function_name_short(out, neighbour);
        buf_put(out, end, (size_t)(text.p + text.len - end));
        return;
    }
    bool declares = memchr(text.p, '(', text.len) || memmem(text.p, text.len, "::", 2);
    size_t len = 0;
    if (text.len > FUNCTION_NAME_LONG && declares)
        len = bare_name(text, name, true);
    if (len == 0 || len == FUNCTION_NAME_SIZE - 1)
        buf_put(out, text.p, text.len);
    else
        buf_put(out, name, len);
}

/* The text with the arguments of templates that are `most` deep as <…>. */
static void put_to_depth(struct buf *out, struct view text, unsigned most)
{
    unsigned depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        bool is_end = c == '>' && depth > 0 && text.p[i - 1] != '-';
        depth -= is_end;
        if (depth < most)
            buf_put(out, &text.p[i], 1);
        if (c == '<' && depth++ == most - 1)
            buf_puts(out, "…");
    }
}

void type_name_short(struct buf *out, struct view text)
{
    size_t before = out->len;
    unsigned most = 2;
    if (text.len <= FUNCTION_NAME_LONG) {
        buf_put(out, text.p, text.len);
        return;
    }
    put_to_depth(out, text, most);
    while (out->len - before > FUNCTION_NAME_LONG && --most > 0) {
        out->len = before;
        put_to_depth(out, text, most);
    }
}
