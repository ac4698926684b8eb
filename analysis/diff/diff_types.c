#include "analysis/diff/diff_types.h"

#include <stdlib.h>

#include "base/saturate.h"

/* The part of a row of one type. */
struct part {
    uint64_t row;
    uint32_t type;
    uint64_t bytes;
};

struct parts {
    VEC(struct part) list;
};

static int compare_parts(const void *a, const void *b)
{
    const struct part *x = a;
    const struct part *y = b;
    if (x->row != y->row)
        return x->row > y->row ? 1 : -1;
    return (x->type > y->type) - (x->type < y->type);
}

static int list_parts(struct parts *p, const struct accounting *stacks, const struct diff *d,
                      const struct types *types, const struct map *rows, const uint32_t *groups,
                      struct err *e)
{
    for (uint32_t pool = 0; pool < d->pools.len; pool++) {
        uint64_t iter = 0;
        uint32_t callstack;
        struct counter c;
        while (accounting_next(stacks, pool, &iter, &callstack, &c)) {
            /* A damaged file may refer to call stacks beyond the list; these have no type. */
            uint32_t known = callstack < types->callstack_count ? callstack : 0;
            const uint64_t *row = map_find(rows, (uint64_t)pool << 32 | groups[known]);
            if (row &&
                !vec_push(&p->list, (struct part){*row, types_of(types, callstack), c.bytes}))
                return err_no_memory(e, "types of the comparison");
        }
    }
    return 0;
}

/* The parts of one row: one for each type, the named ones before the unknown. */
static void judge(struct diff_row *row, const struct types *types, const struct part *parts,
                  size_t n)
{
    uint64_t most = 0;
    row->type = (struct view){"", 0};
    row->more_types = 0;
    for (size_t i = 0; i < n; i++) {
        if (parts[i].type == TYPE_NONE || (row->type.len && parts[i].bytes <= most))
            continue;
        row->type = types->names.at[parts[i].type];
        most = parts[i].bytes;
    }
    if (row->type.len)
        row->more_types = (uint32_t)n - 1;
}

/* Combines parts of the same row and type. */
static void fold(struct parts *p)
{
    size_t kept = 0;
    if (p->list.len)
        qsort(p->list.at, p->list.len, sizeof *p->list.at, compare_parts);
    for (size_t i = 0; i < p->list.len; i++) {
        struct part *last = kept ? &p->list.at[kept - 1] : NULL;
        if (last && compare_parts(last, &p->list.at[i]) == 0)
            last->bytes = saturating_add(last->bytes, p->list.at[i].bytes);
        else
            p->list.at[kept++] = p->list.at[i];
    }
    p->list.len = kept;
}

int diff_types_attach(const struct accounting *stacks, struct diff *d, int side,
                      const struct map *rows, const uint32_t *groups, struct err *e)
{
    struct parts p = {0};
    const struct types *types = &d->types[side];
    int status = list_parts(&p, stacks, d, types, rows, groups, e);
    if (status == 0)
        fold(&p);
    for (size_t i = 0, end; status == 0 && i < p.list.len; i = end) {
        for (end = i; end < p.list.len && p.list.at[end].row == p.list.at[i].row;)
            end++;
        judge(&d->rows.at[p.list.at[i].row], types, &p.list.at[i], end - i);
    }
    vec_release(&p.list);
    return status;
}
