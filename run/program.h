#pragma once

/*
 * A program to run with the preload library: its path, as a shell would find it, and whether the
 * library can see its allocations. The dynamic linker loads a preloaded library, so programs
 * without one, and privileged programs, run without the library. Functions that a program defines
 * itself take precedence over those of the library.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* Why a program's allocations would not be recorded. */
enum program_obstacle {
    PROGRAM_FINE,
    PROGRAM_UNKNOWN,    /* neither a script nor an ELF file: the kernel may know its format */
    PROGRAM_STATIC,     /* no dynamic linker */
    PROGRAM_FOREIGN,    /* for another architecture, or 32-bit */
    PROGRAM_PRIVILEGED, /* setuid, setgid or file capabilities: the linker does not preload */
    PROGRAM_MUSL,       /* its linker ends programs that load libraries of the GNU C library */
    PROGRAM_GO,         /* Go's runtime maps its memory by itself */
    PROGRAM_ALLOCATOR,  /* defines malloc itself */
    PROGRAM_SANITIZER,  /* needs a library that must be loaded first */
};

struct program {
    char *path;   /* the given program */
    char *image;  /* the file that the kernel executes: the interpreter of a script */
    bool missing; /* after an error: the file does not exist (a shell's 127, else 126) */
    enum program_obstacle obstacle;
    char allocator[32]; /* PROGRAM_ALLOCATOR: its name, or "" */
};

/*
 * Finds `name`, in PATH if it has no slash, and examines it. ERR_OUTPUT when it cannot be executed;
 * an obstacle is no error. Release it also after an error.
 */
int program_find(struct program *p, const char *name, struct err *e);
void program_release(struct program *p);

/* Whether it can run with the library, whether or not its allocations are recorded. */
bool program_bears(const struct program *p);

/* Appends the obstacle as a predicate, such as "is statically linked: …". */
void program_explain(const struct program *p, struct buf *out);
