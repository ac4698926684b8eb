#pragma once

/*
 * A look at the pages of a process: its mappings, and which pages were resident or swapped. The
 * pages are read one after the other, so a look has a beginning and an end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"

enum look_reason {
    LOOK_AT_EXIT,
    LOOK_AT_END,
    LOOK_AT_PEAK,
    LOOK_AT_TIME,
    LOOK_ASKED,
    LOOK_AT_LIMIT,
    LOOK_REASONS
};

/* "at exit", … */
const char *look_reason_name(enum look_reason reason);

enum area_kind {
    AREA_HEAP,      /* [heap]: the program break */
    AREA_ANONYMOUS, /* of no other kind */
    AREA_FILE,      /* a mapped file, and the zeroed memory right behind it */
    AREA_STACK,     /* [stack], or a thread's stack pointer is in it */
    AREA_SHARED,    /* shared memory */
    AREA_RECORDER,  /* Tidemark's recording */
    AREA_ARENA,     /* heaps of glibc's arenas, LOOK_HEAP_BYTES each: their headers were read */
    AREA_KINDS,
};

/* HEAP_MAX_SIZE of glibc's malloc on 64 bits, and what such heaps are aligned to. */
#define LOOK_HEAP_BYTES ((uint64_t)64 << 20)

/* `unsure`: resident, but the zero page, or a page that another process maps, too. */
struct look_area {
    uint64_t start, end; /* addresses */
    enum area_kind kind;
    bool unread;                       /* too large: its pages are not known */
    bool zeroed;                       /* an image's zeroed data; known to the reader only */
    uint64_t present, swapped, unsure; /* pages */
};

/* Pages of areas other than AREA_FILE. Those of chunks that are missing are not resident. */
#define LOOK_CHUNK_PAGES 512u

struct look_chunk {
    uint64_t number;                           /* address / (LOOK_CHUNK_PAGES * page) */
    uint64_t present[LOOK_CHUNK_PAGES / 64];   /* bit N: page N is resident … */
    uint64_t otherwise[LOOK_CHUNK_PAGES / 64]; /* swapped; with `present`: unsure */
};

struct page_look {
    enum look_reason reason;
    int64_t begin, end;          /* ns of the trace; until it is stored there: of CLOCK_MONOTONIC */
    uint32_t page;               /* bytes of a page: a power of two */
    uint64_t rss;                /* bytes that the kernel counted then; 0: not known */
    uint64_t huge;               /* of them in transparent huge pages of anonymous memory */
    VEC(struct look_area) areas; /* ascending */
    VEC(struct look_chunk) chunks; /* ascending */
};

/* In one trace, at most. */
#define LOOKS_MOST 64u

struct page_looks {
    VEC(struct page_look) list; /* by beginning */
};

void page_look_release(struct page_look *l);
void page_looks_release(struct page_looks *l);

/*
 * Takes the look over, also on failure. It replaces the one of its reason, if there is any; of
 * LOOK_AT_TIME and LOOK_ASKED all are kept. False: memory is short.
 */
bool page_looks_keep(struct page_looks *l, struct page_look *look);

/* By beginning. */
void page_looks_sort(struct page_looks *l);

enum page_state { PAGE_ABSENT, PAGE_PRESENT, PAGE_SWAPPED, PAGE_UNSURE };

/* Of the page at an address. `*hint` speeds up calls for ascending addresses; begin with 0. */
enum page_state page_look_at(const struct page_look *l, uint64_t address, size_t *hint);

/* The chunk of an address, with the same hint; chunks.len: there is none. */
size_t page_look_chunk(const struct page_look *l, uint64_t address, size_t *hint);

/* The first area that ends behind the address; areas.len: there is none. */
size_t page_look_area(const struct page_look *l, uint64_t address);

/* Sets the state of a page, of no lower address than before. False: memory is short. */
bool page_look_set(struct page_look *l, uint64_t address, enum page_state state);

/*
 * As bytes, all numbers LEB128 (negative ones as the two's complement of 64 bits):
 *
 *     looks, and for each: reason, begin, end - begin, log2 of the page's bytes, rss, huge,
 *     areas, chunks; for each area: pages since the end of the one before, pages, kind * 2 +
 * unread, present, swapped, unsure; for each chunk: distance from the one before, 1 if all its
 * pages are present, else 0 and the 128 bytes of its bits
 */
void page_looks_encode(const struct page_looks *l, struct buf *out);

/* `l` need not be initialised. ERR_INPUT, with the offset, for malformed bytes. */
int page_looks_decode(struct page_looks *l, struct view bytes, struct err *e);
