#ifndef TIDEMARK_RUN_RUN_LISTEN_H
#define TIDEMARK_RUN_RUN_LISTEN_H

/*
 * `tidemark run --listen`: what a program does is offered to servers of Tracy's protocol while it
 * runs, as if the program had been built with Tracy. The program itself knows nothing of it: its
 * recording is merged as ever, and what goes into the trace goes into a stream of frames, too
 * (protocol/client_stream.h), which servers get from its beginning (run/offer.h).
 *
 * A server's questions are answered here. Names of functions come from the helper process; where
 * there is none, frames get image and offset, as from clients that are built to resolve offline.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "protocol/client_stream.h"
#include "run/collector.h"
#include "run/offer.h"
#include "run/run_options.h"
#include "run/run_record.h"
#include "run/run_trace.h"

/* A thread that was asked about while nobody knows what it will be called. */
struct thread_asked {
    uint64_t id;
    uint64_t since; /* ns */
};

struct run_listen {
    const struct run_options *options;
    struct run_traces *traces;
    bool child;          /* of the program: nothing is printed of where it listens */
    struct offer *offer; /* NULL: not wanted, or it failed */
    bool moved;          /* since this was last reset: it listens somewhere else */
    /* the program that is offered */
    const struct collected *collected; /* NULL: none yet */
    struct run_record *record;
    const struct recording *recording; /* NULL once it was read to its end */
    struct client_stream *stream;
    struct event_sink next; /* where its events go besides */
    struct map names;       /* client pointers → string numbers of its trace */
    struct map threads;     /* thread ids → the same, once it has ended */
    size_t told;            /* of its trace's application info */
    bool ended;
    uint64_t committed; /* ns */
    /* of the server that is there */
    VEC(struct thread_asked) threads_asked;
    VEC(uint64_t) frames_asked;
    VEC(uint64_t) symbols_asked;
    VEC(uint64_t) code_asked;
    uint64_t resolved; /* ns; when names may be looked for again */
};

/*
 * Makes the stream, unless it is not wanted. A child's is offered at another port than the options
 * name. No server can connect before run_listen_start.
 */
int run_listen_open(struct run_listen *l, const struct run_options *options,
                    struct run_traces *traces, const char *spool, bool child, struct err *e);
int run_listen_start(struct run_listen *l, struct err *e);

/* "127.0.0.1:8086"; NULL when it does not listen. */
const char *run_listen_address(const struct run_listen *l);
void run_listen_close(struct run_listen *l); /* no server can connect any more */
void run_listen_release(struct run_listen *l);

/* A program's recording begins to be read, or was read to its end. What goes wrong is said. */
void run_listen_begin(struct run_listen *l, const struct collected *c,
                      const struct recording *recording, struct run_record *r);
void run_listen_end(struct run_listen *l, const struct run_record *r);

/* What to wait for: OFFER_POLLS at most. And then what there is to do. */
size_t run_listen_poll(const struct run_listen *l, struct pollfd *fds);
void run_listen_step(struct run_listen *l);

/* Whether a server is to be waited for, or waits, now that the program has ended. */
bool run_listen_is_busy(const struct run_listen *l);

#endif
