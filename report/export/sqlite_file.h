#pragma once

/*
 * An SQLite VFS for a database in an open file that may be unnamed (base/outfile.h). By itself,
 * SQLite opens a database by name and creates files beside it. No other process may open the file,
 * and an unfinished database is discarded, so there are no locks and no journal. For report/ only.
 */

#include <sqlite3.h>

#include "base/err.h"

struct sqlite_file {
    sqlite3_vfs vfs;
    char name[40]; /* of the vfs; unique per file */
    int fd;
    sqlite3_vfs *real; /* for SQLite's temporary files */
};

/*
 * Opens the empty file `fd`, which stays the caller's, as a database. `f` must not move until
 * sqlite_file_close.
 */
int sqlite_file_open(struct sqlite_file *f, int fd, sqlite3 **db, struct err *e);

/* Sets the error of `db`, or of an allocation if it is NULL. Returns -1. */
int sqlite_file_failed(sqlite3 *db, struct err *e);

/* Closes the database; `db` may be NULL. */
int sqlite_file_close(struct sqlite_file *f, sqlite3 *db, struct err *e);
