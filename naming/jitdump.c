#include "naming/jitdump.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/map.h"

#define MAGIC 0x4a695444u /* "JiTD" */
#define VERSION 1u
#define HEADER 40u
#define RECORD 16u        /* kind, size, time */
#define LINE_HEAD 16u     /* address, line, column */
#define FLAG_ARCH_TIME 1u /* times are not of CLOCK_MONOTONIC */
#define ELF_HEADER 0x40u  /* V8's, see jitdump.h */
#define PADDING 8u        /* records may be padded to a multiple of it */
#define SAME_FILE "\xff"  /* as in the entry before */

enum record_kind { CODE_LOAD, CODE_MOVE, CODE_DEBUG_INFO };

struct reading {
    struct perf_map *map;
    struct map by_index; /* code index → number of the entry */
    uint64_t time;       /* of the record */
    /* Of a JIT_CODE_DEBUG_INFO, for the code that is loaded next. */
    uint64_t code;
    uint32_t first_line, lines;
    uint64_t least; /* offset of all lines */
};

/* ---- lines */

static int compare_offsets(const void *a, const void *b)
{
    const struct perf_line *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Whether it is text, as a file's name is. */
static bool is_text(struct view v)
{
    for (size_t i = 0; i < v.len; i++) {
        if ((uint8_t)v.p[i] < ' ')
            return false;
    }
    return v.len > 0;
}

/* The bytes of a NUL-terminated text at the cursor; .p NULL: it has no end. */
static struct view take_text(struct cursor *c)
{
    const uint8_t *end = cursor_left(c) ? memchr(c->pos, 0, cursor_left(c)) : NULL;
    struct view v = {(const char *)c->pos, end ? (size_t)(end - c->pos) : 0};
    if (!end)
        return (struct view){0};
    c->pos = end + 1;
    return v;
}

static bool take_line(struct cursor *c, uint64_t code, struct perf_line *line)
{
    line->offset = cursor_u64(c) - code;
    line->line = cursor_u32(c);
    (void)cursor_u32(c); /* column */
    return !c->short_read && line->offset <= UINT32_MAX;
}

static int push_line(struct reading *r, const struct perf_line *line, struct err *e)
{
    if (r->map->lines.len == UINT32_MAX || !vec_push(&r->map->lines, *line))
        return err_no_memory(e, "lines of generated code");
    r->lines++;
    r->least = line->offset < r->least ? line->offset : r->least;
    return 0;
}

/* `stride`: the bytes of each entry, whose names are not used; 0: names end with a NUL. */
static int take_lines(struct reading *r, struct cursor c, uint64_t count, size_t stride,
                      struct err *e)
{
    struct perf_line line = {0};
    r->map->lines.len = r->first_line;
    r->lines = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct view name = {0};
        if (!take_line(&c, r->code, &line))
            break;
        if (stride ? !cursor_take(&c, stride - LINE_HEAD) : !(name = take_text(&c)).p)
            break;
        if (!view_equal(name, view_of(SAME_FILE)))
            line.file = is_text(name) ? name : (struct view){0};
        if (push_line(r, &line, e) != 0)
            return -1;
    }
    /* Else a name had a NUL, and what followed it was read as the next entry. */
    if (r->lines == count)
        return 0;
    r->map->lines.len = r->first_line;
    r->lines = 0;
    return 0;
}

static int take_debug_info(struct reading *r, struct cursor *c, struct err *e)
{
    uint64_t count, least = r->least;
    r->code = cursor_u64(c);
    count = cursor_u64(c);
    r->first_line = (uint32_t)r->map->lines.len;
    r->lines = 0;
    size_t left = cursor_left(c);
    if (c->short_read || count == 0 || count > left / (LINE_HEAD + 1)) {
        r->map->malformed++;
        return 0;
    }
    if (take_lines(r, *c, count, 0, e) != 0)
        return -1;
    for (size_t pad = 0; pad < PADDING && !r->lines; pad++) {
        r->least = least;
        if (left > pad && (left - pad) % count == 0 &&
            take_lines(r, *c, count, (left - pad) / (size_t)count, e) != 0)
            return -1;
    }
    r->map->malformed += !r->lines;
    if (r->lines)
        qsort(r->map->lines.at + r->first_line, r->lines, sizeof *r->map->lines.at,
              compare_offsets);
    else
        r->least = least;
    return 0;
}

/* ---- code */

static int add_entry(struct reading *r, struct perf_entry *entry, uint64_t size, uint64_t index,
                     struct err *e)
{
    struct perf_map *m = r->map;
    if (size == 0 || __builtin_add_overflow(entry->start, size, &entry->end) ||
        entry->function.len == 0) {
        m->malformed++;
        return 0;
    }
    entry->from = m->timed ? r->time : 0;
    entry->number = (uint32_t)m->list.len;
    uint64_t *slot = m->list.len < UINT32_MAX ? map_add(&r->by_index, index, NULL) : NULL;
    if (!slot || !vec_push(&m->list, *entry))
        return err_no_memory(e, "names of generated code");
    *slot = entry->number;
    return 0;
}

/* Code of V8's baseline compiler, whose lines are by offsets in its bytecode. */
static bool is_baseline(struct view name)
{
    static const char prefix[] = "JS:^";
    return name.len >= sizeof prefix - 1 && memcmp(name.p, prefix, sizeof prefix - 1) == 0;
}

static int take_load(struct reading *r, struct cursor *c, struct err *e)
{
    struct perf_entry entry = {0};
    (void)cursor_u64(c); /* pid, tid */
    (void)cursor_u64(c); /* address in the code's image */
    entry.start = cursor_u64(c);
    uint64_t size = cursor_u64(c), index = cursor_u64(c);
    struct view name = take_text(c);
    if (c->short_read || !is_text(name)) {
        r->map->malformed++;
        return 0;
    }
    perf_entry_name(&entry, name);
    if (r->code == entry.start && !is_baseline(name)) {
        entry.first_line = r->first_line;
        entry.lines = r->lines;
    }
    r->lines = 0;
    return add_entry(r, &entry, size, index, e);
}

static int take_move(struct reading *r, struct cursor *c, struct err *e)
{
    (void)cursor_u64(c); /* pid, tid */
    (void)cursor_u64(c); /* address in the code's image */
    uint64_t from = cursor_u64(c), to = cursor_u64(c), size = cursor_u64(c), index = cursor_u64(c);
    const uint64_t *number = map_find(&r->by_index, index);
    if (c->short_read || !number || r->map->list.at[*number].start != from) {
        r->map->malformed++;
        return 0;
    }
    struct perf_entry entry = r->map->list.at[*number];
    entry.start = to;
    return add_entry(r, &entry, size, index, e);
}

static int take_record(struct reading *r, uint32_t kind, struct cursor *c, struct err *e)
{
    switch (kind) {
    case CODE_LOAD:
        return take_load(r, c, e);
    case CODE_MOVE:
        return take_move(r, c, e);
    case CODE_DEBUG_INFO:
        return take_debug_info(r, c, e);
    default:
        return 0;
    }
}

/* ---- the file */

static int take_header(struct cursor *c, bool *timed, struct err *e)
{
    uint32_t magic = cursor_u32(c), version = cursor_u32(c), size = cursor_u32(c);
    (void)cursor_take(c, 20); /* machine, pid, time */
    uint64_t flags = cursor_u64(c);
    if (c->short_read || magic != MAGIC)
        return err_set(e, ERR_INPUT, "it is no jitdump of this processor");
    if (version != VERSION || size < HEADER || !cursor_take(c, size - HEADER + 0u))
        return err_set(e, ERR_INPUT, "it is a jitdump of version %u; known is %u", version,
                       VERSION);
    *timed = !(flags & FLAG_ARCH_TIME);
    return 0;
}

static int take_records(struct reading *r, struct cursor *c, struct err *e)
{
    int status = 0;
    while (status == 0 && cursor_left(c) >= RECORD) {
        uint32_t kind = cursor_u32(c), size = cursor_u32(c);
        r->time = cursor_u64(c);
        const uint8_t *body = size < RECORD ? NULL : cursor_take(c, size - RECORD);
        if (!body) {
            r->map->malformed++;
            break; /* the size of the next one is unknown */
        }
        struct cursor in = cursor_over(body, size - RECORD);
        status = take_record(r, kind, &in, e);
    }
    return status;
}

int jitdump_parse(struct perf_map *m, struct view bytes, struct err *e)
{
    struct cursor c = cursor_over(bytes.p, bytes.len);
    struct reading r = {.map = m, .least = UINT64_MAX};
    *m = (struct perf_map){0};
    int status = take_header(&c, &m->timed, e);
    if (status == 0)
        status = take_records(&r, &c, e);
    map_release(&r.by_index);
    for (size_t i = 0; i < m->lines.len && r.least >= ELF_HEADER; i++)
        m->lines.at[i].offset -= ELF_HEADER;
    perf_map_order(m);
    return status;
}
