#include "client/cfi.h"

#include <string.h>

/*
 * Formats: LSB ("Exception Frames") and DWARF 5, 6.4. All reads go through a bounded view, which
 * stays failed after a read beyond its end.
 */

struct view {
    const uint8_t *at, *end;
    bool failed;
};

/* Encodings of pointers. */
enum {
    PE_OMITTED = 0xff,
    PE_FORMAT = 0x0f,
    PE_RELATIVE = 0x70,
    PE_FROM_HERE = 0x10,
    PE_FROM_HEADER = 0x30,
};

const struct cfi_registers cfi_x86_64 = {.bp = 6, .sp = 7, .ra = 16};
const struct cfi_registers cfi_aarch64 = {.bp = 29, .sp = 31, .ra = 30};
const struct cfi_rule cfi_frame = {.kind = CFI_FRAME, .cfa = 16, .bp = -16, .ra = -8};

#define STATES 8 /* depth of DW_CFA_remember_state */

static uint64_t take(struct view *v, size_t bytes)
{
    uint64_t value = 0;
    if ((size_t)(v->end - v->at) < bytes) {
        v->failed = true;
        v->at = v->end;
        return 0;
    }
    memcpy(&value, v->at, bytes);
    v->at += bytes;
    return value;
}

static void skip(struct view *v, uint64_t bytes)
{
    if ((uint64_t)(v->end - v->at) < bytes) {
        v->failed = true;
        bytes = (uint64_t)(v->end - v->at);
    }
    v->at += bytes;
}

static uint64_t take_leb(struct view *v, bool is_signed)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = take(v, 1);
        value |= (byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if (is_signed && (byte & 0x40) && shift + 7 < 64)
            value |= UINT64_MAX << (shift + 7);
        return value;
    }
    v->failed = true;
    return 0;
}

static uint64_t take_pointer(struct view *v, uint8_t encoding, uint64_t header)
{
    uint64_t here = (uintptr_t)v->at, value;
    switch (encoding & PE_FORMAT) {
    case 0x00:
    case 0x04:
    case 0x0c:
        value = take(v, 8);
        break;
    case 0x01:
        value = take_leb(v, false);
        break;
    case 0x09:
        value = take_leb(v, true);
        break;
    case 0x02:
        value = take(v, 2);
        break;
    case 0x0a:
        value = (uint64_t)(int16_t)take(v, 2);
        break;
    case 0x03:
        value = take(v, 4);
        break;
    case 0x0b:
        value = (uint64_t)(int32_t)take(v, 4);
        break;
    default:
        v->failed = true;
        return 0;
    }
    switch (encoding & PE_RELATIVE) {
    case 0:
        return value;
    case PE_FROM_HERE:
        return value + here;
    case PE_FROM_HEADER:
        return value + header;
    default:
        v->failed = true;
        return 0;
    }
}

/* ---- finding the entry of an address */

struct entry {
    uint64_t start, length; /* range of code */
    struct view program;    /* instructions of the entry */
    struct view preamble;   /* instructions of its CIE */
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t ra_register;
    uint8_t encoding;
    bool augmented, signal;
};

/* Narrows a view to the contents of the CIE or FDE at its beginning; false: there is none. */
static bool narrow(struct view *v)
{
    uint64_t length = take(v, 4);
    if (length == 0xffffffffu)
        length = take(v, 8);
    if (v->failed || length < 4 || length > (uint64_t)(v->end - v->at))
        return false;
    v->end = v->at + length;
    return true;
}

static bool read_cie(struct view v, struct entry *e)
{
    char text[8] = "";
    if (!narrow(&v) || take(&v, 4) != 0)
        return false;
    uint64_t version = take(&v, 1);
    for (size_t i = 0;; i++) {
        char c = (char)take(&v, 1);
        if (i >= sizeof text)
            return false;
        text[i] = c;
        if (!c)
            break;
    }
    if ((version != 1 && version != 3) || (text[0] && text[0] != 'z'))
        return false;
    e->code_factor = take_leb(&v, false);
    e->data_factor = (int64_t)take_leb(&v, true);
    e->ra_register = version == 1 ? take(&v, 1) : take_leb(&v, false);
    e->augmented = text[0] == 'z';
    e->encoding = 0;
    if (e->augmented) {
        uint64_t length = take_leb(&v, false);
        struct view a = v;
        skip(&v, length);
        a.end = v.at;
        for (const char *p = text + 1; *p; p++) {
            if (*p == 'R')
                e->encoding = (uint8_t)take(&a, 1);
            else if (*p == 'S')
                e->signal = true;
            else if (*p == 'L')
                (void)take(&a, 1);
            else if (*p == 'P') {
                uint8_t encoding = (uint8_t)take(&a, 1);
                (void)take_pointer(&a, encoding & PE_FORMAT, 0);
            } else if (*p != 'B')
                return false;
        }
        if (a.failed)
            return false;
    }
    e->preamble = v;
    return !v.failed;
}

static bool read_fde(const struct cfi_table *table, uint64_t place, struct entry *e)
{
    if (place < (uintptr_t)table->low || place >= (uintptr_t)table->high)
        return false;
    struct view v = {(const uint8_t *)(uintptr_t)place, table->high, false};
    if (!narrow(&v))
        return false;
    const uint8_t *here = v.at;
    uint64_t back = take(&v, 4);
    if (back == 0 || back > (uint64_t)(here - table->low))
        return false;
    struct view cie = {here - back, table->high, false};
    if (!read_cie(cie, e))
        return false;
    e->start = take_pointer(&v, e->encoding, 0);
    e->length = take_pointer(&v, e->encoding & PE_FORMAT, 0);
    if (e->augmented)
        skip(&v, take_leb(&v, false));
    e->program = v;
    return !v.failed;
}

/* Searches the sorted table after the header, which all linkers write with these encodings. */
static bool find_entry(const struct cfi_table *table, uint64_t address, struct entry *e)
{
    struct view v = {table->header, table->high, false};
    uint64_t header = (uintptr_t)table->header;
    uint64_t version = take(&v, 1), pointer = take(&v, 1), number = take(&v, 1),
             format = take(&v, 1);
    if (version != 1 || number == PE_OMITTED || format != 0x3b)
        return false;
    (void)take_pointer(&v, (uint8_t)pointer, header);
    uint64_t count = take_pointer(&v, (uint8_t)number, header);
    if (v.failed || count == 0 || count > (uint64_t)(v.end - v.at) / 8)
        return false;
    uint64_t low = 0, high = count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        int32_t offset;
        memcpy(&offset, v.at + middle * 8, 4);
        if (header + (uint64_t)(int64_t)offset <= address)
            low = middle;
        else
            high = middle;
    }
    int32_t place;
    memcpy(&place, v.at + low * 8 + 4, 4);
    return read_fde(table, header + (uint64_t)(int64_t)place, e) && address >= e->start &&
           address - e->start < e->length;
}

/* ---- running its instructions */

/* Where a register's previous value is. */
enum where { KEPT, AT_CFA, AT_BP, LOST, UNDEFINED };

struct row {
    int64_t cfa;
    bool cfa_from_sp, cfa_at_bp, cfa_lost;
    enum where bp_where, ra_where;
    int64_t bp, ra;
};

/* Invalid factors may wrap around; results are checked against the stack's bounds anyway. */
static int64_t scaled(uint64_t number, int64_t factor)
{
    return (int64_t)(number * (uint64_t)factor);
}

struct machine {
    const struct entry *e;
    const struct cfi_registers *registers;
    struct row row, initial, saved[STATES];
    unsigned count;
    uint64_t place;
};

static void set_register(struct machine *m, uint64_t number, enum where where, int64_t offset)
{
    if (number == m->registers->bp) {
        m->row.bp_where = where;
        m->row.bp = offset;
    } else if (number == m->registers->ra) {
        m->row.ra_where = where;
        m->row.ra = offset;
    }
}

static void restore_register(struct machine *m, uint64_t number)
{
    if (number == m->registers->bp)
        set_register(m, number, m->initial.bp_where, m->initial.bp);
    else if (number == m->registers->ra)
        set_register(m, number, m->initial.ra_where, m->initial.ra);
}

/*
 * Reads an expression that begins with frame pointer + *offset, the only common one; `rest` is what
 * follows. False: it is another one.
 */
static bool take_expression(const struct machine *m, struct view *v, int64_t *offset,
                            struct view *rest)
{
    uint64_t length = take_leb(v, false);
    struct view e = *v;
    skip(v, length);
    e.end = v->at;
    if (take(&e, 1) != 0x70u + m->registers->bp) /* DW_OP_breg */
        return false;
    *offset = (int64_t)take_leb(&e, true);
    *rest = e;
    return !e.failed;
}

/* The word at frame pointer + n: functions that realign their stack. */
static void set_cfa_expression(struct machine *m, struct view *v)
{
    struct view e;
    m->row.cfa_at_bp = take_expression(m, v, &m->row.cfa, &e) && take(&e, 1) == 0x06 &&
                       e.at == e.end && !e.failed; /* DW_OP_deref */
    m->row.cfa_lost = !m->row.cfa_at_bp;
}

/* In such functions, the caller's frame pointer is at frame pointer + n. */
static void set_expression(struct machine *m, struct view *v)
{
    uint64_t number = take_leb(v, false);
    struct view e;
    int64_t offset;
    bool known = take_expression(m, v, &offset, &e) && e.at == e.end;
    set_register(m, number, known ? AT_BP : LOST, known ? offset : 0);
}

static void set_cfa(struct machine *m, uint64_t number, int64_t offset)
{
    struct row *row = &m->row;
    row->cfa_from_sp = number == m->registers->sp;
    row->cfa = offset;
    row->cfa_at_bp = false;
    row->cfa_lost = !row->cfa_from_sp && number != m->registers->bp;
}

/* Instructions without an operand in their first byte, except those that advance the location. */
static void step_extended(struct machine *m, struct view *v, uint8_t code)
{
    struct row *row = &m->row;
    uint64_t number;
    int64_t factor = m->e->data_factor;
    switch (code) {
    case 0x00: /* nop */
        break;
    case 0x05: /* offset_extended */
        number = take_leb(v, false);
        set_register(m, number, AT_CFA, scaled(take_leb(v, false), factor));
        break;
    case 0x06: /* restore_extended */
        restore_register(m, take_leb(v, false));
        break;
    case 0x07: /* undefined */
        set_register(m, take_leb(v, false), UNDEFINED, 0);
        break;
    case 0x08: /* same_value */
        set_register(m, take_leb(v, false), KEPT, 0);
        break;
    case 0x09: /* register */
        set_register(m, take_leb(v, false), LOST, 0);
        (void)take_leb(v, false);
        break;
    case 0x0a: /* remember_state */
        if (m->count == STATES)
            v->failed = true;
        else
            m->saved[m->count++] = *row;
        break;
    case 0x0b: /* restore_state */
        if (m->count == 0)
            v->failed = true;
        else
            *row = m->saved[--m->count];
        break;
    case 0x0c: /* def_cfa */
        number = take_leb(v, false);
        set_cfa(m, number, (int64_t)take_leb(v, false));
        break;
    case 0x0d: /* def_cfa_register */
        set_cfa(m, take_leb(v, false), row->cfa);
        break;
    case 0x0e: /* def_cfa_offset */
        row->cfa = (int64_t)take_leb(v, false);
        break;
    case 0x0f: /* def_cfa_expression */
        set_cfa_expression(m, v);
        break;
    case 0x10: /* expression */
        set_expression(m, v);
        break;
    case 0x16: /* val_expression */
        number = take_leb(v, false);
        skip(v, take_leb(v, false));
        set_register(m, number, LOST, 0);
        break;
    case 0x11: /* offset_extended_sf */
        number = take_leb(v, false);
        set_register(m, number, AT_CFA, scaled(take_leb(v, true), factor));
        break;
    case 0x12: /* def_cfa_sf */
        number = take_leb(v, false);
        set_cfa(m, number, scaled(take_leb(v, true), factor));
        break;
    case 0x13: /* def_cfa_offset_sf */
        row->cfa = scaled(take_leb(v, true), factor);
        break;
    case 0x14: /* val_offset */
    case 0x15: /* val_offset_sf */
        number = take_leb(v, false);
        (void)take_leb(v, false);
        set_register(m, number, LOST, 0);
        break;
    case 0x2c: /* AARCH64_negate_ra_state_with_pc */
    case 0x2d: /* AARCH64_negate_ra_state: callers remove signatures, whether there is one or not */
        break;
    case 0x2e: /* GNU_args_size */
        (void)take_leb(v, false);
        break;
    default:
        v->failed = true;
    }
}

/* Runs instructions up to the row that covers `address`. False: one is not supported. */
static bool run(struct machine *m, struct view v, uint64_t address)
{
    while (v.at < v.end && !v.failed) {
        uint8_t code = (uint8_t)take(&v, 1);
        uint64_t low = code & 0x3f, step;
        switch (code >> 6) {
        case 1: /* advance_loc */
            step = low;
            break;
        case 2: /* offset */
            set_register(m, low, AT_CFA, scaled(take_leb(&v, false), m->e->data_factor));
            continue;
        case 3: /* restore */
            restore_register(m, low);
            continue;
        default:
            if (code == 0x01) { /* set_loc */
                m->place = take_pointer(&v, m->e->encoding, 0);
                if (m->place > address)
                    return !v.failed;
                continue;
            }
            if (code < 0x02 || code > 0x04) {
                step_extended(m, &v, code);
                continue;
            }
            step = take(&v, (size_t)1 << (code - 0x02)); /* advance_loc1, 2, 4 */
        }
        m->place += step * m->e->code_factor;
        if (m->place > address)
            return !v.failed;
    }
    return !v.failed;
}

static struct cfi_rule rule_of(const struct row *row, bool signal)
{
    struct cfi_rule rule = {.kind = CFI_END};
    if (signal) {
        rule.kind = CFI_SIGNAL;
        return rule;
    }
    bool saved = row->ra_where == AT_CFA && row->ra < 0 && row->ra > INT32_MIN;
    if ((!saved && row->ra_where != KEPT) || row->cfa_lost || row->cfa > INT32_MAX ||
        row->cfa < INT32_MIN)
        return rule;
    rule.cfa = (int32_t)row->cfa;
    rule.ra = saved ? (int32_t)row->ra : CFI_KEPT;
    if (row->cfa_at_bp)
        rule.kind = CFI_AT_BP;
    else
        rule.kind = row->cfa_from_sp ? CFI_FROM_SP : CFI_FROM_BP;
    if (row->bp_where == (row->cfa_at_bp ? AT_BP : AT_CFA) && row->bp <= 0 &&
        row->bp > INT32_MIN / 2)
        rule.bp = (int32_t)row->bp - (row->cfa_at_bp ? 8 : 0);
    else if (row->bp_where != KEPT)
        rule.bp = CFI_BP_LOST;
    return rule;
}

struct cfi_rule cfi_find(const struct cfi_table *table, const struct cfi_registers *registers,
                         uint64_t address)
{
    struct entry e = {.start = 0};
    if (!find_entry(table, address, &e))
        return cfi_frame;
    struct machine m = {.e = &e, .registers = registers, .row = {.cfa_lost = true}};
    m.place = e.start;
    bool good = e.ra_register == registers->ra && run(&m, e.preamble, UINT64_MAX);
    m.initial = m.row;
    m.place = e.start;
    good = good && run(&m, e.program, address);
    if (!good && !e.signal)
        return (struct cfi_rule){.kind = CFI_END, .bp = CFI_BP_LOST};
    return rule_of(&m.row, e.signal);
}
