/*
 * Alert expressions on clients' present memory use, evaluated whenever a session sends counters. An
 * alert is reported when its expression becomes true, and again only after it was false for a
 * while, so that a figure that oscillates around its bound is reported once.
 */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/questions/budget_summary.h"
#include "base/monotonic.h"
#include "report/write/json_value.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"

bool daemon_add_alert(struct daemon *d, const char *text, struct err *e)
{
    if (!budgets_add(&d->alerts, "--alert", text, true, e))
        return false;
    const struct budget *b = &d->alerts.list.at[d->alerts.list.len - 1];
    for (size_t i = 0; i < b->terms.len; i++) {
        const struct budget_term *t = &b->terms.at[i];
        if (budget_metric_counter(t->metric) && !budget_term_has(t, BUDGET_ROW_KEYS))
            continue;
        err_set(e, ERR_USAGE,
                "--alert: '%.200s': while a client runs there are live_bytes, live_count, total, "
                "count and faults, and of selectors pool",
                text);
        return false;
    }
    return true;
}

/* The figure of the term's pools; a session reports at most 256 pools. */
static double figure(void *ctx, const struct budget_term *t, enum budget_side side)
{
    const json_t *pools = json_object_get(((const struct capture *)ctx)->counters, "pools");
    double sum = 0;
    (void)side;
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        const char *name = json_string_value(json_object_get(pool, "name"));
        const struct budget_names names = {.pool = view_of(name ? name : "")};
        if (budget_term_takes(t, &names, 1u << BUDGET_POOL))
            sum += json_number_value(json_object_get(pool, budget_metric_counter(t->metric)));
    }
    return sum;
}

static void look_at(struct daemon *d, struct capture *one, size_t i, long long now)
{
    const struct budget *b = &d->alerts.list.at[i];
    struct alert_state *s = &one->alerts[i];
    struct buf why = {0};
    bool holds = budget_holds(b, figure, one, &why);
    if (holds)
        s->held = now;
    if (holds && !s->firing) {
        json_t *more = json_with(json_object(), "alert", json_string(b->text));
        s->firing = true;
        s->since = time(NULL);
        d->alerts_told++;
        more = json_with(more, "why", json_text(view_of(buf_str(&why))));
        daemon_tell(d, LOG_WARNING, "alert", one, more, "alert: client %u (%s): %s: %s",
                    one->number, one->client.broadcast.name, b->text, buf_str(&why));
    } else if (!holds && s->firing && (double)(now - s->held) >= d->alert_pause * 1e9) {
        s->firing = false;
        daemon_log(d, LOG_INFO, "alert.over", one,
                   json_with(json_object(), "alert", json_string(b->text)), "%s: %s", b->text,
                   buf_str(&why));
    }
    snprintf(s->now, sizeof s->now, "%s", buf_str(&why));
    buf_release(&why);
}

void daemon_counted(void *ctx, struct capture *one)
{
    struct daemon *d = ctx;
    long long now = monotonic_ns();
    if (!one->alerts && d->alerts.list.len)
        one->alerts = calloc(d->alerts.list.len, sizeof *one->alerts);
    for (size_t i = 0; one->alerts && i < d->alerts.list.len; i++)
        look_at(d, one, i, now);
}

json_t *daemon_alerts_json(const struct daemon *d, const struct capture *one)
{
    json_t *list = json_array();
    for (size_t i = 0; list && one->alerts && i < d->alerts.list.len; i++) {
        const struct alert_state *s = &one->alerts[i];
        const char *text = d->alerts.list.at[i].text;
        if (one->state != CAPTURE_RUNNING || !s->firing)
            continue;
        json_t *o = json_with(json_object(), "alert", json_string(text));
        o = json_with(o, "since", json_integer((json_int_t)s->since));
        o = json_with(o, "now", json_text(view_of(s->now)));
        list = json_add(list, o);
    }
    return list;
}
