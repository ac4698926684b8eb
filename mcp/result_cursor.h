#ifndef TIDEMARK_MCP_RESULT_CURSOR_H
#define TIDEMARK_MCP_RESULT_CURSOR_H

/*
 * A page of a result that fits into an answer: rows from a position on, up to a number of rows or
 * bytes. A cursor encodes the request and the position. It is refused if it belongs to another
 * request or if the file changed.
 */

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "include/tidetrace.h"

#define PAGE_BYTES (256u << 10) /* no row is added beyond this */
#define PAGE_TEXT_MAX 2000u     /* longer texts are cut */

struct page {
    uint64_t question; /* hash of the request and its files */
    uint64_t first, limit;
    size_t frames; /* limit per call stack; outer frames are left out and counted */
};

/* Fails with ERR_USAGE if the cursor belongs to another request. */
int page_take(struct page *p, const json_t *arguments, uint64_t question, struct err *e);

/*
 * The document of the result with a page of its rows, the list `rows` in it; NULL: none. Its member
 * "page" has "first", "count", "total" and "next_cursor" (null at the end). Returns NULL with `e`
 * set on failure.
 */
json_t *page_make(const struct page *p, struct tidetrace_result *r, const char *rows,
                  struct err *e);

/* As page_make, if only the rows [begin, end) of the result are in that list. */
json_t *page_make_part(const struct page *p, struct tidetrace_result *r, const char *rows,
                       uint64_t begin, uint64_t end, struct err *e);

/*
 * Adds to a document the first `keep` of the result's rows [begin, end), the list `rows`, and the
 * number left out ("ROWS_left_out").
 */
int page_add(const struct page *p, json_t *document, struct tidetrace_result *r, const char *rows,
             uint64_t begin, uint64_t end, size_t keep, struct err *e);

/* The page of a list `rows` of the document that does not hold the result's rows. */
json_t *page_make_other(const struct page *p, struct tidetrace_result *r, const char *rows,
                        struct err *e);

/*
 * Cuts a list in the document to `keep` elements and adds the number left out ("KEY_left_out").
 * False if memory is short.
 */
bool page_cut(const struct page *p, json_t *document, const char *key, size_t keep);

#endif
