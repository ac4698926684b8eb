#pragma once

/*
 * Reads a Python pickle of plain data, protocols 2 to 5, into packed values. Nothing is imported or
 * called: an opcode that would do so ends the reading. Source of the opcodes: Lib/pickletools.py of
 * CPython 3.13.
 */

#include "import/source.h"
#include "import/value_arena.h"

struct pickle {
    unsigned protocol;
    uint64_t bytes;    /* up to the end of the pickle */
    uint64_t trailing; /* bytes after it */
    uint64_t root;
};

/* Whether the bytes begin as a pickle of protocol 2 or later does. */
bool pickle_begins(struct view bytes);

/*
 * Reads all of `s`. ERR_INPUT with the offset when the text is no pickle of plain data: opcodes
 * that import or call, containers that contain themselves, damage.
 */
int pickle_read(struct import_source *s, struct value_arena *a, struct pickle *p, struct err *e);
