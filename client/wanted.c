#include "client/wanted.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A thread's name is read at each of its first checks, then at every LOOK_EVERYth one. */
#define LOOK_EVERY 64u
#define LOOK_FIRST 16u

static char list[REC_THREADS_BYTES];

void wanted_begin(const char *text)
{
    size_t n = strnlen(text, sizeof list - 1);
    memcpy(list, text, n);
    list[n] = 0;
    state.by_thread = n > 0;
}

/* Whether a name matches a pattern that ends at `end`: * is any text, ? any character. */
static bool matches(const char *pattern, const char *end, const char *name)
{
    const char *star = NULL, *from = NULL;
    for (;;) {
        if (pattern < end && *pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*name == 0) {
            return pattern == end;
        } else if (pattern < end && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
}

static bool is_number(const char *text, const char *end, pid_t *number)
{
    uint64_t n = 0;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || n > INT32_MAX)
            return false;
        n = n * 10 + (uint64_t)(*text - '0');
    }
    *number = (pid_t)n;
    return true;
}

static bool is_meant(const char *item, const char *end, const char *name, pid_t tid)
{
    pid_t number;
    if (is_number(item, end, &number) && number == tid)
        return true;
    if (end - item == 4 && memcmp(item, "main", 4) == 0 && tid == state.pid)
        return true;
    return matches(item, end, name);
}

static bool look(void)
{
    char name[16] = "";
    bool any = false, taken = false;
    pid_t tid = (pid_t)syscall(SYS_gettid);
    if (!state.nameless)
        (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    else if (tls.thread)
        memcpy(name, tls.thread->name, sizeof name);
    name[sizeof name - 1] = 0;
    for (const char *at = list; *at;) {
        const char *end = at + strcspn(at, ",");
        bool excludes = *at == '!';
        bool meant = is_meant(at + excludes, end, name, tid);
        if (excludes && meant)
            return false;
        any |= !excludes;
        taken |= !excludes && meant;
        at = end + (*end != 0);
    }
    return taken || !any;
}

bool wanted_thread(void)
{
    uint32_t asked = tls.asked++;
    if (client_unlikely(asked < LOOK_FIRST || asked % LOOK_EVERY == 0)) {
        int saved = errno;
        tls.unwanted = !look();
        errno = saved;
    }
    return !tls.unwanted;
}
