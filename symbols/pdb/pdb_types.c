#include "symbols/pdb/pdb_types.h"

#include <stdlib.h>

#include "base/cursor.h"
#include "base/vec.h"
#include "symbols/pdb/codeview.h"

#define STREAM_TPI 2u
#define STREAM_IPI 4u

/* Every STEP-th record has its position kept; the others are found from there. */
#define STEP 32u

struct type_table {
    struct msf_stream stream;
    struct view records;
    uint32_t first, count;   /* numbers of types */
    VEC(uint32_t) positions; /* of every STEP-th record in `records` */
};

struct pdb_types {
    struct type_table types, ids;
};

static bool read_positions(struct type_table *t)
{
    unsigned kind;
    struct cursor record, c = cursor_over(t->records.p, t->records.len);
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t at = (uint32_t)cursor_offset(&c);
        if (!codeview_next(&c, &kind, &record)) {
            t->count = i;
            break;
        }
        if (i % STEP == 0 && !vec_push(&t->positions, at))
            return false;
    }
    return true;
}

static int read_table(struct type_table *t, const struct msf_file *m, uint32_t stream,
                      struct err *e)
{
    struct err damage = {0};
    if (msf_file_read(m, stream, &t->stream, &damage) != 0) {
        if (damage.code != ERR_MEMORY)
            return 0;
        *e = damage;
        return -1;
    }
    struct cursor c = cursor_over(t->stream.bytes.p, t->stream.bytes.len);
    (void)cursor_u32(&c); /* version */
    uint32_t header = cursor_u32(&c);
    t->first = cursor_u32(&c);
    uint32_t end = cursor_u32(&c), size = cursor_u32(&c);
    c = cursor_over(t->stream.bytes.p, t->stream.bytes.len);
    (void)cursor_take(&c, header);
    const char *records = (const char *)cursor_take(&c, size);
    if (c.short_read || end < t->first)
        return 0;
    t->count = end - t->first;
    t->records = (struct view){records, size};
    return read_positions(t) ? 0 : err_no_memory(e, "types of a PDB file");
}

int pdb_types_read(struct pdb_types **out, const struct pdb_file *f, struct err *e)
{
    struct pdb_types *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return err_no_memory(e, "types of a PDB file");
    const struct msf_file *m = pdb_file_streams(f);
    if (read_table(&t->types, m, STREAM_TPI, e) != 0 ||
        read_table(&t->ids, m, STREAM_IPI, e) != 0) {
        pdb_types_free(t);
        return -1;
    }
    *out = t;
    return 0;
}

void pdb_types_free(struct pdb_types *t)
{
    if (!t)
        return;
    msf_stream_release(&t->types.stream);
    msf_stream_release(&t->ids.stream);
    vec_release(&t->types.positions);
    vec_release(&t->ids.positions);
    free(t);
}

static bool record_at(const struct type_table *t, uint32_t number, unsigned *kind,
                      struct cursor *record)
{
    uint32_t i = number - t->first;
    if (number < t->first || i >= t->count)
        return false;
    struct cursor c = cursor_over(t->records.p, t->records.len);
    (void)cursor_take(&c, t->positions.at[i / STEP]);
    for (uint32_t k = i % STEP; k > 0; k--)
        (void)codeview_next(&c, kind, record);
    return codeview_next(&c, kind, record);
}

/* Skips a number: two bytes, or a kind and as many bytes as it says. */
static void skip_number(struct cursor *c)
{
    static const uint8_t sizes[] = {1, 2, 2, 4, 4, 4, 8, 10, 16, 8, 8};
    uint16_t leaf = cursor_u16(c);
    if (leaf >= 0x8000)
        (void)cursor_take(c, leaf - 0x8000u < sizeof sizes ? sizes[leaf - 0x8000u] : SIZE_MAX);
}

static const char *class_name(const struct pdb_types *t, uint32_t type)
{
    unsigned kind;
    struct cursor c;
    if (!record_at(&t->types, type, &kind, &c))
        return "";
    switch (kind) {
    case LF_CLASS:
    case LF_STRUCTURE:
    case LF_INTERFACE:
        (void)cursor_take(&c, 16); /* members, properties, fields, bases, virtual functions */
        skip_number(&c);
        break;
    case LF_UNION:
        (void)cursor_take(&c, 8);
        skip_number(&c);
        break;
    case LF_ENUM:
        (void)cursor_take(&c, 12);
        break;
    default:
        return "";
    }
    return c.short_read ? "" : codeview_text(&c);
}

/* The namespace of a function. */
static const char *scope_name(const struct pdb_types *t, uint32_t id)
{
    unsigned kind;
    struct cursor c;
    if (!record_at(&t->ids, id, &kind, &c) || kind != LF_STRING_ID)
        return "";
    (void)cursor_u32(&c); /* a longer text's parts */
    return codeview_text(&c);
}

bool pdb_types_function(const struct pdb_types *t, uint32_t id, struct buf *out)
{
    unsigned kind;
    struct cursor c;
    if (!record_at(&t->ids, id, &kind, &c) || (kind != LF_FUNC_ID && kind != LF_MFUNC_ID))
        return false;
    uint32_t parent = cursor_u32(&c);
    (void)cursor_u32(&c); /* type */
    const char *around = kind == LF_MFUNC_ID ? class_name(t, parent) : scope_name(t, parent);
    const char *name = codeview_text(&c);
    if (*name == 0)
        return false;
    if (*around)
        buf_printf(out, "%s::", around);
    buf_puts(out, name);
    return !out->failed;
}
