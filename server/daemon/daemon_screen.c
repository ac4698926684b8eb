/* The terminal output of `tidemark daemon`. */

#include <stdio.h>

#include "base/format.h"
#include "report/write/official_units.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"

static const char *bytes_text(const struct daemon *d, char out[FORMAT_SIZE], uint64_t bytes)
{
    return d->drop_in ? official_bytes(out, bytes) : format_bytes(out, bytes);
}

static void print_client(const struct capture *one)
{
    struct buf name = {0};
    format_terminal(&name, view_of(one->client.broadcast.name));
    printf("[%u] %s @ %s:%u", one->number, buf_str(&name), one->client.address,
           one->client.broadcast.port);
    buf_release(&name);
}

void daemon_say(struct daemon *d, const struct capture *one, const char *line)
{
    if (d->log_json)
        daemon_log(d, LOG_INFO, "client.says", one, NULL, "%s", line);
    if (d->terminal || d->log_json)
        return;
    print_client(one);
    printf(": %s\n", line);
    fflush(stdout);
}

void daemon_say_left_alone(const struct daemon *d, const struct capture *one)
{
    const char *why = captures_left_alone(one);
    if (!why || d->terminal || d->log_json)
        return;
    print_client(one);
    printf(": left alone from now on (%s)\n", why);
    fflush(stdout);
}

void daemon_draw(const struct daemon *d)
{
    if (!d->terminal || d->log_json)
        return;
    printf("\033[H\033[J[%u client%s] Listening on UDP port %u... Press Ctrl+C to stop\n\n",
           d->captures.running, d->captures.running == 1 ? "" : "s", d->port);
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        char bytes[FORMAT_SIZE];
        printf("  ");
        print_client(one);
        if (one->state == CAPTURE_SAVED)
            printf("    finished (%s)%s\n", bytes_text(d, bytes, one->saved.bytes),
                   captures_left_alone(one) ? ", left alone" : "");
        else
            printf("    %s\n", one->last_words ? one->last_words : "connecting...");
    }
    fflush(stdout);
}

static void print_saved(const struct daemon *d, const struct capture *one)
{
    char bytes[FORMAT_SIZE], files[FORMAT_SIZE];
    printf(" -> %s (%s", one->output, bytes_text(d, bytes, one->saved.bytes));
    if (one->saved.count > 1)
        printf(" in %s", format_counted(files, one->saved.count, "file"));
    printf(")%s\n", one->state == CAPTURE_SAVED ? "" : "; the last part was not saved");
}

void daemon_print_summary(const struct daemon *d)
{
    char bytes[FORMAT_SIZE];
    if (d->log_json)
        return;
    printf("\n=== Capture Summary ===\n");
    for (size_t i = 0; i < d->captures.list.len; i++) {
        const struct capture *one = d->captures.list.at[i];
        printf("  ");
        print_client(one);
        if (one->saved.count)
            print_saved(d, one);
        else
            printf(" not captured: %s\n", one->last_words ? one->last_words : "it said nothing");
    }
    printf("\nTotal: %u file%s, %s\n", d->captures.files, d->captures.files == 1 ? "" : "s",
           bytes_text(d, bytes, d->captures.bytes));
}
