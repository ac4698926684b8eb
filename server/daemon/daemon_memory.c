/*
 * One memory bound for all sessions. Each gets at least DAEMON_SESSION_LEAST, and one such share
 * stays reserved for the next client. Of the rest each first gets what it holds already, since it
 * would have to end without that; the remainder is divided by receive rate.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/monotonic.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_limits.h"

#define DIVIDE_NS 1000000000LL
#define ROOM(HELD) ((HELD) / 3 * 4 + ((uint64_t)16 << 20))
#define IDLE_RATE 1e6 /* bytes per second: an idle client may become busy */

struct share {
    struct capture *one;
    uint64_t held; /* including working room, beyond DAEMON_SESSION_LEAST */
    double rate;
    uint64_t bytes;
};

static struct share share_of(struct capture *one)
{
    struct share s = {.one = one, .rate = IDLE_RATE};
    const json_t *held = json_object_get(one->counters, "resident_bytes");
    double rate = json_number_value(json_object_get(one->counters, "bytes_per_second"));
    json_int_t bytes = json_integer_value(held);
    /* The session reports these; accept them only within bounds. */
    if (rate > 0 && rate < 1e12)
        s.rate += rate;
    if (bytes > 0 && bytes < INT64_MAX / 2 && ROOM((uint64_t)bytes) > DAEMON_SESSION_LEAST)
        s.held = ROOM((uint64_t)bytes) - DAEMON_SESSION_LEAST;
    return s;
}

static void divide(struct share *shares, size_t n, uint64_t spare)
{
    double held = 0, rate = 0;
    for (size_t i = 0; i < n; i++) {
        held += (double)shares[i].held;
        rate += shares[i].rate;
    }
    double part = held > (double)spare ? (double)spare / held : 1;
    double left = held > (double)spare ? 0 : (double)spare - held;
    for (size_t i = 0; i < n; i++)
        shares[i].bytes = DAEMON_SESSION_LEAST + (uint64_t)((double)shares[i].held * part) +
                          (uint64_t)(left * (shares[i].rate / rate));
}

static void tell(const struct share *s)
{
    char digits[24];
    uint64_t told = s->one->told_limit;
    uint64_t change = s->bytes > told ? s->bytes - told : told - s->bytes;
    if (change < told / 32)
        return;
    snprintf(digits, sizeof digits, "%" PRIu64, s->bytes);
    if (channel_send(&s->one->channel, MONITOR_LIMIT, 0, digits, strlen(digits)) == 0)
        s->one->told_limit = s->bytes;
}

void daemon_divide_memory(struct daemon *d)
{
    long long now = monotonic_ns();
    size_t n = 0;
    if (!d->memory || now - d->divided < DIVIDE_NS)
        return;
    d->divided = now;
    struct share *shares = calloc(d->captures.list.len + 1, sizeof *shares);
    if (!shares)
        return; /* the previous shares stay valid */
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (d->captures.list.at[i]->state == CAPTURE_RUNNING)
            shares[n++] = share_of(d->captures.list.at[i]);
    }
    uint64_t sure = DAEMON_SESSION_LEAST * (n + (n < d->max_clients));
    if (n)
        divide(shares, n, d->memory > sure ? d->memory - sure : 0);
    for (size_t i = 0; i < n; i++)
        tell(&shares[i]);
    free(shares);
}
