#ifndef TIDEMARK_MCP_RESULT_CURSOR_H
#define TIDEMARK_MCP_RESULT_CURSOR_H

/*
 * A part of a result that fits into an answer: rows from a place on, until there are enough of them
 * or of bytes. A cursor says which question it goes on with and where; one of another question, or
 * of a file that changed since, is refused.
 */

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "include/tidetrace.h"

#define PAGE_BYTES (256u << 10) /* no row is added beyond these */
#define PAGE_TEXT_MAX 2000u     /* bytes of a text; what is longer is cut */

struct page {
    uint64_t question; /* a hash of what was asked, of which files */
    uint64_t first, limit;
    size_t frames; /* of a call stack; those further out are left out, and counted */
};

/* ERR_USAGE when the cursor belongs to another question. */
int page_take(struct page *p, const json_t *arguments, uint64_t question, struct err *e);

/*
 * The document of the result with a page of its rows, which are the list `rows` in it; NULL: it has
 * none. A member "page" tells what it holds: "first", "count", "total" and "next_cursor", null at
 * the end. NULL with `e` filled.
 */
json_t *page_make(const struct page *p, struct tidetrace_result *r, const char *rows,
                  struct err *e);

/* The same where only the rows [begin, end) of the result are in that list. */
json_t *page_make_part(const struct page *p, struct tidetrace_result *r, const char *rows,
                       uint64_t begin, uint64_t end, struct err *e);

/*
 * Puts the first `keep` of the result's rows [begin, end), which are the list `rows`, beside the
 * page into a document, and says how many are gone ("ROWS_left_out").
 */
int page_add(const struct page *p, json_t *document, struct tidetrace_result *r, const char *rows,
             uint64_t begin, uint64_t end, size_t keep, struct err *e);

/* The page of a list `rows` of the document that is not the result's own. */
json_t *page_make_other(const struct page *p, struct tidetrace_result *r, const char *rows,
                        struct err *e);

/*
 * Leaves `keep` elements of a list in the document, and says how many are gone ("KEY_left_out").
 * False when memory is short.
 */
bool page_cut(const struct page *p, json_t *document, const char *key, size_t keep);

#endif
