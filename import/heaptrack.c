/*
 * Imports recordings of heaptrack. Source: src/track/libheaptrack.cpp (raw files),
 * src/interpret/heaptrack_interpret.cpp (interpreted ones), src/analyze/accumulatedtracedata.cpp of
 * heaptrack 1.5.0. A file consists of lines of a letter and its arguments:
 *
 *     v heaptrack's version, file version     c milliseconds since the start
 *     X command line                          R resident pages
 *     I page size, pages of memory            A heaptrack was attached to a running program
 *     s text, i instruction pointer, t call stack, m module, x program: heaptrack_stacks.h
 *     a size, call stack                      a kind of allocation (interpreted, since version 1)
 *     + kind, - kind                          one more of it, one less
 *     + size, call stack, address; - address  in raw files, and before version 1
 */

#include <inttypes.h>

#include "import/heaptrack_stacks.h"

#define VERSION_MAX 3u

/* Recordings do not identify threads. */
#define THREAD_ID 1u

#define RSS_PLOT ((uint64_t)1 << 32)

#define SIZE_LARGEST (((uint64_t)1 << 48) - 1) /* the store has 48 bits */

/* 2,000 years */
#define MILLISECONDS_MAX ((uint64_t)1 << 42)

/* Range of the addresses that the importer assigns; beyond it they are no longer spaced. */
#define ADDRESS_FIRST ((uint64_t)1 << 20)
#define ADDRESS_LAST ((uint64_t)1 << 46)

/* An assigned address, in its allocation kind's list of live or of free ones. */
struct block {
    uint64_t address;
    uint32_t next; /* 1 + index; 0: none */
};

struct kind {
    uint64_t size;
    uint64_t trace;
    uint32_t live, free; /* lists of blocks: 1 + index; 0: none */
};

#define MEMORY_BATCH 64u

struct heaptrack_import {
    struct ingest *in;
    struct import_counts *counts;
    struct heaptrack_stacks stacks;
    VEC(struct kind) kinds;
    VEC(struct block) blocks;
    uint64_t next_address;
    uint64_t stamp; /* last time stamp in ms */
    int64_t time;   /* ns, of the latest event */
    uint64_t page_size;
    bool indexed; /* allocations refer to their kind */
    bool rss;     /* the plot of resident memory exists */
    uint64_t version;
    struct memory_event memory[MEMORY_BATCH]; /* delivered in batches, which hides memory latency */
    size_t waiting;                           /* events in `memory` */
};

static int flush_memory(struct heaptrack_import *h, struct err *e)
{
    size_t n = h->waiting;
    h->waiting = 0;
    return n ? h->in->sink.memory(h->in->sink.ctx, h->memory, n, e) : 0;
}

static int hand_memory(struct heaptrack_import *h, const struct memory_event *ev, struct err *e)
{
    h->memory[h->waiting++] = *ev;
    return h->waiting < MEMORY_BATCH ? 0 : flush_memory(h, e);
}

static int hand(struct heaptrack_import *h, const struct event *ev, struct err *e)
{
    if (flush_memory(h, e) != 0)
        return -1;
    return h->in->sink.event(h->in->sink.ctx, ev, e);
}

/*
 * Events between two time stamps carry no time. Spacing them by a nanosecond keeps their order, and
 * so the peak between the stamps.
 */
static int64_t next_time(struct heaptrack_import *h)
{
    int64_t stamp = (int64_t)h->stamp * 1000000;
    h->time = h->time < stamp ? stamp : h->time + 1;
    return h->time;
}

/* ---- memory */

static int put_alloc(struct heaptrack_import *h, uint64_t address, uint64_t size, uint64_t trace,
                     struct err *e)
{
    bool known;
    struct memory_event ev = {.kind = EVENT_MEM_ALLOC, .thread = THREAD_ID, .time = next_time(h)};
    ev.ptr = address;
    ev.size = size < SIZE_LARGEST ? size : SIZE_LARGEST;
    h->counts->notes[NOTE_LARGE_SIZES] += size > SIZE_LARGEST;
    if (heaptrack_callstack(&h->stacks, trace, &ev.callstack, &known, e) != 0)
        return -1;
    h->counts->notes[NOTE_UNKNOWN_TRACES] += !known;
    h->counts->allocations++;
    return hand_memory(h, &ev, e);
}

static int put_free(struct heaptrack_import *h, uint64_t address, struct err *e)
{
    struct memory_event ev = {.kind = EVENT_MEM_FREE, .thread = THREAD_ID, .time = next_time(h)};
    ev.ptr = address;
    h->counts->frees++;
    return hand_memory(h, &ev, e);
}

static uint64_t fresh_address(struct heaptrack_import *h, uint64_t size)
{
    uint64_t address = h->next_address;
    uint64_t room = size < ADDRESS_LAST && address < ADDRESS_LAST ? (size | 15) + 1 : 16;
    h->next_address += room;
    return address;
}

static int alloc_of_kind(struct heaptrack_import *h, uint64_t number, struct err *e)
{
    struct kind *k = &h->kinds.at[number];
    uint32_t block = k->free;
    if (block) {
        k->free = h->blocks.at[block - 1].next;
    } else {
        if (h->blocks.len == UINT32_MAX - 1)
            return err_set(e, ERR_INPUT, "too many live allocations");
        const struct block fresh = {.address = fresh_address(h, k->size)};
        if (!vec_push(&h->blocks, fresh))
            return err_no_memory(e, "live allocations");
        block = (uint32_t)h->blocks.len;
    }
    h->blocks.at[block - 1].next = k->live;
    k->live = block;
    return put_alloc(h, h->blocks.at[block - 1].address, k->size, k->trace, e);
}

/*
 * The file does not distinguish blocks of a kind: frees the newest. Returns 1, or 0 if there is
 * none.
 */
static int free_of_kind(struct heaptrack_import *h, uint64_t number, struct err *e)
{
    struct kind *k = &h->kinds.at[number];
    uint32_t block = k->live;
    if (!block)
        return 0;
    k->live = h->blocks.at[block - 1].next;
    h->blocks.at[block - 1].next = k->free;
    k->free = block;
    return put_free(h, h->blocks.at[block - 1].address, e) == 0 ? 1 : -1;
}

static int alloc_line(struct heaptrack_import *h, struct heaptrack_line *line, struct err *e)
{
    uint64_t first, trace, address;
    if (!heaptrack_number(line, &first))
        return 0;
    if (h->indexed) {
        if (first >= h->kinds.len)
            return 0;
        return alloc_of_kind(h, first, e) == 0 ? 1 : -1;
    }
    if (!heaptrack_number(line, &trace) || !heaptrack_number(line, &address))
        return 0;
    return put_alloc(h, address, first, trace, e) == 0 ? 1 : -1;
}

static int free_line(struct heaptrack_import *h, struct heaptrack_line *line, struct err *e)
{
    uint64_t number;
    if (!heaptrack_number(line, &number))
        return 0;
    if (h->indexed)
        return number < h->kinds.len ? free_of_kind(h, number, e) : 0;
    return put_free(h, number, e) == 0 ? 1 : -1;
}

static int kind_line(struct heaptrack_import *h, struct heaptrack_line *line, struct err *e)
{
    struct kind k = {0};
    h->indexed = true;
    int understood = heaptrack_number(line, &k.size) && heaptrack_number(line, &k.trace);
    return vec_push(&h->kinds, k) ? understood : err_no_memory(e, "kinds of allocations");
}

/* ---- everything else */

static int version_line(struct heaptrack_import *h, struct heaptrack_line *line, struct err *e)
{
    uint64_t program;
    if (!heaptrack_number(line, &program))
        return 0;
    /* 1.0.0 wrote this format before the file version existed. */
    if (!heaptrack_number(line, &h->version))
        h->version = program == 0x010200;
    if (h->version > VERSION_MAX)
        return err_set(e, ERR_INPUT,
                       "its format has version %" PRIu64 "; versions up to %u are known",
                       h->version, VERSION_MAX);
    h->stacks.sized = h->version >= 3;
    return 1;
}

static int command_line(struct heaptrack_import *h, const struct heaptrack_line *line,
                        struct err *e)
{
    struct trace *t = h->in->trace;
    struct view text = {line->p, (size_t)(line->end - line->p)};
    const char *space = text.len ? memchr(text.p, ' ', text.len) : NULL;
    struct view program = {text.p, space ? (size_t)(space - text.p) : text.len};
    t->facts.program = strings_intern(&t->strings, program, e);
    if (!t->facts.program)
        return -1;
    return trace_add_fact(t, e, "command", "%.*s", (int)text.len, text.p) == 0 ? 1 : -1;
}

static int stamp_line(struct heaptrack_import *h, struct heaptrack_line *line)
{
    uint64_t stamp;
    if (!heaptrack_number(line, &stamp) || stamp > MILLISECONDS_MAX)
        return 0;
    if (stamp < h->stamp)
        h->counts->notes[NOTE_TIMES_BACK]++;
    else
        h->stamp = stamp;
    return 1;
}

static int rss_line(struct heaptrack_import *h, struct heaptrack_line *line, struct err *e)
{
    uint64_t pages;
    if (!heaptrack_number(line, &pages))
        return 0;
    struct event ev = {.kind = EVENT_PLOT, .time = next_time(h)};
    ev.plot.name = RSS_PLOT;
    ev.plot.value = (double)pages * (double)h->page_size;
    h->rss = true;
    h->counts->plot_values++;
    return hand(h, &ev, e) == 0 ? 1 : -1;
}

static int system_line(struct heaptrack_import *h, struct heaptrack_line *line)
{
    uint64_t size;
    if (!heaptrack_number(line, &size) || size == 0)
        return 0;
    h->page_size = size;
    return 1;
}

/* Returns 1 if understood, 0 if not, -1 on an error. */
static int read_line(struct heaptrack_import *h, struct heaptrack_line *line, struct err *e)
{
    switch (line->mode) {
    case 'v':
        return version_line(h, line, e);
    case 'x':
        return heaptrack_exe_line(&h->stacks, line, e);
    case 'X':
        return command_line(h, line, e);
    case 's':
        return heaptrack_string_line(&h->stacks, line, e);
    case 'i':
        return heaptrack_ip_line(&h->stacks, line, e);
    case 't':
        return heaptrack_trace_line(&h->stacks, line, e);
    case 'm':
        return heaptrack_module_line(&h->stacks, line, e);
    case 'a':
        return kind_line(h, line, e);
    case '+':
        return alloc_line(h, line, e);
    case '-':
        return free_line(h, line, e);
    case 'c':
        return stamp_line(h, line);
    case 'R':
        return rss_line(h, line, e);
    case 'I':
        return system_line(h, line);
    case 'A': /* heaptrack was attached */
    case 'S': /* suppressions */
    case '#':
        return 1;
    default:
        return 0;
    }
}

static int read_lines(struct heaptrack_import *h, struct import_source *s, struct err *e)
{
    struct heaptrack_lines lines = {.source = s};
    struct heaptrack_line line;
    bool whole;
    int status;
    while ((status = heaptrack_lines_next(&lines, &line, &whole, e)) > 0) {
        /* A truncated line may hold a truncated number: ignore it. */
        int understood = whole ? read_line(h, &line, e) : 0;
        if (understood < 0) {
            status = -1;
            if (e->code == ERR_INPUT)
                err_prefix(e, "line %" PRIu64, lines.count);
            break;
        }
        h->counts->notes[NOTE_LINES] += !understood;
    }
    heaptrack_lines_release(&lines);
    return status;
}

static int name_things(struct heaptrack_import *h, struct err *e)
{
    struct event ev = {.kind = EVENT_THREAD_NAME};
    ev.name.key = THREAD_ID;
    ev.name.text = view_of("all threads");
    if (hand(h, &ev, e) != 0)
        return -1;
    if (h->rss) {
        ev = (struct event){.kind = EVENT_PLOT_NAME};
        ev.name.key = RSS_PLOT;
        ev.name.text = view_of("RSS");
        if (hand(h, &ev, e) != 0)
            return -1;
        ev = (struct event){.kind = EVENT_PLOT_CONFIG};
        ev.plot_config.name = RSS_PLOT;
        ev.plot_config.type = 1; /* PlotValueFormatting::Memory */
        ev.plot_config.fill = 1;
        if (hand(h, &ev, e) != 0)
            return -1;
    }
    return trace_add_fact(h->in->trace, e, "imported", "heaptrack %s, file version %" PRIu64,
                          h->stacks.raw ? "raw" : "interpreted", h->version) != 0 ||
                   (h->indexed && trace_add_fact(h->in->trace, e, "addresses", "%s",
                                                 "made up; the recording has none") != 0)
               ? -1
               : 0;
}

int import_heaptrack(struct import_source *s, struct ingest *in, struct import_counts *counts,
                     struct err *e)
{
    struct heaptrack_import h = {.in = in,
                                 .counts = counts,
                                 .stacks = {.in = in},
                                 .next_address = ADDRESS_FIRST,
                                 .page_size = 4096,
                                 .time = -1};
    /* Memory allocated before heaptrack attached may be freed without a known allocation. */
    in->unknown_frees_expected = true;
    int status = read_lines(&h, s, e);
    if (status == 0)
        status = name_things(&h, e);
    if (status == 0)
        status = ingest_finish(in, e);
    heaptrack_stacks_release(&h.stacks);
    vec_release(&h.kinds);
    vec_release(&h.blocks);
    return status;
}
