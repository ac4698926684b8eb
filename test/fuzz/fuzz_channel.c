/*
 * What a session is told over its channel, and what it answers: the bytes go to one end in pieces,
 * the session looks at them from its ticks, and whatever comes back must be whole messages whose
 * text is JSON, if it says so.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "base/json_reader.h"
#include "server/capture/monitor.h"
#include "trace/store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PIECE_MAX 4096u

static void check_answers(struct channel *daemon)
{
    struct channel_message m;
    (void)channel_pump(daemon);
    while (channel_next(daemon, &m)) {
        if (m.type != MONITOR_ANSWER && m.type != MONITOR_NONE)
            abort();
        json_t *said;
        (void)json_read((struct view){m.text, m.len}, false, &said);
        if ((m.type == MONITOR_ANSWER) != (said != NULL))
            abort();
        json_decref(said);
    }
}

static void talk(struct monitor *m, struct channel *daemon, struct trace *t, const uint8_t *data,
                 size_t size)
{
    struct memory_limit limit = memory_limit_of(0, TRACE_BUDGET);
    const struct session_progress progress = {.seconds = 1};
    while (size && m->channel.fd >= 0) {
        size_t n = 1 + (size_t)data[0] * 16;
        n = n < size ? n : size;
        if (n > PIECE_MAX)
            n = PIECE_MAX;
        if (write(daemon->fd, data, n) != (ssize_t)n)
            break;
        data += n;
        size -= n;
        monitor_tick(m, t, &progress, &limit);
        check_answers(daemon);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct channel daemon, session;
    struct err e = {0};
    struct trace t;
    struct monitor m;
    if (size > (64u << 10) || channel_pair(&daemon, &session, &e) != 0)
        return 0;
    monitor_init(&m, session.fd);
    if (trace_init(&t, NULL, &e) == 0) {
        talk(&m, &daemon, &t, data, size);
        trace_release(&t);
    }
    monitor_release(&m);
    channel_release(&daemon);
    return 0;
}
