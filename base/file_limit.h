#ifndef TIDEMARK_BASE_FILE_LIMIT_H
#define TIDEMARK_BASE_FILE_LIMIT_H

/*
 * Raises this process's limit on open descriptors. Programs that it starts get the old limit back:
 * some iterate over all possible descriptors, or handle no more than 1024. Zero-initialise.
 */

#include <stdint.h>

struct file_limit {
    uint64_t before; /* the old soft limit; 0: unchanged */
};

/*
 * Raises the soft limit to `wanted`, or as far as the hard limit allows. Returns the soft limit now
 * in force.
 */
uint64_t file_limit_raise(struct file_limit *l, uint64_t wanted);

/* Restores the old soft limit; called in a new process. */
void file_limit_restore(const struct file_limit *l);

#endif
