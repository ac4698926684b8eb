#pragma once

/*
 * SQL for the fleet tables (analysis/tables/fleet.h) in ClickHouse, in the dialect common since
 * version 18.16. Each table begins with a column `day` and is partitioned by its month. The engine
 * replaces rows of equal (trace, row), so a trace sent twice is stored once, at the latest in
 * queries with FINAL.
 *
 * Source of types and escapes: the manual of ClickHouse, "MergeTree", "ReplacingMergeTree",
 * "TabSeparated"; tested with 18.16.1.
 */

#include "analysis/tables/fleet.h"
#include "base/buf.h"

/* Whether a text is a valid name: letters, digits and "_", not beginning with a digit. */
bool fleet_sql_is_name(const char *text);

/* Appends the statement that creates a table if it is missing; no semicolon. */
void fleet_sql_definition(struct buf *out, const char *database, unsigned table);

/* Appends the statement that precedes rows (fleet_sql_row). */
void fleet_sql_insert(struct buf *out, const char *database, unsigned table);

/* Appends a row as a line of TabSeparated. `scratch` is a buffer for texts. */
void fleet_sql_row(struct buf *out, const char *day, unsigned table, const struct cell *cells,
                   struct buf *scratch);
