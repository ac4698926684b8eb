/*
 * Suppresses repeated failures to capture a client. A busy client, or another service on the port,
 * can last for weeks and is tried several times a minute: the same messages are printed again after
 * one minute, two, four, and finally once an hour.
 */

#include <stdlib.h>
#include <string.h>

#include "base/monotonic.h"
#include "server/daemon/daemon.h"
#include "server/daemon/daemon_events.h"

#define FIRST_PAUSE_NS 60000000000LL
#define LAST_PAUSE_NS 3600000000000LL
#define HELD_MAX ((size_t)16 << 10) /* bytes of one try; a failing try prints less */

bool daemon_hold(struct capture *one)
{
    size_t len = strlen(one->last_words);
    if (!one->failure.words || one->hello || one->held.len + len >= HELD_MAX)
        return false;
    buf_puts(&one->held, one->last_words);
    buf_puts(&one->held, "\n");
    return !one->held.failed;
}

void daemon_tell_held(struct daemon *d, struct capture *one)
{
    char *line = one->held.len ? (char *)one->held.data : NULL;
    size_t left = one->held.len;
    while (left) {
        char *end = memchr(line, '\n', left);
        if (!end)
            break;
        *end = 0;
        daemon_say(d, one, line);
        left -= (size_t)(end + 1 - line);
        line = end + 1;
    }
    buf_release(&one->held);
}

bool daemon_is_repeat(struct capture *one)
{
    struct capture_failure *f = &one->failure;
    long long now = monotonic_ns();
    const char *words = one->hello || !one->last_words ? "" : one->last_words;
    bool same = words[0] && f->words && strcmp(f->words, words) == 0;
    if (same && now - f->told < f->pause)
        return true;
    f->pause = !same ? FIRST_PAUSE_NS : f->pause < LAST_PAUSE_NS / 2 ? f->pause * 2 : LAST_PAUSE_NS;
    f->told = now;
    free(f->words);
    f->words = words[0] ? strdup(words) : NULL;
    return false;
}
