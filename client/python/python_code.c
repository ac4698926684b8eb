/*
 * Describes sources: the function, file and line of an instruction of a code object.
 *
 * The types of all objects are checked, so a structure that is not what the layout says is refused
 * rather than misread.
 */

#include <string.h>

#include "client/encode.h"
#include "client/python/python.h"
#include "client/record_write.h"

/* Of PyObject, PyVarObject, PyUnicodeObject and PyBytesObject, in all versions. */
#define OBJECT_TYPE 8u
#define OBJECT_SIZE 16u
#define STRING_STATE 32u
#define BYTES_DATA 32u

#define FUNCTION_MOST 1500u /* bytes; longer texts end in an ellipsis */
#define FILE_MOST 3000u
#define LINE_TABLE_MOST (1u << 24)
/* Of a text's UTF-8 while the record before it is being written. */
#define SCRATCH (32u + 3 + FUNCTION_MOST + 3 + FILE_MOST)
_Static_assert(SCRATCH + FILE_MOST <= REC_RECORD_MAX - 32, "the record has room for the scratch");

static inline uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)(uintptr_t)address;
}

static inline uint32_t half_at(uint64_t address)
{
    return *(const uint32_t *)(uintptr_t)address;
}

static bool is_of_type(uint64_t object, uint64_t type)
{
    return object > 65535 && object < PYTHON_ADDRESS_END && (object & 7) == 0 &&
           word_at(object + OBJECT_TYPE) == type;
}

/* ---- strings */

struct string {
    const void *characters;
    uint64_t length;
    unsigned kind; /* bytes of a character */
};

static bool find_string(const struct python *p, uint64_t object, struct string *s)
{
    enum { COMPACT = 1 << 5, ASCII = 1 << 6 };
    if (!is_of_type(object, p->string_type))
        return false;
    uint32_t flags = half_at(object + STRING_STATE);
    s->kind = flags >> 2 & 7;
    s->length = word_at(object + OBJECT_SIZE);
    uint64_t at = object + (flags & ASCII ? p->layout.ascii : p->layout.compact);
    s->characters = (const void *)(uintptr_t)at;
    return flags & COMPACT && (s->kind == 1 || s->kind == 2 || s->kind == 4);
}

static uint32_t character(const struct string *s, uint64_t i)
{
    if (s->kind == 1)
        return ((const uint8_t *)s->characters)[i];
    if (s->kind == 2)
        return ((const uint16_t *)s->characters)[i];
    return ((const uint32_t *)s->characters)[i];
}

static uint8_t *put_utf8(uint8_t *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (uint8_t)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (uint8_t)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (uint8_t)(0xe0 | c >> 12);
        } else {
            *to++ = (uint8_t)(0xf0 | (c >> 18 & 7));
            *to++ = (uint8_t)(0x80 | (c >> 12 & 63));
        }
        *to++ = (uint8_t)(0x80 | (c >> 6 & 63));
    }
    *to++ = (uint8_t)(0x80 | (c & 63));
    return to;
}

/* A lone surrogate stands for a byte of a path that was not UTF-8. */
static uint8_t *put_character(uint8_t *to, uint32_t c)
{
    if (c >= 0xdc80 && c <= 0xdcff) {
        *to++ = (uint8_t)c;
        return to;
    }
    return put_utf8(to, c);
}

/* Appends the text as UTF-8, `most` bytes of it, by way of `scratch`. */
static uint8_t *put_string(uint8_t *at, const struct string *s, uint8_t *scratch, size_t most)
{
    uint8_t *to = scratch;
    for (uint64_t i = 0; i < s->length; i++) {
        if ((size_t)(to - scratch) + 8 > most) {
            to = put_utf8(to, 0x2026);
            break;
        }
        to = put_character(to, character(s, i));
    }
    return encode_text(at, scratch, (size_t)(to - scratch));
}

/* ---- lines */

struct line_table {
    const uint8_t *at, *end;
};

static uint64_t table_number(struct line_table *t)
{
    uint64_t n = 0;
    for (unsigned shift = 0; t->at < t->end && shift < 60; shift += 6) {
        uint8_t byte = *t->at++;
        n |= (uint64_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return n;
}

/*
 * The line of an instruction, counted in units of 2 bytes. An entry of the table covers 1 to 8
 * units: bits 0 to 2 of its first byte, which alone has bit 7. Bits 3 to 6 are its form, which says
 * how far its line is from the one before. 0: it has no line. The search begins at an entry, and
 * leaves there the one that it found.
 */
static uint64_t find_line(struct line_table t, struct python_line *from, int64_t unit)
{
    enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    const uint8_t *begin = t.at;
    int64_t line = from->line, end = from->unit;
    t.at += from->at;
    while (t.at < t.end) {
        *from =
            (struct python_line){from->code, from->generation, (uint32_t)(t.at - begin), end, line};
        uint8_t head = *t.at++;
        unsigned form = head >> 3 & 15;
        if (form == NO_COLUMNS || form == LONG) {
            uint64_t n = table_number(&t);
            line += n & 1 ? -(int64_t)(n >> 1) : (int64_t)(n >> 1);
        } else if (form >= ONE_LINE && form < NO_COLUMNS) {
            line += form - ONE_LINE;
        }
        while (t.at < t.end && !(*t.at & 0x80))
            t.at++;
        end += (head & 7) + 1;
        if (unit < end)
            return form == NONE || line < 0 ? 0 : (uint64_t)line;
    }
    return 0;
}

/*
 * The same in the table of 3.10: pairs of bytes, by how many bytes of code and by how many lines an
 * entry goes on. -128 lines: it has no line.
 */
static uint64_t find_pair_line(struct line_table t, int64_t first_line, int64_t unit)
{
    int64_t line = first_line, end = 0;
    for (; t.end - t.at >= 2; t.at += 2) {
        int8_t lines = (int8_t)t.at[1];
        line += lines != -128 ? lines : 0;
        end += t.at[0];
        if (unit * 2 < end)
            return lines == -128 || line < 0 ? 0 : (uint64_t)line;
    }
    return 0;
}

/* In that of 3.8 and 3.9, the lines of a pair are those by which the code after it goes on. */
static uint64_t find_delta_line(struct line_table t, int64_t first_line, int64_t unit)
{
    int64_t line = first_line, end = 0;
    for (; t.end - t.at >= 2; t.at += 2) {
        end += t.at[0];
        if (unit * 2 < end)
            break;
        line += (int8_t)t.at[1];
    }
    return line < 0 ? 0 : (uint64_t)line;
}

/*
 * The same, going on from the thread's last search if that was in this code. A signal handler may
 * jump away, so the entry is not valid while it changes.
 */
static uint64_t find_line_on(struct thread *t, struct python *p, uint64_t code,
                             struct line_table table, int64_t first_line, int64_t unit)
{
    struct python_line *last = &t->walk.line, from = *last;
    uint32_t generation = atomic_load_explicit(python_generation(p, code), memory_order_relaxed);
    if (from.code != code || from.generation != generation || unit < from.unit ||
        from.at > (uint64_t)(table.end - table.at))
        from = (struct python_line){code, generation, 0, 0, first_line};
    last->code = 0;
    uint64_t line = find_line(table, &from, unit);
    atomic_signal_fence(memory_order_seq_cst);
    last->generation = from.generation;
    last->at = from.at;
    last->unit = from.unit;
    last->line = from.line;
    atomic_signal_fence(memory_order_seq_cst);
    last->code = code;
    return line;
}

/* ---- sources */

static uint64_t hash_of(const uint8_t *at, const uint8_t *end)
{
    uint64_t hash = (uint64_t)(end - at);
    for (; at < end; at++)
        hash = ((hash << 7 | hash >> 57) ^ *at) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/*
 * Writes the record, unless the table has an equal one, and numbers the source. Two threads may
 * give it two numbers, which is harmless.
 */
static bool number_source(struct thread *t, struct python *p, uint64_t line,
                          const struct string *function, const struct string *file,
                          uint32_t *source)
{
    uint8_t *begin = record_begin(t);
    if (!begin)
        return false;
    /* No other source gets the number, also if a signal handler jumps away from here. */
    uint32_t number = atomic_fetch_add_explicit(&p->sources, 1, memory_order_relaxed) + 1;
    uint8_t *scratch = begin + SCRATCH, *from = encode_number(begin, number);
    uint8_t *at = encode_number(from, line);
    at = put_string(at, function, scratch, FUNCTION_MOST);
    at = put_string(at, file, scratch, FILE_MOST);
    uint64_t hash = hash_of(from, at);
    struct python_cell *cell = &p->texts[hash >> (64 - PYTHON_TEXTS_BITS)];
    struct python_entry entry = {{hash, 0}, 0, 0};
    if (!python_cell_find(cell, &entry)) {
        entry.source = number;
        record_end(t, REC_SOURCE, at);
        python_cell_put(cell, &entry);
    }
    *source = entry.source;
    return true;
}

/*
 * The number of an instruction of 2 bytes; -1: the frame is before its first one. False: it is not
 * in the code.
 */
static bool find_unit(const struct python *p, uint64_t code, uint64_t instruction, int64_t *unit)
{
    const struct python_layout *l = &p->layout;
    uint64_t count;
    if (l->bytecode) {
        *unit = (int64_t)(instruction - (code + l->bytecode)) / 2;
        count = word_at(code + OBJECT_SIZE);
    } else {
        uint64_t bytes = word_at(code + l->code_bytes);
        if (!is_of_type(bytes, p->bytes_type))
            return false;
        int32_t number = (int32_t)instruction;
        *unit = number < 0 ? number : number / (2 / l->number_bytes);
        count = word_at(bytes + OBJECT_SIZE) / 2;
    }
    return !(l->bytecode && instruction & 1) && *unit >= -1 && *unit < (int64_t)count;
}

bool python_describe(struct thread *t, struct python *p, uint64_t code, uint64_t instruction,
                     bool generator, uint32_t *source)
{
    const struct python_layout *l = &p->layout;
    struct string function, file;
    if (!is_of_type(code, p->code_type) ||
        !find_string(p, word_at(code + l->qualname), &function) ||
        !find_string(p, word_at(code + l->filename), &file))
        return false;
    uint64_t lines = word_at(code + l->linetable);
    uint64_t size = is_of_type(lines, p->bytes_type) ? word_at(lines + OBJECT_SIZE) : UINT64_MAX;
    int64_t unit;
    if (size > LINE_TABLE_MOST || !find_unit(p, code, instruction, &unit))
        return false;
    /* Python itself hides a frame until it has begun; see PyFrame_GetBack. */
    if (l->first && !generator && unit < (int32_t)half_at(code + l->first)) {
        *source = 0;
        return true;
    }
    const uint8_t *at = (const uint8_t *)(uintptr_t)(lines + BYTES_DATA);
    int64_t first_line = (int32_t)half_at(code + l->first_line);
    struct line_table table = {at, at + size};
    uint64_t line = l->bytecode            ? find_line_on(t, p, code, table, first_line, unit)
                    : l->number_bytes == 2 ? find_pair_line(table, first_line, unit)
                                           : find_delta_line(table, first_line, unit);
    return number_source(t, p, line, &function, &file, source);
}
