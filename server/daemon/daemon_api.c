/* The daemon's JSON documents. */

#include <string.h>

#include "base/saturate.h"
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

/*
 * Of "User: name@host", a line of what the client says of its host; of `tidemark run`, "Host:
 * host".
 */
static json_t *host_name(const struct capture *one)
{
    const char *info = json_string_value(json_object_get(one->hello, "host_info"));
    const char *line = info ? strstr(info, "User: ") : NULL;
    const char *at = line ? memchr(line, '@', strcspn(line, "\n")) : NULL;
    if (!at && info && (line = strstr(info, "Host: ")))
        at = line + strlen("Host:");
    if (!at)
        return json_null();
    return json_text_or_null((struct view){at + 1, strcspn(at + 1, "\n")});
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
    o = json_with(o, "host", host_name(one));
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
    bool ended = one->state != CAPTURE_RUNNING && one->end.end != MONITOR_NEVER_BEGAN;
    o = json_with(o, "end", ended ? json_string(session_end_text(one->end.end)) : json_null());
    bool limited = ended && one->left_alone && strcmp(one->left_alone, CAPTURE_STOPPED) != 0;
    o = json_with(o, "limit", limited ? json_string(one->left_alone) : json_null());
    o = json_with(o, "left_alone", alone ? json_string(alone) : json_null());
    o = json_with(o, "disk_bytes", json_count(one->state == CAPTURE_RUNNING ? one->disk : 0));
    json_t *firing = daemon_alerts_json(d, one), *alerts = json_array();
    for (size_t i = 0; alerts && i < json_array_size(firing); i++)
        alerts = json_add(alerts, json_incref(json_object_get(json_array_get(firing, i), "alert")));
    o = json_with(o, "alerts", alerts);
    o = json_with(o, "firing", firing);
    return json_with(o, "counters", or_null(one->counters));
}

static json_t *limit(uint64_t bytes)
{
    return bytes ? json_count(bytes) : json_null();
}

static json_t *disk_json(const struct daemon *d)
{
    json_t *o = json_with(json_object(), "size", limit(d->disk.size));
    o = json_with(o, "free", d->disk.size ? json_count(d->disk.free) : json_null());
    o = json_with(o, "held", json_count(d->disk.held));
    o = json_with(o, "quota", limit(d->quota));
    o = json_with(o, "total_quota", limit(d->total_quota));
    return json_with(o, "min_free", limit(d->min_free));
}

static json_t *reports_json(const struct daemon *d)
{
    json_t *o = json_with(json_object(), "kept", json_count(d->reports.len));
    o = json_with(o, "most", json_count(REPORTS_MAX));
    return json_with(o, "evicted", json_count(d->reports_dropped));
}

static uint64_t held_memory(const struct daemon *d)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        json_int_t bytes = json_integer_value(json_object_get(one->counters, "resident_bytes"));
        if (one->state == CAPTURE_RUNNING && bytes > 0)
            sum = saturating_add(sum, (uint64_t)bytes);
    }
    return sum;
}

json_t *daemon_self_json(const struct daemon *d)
{
    json_t *o = json_object();
    o = json_with(o, "version", json_string(TIDEMARK_VERSION));
    o = json_with(o, "running", json_count(d->captures.running));
    o = json_with(o, "max_clients", json_count(d->max_clients));
    o = json_with(o, "memory_limit", limit(d->memory));
    o = json_with(o, "memory_held", json_count(held_memory(d)));
    o = json_with(o, "disk", disk_json(d));
    o = json_with(o, "reports", reports_json(d));
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
