#ifndef TIDEMARK_RUN_PRELOAD_H
#define TIDEMARK_RUN_PRELOAD_H

/*
 * Allocation wrappers that a script preloaded for the program under test, and that leak into the
 * capture beside it: they would slow it down, or hook it as if it were that program.
 */

#include <stdbool.h>
#include <stddef.h>

/* What the environment says once the program was started again without them. */
#define PRELOAD_DROPPED "TIDEMARK_PRELOAD_DROPPED"

/*
 * Copies `list`, the value of LD_PRELOAD, without the entries for which `drop` is true. The result
 * is allocated, NULL when memory is short. `dropped` (may be NULL) is told each entry left out.
 */
char *preload_without(const char *list, bool (*drop)(void *ctx, const char *entry),
                      void (*dropped)(void *ctx, const char *entry), void *ctx);

/* Whether a file's name is that of a known allocation wrapper. */
bool preload_is_known(const char *path);

/*
 * When a known wrapper that exports malloc is preloaded into this process, or a library whose file
 * name contains one of `names`: says so and starts the program again without it, once. Returns when
 * there is nothing to drop or it cannot be done. `subcommand`: argv[0] is the name of a subcommand,
 * not that of the program.
 */
void preload_drop(bool subcommand, char **argv, const char *const *names, size_t n);

#endif
