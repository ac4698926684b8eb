#pragma once

/* What the daemon reports: the log, commands and webhooks, alerts, the terminal. */

#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"

struct capture;
struct daemon;

enum log_level { LOG_INFO, LOG_WARNING, LOG_ERROR };

/*
 * Logs an event as a one-line object with the keys schema, time, level, event, message, client if
 * there is one, and those of `more`, whose reference is taken over (NULL: none). A text log gets
 * only warnings and errors from this function.
 */
void daemon_log(struct daemon *d, enum log_level level, const char *event,
                const struct capture *one, json_t *more, const char *form, ...)
    __attribute__((format(printf, 6, 7)));

/*
 * Also reports it to --webhook and to --on-finish ("client.finished"), --on-part ("part.saved", for
 * the newest trace of `one`) or --on-alert (all other events).
 */
void daemon_tell(struct daemon *d, enum log_level level, const char *event,
                 const struct capture *one, json_t *more, const char *form, ...)
    __attribute__((format(printf, 6, 7)));

void daemon_log_error(struct daemon *d, const struct err *e);

/* Starts reporting queued events. Returns whether any are queued or being reported. */
void daemon_events_turn(struct daemon *d);
bool daemon_events_wait(const struct daemon *d);
void daemon_events_release(struct daemon *d);

/* ---- daemon_alerts.c */

/* Adds an expression (analysis/questions/budget.h) on figures known while a client runs. */
bool daemon_add_alert(struct daemon *d, const char *text, struct err *e);

/* Called when a capture has new counters. `ctx` is the daemon. */
void daemon_counted(void *ctx, struct capture *one);

/* The expressions that are true for it now, each with since when and its figures. */
json_t *daemon_alerts_json(const struct daemon *d, const struct capture *one);

/* ---- daemon_repeats.c: repeated failures are reported after growing pauses */

/* Whether its newest line is held back because its client's last try failed, too. */
bool daemon_hold(struct capture *one);

/* Prints the held lines: its client is connected, or its failure differs from the last one. */
void daemon_tell_held(struct daemon *d, struct capture *one);

/* A try has ended: whether its report is suppressed. Remembers what is reported. */
bool daemon_is_repeat(struct capture *one);

/* ---- daemon_screen.c */

void daemon_say(struct daemon *d, const struct capture *one, const char *line);
void daemon_say_left_alone(const struct daemon *d, const struct capture *one); /* if so */
void daemon_draw(const struct daemon *d);
void daemon_print_summary(const struct daemon *d);
