#ifndef TIDEMARK_RUN_RUN_OFFERS_H
#define TIDEMARK_RUN_RUN_OFFERS_H

/*
 * The programs of one `tidemark run --listen` as clients of Tracy's protocol: the program itself,
 * and with --follow-fork each child that gets a trace of its own, at a port of its own. A server
 * that is at a child when that ends is answered to the end, so what it may ask about stays until
 * then.
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/vec.h"
#include "run/run_listen.h"

/* A child; while it lives, record and collected are its owner's, and NULL here. */
struct run_offered {
    struct run_listen *listen;
    struct run_record *record;
    struct collected *collected;
    bool keep; /* its recording */
};

struct run_offers {
    const struct run_options *options;
    struct run_traces *traces;
    const char *spool;
    struct run_listen root;
    VEC(struct run_offered) children;
    VEC(struct pollfd) polls;
};

/* The program's stream, unless it is not wanted; servers can connect behind run_offers_start. */
int run_offers_open(struct run_offers *o, const struct run_options *options,
                    struct run_traces *traces, const char *spool, struct err *e);
int run_offers_start(struct run_offers *o, struct err *e);

/*
 * A child, which is offered from now on; NULL: it is not, for want of the wish, a port or memory.
 * Nothing is said, as standard error is the program's: it announces itself as clients do.
 */
struct run_listen *run_offers_add(struct run_offers *o);

/*
 * The child has ended, and was read to its end, or it is of no use: both are freed once no server
 * needs them. `keep`: its recording stays on the disk.
 */
void run_offers_leave(struct run_offers *o, struct run_listen *listen, struct run_record *record,
                      struct collected *collected, bool keep);

/* Waits, as poll(), for what happens to these or to one of the `n` others. */
void run_offers_wait(struct run_offers *o, const struct pollfd *others, size_t n, int timeout);

/* Does what there is to do. */
void run_offers_step(struct run_offers *o);

/* No server can connect any more; ports are free for other programs. */
void run_offers_close(struct run_offers *o);

/* Whether some server is to be waited for, or waits, now that the program has ended. */
bool run_offers_is_busy(const struct run_offers *o);

/* After whoever else has the records of children that live. */
void run_offers_release(struct run_offers *o);

#endif
