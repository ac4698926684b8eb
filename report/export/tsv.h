#ifndef TIDEMARK_REPORT_EXPORT_TSV_H
#define TIDEMARK_REPORT_EXPORT_TSV_H

/*
 * Tab-separated values as PostgreSQL's COPY and ClickHouse's TabSeparated read them: \N is no
 * value; \b \f \n \r \t \v \\ and \xNN replace bytes that would break it, and other control
 * characters. Texts are well-formed UTF-8, with U+FFFD for invalid bytes. For report/ only.
 */

#include "analysis/tables/tables.h"
#include "base/buf.h"
#include "report/write/emit.h"

enum tsv_addresses { TSV_ADDRESSES_HEXADECIMAL, TSV_ADDRESSES_DECIMAL };

/* Appends a value, without a flush. `scratch` is a buffer for texts. */
void tsv_cell(struct emit *w, enum cell_type type, const struct cell *c,
              enum tsv_addresses addresses, struct buf *scratch);

#endif
