#ifndef TIDEMARK_REPORT_EXPORT_TSV_H
#define TIDEMARK_REPORT_EXPORT_TSV_H

/*
 * Values between tabs, as PostgreSQL's COPY and ClickHouse's TabSeparated read them: \N is no
 * value; \b \f \n \r \t \v \\ and \xNN stand for bytes that would break it, and for other
 * control characters. Texts are well-formed UTF-8, with U+FFFD for stray bytes.
 * For report/ only.
 */

#include "analysis/tables/tables.h"
#include "base/buf.h"
#include "report/write/emit.h"

enum tsv_addresses { TSV_ADDRESSES_HEXADECIMAL, TSV_ADDRESSES_DECIMAL };

/* Appends a value; nothing is handed over. `scratch` is for texts. */
void tsv_cell(struct emit *w, enum cell_type type, const struct cell *c,
              enum tsv_addresses addresses, struct buf *scratch);

#endif
