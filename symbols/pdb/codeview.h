#pragma once

/*
 * Numbers of CodeView records, from Microsoft's cvinfo.h (microsoft-pdb). Records are
 *
 *     u16 length of what follows, u16 kind, fields
 */

#include <stdbool.h>

#include "base/cursor.h"
#include "base/view.h"

enum codeview_symbol {
    S_END = 0x0006,
    S_THUNK32 = 0x1102,
    S_BLOCK32 = 0x1103,
    S_WITH32 = 0x1104,
    S_PUB32 = 0x110e,
    S_LPROC32 = 0x110f,
    S_GPROC32 = 0x1110,
    S_SEPCODE = 0x1132,
    S_LPROC32_ID = 0x1146,
    S_GPROC32_ID = 0x1147,
    S_INLINESITE = 0x114d,
    S_INLINESITE_END = 0x114e,
    S_PROC_ID_END = 0x114f,
    S_LPROC32_DPC = 0x1155,
    S_LPROC32_DPC_ID = 0x1156,
    S_INLINESITE2 = 0x115d,
};

enum codeview_type {
    LF_CLASS = 0x1504,
    LF_STRUCTURE = 0x1505,
    LF_UNION = 0x1506,
    LF_ENUM = 0x1507,
    LF_INTERFACE = 0x1519,
    LF_FUNC_ID = 0x1601,
    LF_MFUNC_ID = 0x1602,
    LF_STRING_ID = 0x1605,
};

/* Subsections of a module's line information. */
enum codeview_lines {
    LINES_LINES = 0xf2,
    LINES_CHECKSUMS = 0xf4,
    LINES_INLINEES = 0xf6,
};

/* Takes the next record; `record` covers its fields. False at the end, or if it is cut short. */
static inline bool codeview_next(struct cursor *c, unsigned *kind, struct cursor *record)
{
    uint16_t length = cursor_u16(c);
    const uint8_t *p = cursor_take(c, length);
    if (!p || length < 2)
        return false;
    *record = cursor_over(p, length);
    *kind = cursor_u16(record);
    return true;
}

/* Takes a text that ends with a NUL; empty if there is none in the record. */
static inline const char *codeview_text(struct cursor *c)
{
    const uint8_t *end = cursor_left(c) ? memchr(c->pos, 0, cursor_left(c)) : NULL;
    if (!end)
        return "";
    return (const char *)cursor_take(c, (size_t)(end - c->pos) + 1);
}
