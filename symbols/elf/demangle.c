/* Demangles linkage names. */

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>

#include "symbols/elf/demangle.h"
#include "symbols/pdb/msvc_names.h"

#define OPTIONS (DMGL_PARAMS | DMGL_ANSI)

/*
 * A name of a few hundred bytes can expand to gigabytes, because each part can repeat the previous
 * one twice. libiberty's callbacks cannot stop it, so this one leaves by longjmp. At that point
 * libiberty holds no allocation except the letters of one Rust identifier.
 */
struct output {
    struct buf *to;
    size_t begin;
    jmp_buf too_long;
};

static void take(const char *text, size_t len, void *user)
{
    struct output *o = user;
    if (o->to->len - o->begin > DEMANGLED_MAX - len || len > DEMANGLED_MAX)
        longjmp(o->too_long, 1);
    buf_put(o->to, text, len);
}

typedef int demangler(const char *name, int options, demangle_callbackref callback, void *user);

static bool through_callback(demangler *fn, const char *name, struct buf *out)
{
    struct output o = {.to = out, .begin = out->len};
    if (setjmp(o.too_long) == 0 && fn(name, OPTIONS, take, &o) != 0 && out->len > o.begin)
        return true;
    out->len = o.begin;
    return false;
}

static bool through_string(const char *name, struct buf *out)
{
    char *text = dlang_demangle(name, OPTIONS);
    size_t len = text ? strlen(text) : 0;
    bool fits = len > 0 && len <= DEMANGLED_MAX;
    if (fits)
        buf_put(out, text, len);
    free(text);
    return fits;
}

static bool demangle_underscored(const char *name, struct buf *out)
{
    switch (name[1]) {
    case 'R':
        return through_callback(rust_demangle_callback, name, out);
    case 'Z':
        return through_callback(rust_demangle_callback, name, out) ||
               through_callback(cplus_demangle_v3_callback, name, out);
    case 'D':
        return through_string(name, out);
    case '_': /* with a second underscore, as on some systems */
        return name[2] == 'Z' && demangle_underscored(name + 1, out);
    default:
        return false;
    }
}

bool demangle(const char *name, struct buf *out)
{
    if (strnlen(name, MANGLED_MAX + 1) > MANGLED_MAX)
        return false;
    return (name[0] == '_' && demangle_underscored(name, out)) || msvc_name(name, out);
}
