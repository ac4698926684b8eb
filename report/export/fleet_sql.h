#ifndef TIDEMARK_REPORT_EXPORT_FLEET_SQL_H
#define TIDEMARK_REPORT_EXPORT_FLEET_SQL_H

/*
 * The tables of a fleet (analysis/tables/fleet.h) for ClickHouse, in the dialect that its versions
 * from 18.16 on share. Each has a column `day` in front, by which months are kept apart. The engine
 * replaces rows of equal (trace, row): a trace that is sent again is there once, at the latest
 * when a query says FINAL.
 *
 * Source of types and escapes: the manual of ClickHouse, "MergeTree", "ReplacingMergeTree",
 * "TabSeparated"; tried on 18.16.1.
 */

#include "analysis/tables/fleet.h"
#include "base/buf.h"

/* Names are letters, digits and "_", and begin with no digit. */
bool fleet_sql_is_name(const char *text);

/* Appends the statement that makes a table where there is none; no semicolon. */
void fleet_sql_definition(struct buf *out, const char *database, unsigned table);

/* Appends the statement that rows (fleet_sql_row) follow. */
void fleet_sql_insert(struct buf *out, const char *database, unsigned table);

/* Appends a row as a line of TabSeparated. `scratch` is for texts. */
void fleet_sql_row(struct buf *out, const char *day, unsigned table, const struct cell *cells,
                   struct buf *scratch);

#endif
