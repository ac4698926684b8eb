#ifndef TIDEMARK_RUN_PROGRAM_H
#define TIDEMARK_RUN_PROGRAM_H

/*
 * A program that is to be run with the preload library: where it lies, as the shell would find it,
 * and whether the library can see its allocations at all. A preloaded library is the dynamic
 * linker's to load, so it is lost on programs that have none or that it does not trust; and
 * functions that a program defines itself come before those of a preloaded library.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* Why a program's allocations would not be seen. */
enum program_obstacle {
    PROGRAM_FINE,
    PROGRAM_UNKNOWN,    /* neither a script nor an ELF file: the kernel may know more */
    PROGRAM_STATIC,     /* no dynamic linker */
    PROGRAM_FOREIGN,    /* for another processor, or 32-bit */
    PROGRAM_PRIVILEGED, /* setuid, setgid or file capabilities: the linker refuses to preload */
    PROGRAM_MUSL,       /* its dynamic linker ends programs with libraries of the GNU C library */
    PROGRAM_GO,         /* Go's runtime asks the kernel for memory itself */
    PROGRAM_ALLOCATOR,  /* defines malloc itself */
    PROGRAM_SANITIZER,  /* needs a library that ends programs in which another one comes first */
};

struct program {
    char *path;   /* of what was asked for */
    char *image;  /* of what the kernel will run for it: the interpreter of a script */
    bool missing; /* after an error: there is no such file (a shell's 127, else 126) */
    enum program_obstacle obstacle;
    char allocator[32]; /* PROGRAM_ALLOCATOR: which, or "" */
};

/*
 * Finds `name` through PATH, when it has no slash, and looks at it. ERR_OUTPUT when it cannot be
 * run; an obstacle is no error. To be released also after an error.
 */
int program_find(struct program *p, const char *name, struct err *e);
void program_release(struct program *p);

/* Whether it runs with the library, seen or not. */
bool program_bears(const struct program *p);

/* The obstacle in a sentence without a subject or an end, such as "is statically linked: …". */
void program_explain(const struct program *p, struct buf *out);

#endif
