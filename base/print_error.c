#include "base/print_error.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/format.h"

int print_error(const struct err *e)
{
    struct buf text = {0};
    format_terminal(&text, view_of(e->text));
    const char *escaped = buf_str(&text);
    if (!text.failed) {
        fprintf(stderr, "tidemark: %s\n", escaped);
    } else {
        /* Out of memory for the escaped text: print plain characters, which need none. */
        fputs("tidemark: ", stderr);
        for (const char *p = e->text; *p; p++)
            fputc(*p >= ' ' && *p < 0x7f ? *p : '?', stderr);
        fputc('\n', stderr);
    }
    buf_release(&text);
    return err_exit_status(e);
}

void print_behind(const char *path, const char *behind)
{
    struct err e;
    if (!behind[0])
        return;
    err_set(&e, ERR_INPUT, "%s: %s", path, behind);
    print_error(&e);
}
