#pragma once

/*
 * The source and machine code of allocation sites for the page: the lines around a site, and the
 * instructions up to its call, if the trace has them. Both come late in a trace and may be large.
 * While it is loaded, those that call stacks refer to are set aside, compressed and file-backed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/code/disassembler.h"
#include "analysis/html/html_data.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/file/record.h"
#include "trace/store/store.h"

#define PAGE_TEXT_SITES_MAX 150u /* the most important ones */
#define PAGE_TEXTS_MAX 300000u   /* total bytes of lines */

struct page_line {
    uint64_t number; /* of the source line, or the address of the instruction */
    bool here;       /* the site */
    size_t text;     /* offset in page_texts.bytes */
    size_t len;
};

struct page_text {
    uint32_t site;    /* index in page_data.sites */
    bool is_code;     /* instructions, else source */
    struct view file; /* of the source; the function's name for code */
    size_t first_line, line_count;
};

struct page_texts {
    struct trace *trace;
    struct map files;   /* hash of the path of a source file named by a frame → 1 */
    struct map symbols; /* address of a symbol named by a frame → 1 */
    bool prepared;
    VEC(uint64_t) paths; /* hash of the i-th source set aside, and its index in the trace */
    VEC(struct page_text) list;
    VEC(struct page_line) lines;
    struct buf bytes;
    uint64_t left_out; /* sites for whose texts there was no room */
};

void page_texts_init(struct page_texts *p, struct trace *t);
void page_texts_release(struct page_texts *p);

/* Marks the records that page_texts_put takes: see trace_load_options.beside. */
void page_texts_wanted(bool wanted[REC_TYPE_COUNT]);
int page_texts_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e);

/* After loading: builds the texts of the sites of `d`. */
int page_texts_build(struct page_texts *p, const struct page_data *d, const struct skiplist *skip,
                     const struct disassembler *disassembler, struct err *e);
