/* Shared by all functions of the library: errors and struct sizes. */

#include <stdio.h>
#include <string.h>

#include "analysis/figures/accounting.h"
#include "lib/tidetrace_internal.h"

uint32_t tidetrace_version(void)
{
    return TIDETRACE_MAJOR * 1000 + TIDETRACE_MINOR;
}

const char *tidetrace_release(void)
{
    return TIDEMARK_VERSION;
}

struct call call_begin(struct tidetrace_error *out)
{
    if (out) {
        out->code = TIDETRACE_OK;
        out->text[0] = 0;
    }
    struct call c = {.out = out};
    /* glibc has the "C" locale preallocated, so this call allocates nothing to free. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    c.before = plain ? uselocale(plain) : (locale_t)0;
    return c;
}

static int code_of(const struct err *e)
{
    switch (e->code) {
    case ERR_CHECK:
    case ERR_USAGE:
        return TIDETRACE_USAGE;
    case ERR_OUTPUT:
        return TIDETRACE_SYSTEM;
    case ERR_MEMORY:
        return TIDETRACE_MEMORY;
    default:
        return TIDETRACE_INPUT;
    }
}

int call_end(struct call *c, int status)
{
    if (c->before) {
        locale_t plain = uselocale(c->before);
        freelocale(plain);
    }
    if (status == 0)
        return TIDETRACE_OK;
    int code = code_of(&c->err);
    if (c->out) {
        c->out->code = code;
        snprintf(c->out->text, sizeof c->out->text, "%s", c->err.text);
    }
    return code;
}

/* ---- structs */

static size_t size_said(const void *theirs)
{
    size_t size;
    memcpy(&size, theirs, sizeof size);
    return size;
}

static int wrong_size(struct err *e)
{
    return err_set(e, ERR_USAGE, "struct_size is not set");
}

int lib_take(void *ours, size_t known, const void *theirs, struct err *e)
{
    memset(ours, 0, known);
    if (!theirs)
        return 0;
    size_t size = size_said(theirs);
    if (size < sizeof size)
        return wrong_size(e);
    for (size_t i = known; i < size; i++) {
        if (((const char *)theirs)[i])
            return err_set(e, ERR_USAGE, "this library is too old for one of the options");
    }
    memcpy(ours, theirs, size < known ? size : known);
    return 0;
}

int lib_give(void *theirs, const void *ours, size_t known, struct err *e)
{
    size_t size = size_said(theirs);
    if (size < sizeof size)
        return wrong_size(e);
    lib_give_element(theirs, 0, size, ours, known);
    return 0;
}

int lib_check_element(size_t size, struct err *e)
{
    return size >= sizeof size ? 0 : err_set(e, ERR_USAGE, "the size of an element is not given");
}

void lib_give_element(void *array, size_t index, size_t size, const void *ours, size_t known)
{
    char *to = (char *)array + index * size;
    memcpy(to, ours, size < known ? size : known);
    if (size > known)
        memset(to + known, 0, size - known);
    memcpy(to, &size, sizeof size);
}

struct tidetrace_figures lib_figures(const struct counter *c)
{
    return (struct tidetrace_figures){.count = c->count,
                                      .bytes = c->bytes,
                                      .live_count = c->live_count,
                                      .live_bytes = c->live_bytes,
                                      .peak_bytes = c->peak_bytes,
                                      .at_peak_bytes = c->at_peak_bytes,
                                      .temporary = c->temporary};
}
