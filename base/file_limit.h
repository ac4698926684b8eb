#ifndef TIDEMARK_BASE_FILE_LIMIT_H
#define TIDEMARK_BASE_FILE_LIMIT_H

/*
 * How many descriptors a process may have: raised for itself, and not for the programs that it
 * starts, some of which look through all that there may be, or know no more than 1024.
 * Zero-initialise.
 */

#include <stdint.h>

struct file_limit {
    uint64_t before; /* the soft bound; 0: it was not changed */
};

/* Raises the soft bound to `wanted`, or as far as the hard one allows. Gives what it is now. */
uint64_t file_limit_raise(struct file_limit *l, uint64_t wanted);

/* For a new process: as it was before. */
void file_limit_restore(const struct file_limit *l);

#endif
