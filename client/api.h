#pragma once

#include "client/state.h"

/*
 * Call it when a recording begins. In a child of fork pool numbers stay valid, since the program
 * may have stored them, so the names are recorded again.
 */
void api_begin(struct thread *t);

/*
 * Zones of the library, in the calling thread: `text` adds to the name, NULL: nothing; `stack` is
 * the number of a call stack, 0: none. The same thread has to close a zone. It is closed only if
 * this process has recorded its beginning (a child of fork has not) and all zones that the program
 * opened in it are closed; otherwise all of them last to the end.
 */
struct own_zone api_zone_open(const char *name, const char *text, uint32_t stack);
void api_zone_close(const struct own_zone *zone);
