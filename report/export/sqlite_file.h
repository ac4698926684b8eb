#ifndef TIDEMARK_REPORT_EXPORT_SQLITE_FILE_H
#define TIDEMARK_REPORT_EXPORT_SQLITE_FILE_H

/*
 * A database in a file that is open already and may have no name yet (base/outfile.h), where SQLite
 * would open one by its name and put others beside it. Nobody else may have it open, and a database
 * that is not finished is thrown away: so there are no locks and no journal. For report/ only.
 */

#include <sqlite3.h>

#include "base/err.h"

struct sqlite_file {
    sqlite3_vfs vfs;
    char name[40]; /* of the vfs, a different one for each file */
    int fd;
    sqlite3_vfs *real; /* for SQLite's temporary files */
};

/*
 * Opens the empty file `fd`, which stays the caller's, as a database. `f` must not move until
 * sqlite_file_close.
 */
int sqlite_file_open(struct sqlite_file *f, int fd, sqlite3 **db, struct err *e);

/* Closes the database (may be NULL). */
int sqlite_file_close(struct sqlite_file *f, sqlite3 *db, struct err *e);

#endif
