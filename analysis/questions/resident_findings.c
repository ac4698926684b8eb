#include "analysis/questions/resident_findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "base/saturate.h"

/* Findings of less than this share of the process's resident bytes are left out. */
#define SHARE 20u
#define SITES_MOST 5u /* findings of one kind */

static const struct {
    const char *key, *remedy;
} kinds[FINDING_KINDS] = {
    [FINDING_ABSENT] = {"not_resident",
                        "request less, or grow on demand: these bytes count for overcommit and "
                        "ulimit -v, not for RSS"},
    [FINDING_PINNED] = {"pinned", "allocate blocks that live long apart from those that do not: in "
                                  "a pool, or before them"},
    [FINDING_EMPTY] = {"empty_pages",
                       "with glibc's malloc, malloc_trim(0) can return them, and M_TRIM_THRESHOLD "
                       "and M_MMAP_THRESHOLD (mallopt) decide what is kept; other allocators have "
                       "other settings, as jemalloc dirty_decay_ms"},
    [FINDING_ARENAS] = {"arenas", "fewer arenas: MALLOC_ARENA_MAX=2, or mallopt(M_ARENA_MAX, 2)"},
    [FINDING_HUGE] = {"huge_pages", "if a program touches little of each 2 MiB: "
                                    "madvise(MADV_NOHUGEPAGE), prctl(PR_SET_THP_DISABLE), or "
                                    "\"madvise\" in /sys/kernel/mm/transparent_hugepage/enabled"},
    [FINDING_TRIM] = {"malloc_trim", "no whole page of glibc's heaps was free: the sites that pin "
                                     "half-empty pages keep them"},
};

const char *finding_key(enum finding_kind kind)
{
    return kinds[kind].key;
}

const char *finding_remedy(enum finding_kind kind)
{
    return kinds[kind].remedy;
}

void finding_words(struct buf *out, const struct resident_finding *f)
{
    char bytes[FORMAT_SIZE], count[FORMAT_SIZE], of[FORMAT_SIZE];
    format_bytes(bytes, f->bytes);
    switch (f->kind) {
    case FINDING_ABSENT:
        buf_printf(out, "%s of the %s in %s are not in memory: never touched, or given back", bytes,
                   format_bytes(of, f->row->bytes), format_counted(count, f->count, "block"));
        break;
    case FINDING_PINNED:
        buf_printf(out, "%s (%s) keep %s free in their pages",
                   format_counted(count, f->count, "block"), format_bytes(of, f->row->bytes),
                   bytes);
        break;
    case FINDING_EMPTY:
        buf_printf(out, "the allocator has %s in pages without a recorded block", bytes);
        break;
    case FINDING_ARENAS:
        buf_printf(out, "%s of glibc's arenas for threads have %s beside blocks",
                   format_counted(count, f->count, "heap"), bytes);
        break;
    case FINDING_HUGE:
        buf_printf(out, "%s are in transparent huge pages", bytes);
        break;
    default:
        buf_printf(out, "%s of %s of malloc_trim returned nothing", format_count(count, f->count),
                   format_counted(of, f->all, "call"));
    }
}

/* ---- what is established */

static bool add(struct resident_findings *f, uint64_t least, struct resident_finding one)
{
    return one.bytes < least || vec_push(&f->list, one);
}

/* Large blocks of which at least half is absent. */
static bool add_site(struct resident_findings *f, uint64_t least, const struct resident *r,
                     const struct resident_row *row)
{
    const struct resident_finding pinned = {
        .kind = FINDING_PINNED, .bytes = row->pinned, .count = row->count, .row = row};
    const struct resident_finding absent = {
        .kind = FINDING_ABSENT, .bytes = row->of.absent, .count = row->count, .row = row};
    bool large = row->largest >= FINDING_LEAST && row->of.absent >= row->bytes / 2;
    return (r->shares.reported || add(f, least, pinned)) && (!large || add(f, least, absent));
}

static uint64_t number_in_fact(const struct trace *t, const char *key)
{
    struct view fact = trace_fact(t, key, 0);
    uint64_t n = 0;
    char text[32];
    snprintf(text, sizeof text, "%.*s", fact.len < sizeof text ? (int)fact.len : 0, fact.p);
    return sscanf(text, "%" SCNu64, &n) == 1 ? n : 0;
}

static bool add_trims(struct resident_findings *f, const struct trace *t)
{
    const struct resident_finding one = {.kind = FINDING_TRIM,
                                         .count = number_in_fact(t, "trims_empty"),
                                         .all = number_in_fact(t, "trims")};
    return one.count == 0 || one.count > one.all || vec_push(&f->list, one);
}

static bool add_process(struct resident_findings *f, uint64_t least, const struct resident *r,
                        const struct trace *t)
{
    const struct resident_finding arenas = {.kind = FINDING_ARENAS,
                                            .bytes =
                                                saturating_sub(r->arenas.present, r->arenas.blocks),
                                            .count = r->arenas.heaps};
    const struct resident_finding empty = {.kind = FINDING_EMPTY, .bytes = r->empty};
    const struct resident_finding huge = {.kind = FINDING_HUGE, .bytes = r->look->huge};
    if (!r->shares.reported &&
        (!add(f, least, empty) || (arenas.count > 1 && !add(f, least, arenas))))
        return false;
    return add(f, least, huge) && add_trims(f, t);
}

static int compare(const void *a, const void *b)
{
    const struct resident_finding *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->kind != y->kind)
        return x->kind > y->kind ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Keeps the largest few of each kind. */
static void keep_largest(struct resident_findings *f)
{
    size_t kept = 0, of_kind[FINDING_KINDS] = {0};
    for (size_t i = 0; i < f->list.len; i++) {
        if (of_kind[f->list.at[i].kind]++ < SITES_MOST)
            f->list.at[kept++] = f->list.at[i];
    }
    f->list.len = kept;
}

int resident_findings_make(struct resident_findings *f, const struct resident *r,
                           const struct trace *t, bool narrow, struct err *e)
{
    uint64_t least = resident_bytes(r->look) / SHARE;
    *f = (struct resident_findings){0};
    if (least < FINDING_LEAST)
        least = FINDING_LEAST;
    bool done = narrow || add_process(f, least, r, t);
    for (size_t i = 0; i < r->rows.len && done; i++)
        done = add_site(f, least, r, &r->rows.at[i]);
    if (!done) {
        resident_findings_release(f);
        return err_no_memory(e, "findings");
    }
    if (f->list.len)
        qsort(f->list.at, f->list.len, sizeof *f->list.at, compare);
    keep_largest(f);
    return 0;
}

void resident_findings_release(struct resident_findings *f)
{
    vec_release(&f->list);
    *f = (struct resident_findings){0};
}
