#ifndef TIDEMARK_CLIENT_HOOKS_H
#define TIDEMARK_CLIENT_HOOKS_H

/* What all hooks share. */

#define HOOK __attribute__((visibility("default"), noinline))

/* Makes the real functions known, at the first call of any hook. */
void hooks_prepare(void);

/* The program exits: waits a little until its Tracy client, if it has one, has a server. */
void hooks_await_client(void);

/* The C library declares no cfree any more. */
void cfree(void *address);

#endif
