#pragma once

/*
 * `tidemark run --listen`: offers a program's recording to servers of Tracy's protocol while it
 * runs, as if the program had been built with Tracy. The recording is merged as usual, and each
 * event of the trace also goes into a stream of frames (protocol/client_stream.h), which servers
 * receive from its beginning (run/offer.h).
 *
 * Servers' queries are answered here. The helper process resolves names of functions; without it,
 * frames get image and offset, as from clients built for offline resolution.
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

/* A name query for a thread whose final name is not known yet. */
struct thread_asked {
    uint64_t id;
    uint64_t since; /* ns */
};

struct run_listen {
    const struct run_options *options;
    struct run_traces *traces;
    bool child;          /* a child of the program: its address is not printed */
    struct offer *offer; /* NULL: not wanted, or failed */
    bool moved;          /* it moved to another address since the caller reset this */
    /* the offered program */
    const struct collected *collected; /* NULL: none yet */
    struct run_record *record;
    const struct recording *recording; /* NULL after it was read to its end */
    struct client_stream *stream;
    struct event_sink next; /* receives its events, too */
    struct map names;       /* client pointers → string numbers of its trace */
    struct map threads;     /* ids of ended threads → string numbers */
    size_t told;            /* entries of the trace's application info that were sent */
    bool ended;
    uint64_t committed; /* ns */
    /* queries of the connected server */
    VEC(struct thread_asked) threads_asked;
    VEC(uint64_t) frames_asked;
    VEC(uint64_t) symbols_asked;
    VEC(uint64_t) code_asked;
    uint64_t resolved; /* ns; earliest time of the next name look-up */
};

/*
 * Makes the stream, unless it is not wanted. A child's stream does not use the port in the options.
 * Servers can connect only after run_listen_start.
 */
int run_listen_open(struct run_listen *l, const struct run_options *options,
                    struct run_traces *traces, const char *spool, bool child, struct err *e);
int run_listen_start(struct run_listen *l, struct err *e);

/* "127.0.0.1:8086"; NULL when it does not listen. */
const char *run_listen_address(const struct run_listen *l);
void run_listen_close(struct run_listen *l); /* stops accepting servers */
void run_listen_release(struct run_listen *l);

/*
 * run_listen_begin: a program's recording begins to be read. The next function: it was read to its
 * end. Errors are printed.
 */
void run_listen_begin(struct run_listen *l, const struct collected *c,
                      const struct recording *recording, struct run_record *r);
void run_listen_end(struct run_listen *l, const struct run_record *r);

/* Fills in the descriptors to poll, at most OFFER_POLLS. The next function handles their events. */
size_t run_listen_poll(const struct run_listen *l, struct pollfd *fds);
void run_listen_step(struct run_listen *l);

/* After the program's end: whether to wait for a server, or for one that is still connected. */
bool run_listen_is_busy(const struct run_listen *l);
