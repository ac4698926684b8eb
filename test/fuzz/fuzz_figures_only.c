/*
 * Any bytes as the figures behind a trace of figures only: either they are refused, or all
 * summaries and the page can be made of them, or refuse.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <zstd.h>

#include "analysis/figures/figures_account.h"
#include "analysis/figures/figures_only.h"
#include "analysis/figures/summary.h"
#include "analysis/html/html_data.h"
#include "analysis/questions/growth.h"
#include "analysis/questions/histograms.h"
#include "analysis/questions/leaks.h"
#include "analysis/questions/patterns.h"
#include "analysis/questions/timeline.h"
#include "analysis/questions/tree.h"
#include "base/bytes.h"

#define STACKS 24u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void make_trace(struct trace *t)
{
    struct err e = {0};
    check(trace_init(t, NULL, &e) == 0);
    for (uint64_t id = 5; id < 7; id++) {
        uint16_t number;
        check(trace_thread_number(t, id, &number, &e) == 0);
    }
    for (uint64_t i = 1; i <= STACKS; i++) {
        char name[16];
        bool fresh;
        uint32_t id;
        snprintf(name, sizeof name, "f%u", (unsigned)i / 3);
        struct rec_inline_frame in = {.function = strings_intern(&t->strings, view_of(name), &e)};
        check(callstacks_resolve(&t->callstacks, i * 16, in.function, &in, 1, &e) == 0);
        check(callstacks_intern(&t->callstacks, &i, 1, &id, &fresh, &e) == 0);
    }
}

static void refused(const struct err *e)
{
    check((e->code == ERR_INPUT || e->code == ERR_CHECK) && e->text[0]);
}

static void ask(struct trace *t)
{
    static const struct selection_options all = {0};
    static const struct tree_options by = {.by = TREE_FUNCTION};
    static const struct timeline_options window = {.end = 1 << 20, .buckets = 64};
    struct selection s;
    struct tree tree;
    struct timeline line;
    struct histograms histograms;
    struct leaks leaks;
    struct growth growth;
    struct patterns patterns;
    struct err e = {0};
    if (selection_init(&s, t, &all, &e) != 0) {
        refused(&e);
        return;
    }
    if (tree_build(&tree, &s, &by, &e) == 0)
        tree_release(&tree);
    else
        refused(&e);
    if (timeline_build(&line, &s, &window, &e) == 0)
        timeline_release(&line);
    else
        refused(&e);
    if (histograms_build(&histograms, &s, &e) != 0)
        refused(&e);
    if (leaks_build(&leaks, &s, NULL, NULL, &e) == 0)
        leaks_release(&leaks);
    else
        refused(&e);
    if (growth_build(&growth, &s, NULL, 15, 1 << 20, &e) == 0)
        growth_release(&growth);
    else
        refused(&e);
    if (patterns_build(&patterns, &s, NULL, &e) == 0)
        patterns_release(&patterns);
    else
        refused(&e);
    selection_release(&s);
}

static void make_page(struct trace *t)
{
    const struct skiplist skip = {0};
    const struct summary_options options = {.by = GROUP_THREAD, .skip = &skip, .stacks = true};
    struct summary s;
    struct page_data d;
    struct err e = {0};
    if (summary_build(&s, t, &options, &e) != 0) {
        refused(&e);
        return;
    }
    if (page_data_build(&d, t, &s, &skip, PAGE_SIZE, &e) == 0)
        page_data_release(&d);
    else
        refused(&e);
    summary_release(&s);
}

/* The figures of a file, or without their compression, so that mutations pass it. */
static void put(struct buf *to, const uint8_t *data, size_t size)
{
    size_t bound = ZSTD_compressBound(size);
    if (size >= 4 && load_u32(data) == ZSTD_MAGICNUMBER) {
        buf_put(to, data, size);
        return;
    }
    uint8_t *room = buf_reserve(to, bound);
    check(room != NULL);
    to->len = ZSTD_compress(room, bound, data, size, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace t;
    make_trace(&t);
    t.memory.only.is = true;
    put(&t.memory.only.bytes, data, size);
    for (enum grouping by = GROUP_SITE; by <= GROUP_TYPE; by++) {
        struct summary s;
        struct err e = {0};
        const struct summary_options options = {.by = by, .stacks = true, .callers = true};
        if (summary_build(&s, &t, &options, &e) == 0)
            summary_release(&s);
        else
            refused(&e);
    }
    ask(&t);
    make_page(&t);
    trace_release(&t);
    return 0;
}
