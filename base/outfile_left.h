#ifndef TIDEMARK_BASE_OUTFILE_LEFT_H
#define TIDEMARK_BASE_OUTFILE_LEFT_H

/*
 * Leftovers of killed writers on file systems without unnamed files (base/outfile.h): files named
 * ".tidemark-XXXXXX".
 */

/*
 * Removes the leftovers in a folder: regular files with such a name that this user owns, that no
 * writer has locked, and that have not changed for an hour. Removes none on file systems without
 * locks. Returns how many were removed.
 */
unsigned outfile_remove_left(const char *folder);

#endif
