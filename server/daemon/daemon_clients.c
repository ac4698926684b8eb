/* Discovers clients by announcements and probing, and decides which to capture. */

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/monotonic.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_clients.h"
#include "server/daemon/daemon_events.h"

/* Received, and captures begun, before signals, captures and requests are handled. */
#define ANNOUNCEMENTS_MAX 256u
#define BEGUN_MAX 8u

/* Time after a capture during which its target is not probed, by how the capture ended. */
#define AFTER_SAVED_NS 500000000LL
#define AFTER_FAILED_NS 5000000000LL
#define AFTER_REFUSED_NS 30000000000LL
#define AFTER_SCAN_NS 60000000000LL /* an open port found by a scan may be any service */
#define AFTER_TROUBLE_NS 60000000000LL

/* ---- filters */

static bool address_matches(const struct client_filter *f, const char *address)
{
    uint8_t at[16];
    unsigned whole = f->bits / 8, rest = f->bits % 8;
    if (!f->family)
        return true;
    if (inet_pton(f->family, address, at) != 1 || memcmp(at, f->address, whole) != 0)
        return false;
    return !rest || ((at[whole] ^ f->address[whole]) >> (8 - rest)) == 0;
}

static bool matches(const struct client_filter *f, const struct announcement *a)
{
    const struct broadcast *b = &a->broadcast;
    return b->active_time >= 0 && (!f->name || strstr(b->name, f->name)) &&
           (!f->port || b->port == f->port) && (!f->pid || b->pid == f->pid) &&
           address_matches(f, a->address);
}

/*
 * Whether the next try would most likely fail alike: a full disk can last for days, or the client's
 * bytes could not be decoded. Each try is logged and leaves files.
 */
static bool had_trouble(const struct capture *one)
{
    return one->no_room || one->end.end == SESSION_BROKEN;
}

/*
 * Whether an announced client is to be captured now. An on-demand client announces itself again
 * after its capture. It is captured again if it was lost, but not if a limit or a request ended its
 * capture: that would exceed the limit. If another program has its process id now, it is a new
 * client. After trouble it is retried a minute later.
 */
static bool is_wanted(const struct capture *known)
{
    if (!known || known->state == CAPTURE_RUNNING)
        return !known;
    if (known->replaced)
        return true;
    if (known->state == CAPTURE_REFUSED || captures_left_alone(known))
        return false;
    return !had_trouble(known) || monotonic_ns() - known->ended >= AFTER_TROUBLE_NS;
}

/*
 * Records a sign of life. If the client has run for less time than before, it is another process
 * with the same id. That fact is kept, since the new process may have run for longer than the old
 * one by the time it can be captured. (An active time of -1 means nothing: clients send it when
 * they end, but also when a server connects.)
 */
static void take_sign(struct capture *known, const struct broadcast *b)
{
    known->heard = monotonic_ns();
    known->replaced |= b->active_time >= 0 && b->active_time < known->active_time;
    if (b->active_time > known->active_time)
        known->active_time = b->active_time;
}

/* ---- beginning */

static bool has_room(struct daemon *d)
{
    if (d->disk_full)
        return false;
    if (d->captures.running < d->max_clients) {
        d->full_told = false;
        return true;
    }
    if (!d->full_told)
        daemon_log(
            d, LOG_WARNING, "clients.full", NULL, NULL,
            "%u clients are being captured, further ones must wait (%s)", d->captures.running,
            !d->memory || d->max_clients != d->memory / DAEMON_SESSION_LEAST ? "--max-clients"
            : d->memory_given                                                ? "--memory-limit"
                              : "the memory limit of the control group");
    d->full_told = true;
    return false;
}

static struct capture *begin(struct daemon *d, const struct announcement *a)
{
    struct err e = {0};
    if (!has_room(d))
        return NULL;
    struct capture *one = captures_begin(&d->captures, a, &e);
    if (!one)
        daemon_log_error(d, &e);
    return one;
}

struct capture *daemon_capture(struct daemon *d, const char *address, uint16_t port, struct err *e)
{
    struct announcement a = {.broadcast = {.port = port}};
    struct capture *one = NULL;
    snprintf(a.address, sizeof a.address, "%s", address);
    const struct capture *known = captures_find(&d->captures, &a);
    if (known && known->state == CAPTURE_RUNNING)
        err_set(e, ERR_USAGE, "it is being captured");
    else if (!has_room(d))
        err_set(e, ERR_USAGE, "no more clients can be captured now");
    else
        one = captures_begin(&d->captures, &a, e);
    return one;
}

static void consider(struct daemon *d, const struct announcement *a)
{
    struct capture *known = captures_find(&d->captures, a);
    if (known)
        take_sign(known, &a->broadcast);
    if (matches(&d->filter, a) && is_wanted(known))
        (void)begin(d, a);
}

/* ---- targets */

/* The target's port is closed now: a client found there later is a new one. */
static void consider_gone(struct daemon *d, uint32_t target)
{
    for (size_t i = 0; i < d->captures.list.len; i++) {
        struct capture *one = d->captures.list.at[i];
        if (one->target == target && one->state != CAPTURE_RUNNING)
            one->gone = true;
    }
}

/* The target's port is open. */
static void consider_found(struct daemon *d, const struct probe_found *found)
{
    struct announcement a = {.broadcast = {.port = d->targets.at[found->target].port}};
    snprintf(a.address, sizeof a.address, "%s", found->address);
    struct capture *known = captures_find(&d->captures, &a);
    bool runs = known && known->state == CAPTURE_RUNNING;
    if (d->prober.asked[found->target] == PROBE_NOT) /* found before, under another address */
        return;
    if (!runs && (!address_matches(&d->filter, a.address) ||
                  (d->filter.port && d->filter.port != a.broadcast.port)))
        return;
    bool rests = known && captures_left_alone(known);
    struct capture *one = runs || rests ? known : begin(d, &a);
    if (!one)
        return;
    one->target = found->target;
    d->prober.asked[found->target] = rests ? PROBE_WATCH : PROBE_NOT;
}

/* Whether its target need not be probed yet: the capture runs, or ended a moment ago. */
static bool is_early(const struct daemon *d, const struct capture *one, long long now)
{
    long long pause = AFTER_SAVED_NS;
    if (one->state == CAPTURE_RUNNING)
        return true;
    if (one->state == CAPTURE_REFUSED)
        pause = AFTER_REFUSED_NS;
    else if (had_trouble(one))
        pause = AFTER_TROUBLE_NS;
    else if (one->state == CAPTURE_FAILED)
        pause = one->target >= d->scanned ? AFTER_SCAN_NS : AFTER_FAILED_NS;
    return now - one->ended < pause;
}

void daemon_mark_busy(struct daemon *d)
{
    long long now = monotonic_ns();
    if (!d->prober.asked)
        return;
    for (unsigned i = 0; i < d->prober.count; i++)
        d->prober.asked[i] = PROBE_FIND;
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        if (one->target >= d->prober.count || one->superseded)
            continue;
        if (is_early(d, one, now))
            d->prober.asked[one->target] = PROBE_NOT;
        else if (captures_left_alone(one) && d->prober.asked[one->target] == PROBE_FIND)
            d->prober.asked[one->target] = PROBE_WATCH;
    }
}

int daemon_look(struct daemon *d, struct err *e)
{
    if (d->targets.len == 0)
        return 0;
    return prober_start(&d->prober, d->targets.at, (unsigned)d->targets.len, &d->jobs.files, e);
}

static void take_found(struct daemon *d)
{
    struct probe_found found;
    struct err e = {0};
    bool gone;
    while (prober_next(&d->prober, &found, &gone)) {
        if (found.gone)
            consider_gone(d, found.target);
        else
            consider_found(d, &found);
    }
    if (!gone)
        return;
    daemon_log(d, LOG_WARNING, "prober.died", NULL, NULL,
               "the process that looks for clients died; starting another");
    prober_release(&d->prober);
    if (daemon_look(d, &e) != 0)
        daemon_log_error(d, &e);
}

void daemon_take_clients(struct daemon *d)
{
    struct announcement a;
    unsigned before = d->captures.running;
    for (unsigned i = 0; i < ANNOUNCEMENTS_MAX && d->captures.running < before + BEGUN_MAX; i++) {
        if (!discovery_next(d->socket, d->filter.local, &a))
            break;
        consider(d, &a);
    }
    if (d->prober.fd >= 0)
        take_found(d);
}
