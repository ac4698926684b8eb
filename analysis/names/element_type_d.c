#include "analysis/names/element_type_d.h"

#include <string.h>

#include "analysis/names/type_text.h"

#define PATH_MAX_LENGTH 128u
#define BRACKETS_MAX 64u

struct rule {
    const char *path; /* names joined; the last arguments among them contain the type */
    bool is_array;    /* the argument is the array; the type is that of its elements */
    enum element_evidence evidence;
};

static const struct rule rules[] = {
    /* what the compiler generates for `new`, `~=` and `~` */
    {"core.lifetime._d_newitemT", false, ELEMENT_SURE},
    {"core.lifetime._d_newclassT", false, ELEMENT_SURE},
    {"core.lifetime._d_newThrowable", false, ELEMENT_SURE},
    {"core.internal.array.construction._d_newarrayT", false, ELEMENT_SURE},
    {"core.internal.array.construction._d_newarrayU", false, ELEMENT_SURE},
    {"core.internal.array.appending._d_arrayappendT", true, ELEMENT_SURE},
    {"core.internal.array.appending._d_arrayappendcTX", true, ELEMENT_SURE},
    {"core.internal.array.concatenation._d_arraycatnTX", true, ELEMENT_SURE},
    {"core.internal.array.utils.__arrayAlloc", true, ELEMENT_SURE},
    {"std.array.uninitializedArray", true, ELEMENT_SURE},
    {"std.array.minimallyInitializedArray", true, ELEMENT_SURE},
    /* containers */
    {"std.container.array.Array.Payload.reserve", false, ELEMENT_SURE},
    {"std.container.rbtree.RedBlackTree.allocate", false, ELEMENT_SURE},
    {"std.container.dlist.DList.createNode", false, ELEMENT_SURE},
    {"std.typecons.RefCounted.RefCountedStore.allocateStore", false, ELEMENT_SURE},
    /* known only if inlined constructors are visible */
    {"std.experimental.allocator.make", false, ELEMENT_IN_LINE},
    {"std.experimental.allocator.makeArray", false, ELEMENT_IN_LINE},
    {"std.typecons.RefCounted.RefCountedStore.initialize", false, ELEMENT_IN_LINE},
};

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (c & 0x80);
}

bool element_type_is_d(struct view function)
{
    const char *at = function.len && function.len <= TYPE_TEXT_MAX
                         ? memmem(function.p, function.len, "!(", 2)
                         : NULL;
    return at && at > function.p && is_word(at[-1]);
}

/* The position after the bracket that closes the one at `p`; NULL if there is none. */
static const char *past_bracket(const char *p, const char *end)
{
    char open[BRACKETS_MAX];
    unsigned n = 0;
    for (; p < end; p++) {
        char c = *p;
        if (c == '"') {
            p = memchr(p + 1, '"', (size_t)(end - p - 1));
            if (!p)
                return NULL;
        } else if (c == '(' || c == '[' || c == '{') {
            if (n == BRACKETS_MAX)
                return NULL;
            open[n++] = c;
        } else if (c == ')' || c == ']' || c == '}') {
            if (n == 0 || open[n - 1] != (c == ')' ? '(' : c == ']' ? '[' : '{'))
                return NULL;
            if (--n == 0)
                return p + 1;
        }
    }
    return NULL;
}

struct taken {
    char path[PATH_MAX_LENGTH];
    size_t len;
    struct view args; /* the last ones */
    struct view last; /* the name of the part before, if it had arguments */
};

/* Adds a name. A template's only member of the same name is left out. */
static bool add_name(struct taken *t, struct view name)
{
    bool again = t->last.len && view_equal(name, t->last);
    t->last = (struct view){NULL, 0};
    if (again)
        return true;
    if (name.len == 0 || t->len + name.len + 2 > sizeof t->path)
        return false;
    if (t->len)
        t->path[t->len++] = '.';
    memcpy(t->path + t->len, name.p, name.len);
    t->len += name.len;
    t->path[t->len] = 0;
    return true;
}

/* False if it is no such name, or the name of something local to a function. */
static bool take(struct view text, struct taken *t)
{
    const char *p = text.p;
    const char *end = p + text.len;
    while (p < end) {
        const char *name = p;
        while (p < end && is_word(*p))
            p++;
        struct view word = {name, (size_t)(p - name)};
        if (!add_name(t, word))
            return false;
        if (end - p >= 2 && p[0] == '!' && p[1] == '(') {
            const char *past = past_bracket(p + 1, end);
            if (!past)
                return false;
            t->args = (struct view){p + 2, (size_t)(past - p - 3)};
            t->last = word;
            p = past;
        }
        if (p < end && *p == '(') {
            p = past_bracket(p, end);
            return p && (p == end || *p != '.');
        }
        if (p < end && *p++ != '.')
            return false;
    }
    return true;
}

static const struct rule *find_rule(const char *path)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(path, rules[i].path) == 0)
            return &rules[i];
    }
    return NULL;
}

enum element_evidence element_type_d(struct view function, struct buf *out)
{
    struct taken t = {.args = {"", 0}, .last = {"", 0}};
    const struct rule *r = take(function, &t) ? find_rule(t.path) : NULL;
    struct view type = r ? type_argument(t.args, 0) : (struct view){"", 0};
    bool is_array = type.len > 2 && memcmp(type.p + type.len - 2, "[]", 2) == 0;
    if (type.len == 0 || (r->is_array && !is_array))
        return ELEMENT_NONE;
    if (r->is_array)
        type.len -= 2;
    type_put_short(out, type);
    return r->evidence;
}
