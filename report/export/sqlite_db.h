#pragma once

/*
 * Exports the tables of a trace (analysis/tables/tables.h) to an SQLite database. Indices and views
 * are created after all rows. man/tidemark-export.1 has the columns, views and example queries.
 *
 * SQLite's integers are signed: an address of 2^63 or more is negative (two's complement), a count
 * of 2^63 or more becomes 2^63 - 1. Texts are well-formed UTF-8; invalid and zero bytes become
 * U+FFFD.
 */

#include "analysis/tables/tables.h"
#include "base/err.h"
#include "report/write/progress.h"

struct sqlite_db;

/* Opens a database in the empty regular file `fd`, which stays the caller's. */
struct sqlite_db *sqlite_db_open(int fd, struct err *e);

struct table_sink sqlite_db_sink(struct sqlite_db *d);

/* Creates indices, of which `p` goes on to show the progress, and views, and writes the rest. */
int sqlite_db_finish(struct sqlite_db *d, struct progress *p, struct err *e);

/* Closes the database. Without sqlite_db_finish the file is no valid database. */
void sqlite_db_free(struct sqlite_db *d);
