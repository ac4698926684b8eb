#include "symbols/pdb/msvc_names.h"

#include <string.h>

#include "base/view.h"

#define PARTS_MAX 32u
#define KNOWN_MAX 10u /* names that a digit may repeat */

static const char anonymous[] = "`anonymous namespace'";

/* A name and the scopes around it, innermost first. */
struct decorated {
    const char *p;
    struct view parts[PARTS_MAX], known[KNOWN_MAX];
    unsigned count, known_count;
};

/* What follows "operator" by its code; NULL: none of these. */
static const char *operator_of(const char *code)
{
    static const char *const names[] = {
        "2 new", "3 delete", "4=",   "5>>",  "6<<",      "7!",         "8==",  "9!=",  "A[]",
        "C->",   "D*",       "E++",  "F--",  "G-",       "H+",         "I&",   "J->*", "K/",
        "L%",    "M<",       "N<=",  "O>",   "P>=",      "Q,",         "R()",  "S~",   "T^",
        "U|",    "V&&",      "W||",  "X*=",  "Y+=",      "Z-=",        "_0/=", "_1%=", "_2>>=",
        "_3<<=", "_4&=",     "_5|=", "_6^=", "_U new[]", "_V delete[]"};
    size_t len = *code == '_' ? 2 : 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(code, names[i], len) == 0)
            return names[i] + len;
    }
    return NULL;
}

static bool add(struct decorated *d, struct view part)
{
    if (d->count == PARTS_MAX)
        return false;
    d->parts[d->count++] = part;
    return true;
}

/* Takes the text up to the next @. `shown`: what stands for it, or NULL. */
static bool take_text(struct decorated *d, const char *shown)
{
    const char *end = strchr(d->p, '@');
    if (!end || end == d->p)
        return false;
    struct view text = shown ? view_of(shown) : (struct view){d->p, (size_t)(end - d->p)};
    bool is_known = false;
    for (unsigned i = 0; i < d->known_count; i++)
        is_known |= view_equal(d->known[i], text);
    if (!is_known && d->known_count < KNOWN_MAX)
        d->known[d->known_count++] = text;
    d->p = end + 1;
    return add(d, text);
}

static bool take_scope(struct decorated *d)
{
    if (*d->p >= '0' && *d->p <= '9') {
        unsigned number = (unsigned)(*d->p++ - '0');
        return number < d->known_count && add(d, d->known[number]);
    }
    if (*d->p == '?')
        return d->p[1] == 'A' && take_text(d, anonymous);
    return take_text(d, NULL);
}

static bool undecorate(const char *name, struct buf *out)
{
    struct decorated d = {.p = name + 1};
    const char *oper = NULL;
    bool constructs = false, destroys = false;
    if (*d.p == '?') {
        const char *code = d.p + 1;
        constructs = *code == '0';
        destroys = *code == '1';
        oper = operator_of(code);
        if (!constructs && !destroys && !oper)
            return false;
        d.p = code + (*code == '_' ? 2 : 1);
    } else if (!take_text(&d, NULL)) {
        return false;
    }
    while (*d.p && *d.p != '@') {
        if (!take_scope(&d))
            return false;
    }
    if (*d.p != '@' || d.p[1] == 0 || ((constructs || destroys) && d.count == 0))
        return false;
    for (unsigned i = d.count; i-- > 0;) {
        buf_put(out, d.parts[i].p, d.parts[i].len);
        if (i > 0)
            buf_puts(out, "::");
    }
    if (oper)
        buf_printf(out, "%soperator%s", d.count ? "::" : "", oper);
    if (constructs || destroys) {
        buf_puts(out, destroys ? "::~" : "::");
        buf_put(out, d.parts[0].p, d.parts[0].len);
    }
    return true;
}

bool msvc_name(const char *name, struct buf *out)
{
    const char *hash = strstr(name, "?A0x");
    if (!hash || (name[0] == '?' && !strstr(name, "::")))
        return name[0] == '?' && undecorate(name, out);
    for (; hash; hash = strstr(name, "?A0x")) {
        buf_put(out, name, (size_t)(hash - name));
        buf_puts(out, anonymous);
        name = hash + 4 + strspn(hash + 4, "0123456789abcdefABCDEF");
    }
    buf_puts(out, name);
    return true;
}
