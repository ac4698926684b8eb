#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef err_set
#undef err_prefix
#undef err_no_memory
#undef err_errno

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
        e->code = code;
    }
    return -1;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    if (e) {
        char prefix[256];
        char text[sizeof e->text];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(prefix, sizeof prefix, fmt, ap);
        va_end(ap);
        memcpy(text, e->text, sizeof text);
        snprintf(e->text, sizeof e->text, "%s: %.*s", prefix,
                 (int)(sizeof e->text - sizeof prefix - 2), text);
    }
    return -1;
}

int err_no_memory(struct err *e, const char *what)
{
    return err_set(e, ERR_MEMORY, "out of memory for %s", what);
}

int err_errno(struct err *e, enum err_code code, const char *fmt, ...)
{
    int saved = errno;
    if (e) {
        char text[384];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        snprintf(e->text, sizeof e->text, "%s: %s", text, strerror(saved));
        e->code = code;
    }
    return -1;
}

int err_exit_status(const struct err *e)
{
    switch (e->code) {
    case ERR_NONE:
        return 0;
    case ERR_CHECK:
        return 1;
    case ERR_USAGE:
        return 2;
    case ERR_INPUT:
        return 3;
    case ERR_OUTPUT:
    case ERR_MEMORY:
        return 4;
    case ERR_CONNECT:
        return 5;
    }
    return 3;
}

bool refuse_value(struct err *e, const char *option, const char *values, const char *value)
{
    err_set(e, ERR_USAGE, "%s is %s, not '%s'", option, values, value);
    return false;
}
