#pragma once

/*
 * The data block of a page while it is written: JSON that is safe within an HTML element, and the
 * page's list of texts, to which tables refer by number.
 */

#include <stdint.h>
#include <stdio.h>

#include "analysis/names/frames.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/view.h"

/* Zero-initialise. A failed `out` means that memory was short. */
struct html_json {
    struct buf out;
    struct buf strings; /* the list of texts, in JSON */
    struct buf shorts;  /* of functions with long names: "number":"short name", in JSON */
    uint32_t string_count;
    struct map string_numbers; /* address of a text → number */
    struct buf scratch;
};

void html_json_release(struct html_json *p);

/* Appends a text to `out`, escaped as for a terminal and cut at PAGE_STRING_MAX. */
void html_put_text(struct html_json *p, struct buf *out, struct view text);

/* Appends "name":"text" and a comma. */
void html_put_member(struct html_json *p, const char *name, struct view text);

/* Appends "name": and the lines of a text as a list, and a comma. */
void html_put_lines(struct html_json *p, const char *name, struct view text);

/* Closes a list whose items each end with a comma. */
void html_end_list(struct buf *out, const char *end);

/* The number of a text in the page's list; 0 is the empty text. The text must stay valid. */
uint32_t html_string_number(struct html_json *p, struct view text);

/* Appends [function, file, line, image, address, inline] and a comma; texts are numbers. */
void html_put_frame(struct html_json *p, const struct frame_view *f);

/*
 * Ends the tables, which `out` holds as the beginning of an object, with the list of texts, packs
 * them, and begins the page's object with its schema and them.
 */
int html_put_tables(struct html_json *p, const char *schema, struct err *e);

/* Writes the page with that data, and sets *written to its bytes. ERR_OUTPUT: it cannot. */
int html_json_write(const struct html_json *p, FILE *out, size_t *written, struct err *e);
