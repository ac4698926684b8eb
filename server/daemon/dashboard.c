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
FILE_HERE(style, "web/daemon/daemon.css")
FILE_HERE(openapi, "web/daemon/openapi.json")

const struct daemon_page *daemon_page_find(const char *path)
{
    static const struct daemon_page pages[] = {
        {"/", "text/html; charset=utf-8", tidemark_page_index, tidemark_page_index_end},
        {"/daemon.js", "text/javascript; charset=utf-8", tidemark_page_script,
         tidemark_page_script_end},
        {"/daemon.css", "text/css; charset=utf-8", tidemark_page_style, tidemark_page_style_end},
        {"/openapi.json", "application/json", tidemark_page_openapi, tidemark_page_openapi_end}};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(pages[i].path, path) == 0)
            return &pages[i];
    }
    return NULL;
}
