#ifndef TIDEMARK_BASE_OUTFILE_LEFT_H
#define TIDEMARK_BASE_OUTFILE_LEFT_H

/*
 * What a killed process left of an output where file systems have no files without names
 * (base/outfile.h): ".tidemark-XXXXXX".
 */

/*
 * Removes those of a folder that nobody writes: regular files of our own with such a name, which
 * nobody has locked, as their writers do, and nobody has changed for an hour. Where there are no
 * locks none is removed. Gives how many were.
 */
unsigned outfile_remove_left(const char *folder);

#endif
