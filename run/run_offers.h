#pragma once

/*
 * The programs of one `tidemark run --listen` as clients of Tracy's protocol: the program itself,
 * and with --follow-fork each child that gets its own trace, at its own port. When a child ends,
 * the data for answers to a connected server is kept until that disconnects.
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/vec.h"
#include "run/run_listen.h"

/* A child. While it lives, its owner holds record and collected, which are NULL here. */
struct run_offered {
    struct run_listen *listen;
    struct run_record *record;
    struct collected *collected;
    bool keep; /* keep its recording */
};

struct run_offers {
    const struct run_options *options;
    struct run_traces *traces;
    const char *spool;
    struct run_listen root;
    VEC(struct run_offered) children;
    VEC(struct pollfd) polls;
};

/*
 * Makes the program's stream if it is to be offered; servers can connect after run_offers_start.
 */
int run_offers_open(struct run_offers *o, const struct run_options *options,
                    struct run_traces *traces, const char *spool, struct err *e);
int run_offers_start(struct run_offers *o, struct err *e);

/*
 * Adds a child, which is offered from now on. NULL if children are not offered, or a port or memory
 * is lacking. Prints nothing, since standard error is the program's; the child is announced as
 * clients are.
 */
struct run_listen *run_offers_add(struct run_offers *o);

/*
 * The child has ended and was read to its end, or cannot be read: record and collected are freed
 * once no server needs them. `keep`: its recording stays on disk.
 */
void run_offers_leave(struct run_offers *o, struct run_listen *listen, struct run_record *record,
                      struct collected *collected, bool keep);

/* Like poll(): waits for events of the offers or of the `n` others. */
void run_offers_wait(struct run_offers *o, const struct pollfd *others, size_t n, int timeout);

/* Handles pending events. */
void run_offers_step(struct run_offers *o);

/* Stops accepting servers, which frees the ports for other programs. */
void run_offers_close(struct run_offers *o);

/* After the program's end: whether to wait for a server, or for one that is still connected. */
bool run_offers_is_busy(const struct run_offers *o);

/* Call it after the records of live children were released. */
void run_offers_release(struct run_offers *o);
