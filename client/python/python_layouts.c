/* The offsets in CPython's structures, by version. */

#include <string.h>

#include "client/python/python.h"

/*
 * Versions whose layout is not in the interpreter itself: a row is for those from its own to the
 * next row's. Each was tested with that interpreter.
 */
static const struct python_layout layouts[] = {
    {.version = 0x0308,
     .chain = PYTHON_NATIVES,
     .frame = 24,
     .interpreter = 16,
     .code = 32,
     .previous = 24,
     .instruction = 104,
     .owner = 116,
     .filename = 104,
     .qualname = 112,
     .linetable = 120,
     .first_line = 40,
     .code_bytes = 48,
     .number_bytes = 1,
     .ascii = 48,
     .compact = 72},
    {.version = 0x030a,
     .chain = PYTHON_PAIRS,
     .cframe = 48,
     .cframe_previous = 8,
     .frame = 24,
     .interpreter = 16,
     .code = 32,
     .previous = 24,
     .instruction = 96,
     .owner = 108,
     .filename = 104,
     .qualname = 112,
     .linetable = 120,
     .first_line = 40,
     .code_bytes = 48,
     .number_bytes = 2,
     .ascii = 48,
     .compact = 72},
    {.version = 0x030b,
     .chain = PYTHON_CFRAMES,
     .cframe = 56,
     .cframe_previous = 16,
     .frame = 8,
     .interpreter = 16,
     .code = 32,
     .previous = 48,
     .instruction = 56,
     .last = 68,
     .last_value = 1,
     .owner = 69,
     .filename = 112,
     .qualname = 128,
     .linetable = 136,
     .first_line = 72,
     .bytecode = 184,
     .first = 168,
     .ascii = 48,
     .compact = 72},
    {.version = 0x030c,
     .cframe = 56,
     .cframe_previous = 8,
     .frame = 0,
     .interpreter = 16,
     .code = 0,
     .previous = 8,
     .instruction = 56,
     .last = 70,
     .last_value = 3,
     .owner = 70,
     .filename = 112,
     .qualname = 128,
     .linetable = 136,
     .first_line = 68,
     .bytecode = 192,
     .first = 176,
     .ascii = 40,
     .compact = 56},
};

/* Where _PyRuntime has them, in words. */
struct runtime_words {
    uint16_t version;
    uint8_t interpreter, frame;           /* of a thread state */
    uint8_t previous, instruction, owner; /* of a frame; its code is in the word after `previous` */
    uint8_t filename, qualname, line_table, first_line, bytecode; /* of a code object */
    uint8_t ascii;                                                /* size of a string's header */
    uint8_t code_tags;
};

/*
 * CPython 3.13 and later have their offsets at the beginning of _PyRuntime (pycore_runtime.h, since
 * 3.14 pycore_debug_offsets.h). What they do not list has been so since 3.12.
 */
static const struct runtime_words runtimes[] = {
    {0x030d, 22, 23, 29, 31, 33, 35, 37, 38, 39, 43, 70, 0},
    /* The lowest bits of a _PyStackRef say whether it owns its reference. */
    {0x030e, 25, 26, 32, 34, 36, 40, 42, 43, 44, 48, 80, 3},
};

static bool are_offsets(const struct runtime_words *at, const uint64_t *w)
{
    const uint8_t words[] = {at->interpreter,  at->frame,       at->previous,
                             at->previous + 1, at->instruction, at->filename,
                             at->line_table,   at->qualname,    at->bytecode};
    for (unsigned i = at->interpreter; i <= at->ascii; i++) {
        if (w[i] > UINT16_MAX)
            return false;
    }
    for (size_t i = 0; i < sizeof words; i++) {
        if (w[words[i]] % 8)
            return false;
    }
    return w[at->bytecode] >= 16 && w[at->first_line] % 4 == 0 && w[at->ascii] % 4 == 0;
}

static bool layout_of_runtime(struct python_layout *l, const struct runtime_words *at,
                              const uint64_t *w)
{
    enum { VERSION = 1, FREE_THREADED = 2 };
    if (!w || memcmp(w, "xdebugpy", 8) != 0 || w[VERSION] >> 16 != at->version ||
        w[FREE_THREADED] || !are_offsets(at, w))
        return false;
    *l = (struct python_layout){.version = at->version,
                                .frame = (uint16_t)w[at->frame],
                                .interpreter = (uint16_t)w[at->interpreter],
                                .code = (uint16_t)w[at->previous + 1],
                                .code_tags = at->code_tags,
                                .previous = (uint16_t)w[at->previous],
                                .instruction = (uint16_t)w[at->instruction],
                                .last = (uint16_t)w[at->owner],
                                .last_value = 3,
                                .owner = (uint16_t)w[at->owner],
                                .filename = (uint16_t)w[at->filename],
                                .qualname = (uint16_t)w[at->qualname],
                                .linetable = (uint16_t)w[at->line_table],
                                .first_line = (uint16_t)w[at->first_line],
                                .bytecode = (uint16_t)w[at->bytecode],
                                .first = (uint16_t)(w[at->bytecode] - 16),
                                .ascii = (uint16_t)w[at->ascii],
                                .compact = (uint16_t)(w[at->ascii] + 16)};
    return true;
}

bool python_layout_find(struct python_layout *l, uint32_t version, const uint64_t *runtime)
{
    size_t count = sizeof layouts / sizeof *layouts;
    for (size_t i = version > layouts[count - 1].version ? 0 : count; i-- > 0;) {
        if (layouts[i].version <= version) {
            *l = layouts[i];
            l->version = (uint16_t)version;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
        if (runtimes[i].version == version)
            return layout_of_runtime(l, &runtimes[i], runtime);
    }
    return false;
}
