#pragma once

/*
 * Messages between a session and the daemon that began it, over a channel, sent and received at the
 * session's ticks. All answers have a bounded size. Sweeps of the store take at most a fifth of the
 * session's time: a question that comes too soon gets the last answer again. Counters and history
 * cover the whole capture; sites and tree cover the current part. One sweep makes both, so that
 * their figures agree. The data of the report's page come from a forked child,
 * which has a copy-on-write view of the store; meanwhile the session goes on.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "server/capture/channel.h"
#include "server/capture/memory_limit.h"
#include "server/capture/part_saver.h"
#include "server/capture/session.h"
#include "server/capture/usage_record.h"
#include "server/net/connect_client.h"
#include "trace/store/store.h"

enum monitor_message {
    MONITOR_HELLO = 1, /* session: JSON, the client and the path of its trace */
    MONITOR_ASK,       /* daemon: the name of a question */
    MONITOR_ANSWER,    /* session: JSON; at the end also unasked counters (reference 0) */
    MONITOR_NONE,      /* session: no answer; text: the reason */
    MONITOR_LIMIT,     /* daemon: the session's memory bound in bytes, in digits; 0: none */
    MONITOR_TURN,      /* daemon: save the current part and begin the next one */
    MONITOR_END,       /* session: JSON, how it ended; its last message */
    MONITOR_SAVED,     /* session: JSON, a complete trace: trace, bytes, last */
};

enum monitor_question {
    MONITOR_COUNTERS,
    MONITOR_HISTORY,
    MONITOR_SITES,
    MONITOR_TREE,
    MONITOR_MEMORY, /* sites and tree in one document, with the client's time */
    MONITOR_REPORT, /* the data of the report's page (report/html/html.h), of the current part */
};
#define MONITOR_QUESTIONS 6

/* Parses "counters", "history", … Returns false when the text names no question. */
bool monitor_question_parse(const char *text, size_t len, enum monitor_question *q);
const char *monitor_question_name(enum monitor_question q);

#define MONITOR_NEVER_BEGAN (-1)

/* How a session ended. Its exit status is that of `tidemark capture`. */
struct monitor_end {
    int end;      /* enum session_end; MONITOR_NEVER_BEGAN: it did not connect */
    bool refused; /* the client cannot be captured at all */
    bool saved;   /* its trace was saved, as far as there was room for it */
};

struct monitor_answer {
    char *text; /* NULL: none yet */
    size_t len;
};

/* Zero-initialise, but for `fd`. */
struct live_page {
    struct part_saver child;
    int fd;                /* what the child writes; -1: none runs */
    VEC(uint64_t) waiting; /* references of the questions that its answer is for */
    long long began, next; /* of this one, and the earliest of the next; monotonic ns */
};

struct monitor {
    struct channel channel;
    struct usage_record usage;
    struct monitor_answer sites, tree; /* of the last sweep */
    struct live_page page;
    int64_t look_time;   /* the client's clock, in nanoseconds */
    long long next_look; /* monotonic ns */
    bool turn;           /* the daemon asked for a next part; the session clears this */
    bool told;           /* how the session ended was sent */
};

/* Takes over `fd`, the session's end of a channel_pair; -1: no daemon watches. */
void monitor_init(struct monitor *m, int fd);
void monitor_release(struct monitor *m);

/* Sends the client's identity and the path of its trace. */
void monitor_hello(struct monitor *m, const struct connection *c, const char *output);

/*
 * Sends how the session ended, and waits a moment for a slow daemon to receive it. A second call
 * does nothing.
 */
void monitor_tell_end(struct monitor *m, const struct monitor_end *end);

/* Parses that message for the daemon. False when it is invalid. */
bool monitor_end_parse(const struct channel_message *m, struct monitor_end *end);

/* Reports a trace saved at `path`. `last`: the capture does not go on. */
void monitor_saved(struct monitor *m, const char *path, uint64_t bytes, bool last);

/*
 * Call it about ten times a second, while no data is being added to the store. Changes `limit` on
 * the daemon's request. The last counters are sent unasked, since a client may have ended after the
 * last question.
 */
void monitor_tick(struct monitor *m, struct trace *t, const struct session_progress *p,
                  struct memory_limit *limit);

/* ---- live_page.c */

/* Answers the question `reference` later. False: memory is short. */
bool live_page_ask(struct live_page *p, uint64_t reference);

/*
 * Answers what can be answered, over `c`, and starts a child if questions wait. Children run half
 * of the time at most. `time`: the client's clock, in nanoseconds.
 */
void live_page_turn(struct live_page *p, struct channel *c, struct trace *t,
                    const struct memory_limit *limit, int64_t time);
void live_page_release(struct live_page *p);
