#ifndef TIDEMARK_CLIENT_EVENTS_H
#define TIDEMARK_CLIENT_EVENTS_H

/*
 * What hooks say has happened. All keep errno, and do nothing when this process does not record.
 * A free is said before the real call, an allocation after it.
 */

#include <stddef.h>

#include "client/state.h"

void event_alloc(const void *address, size_t size, unsigned how, const struct origin *origin);
void event_free(const void *address, unsigned how, const struct origin *origin);

/* The realloc that freed the block failed. */
void event_put_back(const void *address);

/* A child process: REC_FORK or REC_SPAWN. */
void event_child(enum rec_kind kind, pid_t pid, const char *path);

/* dlclose has returned. */
void event_unload(void);

#endif
