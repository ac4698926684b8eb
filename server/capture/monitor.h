#ifndef TIDEMARK_SERVER_CAPTURE_MONITOR_H
#define TIDEMARK_SERVER_CAPTURE_MONITOR_H

/*
 * What a session tells the daemon that began it, and what it is told: over a channel, from the
 * session's ticks. All that is asked has an answer of bounded size, and what takes long to find out
 * takes a fifth of the session's time at most: asked again too soon, the last answer comes again.
 * Counters and history are of the whole capture, sites and tree of the part at hand. Sites and tree
 * are made in one look at the store, so that the figures of one add up to those of the other.
 */

#include <stdbool.h>
#include <stdint.h>

#include "server/capture/channel.h"
#include "server/capture/memory_limit.h"
#include "server/capture/session.h"
#include "server/capture/usage_record.h"
#include "server/net/connect_client.h"
#include "trace/store/store.h"

enum monitor_message {
    MONITOR_HELLO = 1, /* session: JSON, who the client is and where its trace goes */
    MONITOR_ASK,       /* daemon: the name of a question */
    MONITOR_ANSWER,    /* session: JSON; counters also unasked (reference 0) at the end */
    MONITOR_NONE,      /* session: there is no answer; text: why not */
    MONITOR_LIMIT,     /* daemon: the bytes that the session may hold, in digits; 0: no bound */
    MONITOR_TURN,      /* daemon: save what there is, and go on in a next part */
    MONITOR_END,       /* session: JSON, how it ended; the last that it says */
    MONITOR_SAVED,     /* session: JSON, a trace that is whole: trace, bytes, last */
};

enum monitor_question {
    MONITOR_COUNTERS,
    MONITOR_HISTORY,
    MONITOR_SITES,
    MONITOR_TREE,
    MONITOR_MEMORY, /* sites and tree in one document, with the client's time */
};
#define MONITOR_QUESTIONS 5

/* "counters", "history", … Returns false when the text names no question. */
bool monitor_question_parse(const char *text, size_t len, enum monitor_question *q);
const char *monitor_question_name(enum monitor_question q);

#define MONITOR_NEVER_BEGAN (-1)

/* How a session ended. Its exit status says how well: that of `tidemark capture`. */
struct monitor_end {
    int end;      /* enum session_end; MONITOR_NEVER_BEGAN: no client was connected */
    bool refused; /* the client cannot be captured, now or later */
    bool saved;   /* all of its trace, or what there was room for */
};

struct monitor_answer {
    char *text; /* NULL: none yet */
    size_t len;
};

struct monitor {
    struct channel channel;
    struct usage_record usage;
    struct monitor_answer sites, tree; /* of the last look */
    int64_t look_time;                 /* the client's, in nanoseconds */
    long long next_look;               /* monotonic ns */
    bool turn; /* the session is asked to go on in a next part; it clears this */
};

/* `fd` is the session's end of a channel_pair, which is taken over; -1: nobody watches. */
void monitor_init(struct monitor *m, int fd);
void monitor_release(struct monitor *m);

/* Says who the client is, and which file its trace goes to. */
void monitor_hello(struct monitor *m, const struct connection *c, const char *output);

/* Says how it ended, waiting a moment for a daemon that is slow to hear it. */
void monitor_tell_end(struct monitor *m, const struct monitor_end *end);

/* What that said, for the daemon. False when it makes no sense. */
bool monitor_end_parse(const struct channel_message *m, struct monitor_end *end);

/* Says that a trace is saved there. `last`: the capture does not go on. */
void monitor_saved(struct monitor *m, const char *path, uint64_t bytes, bool last);

/*
 * About ten times a second, when nothing is on its way into the store. `limit` is changed when the
 * daemon says so. The last counters are told unasked: a client may have ended since it was asked.
 */
void monitor_tick(struct monitor *m, struct trace *t, const struct session_progress *p,
                  struct memory_limit *limit);

#endif
