/* Prometheus metrics. */

#include <inttypes.h>
#include <string.h>

#include "server/daemon/daemon.h"
#include "server/daemon/daemon_http.h"

/* A client's text as a label; it is valid UTF-8 since it came as JSON. */
static void put_label(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '\n')
            buf_puts(out, "\\n");
        else if (*value == '"' || *value == '\\')
            buf_printf(out, "\\%c", *value);
        else
            buf_put(out, value, 1);
    }
    buf_puts(out, "\"");
}

static void put_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_labels(struct buf *out, const struct capture *one, const char *pool)
{
    const char *program = json_string_value(json_object_get(one->hello, "program"));
    buf_printf(out, "{client=\"%u\",", one->number);
    put_label(out, "program", program ? program : "");
    buf_puts(out, ",");
    put_label(out, "address", one->client.address);
    if (pool) {
        buf_puts(out, ",");
        put_label(out, "pool", pool);
    }
    buf_puts(out, "} ");
}

static void put_number(struct buf *out, const json_t *value)
{
    if (json_is_integer(value))
        buf_printf(out, "%" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
    else
        buf_printf(out, "%.17g\n", json_number_value(value));
}

static bool shows(const struct capture *one)
{
    return one->state == CAPTURE_RUNNING && one->hello && one->counters;
}

/* A metric family with a figure for each client. */
static void put_of_clients(const struct daemon *d, struct buf *out, const char *key,
                           const char *name, const char *type, const char *help)
{
    put_head(out, name, type, help);
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        const json_t *value = json_object_get(one->counters, key);
        if (!shows(one) || !json_is_number(value))
            continue;
        buf_puts(out, name);
        put_labels(out, one, NULL);
        put_number(out, value);
    }
}

/*
 * A metric family with a figure for each pool of each client. Pools of the same name are summed up,
 * since a series may appear only once.
 */
static void put_pool(struct buf *out, const struct capture *one, const json_t *pools, size_t at,
                     const char *key, const char *name)
{
    const char *pool = json_string_value(json_object_get(json_array_get(pools, at), "name"));
    double sum = 0;
    for (size_t i = 0; pool && i < json_array_size(pools); i++) {
        const json_t *other = json_array_get(pools, i);
        const char *called = json_string_value(json_object_get(other, "name"));
        if (!called || strcmp(called, pool) != 0)
            continue;
        if (i < at)
            return; /* it was written with the first of that name */
        sum += json_number_value(json_object_get(other, key));
    }
    if (!pool)
        return;
    buf_puts(out, name);
    put_labels(out, one, pool);
    buf_printf(out, "%.17g\n", sum);
}

static void put_of_pools(const struct daemon *d, struct buf *out, const char *key, const char *name,
                         const char *type, const char *help)
{
    put_head(out, name, type, help);
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        const json_t *pools = json_object_get(one->counters, "pools");
        for (size_t k = 0; shows(one) && k < json_array_size(pools); k++)
            put_pool(out, one, pools, k, key, name);
    }
}

/* The alerts that are true now. */
static void put_alerts(const struct daemon *d, struct buf *out)
{
    static const char name[] = "tidemark_alert_firing";
    put_head(out, name, "gauge", "Whether an expression of --alert is true of the client.");
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        for (size_t k = 0; shows(one) && one->alerts && k < d->alerts.list.len; k++) {
            /* The same expression may have been given twice. */
            bool again = false;
            for (size_t n = 0; n < k; n++)
                again |= strcmp(d->alerts.list.at[n].text, d->alerts.list.at[k].text) == 0;
            if (again)
                continue;
            buf_printf(out, "%s{client=\"%u\",", name, one->number);
            put_label(out, "alert", d->alerts.list.at[k].text);
            buf_printf(out, "} %d\n", one->alerts[k].firing);
        }
    }
}

void daemon_metrics(const struct daemon *d, struct buf *out)
{
    put_head(out, "tidemark_clients", "gauge", "Clients that are being captured.");
    buf_printf(out, "tidemark_clients %u\n", d->captures.running);
    put_head(out, "tidemark_captures_total", "counter", "Captures started.");
    buf_printf(out, "tidemark_captures_total %u\n", d->captures.begun);
    put_head(out, "tidemark_traces_saved_total", "counter",
             "Traces saved; each part of a capture counts.");
    buf_printf(out, "tidemark_traces_saved_total %u\n", d->captures.files);
    put_head(out, "tidemark_trace_bytes_saved_total", "counter", "Bytes of these traces.");
    buf_printf(out, "tidemark_trace_bytes_saved_total %" PRIu64 "\n", d->captures.bytes);
    put_head(out, "tidemark_alerts_total", "counter", "Alerts raised.");
    buf_printf(out, "tidemark_alerts_total %" PRIu64 "\n", d->alerts_told);
    put_head(out, "tidemark_hook_failures_total", "counter",
             "Events that a command or web server did not receive.");
    buf_printf(out, "tidemark_hook_failures_total %" PRIu64 "\n", d->tell_failures);
    put_head(out, "tidemark_sink_traces_total", "counter", "Traces uploaded to --sink.");
    buf_printf(out, "tidemark_sink_traces_total %" PRIu64 "\n", d->sink.sent);
    put_head(out, "tidemark_sink_failures_total", "counter", "Failed uploads.");
    buf_printf(out, "tidemark_sink_failures_total %" PRIu64 "\n", d->sink.failures);
    put_head(out, "tidemark_sink_waiting", "gauge", "Traces waiting for upload.");
    buf_printf(out, "tidemark_sink_waiting %zu\n", d->sink.waiting.len);
    put_alerts(d, out);
    put_head(out, "tidemark_disk_full", "gauge",
             "Whether a full disk keeps captures from starting.");
    buf_printf(out, "tidemark_disk_full %d\n", d->disk_full);
    put_head(out, "tidemark_client_disk_bytes", "gauge", "Disk space of a capture.");
    for (size_t i = 0; i < d->captures.list.len; i++) {
        if (!shows(d->captures.list.at[i]))
            continue;
        buf_puts(out, "tidemark_client_disk_bytes");
        put_labels(out, d->captures.list.at[i], NULL);
        buf_printf(out, "%" PRIu64 "\n", d->captures.list.at[i]->disk);
    }
    put_of_clients(d, out, "received_bytes", "tidemark_received_bytes_total", "counter",
                   "Bytes received from the client.");
    put_of_clients(d, out, "memory_events", "tidemark_memory_events_total", "counter",
                   "Allocations and frees of the client since its capture began.");
    put_of_clients(d, out, "resident_bytes", "tidemark_session_resident_bytes", "gauge",
                   "Anonymous memory of the session that captures the client.");
    put_of_pools(d, out, "live_bytes", "tidemark_live_bytes", "gauge",
                 "Bytes that are allocated and not freed.");
    put_of_pools(d, out, "live_allocations", "tidemark_live_allocations", "gauge",
                 "Blocks that are allocated and not freed.");
    put_of_pools(d, out, "allocations", "tidemark_allocations_total", "counter",
                 "Blocks that were allocated.");
    put_of_pools(d, out, "frees", "tidemark_frees_total", "counter", "Blocks that were freed.");
    put_of_pools(d, out, "total_bytes", "tidemark_allocated_bytes_total", "counter",
                 "Bytes that were allocated.");
}
