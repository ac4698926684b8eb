#pragma once

/*
 * Tab-separated values as PostgreSQL's COPY and ClickHouse's TabSeparated read them: \N is no
 * value; \b \f \n \r \t \v \\ and \xNN replace bytes that would break it, and other control
 * characters. Texts are well-formed UTF-8, with U+FFFD for invalid bytes. For report/ only.
 */

#include "analysis/tables/tables.h"
#include "base/buf.h"
#include "report/write/emit.h"

/* How the cells of a text format are written. */
struct cell_form {
    const char *none, *truth[2];
    const char *quote; /* around addresses */
    bool is_decimal;   /* addresses are */
    bool is_json;      /* texts are strings of JSON; else as above */
};

/* cell_form_copy: for a database, whose columns of addresses are numbers. */
extern const struct cell_form cell_form_tsv, cell_form_copy, cell_form_json;

/* Appends a value, without a flush. `scratch` is a buffer for texts. */
void cell_put(struct emit *w, const struct cell_form *form, enum cell_type type,
              const struct cell *c, struct buf *scratch);
