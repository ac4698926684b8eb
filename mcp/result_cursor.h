#pragma once

/*
 * A page of a result that fits into an answer: rows from a position on, up to a number of rows or
 * bytes. A cursor encodes the request and the position. It is refused if it belongs to another
 * request or if the file changed.
 */

#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "include/tidetrace.h"
#include "mcp/answer_fit.h"

#define PAGE_BYTES_MAX (256 << 10)

struct page {
    uint64_t question; /* hash of the request and its files */
    uint64_t first, limit;
    struct answer_limits fit;
};

/* Fails with ERR_USAGE if the cursor belongs to another request. */
int page_take(struct page *p, const json_t *arguments, uint64_t question, struct err *e);

/*
 * The document of the result with rows from `first` on, the list `rows` in it; NULL: all that it
 * has. page_fit completes it. Returns NULL with `e` set on failure.
 */
json_t *page_make(const struct page *p, struct tidetrace_result *r, const char *rows,
                  struct err *e);

/* As page_make, if only the rows [begin, end) of the result are in that list. */
json_t *page_make_part(const struct page *p, struct tidetrace_result *r, const char *rows,
                       uint64_t begin, uint64_t end, struct err *e);

/* Adds to a document the first `keep` of the result's rows [begin, end), the list `rows`. */
int page_add(json_t *document, struct tidetrace_result *r, const char *rows, uint64_t begin,
             uint64_t end, size_t keep, struct err *e);

/* The page of a list `rows` of the document that does not hold the result's rows. */
json_t *page_make_other(const struct page *p, struct tidetrace_result *r, const char *rows,
                        struct err *e);

/*
 * Sets the document's rows to those of the list from `first` on; the list, to which the caller
 * keeps his reference, has all of them.
 */
int page_take_rows(const struct page *p, json_t *document, const char *rows, json_t *all,
                   struct err *e);

/*
 * Cuts a document of the functions above to the bytes that an answer may have. If it has rows,
 * its member "page" gets "first", "count", "total", "more" (the number of rows after this
 * page) and "next_cursor" (null at the end).
 */
int page_fit(const struct page *p, json_t *document, struct err *e);
