#ifndef TIDEMARK_CLIENT_API_H
#define TIDEMARK_CLIENT_API_H

#include "client/state.h"

/*
 * A recording begins. In a child of fork its parent's pools keep their numbers, which the program
 * may have kept, so the names are recorded again.
 */
void api_begin(struct thread *t);

/*
 * Zones of the library's own, of the calling thread: `text` says more than the name, NULL: nothing;
 * `stack` is the number of a call stack, 0: none. What is opened is to be closed by the same
 * thread. It is closed only if it is this process's (a child of fork has not its beginning) and no
 * zone that the program opened in it still is: then all of them last to the end.
 */
struct own_zone api_zone_open(const char *name, const char *text, uint32_t stack);
void api_zone_close(const struct own_zone *zone);

#endif
