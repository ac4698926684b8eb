#include "import/pickle.h"

#include <inttypes.h>
#include <math.h>

#define PROTOCOL_LEAST 2u
#define PROTOCOL_MOST 5u

/* No name or annotation is longer. */
#define TEXT_MAX ((uint64_t)16 << 20)

/* Values that no container has taken yet, and open marks: torch's own pickler does not batch. */
#define STACK_MAX ((size_t)1 << 26)
#define MARKS_MAX ((size_t)1 << 10)

/* Python 2 counts memo entries from 1; all others are dense. */
#define MEMO_GAP 64u

/* Memo entries without a value: not given yet; of a container on the stack, with its position. */
#define MEMO_VACANT UINT64_MAX
#define MEMO_OPEN 7u

struct pickle_reader {
    struct import_source *source;
    struct value_arena *arena;
    struct view block; /* unread bytes */
    uint64_t read;     /* bytes before them */
    uint64_t at;       /* offset of the opcode */
    struct buf joined; /* bytes that span two blocks */
    VEC(struct value_slot) stack;
    VEC(uint32_t) marks; /* lengths of the stack */
    VEC(uint64_t) memo;
    unsigned protocol;
    bool stopped;
};

static int broken(const struct pickle_reader *r, struct err *e, const char *why)
{
    return err_set(e, ERR_INPUT, "pickle, byte %" PRIu64 ": %s", r->at, why);
}

bool pickle_begins(struct view bytes)
{
    return bytes.len >= 2 && (uint8_t)bytes.p[0] == 0x80 && (uint8_t)bytes.p[1] >= PROTOCOL_LEAST &&
           (uint8_t)bytes.p[1] <= PROTOCOL_MOST;
}

/* ---- bytes */

/* The next `n` bytes, valid until the next call. */
static int take(struct pickle_reader *r, uint64_t n, struct view *bytes, struct err *e)
{
    if (n > TEXT_MAX)
        return broken(r, e, "a text or number is longer than 16 MiB");
    if (r->block.len >= n) {
        *bytes = (struct view){r->block.p, n};
        r->block.p += n;
        r->block.len -= n;
        r->read += n;
        return 0;
    }
    buf_clear(&r->joined);
    while (r->joined.len < n) {
        if (r->block.len == 0 && import_source_next(r->source, &r->block, e) != 0)
            return -1;
        if (r->block.len == 0)
            return err_set(e, ERR_INPUT,
                           "cut off: the pickle ends after %" PRIu64 " bytes, before its end",
                           r->read);
        size_t piece = r->block.len < n - r->joined.len ? r->block.len : n - r->joined.len;
        buf_put(&r->joined, r->block.p, piece);
        if (r->joined.failed)
            return err_no_memory(e, "a pickle's values");
        r->block.p += piece;
        r->block.len -= piece;
        r->read += piece;
    }
    *bytes = buf_view(&r->joined);
    return 0;
}

/* A little-endian number of `n` ≤ 8 bytes. */
static int take_number(struct pickle_reader *r, unsigned n, uint64_t *number, struct err *e)
{
    struct view bytes;
    if (take(r, n, &bytes, e) != 0)
        return -1;
    *number = 0;
    for (unsigned i = n; i-- > 0;)
        *number = *number << 8 | (uint8_t)bytes.p[i];
    return 0;
}

/* ---- stack and memo */

static int push(struct pickle_reader *r, uint64_t value, bool building, struct err *e)
{
    const struct value_slot slot = {.value = value, .building = building};
    if (r->stack.len == STACK_MAX)
        return broken(r, e, "too many values that are in no container");
    return vec_push(&r->stack, slot) ? 0 : err_no_memory(e, "a pickle's values");
}

/* Length of the stack at the last mark, below which nothing may be taken. */
static size_t stack_floor(const struct pickle_reader *r)
{
    return r->marks.len ? r->marks.at[r->marks.len - 1] : 0;
}

static struct value_slot *top(struct pickle_reader *r, size_t need, struct err *e)
{
    if (r->stack.len - stack_floor(r) >= need)
        return &r->stack.at[r->stack.len - need];
    broken(r, e, "it takes more values than there are");
    return NULL;
}

static int push_mark(struct pickle_reader *r, struct err *e)
{
    if (r->marks.len == MARKS_MAX)
        return broken(r, e, "containers nest deeper than 1,024");
    return vec_push(&r->marks, (uint32_t)r->stack.len) ? 0 : err_no_memory(e, "a pickle's values");
}

/* Removes the last mark; *n is the number of values above it. */
static int pop_mark(struct pickle_reader *r, size_t *n, struct err *e)
{
    if (r->marks.len == 0)
        return broken(r, e, "there is no mark");
    *n = r->stack.len - r->marks.at[--r->marks.len];
    return 0;
}

/* Removes `n` values, whose containers are complete now. */
static void drop(struct pickle_reader *r, size_t n)
{
    for (size_t i = r->stack.len - n; i < r->stack.len; i++) {
        const struct value_slot *slot = &r->stack.at[i];
        if (slot->memo)
            r->memo.at[slot->memo - 1] = slot->value;
    }
    r->stack.len -= n;
}

static int put_memo(struct pickle_reader *r, uint64_t index, struct err *e)
{
    struct value_slot *slot = top(r, 1, e);
    if (!slot)
        return -1;
    if (index > r->memo.len + MEMO_GAP || index >= UINT32_MAX ||
        (index < r->memo.len && r->memo.at[index] != MEMO_VACANT) || slot->memo)
        return broken(r, e, "a memo entry is out of order");
    while (r->memo.len <= index) {
        if (!vec_push(&r->memo, MEMO_VACANT))
            return err_no_memory(e, "a pickle's values");
    }
    r->memo.at[index] =
        slot->building ? (uint64_t)(r->stack.len - 1) << 3 | MEMO_OPEN : slot->value;
    slot->memo = slot->building ? (uint32_t)index + 1 : 0;
    return 0;
}

static int get_memo(struct pickle_reader *r, uint64_t index, struct err *e)
{
    if (index >= r->memo.len || r->memo.at[index] == MEMO_VACANT)
        return broken(r, e, "a memo entry does not exist");
    /* A container that is used may not change any more, so none can contain itself. */
    if ((r->memo.at[index] & 7) == MEMO_OPEN) {
        struct value_slot *slot = &r->stack.at[r->memo.at[index] >> 3];
        slot->building = false;
        slot->memo = 0;
        r->memo.at[index] = slot->value;
    }
    return push(r, r->memo.at[index], false, e);
}

/* ---- values */

static int push_integer(struct pickle_reader *r, int64_t number, struct err *e)
{
    uint64_t value;
    return value_integer(r->arena, number, &value, e) == 0 ? push(r, value, false, e) : -1;
}

/* BININT, BININT1, BININT2: only the first is signed. */
static int take_integer(struct pickle_reader *r, unsigned n, struct err *e)
{
    uint64_t number;
    if (take_number(r, n, &number, e) != 0)
        return -1;
    return push_integer(r, n == 4 ? (int32_t)(uint32_t)number : (int64_t)number, e);
}

static int take_long(struct pickle_reader *r, unsigned size, struct err *e)
{
    uint64_t len, number;
    if (take_number(r, size, &len, e) != 0)
        return -1;
    if (len > sizeof number) {
        struct view bytes;
        return take(r, len, &bytes, e) == 0 ? push(r, VALUE_NONE, false, e) : -1;
    }
    if (take_number(r, (unsigned)len, &number, e) != 0)
        return -1;
    unsigned above = 64 - 8 * (unsigned)len;
    return push_integer(r, above == 64 ? 0 : (int64_t)(number << above) >> above, e);
}

static int take_float(struct pickle_reader *r, struct err *e)
{
    struct view bytes;
    uint64_t bits = 0;
    double number;
    if (take(r, 8, &bytes, e) != 0)
        return -1;
    for (unsigned i = 0; i < 8; i++)
        bits = bits << 8 | (uint8_t)bytes.p[i];
    memcpy(&number, &bits, sizeof number);
    if (number == trunc(number) && fabs(number) < 0x1p53)
        return push_integer(r, (int64_t)number, e);
    return push(r, VALUE_NONE, false, e);
}

/* A text or bytes after a length of `size` bytes. */
static int take_text(struct pickle_reader *r, unsigned size, struct err *e)
{
    struct view bytes;
    uint64_t len, value;
    if (take_number(r, size, &len, e) != 0 || take(r, len, &bytes, e) != 0 ||
        value_text(r->arena, bytes, &value, e) != 0)
        return -1;
    return push(r, value, false, e);
}

/* A tuple, list, set or dictionary of the last `n` values. */
static int gather(struct pickle_reader *r, size_t n, enum value_kind kind, bool building,
                  struct err *e)
{
    uint64_t value;
    if (n == 0)
        return push(r, kind, building, e);
    const struct value_slot *first = top(r, n, e);
    if (!first)
        return -1;
    if (kind == VALUE_DICT && n % 2)
        return broken(r, e, "a key has no value");
    int status = kind == VALUE_DICT ? value_dict(r->arena, VALUE_DICT, first, n / 2, &value, e)
                                    : value_list(r->arena, VALUE_LIST, first, n, &value, e);
    if (status != 0)
        return -1;
    drop(r, n);
    return push(r, value, building, e);
}

static int gather_marked(struct pickle_reader *r, enum value_kind kind, bool building,
                         struct err *e)
{
    size_t n;
    return pop_mark(r, &n, e) == 0 ? gather(r, n, kind, building, e) : -1;
}

/* Adds the last `n` values to the container before them. */
static int extend(struct pickle_reader *r, size_t n, enum value_kind kind, struct err *e)
{
    struct value_slot *to = top(r, n + 1, e);
    if (!to)
        return -1;
    if (value_kind(to->value) != kind || (kind == VALUE_DICT && n % 2))
        return broken(r, e, "values are added to another kind of container");
    if (!to->building)
        return broken(r, e, "a container changes after it was used, or contains itself");
    int status = kind == VALUE_DICT ? value_dict(r->arena, to->value, to + 1, n / 2, &to->value, e)
                                    : value_list(r->arena, to->value, to + 1, n, &to->value, e);
    drop(r, n);
    return status;
}

static int extend_marked(struct pickle_reader *r, enum value_kind kind, struct err *e)
{
    size_t n;
    return pop_mark(r, &n, e) == 0 ? extend(r, n, kind, e) : -1;
}

/* ---- opcodes */

enum opcode_job {
    JOB_UNKNOWN,
    JOB_REFUSED, /* imports, calls or builds objects */
    JOB_OUT_OF_BAND,
    JOB_PROTOCOL,
    JOB_FRAME,
    JOB_STOP,
    JOB_MARK,
    JOB_POP,
    JOB_POP_MARK,
    JOB_NONE,
    JOB_TRUE,
    JOB_FALSE,
    JOB_INTEGER, /* from here on `size` is that of the argument or of its length */
    JOB_LONG,
    JOB_FLOAT,
    JOB_TEXT,
    JOB_PUT,
    JOB_GET,
    JOB_MEMOIZE,
    JOB_EMPTY_LIST,
    JOB_EMPTY_DICT,
    JOB_EMPTY_TUPLE,
    JOB_TUPLE_OF, /* `size` values */
    JOB_TUPLE,
    JOB_LIST,
    JOB_DICT,
    JOB_APPEND,
    JOB_APPENDS,
    JOB_SET_ITEM,
    JOB_SET_ITEMS,
};

struct opcode {
    enum opcode_job job;
    unsigned size;
    const char *name; /* of a refused one */
};

static const struct opcode opcodes[256] = {
    ['c'] = {JOB_REFUSED, 0, "GLOBAL"},
    [0x93] = {JOB_REFUSED, 0, "STACK_GLOBAL"},
    ['R'] = {JOB_REFUSED, 0, "REDUCE"},
    ['b'] = {JOB_REFUSED, 0, "BUILD"},
    ['i'] = {JOB_REFUSED, 0, "INST"},
    ['o'] = {JOB_REFUSED, 0, "OBJ"},
    [0x81] = {JOB_REFUSED, 0, "NEWOBJ"},
    [0x92] = {JOB_REFUSED, 0, "NEWOBJ_EX"},
    [0x82] = {JOB_REFUSED, 0, "EXT1"},
    [0x83] = {JOB_REFUSED, 0, "EXT2"},
    [0x84] = {JOB_REFUSED, 0, "EXT4"},
    ['P'] = {JOB_REFUSED, 0, "PERSID"},
    ['Q'] = {JOB_REFUSED, 0, "BINPERSID"},
    [0x97] = {JOB_OUT_OF_BAND, 0, NULL},
    [0x98] = {JOB_OUT_OF_BAND, 0, NULL},
    [0x80] = {JOB_PROTOCOL, 0, NULL},
    [0x95] = {JOB_FRAME, 8, NULL},
    ['.'] = {JOB_STOP, 0, NULL},
    ['('] = {JOB_MARK, 0, NULL},
    ['0'] = {JOB_POP, 0, NULL},
    ['1'] = {JOB_POP_MARK, 0, NULL},
    ['N'] = {JOB_NONE, 0, NULL},
    [0x88] = {JOB_TRUE, 0, NULL},
    [0x89] = {JOB_FALSE, 0, NULL},
    ['K'] = {JOB_INTEGER, 1, NULL},
    ['M'] = {JOB_INTEGER, 2, NULL},
    ['J'] = {JOB_INTEGER, 4, NULL},
    [0x8a] = {JOB_LONG, 1, NULL},
    [0x8b] = {JOB_LONG, 4, NULL},
    ['G'] = {JOB_FLOAT, 8, NULL},
    [0x8c] = {JOB_TEXT, 1, NULL}, /* SHORT_BINUNICODE, BINUNICODE, BINUNICODE8 */
    ['X'] = {JOB_TEXT, 4, NULL},
    [0x8d] = {JOB_TEXT, 8, NULL},
    ['C'] = {JOB_TEXT, 1, NULL}, /* SHORT_BINBYTES, BINBYTES, BINBYTES8, BYTEARRAY8 */
    ['B'] = {JOB_TEXT, 4, NULL},
    [0x8e] = {JOB_TEXT, 8, NULL},
    [0x96] = {JOB_TEXT, 8, NULL},
    ['U'] = {JOB_TEXT, 1, NULL}, /* SHORT_BINSTRING, BINSTRING: texts of Python 2 */
    ['T'] = {JOB_TEXT, 4, NULL},
    ['q'] = {JOB_PUT, 1, NULL},
    ['r'] = {JOB_PUT, 4, NULL},
    [0x94] = {JOB_MEMOIZE, 0, NULL},
    ['h'] = {JOB_GET, 1, NULL},
    ['j'] = {JOB_GET, 4, NULL},
    [']'] = {JOB_EMPTY_LIST, 0, NULL},
    [0x8f] = {JOB_EMPTY_LIST, 0, NULL}, /* EMPTY_SET */
    ['}'] = {JOB_EMPTY_DICT, 0, NULL},
    [')'] = {JOB_EMPTY_TUPLE, 0, NULL},
    [0x85] = {JOB_TUPLE_OF, 1, NULL},
    [0x86] = {JOB_TUPLE_OF, 2, NULL},
    [0x87] = {JOB_TUPLE_OF, 3, NULL},
    ['t'] = {JOB_TUPLE, 0, NULL},
    [0x91] = {JOB_TUPLE, 0, NULL}, /* FROZENSET */
    ['l'] = {JOB_LIST, 0, NULL},
    ['d'] = {JOB_DICT, 0, NULL},
    ['a'] = {JOB_APPEND, 0, NULL},
    ['e'] = {JOB_APPENDS, 0, NULL},
    [0x90] = {JOB_APPENDS, 0, NULL}, /* ADDITEMS */
    ['s'] = {JOB_SET_ITEM, 0, NULL},
    ['u'] = {JOB_SET_ITEMS, 0, NULL},
};

static int refuse(const struct pickle_reader *r, const struct opcode *op, struct err *e)
{
    switch (op->job) {
    case JOB_REFUSED:
        return err_set(e, ERR_INPUT,
                       "pickle, byte %" PRIu64 ": %s would import or call something; only plain "
                       "data is read, and nothing was run",
                       r->at, op->name);
    case JOB_OUT_OF_BAND:
        return broken(r, e, "a value is outside the file");
    default:
        return broken(r, e, "unknown opcode");
    }
}

static int take_protocol(struct pickle_reader *r, struct err *e)
{
    uint64_t number;
    if (take_number(r, 1, &number, e) != 0)
        return -1;
    if (r->at != 0)
        return broken(r, e, "a second header");
    r->protocol = (unsigned)number;
    if (number >= PROTOCOL_LEAST && number <= PROTOCOL_MOST)
        return 0;
    return err_set(e, ERR_INPUT, "pickle of protocol %" PRIu64 "; 2 to 5 can be read", number);
}

/* A frame only has the number of bytes to read at once. */
static int take_frame(struct pickle_reader *r, struct err *e)
{
    uint64_t len;
    return take_number(r, 8, &len, e);
}

static int pop(struct pickle_reader *r, struct err *e)
{
    if (r->marks.len && r->stack.len == stack_floor(r)) {
        r->marks.len--;
        return 0;
    }
    if (!top(r, 1, e))
        return -1;
    drop(r, 1);
    return 0;
}

static int pop_to_mark(struct pickle_reader *r, struct err *e)
{
    size_t n;
    if (pop_mark(r, &n, e) != 0)
        return -1;
    drop(r, n);
    return 0;
}

static int stop(struct pickle_reader *r, struct err *e)
{
    if (r->marks.len || r->stack.len != 1)
        return broken(r, e, "the pickle ends within a container");
    r->stopped = true;
    return 0;
}

static int use_memo(struct pickle_reader *r, const struct opcode *op, struct err *e)
{
    uint64_t index;
    if (take_number(r, op->size, &index, e) != 0)
        return -1;
    return op->job == JOB_PUT ? put_memo(r, index, e) : get_memo(r, index, e);
}

/* Opcodes that have a scalar value, an index or nothing to do with values. */
static int do_scalar(struct pickle_reader *r, const struct opcode *op, struct err *e)
{
    switch (op->job) {
    case JOB_PROTOCOL:
        return take_protocol(r, e);
    case JOB_FRAME:
        return take_frame(r, e);
    case JOB_STOP:
        return stop(r, e);
    case JOB_MARK:
        return push_mark(r, e);
    case JOB_POP:
        return pop(r, e);
    case JOB_POP_MARK:
        return pop_to_mark(r, e);
    case JOB_NONE:
        return push(r, VALUE_NONE, false, e);
    case JOB_TRUE:
        return push_integer(r, 1, e);
    case JOB_FALSE:
        return push_integer(r, 0, e);
    case JOB_INTEGER:
        return take_integer(r, op->size, e);
    case JOB_LONG:
        return take_long(r, op->size, e);
    case JOB_FLOAT:
        return take_float(r, e);
    case JOB_TEXT:
        return take_text(r, op->size, e);
    default:
        return refuse(r, op, e);
    }
}

static int do_opcode(struct pickle_reader *r, const struct opcode *op, struct err *e)
{
    switch (op->job) {
    case JOB_PUT:
    case JOB_GET:
        return use_memo(r, op, e);
    case JOB_MEMOIZE:
        return put_memo(r, r->memo.len, e);
    case JOB_EMPTY_LIST:
        return push(r, VALUE_LIST, true, e);
    case JOB_EMPTY_DICT:
        return push(r, VALUE_DICT, true, e);
    case JOB_EMPTY_TUPLE:
        return push(r, VALUE_LIST, false, e);
    case JOB_TUPLE_OF:
        return gather(r, op->size, VALUE_LIST, false, e);
    case JOB_TUPLE:
        return gather_marked(r, VALUE_LIST, false, e);
    case JOB_LIST:
        return gather_marked(r, VALUE_LIST, true, e);
    case JOB_DICT:
        return gather_marked(r, VALUE_DICT, true, e);
    case JOB_APPEND:
        return extend(r, 1, VALUE_LIST, e);
    case JOB_APPENDS:
        return extend_marked(r, VALUE_LIST, e);
    case JOB_SET_ITEM:
        return extend(r, 2, VALUE_DICT, e);
    case JOB_SET_ITEMS:
        return extend_marked(r, VALUE_DICT, e);
    default:
        return do_scalar(r, op, e);
    }
}

static int read_opcodes(struct pickle_reader *r, struct err *e)
{
    while (!r->stopped) {
        uint64_t byte;
        r->at = r->read;
        if (take_number(r, 1, &byte, e) != 0)
            return -1;
        const struct opcode *op = &opcodes[byte];
        if (r->at == 0 && op->job != JOB_PROTOCOL)
            return broken(r, e, "no pickle of protocol 2 to 5");
        if (do_opcode(r, op, e) != 0)
            return -1;
    }
    return 0;
}

/* Reads what follows the pickle, so that damage of a compressed file is found. */
static int read_rest(struct pickle_reader *r, struct pickle *p, struct err *e)
{
    p->trailing = r->block.len;
    for (;;) {
        if (import_source_next(r->source, &r->block, e) != 0)
            return -1;
        if (r->block.len == 0)
            return 0;
        p->trailing += r->block.len;
    }
}

int pickle_read(struct import_source *s, struct value_arena *a, struct pickle *p, struct err *e)
{
    struct pickle_reader r = {.source = s, .arena = a};
    *p = (struct pickle){0};
    int status = read_opcodes(&r, e);
    if (status == 0) {
        p->protocol = r.protocol;
        p->bytes = r.read;
        p->root = r.stack.at[0].value;
        status = read_rest(&r, p, e);
    }
    buf_release(&r.joined);
    vec_release(&r.stack);
    vec_release(&r.marks);
    vec_release(&r.memo);
    return status;
}
