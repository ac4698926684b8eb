/* The offsets in CPython's structures, by version. */

#include <string.h>

#include "client/python/python.h"

/* Versions whose layout is not in the interpreter itself. Each was tested with that interpreter. */
static const struct python_layout layouts[] = {
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

/*
 * CPython 3.13 has its offsets at the beginning of _PyRuntime, as words (pycore_runtime.h). What it
 * does not list has been so since 3.12.
 */
static bool layout_of_runtime(struct python_layout *l, const uint64_t *w)
{
    enum {
        VERSION = 1,
        FREE_THREADED = 2,
        INTERPRETER = 22,
        FRAME = 23,
        PREVIOUS = 29,
        CODE = 30,
        INSTRUCTION = 31,
        OWNER = 33,
        FILENAME = 35,
        QUALNAME = 37,
        LINE_TABLE = 38,
        FIRST_LINE = 39,
        BYTECODE = 43,
        STRING = 67,
        ASCII = 70,
        WORDS = 71,
    };
    if (!w || memcmp(w, "xdebugpy", 8) != 0 || w[VERSION] >> 16 != 0x030d || w[FREE_THREADED])
        return false;
    for (unsigned i = INTERPRETER; i < WORDS; i++) {
        if (w[i] > UINT16_MAX)
            return false;
    }
    static const uint8_t words[] = {INTERPRETER, FRAME,    PREVIOUS,   CODE,    INSTRUCTION,
                                    FILENAME,    QUALNAME, LINE_TABLE, BYTECODE};
    for (size_t i = 0; i < sizeof words; i++) {
        if (w[words[i]] % 8)
            return false;
    }
    if (w[BYTECODE] < 16 || w[FIRST_LINE] % 4 || w[ASCII] % 4)
        return false;
    *l = (struct python_layout){.version = 0x030d,
                                .frame = (uint16_t)w[FRAME],
                                .interpreter = (uint16_t)w[INTERPRETER],
                                .code = (uint16_t)w[CODE],
                                .previous = (uint16_t)w[PREVIOUS],
                                .instruction = (uint16_t)w[INSTRUCTION],
                                .last = (uint16_t)w[OWNER],
                                .last_value = 3,
                                .owner = (uint16_t)w[OWNER],
                                .filename = (uint16_t)w[FILENAME],
                                .qualname = (uint16_t)w[QUALNAME],
                                .linetable = (uint16_t)w[LINE_TABLE],
                                .first_line = (uint16_t)w[FIRST_LINE],
                                .bytecode = (uint16_t)w[BYTECODE],
                                .first = (uint16_t)(w[BYTECODE] - 16),
                                .ascii = (uint16_t)w[ASCII],
                                .compact = (uint16_t)(w[ASCII] + 16)};
    return true;
}

bool python_layout_find(struct python_layout *l, uint32_t version, const uint64_t *runtime)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (layouts[i].version == version) {
            *l = layouts[i];
            return true;
        }
    }
    return version == 0x030d && layout_of_runtime(l, runtime);
}
