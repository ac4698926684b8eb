/* The daemon's JSON documents. */

#include <string.h>

#include "report/write/json_value.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"
#include "server/daemon/daemon_http.h"

static const char *state_name(const struct capture *one)
{
    switch (one->state) {
    case CAPTURE_RUNNING:
        return one->hello ? "recording" : "connecting";
    case CAPTURE_SAVED:
        return "saved";
    case CAPTURE_FAILED:
        return "failed";
    default:
        return "refused";
    }
}

static json_t *or_null(json_t *value)
{
    return value ? json_incref(value) : json_null();
}

json_t *daemon_client_json(const struct daemon *d, const struct capture *one)
{
    const struct broadcast *b = &one->client.broadcast;
    const char *slash = one->output ? strrchr(one->output, '/') : NULL;
    const char *alone = captures_left_alone(one);
    json_t *o = json_object();
    o = json_with(o, "number", json_count(one->number));
    o = json_with(o, "state", json_string(state_name(one)));
    o = json_with(o, "program", json_text(view_of(b->name)));
    o = json_with(o, "address", json_string(one->client.address));
    o = json_with(o, "port", json_count(b->port));
    o = json_with(o, "pid", json_count(b->pid));
    o = json_with(o, "protocol", or_null(json_object_get(one->hello, "protocol")));
    o = json_with(o, "began", json_integer((json_int_t)one->began));
    o = json_with(o, "trace", slash ? json_text(view_of(slash + 1)) : json_null());
    o = json_with(o, "trace_bytes",
                  one->state == CAPTURE_SAVED ? json_count(one->bytes) : json_null());
    o = json_with(o, "parts_saved", json_count(one->saved.count));
    o = json_with(o, "parts_bytes", json_count(one->saved.bytes));
    o = json_with(o, "says", one->last_words ? json_text(view_of(one->last_words)) : json_null());
    o = json_with(o, "left_alone", alone ? json_string(alone) : json_null());
    o = json_with(o, "disk_bytes", json_count(one->state == CAPTURE_RUNNING ? one->disk : 0));
    o = json_with(o, "alerts", daemon_alerts_json(d, one));
    return json_with(o, "counters", or_null(one->counters));
}

json_t *daemon_self_json(const struct daemon *d)
{
    json_t *o = json_object();
    o = json_with(o, "version", json_string(TIDEMARK_VERSION));
    o = json_with(o, "running", json_count(d->captures.running));
    o = json_with(o, "max_clients", json_count(d->max_clients));
    o = json_with(o, "memory_limit", d->memory ? json_count(d->memory) : json_null());
    o = json_with(o, "disk_full", json_boolean(d->disk_full));
    o = json_with(o, "traces_saved", json_count(d->captures.files));
    return json_with(o, "trace_bytes_saved", json_count(d->captures.bytes));
}

json_t *daemon_status_json(const struct daemon *d)
{
    json_t *clients = json_array();
    for (size_t i = 0; clients && i < d->captures.list.len; i++)
        clients = json_add(clients, daemon_client_json(d, d->captures.list.at[i]));
    return json_with(daemon_self_json(d), "clients", clients);
}
