/* Clients that announce themselves or are looked for, and which of them are captured. */

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "cli/daemon.h"
#include "cli/options.h"

#define ANNOUNCEMENTS_MAX 256u /* taken before signals and captures are looked after */

/* How long a target is left alone after a capture of it, by how that ended. */
#define AFTER_SAVED_NS 500000000LL
#define AFTER_FAILED_NS 5000000000LL
#define AFTER_REFUSED_NS 30000000000LL
#define AFTER_SCAN_NS 60000000000LL /* what takes connections there may be anything */
#define AFTER_FULL_NS 60000000000LL /* there was no room on a disk, which was told */

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
 * Whether a client that announces itself is to be captured now. One that was saved announces itself
 * again when it can be captured on demand, or when its process id has gone to another program. One
 * for which a disk had no room is tried again when that is forgotten, a minute later: each try is
 * told, and a disk can stay full for days.
 */
static bool is_wanted(const struct capture *known, const struct broadcast *b)
{
    if (!known || known->state == CAPTURE_SAVED)
        return true;
    if (known->state == CAPTURE_FAILED)
        return !known->no_room;
    return known->state == CAPTURE_REFUSED && b->active_time < known->active_time;
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
            d->memory && d->max_clients == d->memory / DAEMON_SESSION_LEAST ? "--memory-limit"
                                                                            : "--max-clients");
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
    if (matches(&d->filter, a) && is_wanted(known, &a->broadcast))
        (void)begin(d, a);
    else if (known)
        known->active_time = a->broadcast.active_time;
}

/* ---- targets */

/* Something takes connections there. */
static void consider_found(struct daemon *d, const struct probe_found *found)
{
    struct announcement a = {.broadcast = {.port = d->targets.at[found->target].port}};
    snprintf(a.address, sizeof a.address, "%s", found->address);
    struct capture *known = captures_find(&d->captures, &a);
    bool runs = known && known->state == CAPTURE_RUNNING;
    if (d->prober.busy[found->target]) /* found before it was, by another address */
        return;
    if (!runs && (!address_matches(&d->filter, a.address) ||
                  (d->filter.port && d->filter.port != a.broadcast.port)))
        return;
    struct capture *one = runs ? known : begin(d, &a);
    if (!one)
        return;
    one->target = found->target;
    d->prober.busy[found->target] = 1;
}

static bool is_left_alone(const struct daemon *d, const struct capture *one, long long now)
{
    long long pause = AFTER_SAVED_NS;
    if (one->state == CAPTURE_RUNNING)
        return true;
    if (one->state == CAPTURE_REFUSED)
        pause = AFTER_REFUSED_NS;
    else if (one->state == CAPTURE_FAILED && one->no_room)
        pause = AFTER_FULL_NS;
    else if (one->state == CAPTURE_FAILED)
        pause = one->target >= d->scanned ? AFTER_SCAN_NS : AFTER_FAILED_NS;
    return now - one->ended < pause;
}

void daemon_mark_busy(struct daemon *d)
{
    long long now = monotonic_ns();
    if (!d->prober.busy)
        return;
    for (unsigned i = 0; i < d->prober.count; i++)
        d->prober.busy[i] = 0;
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        if (one->target < d->prober.count && is_left_alone(d, one, now))
            d->prober.busy[one->target] = 1;
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
    while (prober_next(&d->prober, &found, &gone))
        consider_found(d, &found);
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
    for (unsigned i = 0; i < ANNOUNCEMENTS_MAX; i++) {
        if (!discovery_next(d->socket, d->filter.local, &a))
            break;
        consider(d, &a);
    }
    if (d->prober.fd >= 0)
        take_found(d);
}
