#ifndef TIDEMARK_CLIENT_GOT_H
#define TIDEMARK_CLIENT_GOT_H

/*
 * The hooks in a process that runs already (tidemark run --pid): nothing can be put before the C
 * library's functions any more, so the places where modules keep their addresses are changed. A
 * place is changed only if it holds the function's address now, or its module's own stub, which
 * looks it up at the first call.
 */

#include <stdbool.h>

/* Changes the places of all modules that are there; for those that came since, again. */
void got_hook(bool mappings);

/* Puts back what was there, unless somebody else changed it since. */
void got_restore(void);

#endif
