#ifndef TIDEMARK_REPORT_EXPORT_SQLITE_DB_H
#define TIDEMARK_REPORT_EXPORT_SQLITE_DB_H

/*
 * The tables of a trace (analysis/tables/tables.h) as an SQLite database, with indices and views
 * made when all rows are there. man/tidemark-export.1 has the columns, views and worked queries.
 *
 * SQLite's integers are signed: an address from 2^63 on is negative (two's complement), a count
 * from there on is 2^63 - 1. Texts are well-formed UTF-8 without zero bytes, U+FFFD in their place.
 */

#include "analysis/tables/tables.h"
#include "base/err.h"

struct sqlite_db;

/* A database in the empty regular file `fd`, which stays the caller's. */
struct sqlite_db *sqlite_db_open(int fd, struct err *e);

struct table_sink sqlite_db_sink(struct sqlite_db *d);

/* Indices, views, and what waits to be written. */
int sqlite_db_finish(struct sqlite_db *d, struct err *e);

/* Closes; what was not finished is no database. */
void sqlite_db_free(struct sqlite_db *d);

#endif
