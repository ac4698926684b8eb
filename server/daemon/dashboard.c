#include "server/daemon/dashboard.h"

#include <string.h>

/* The assembler finds these files by -I, as #include does; the Makefile lists them. */
#define FILE_HERE(NAME, PATH)                                                                      \
    __asm__(".section .rodata\n.global tidemark_page_" #NAME "\n.global tidemark_page_" #NAME      \
            "_end\ntidemark_page_" #NAME ":\n.incbin \"" PATH "\"\ntidemark_page_" #NAME           \
            "_end:\n.byte 0\n.previous\n");                                                        \
    extern const char tidemark_page_##NAME[], tidemark_page_##NAME##_end[];

FILE_HERE(index, "web/daemon/index.html")
FILE_HERE(script, "web/daemon/daemon.js")
FILE_HERE(clients, "web/daemon/clients.js")
FILE_HERE(live, "web/daemon/live.js")
FILE_HERE(dom, "web/src/dom.js")
FILE_HERE(format, "web/src/format.js")
FILE_HERE(theme, "web/src/theme.js")
FILE_HERE(base, "web/src/base.css")
FILE_HERE(style, "web/daemon/daemon.css")
FILE_HERE(openapi, "web/daemon/openapi.json")

#define HTML "text/html; charset=utf-8"
#define SCRIPT "text/javascript; charset=utf-8"
#define STYLE "text/css; charset=utf-8"
#define PAGE(PATH, TYPE, NAME)                                                                     \
    {                                                                                              \
        PATH, TYPE, tidemark_page_##NAME, tidemark_page_##NAME##_end                               \
    }

const struct daemon_page *daemon_page_find(const char *path)
{
    static const struct daemon_page pages[] = {PAGE("/", HTML, index),
                                               PAGE("/daemon.js", SCRIPT, script),
                                               PAGE("/clients.js", SCRIPT, clients),
                                               PAGE("/live.js", SCRIPT, live),
                                               PAGE("/dom.js", SCRIPT, dom),
                                               PAGE("/format.js", SCRIPT, format),
                                               PAGE("/theme.js", SCRIPT, theme),
                                               PAGE("/base.css", STYLE, base),
                                               PAGE("/daemon.css", STYLE, style),
                                               PAGE("/openapi.json", "application/json", openapi)};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(pages[i].path, path) == 0)
            return &pages[i];
    }
    return NULL;
}
