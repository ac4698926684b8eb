#include "run/run_unseen.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "run/program.h"

#define STARTS_MOST 65536u
#define NAMES_MOST 8u /* limit of the names printed */

size_t run_unseen_came(struct run_unseen *u, pid_t pid)
{
    /* If memory is short, a recorded program may be reported as unseen. */
    if (!vec_push(&u->came, pid))
        u->dropped++;
    return u->came.len;
}

static void take(void *ctx, struct recording_start *s)
{
    struct run_unseen *u = ctx;
    const struct run_start start = {.what = *s};
    if (u->started.len < STARTS_MOST && vec_push(&u->started, start))
        return;
    free(s->path);
    u->dropped++;
}

void run_unseen_take(struct run_unseen *u, struct recording *r)
{
    u->dropped += recording_take_starts(r, take, u);
}

void run_unseen_look(struct run_unseen *u)
{
    for (size_t i = 0; i < u->started.len; i++) {
        struct run_start *s = &u->started.at[i];
        char link[64], path[PATH_MAX];
        if (s->ended || s->what.kind != REC_FORK || s->what.followed || s->what.pid <= 0)
            continue;
        snprintf(link, sizeof link, "/proc/%d/exe", (int)s->what.pid);
        ssize_t n = readlink(link, path, sizeof path - 1);
        s->ended = n <= 0;
        if (s->ended)
            continue;
        path[n] = 0;
        if (s->what.path && strcmp(s->what.path, path) == 0)
            continue;
        free(s->what.path);
        s->what.path = strdup(path);
    }
}

void run_unseen_ended(struct run_unseen *u, size_t number, const struct rec_header *h)
{
    u->children += h->children;
    if (h->state == REC_STATE_EXEC &&
        !(vec_push(&u->replaced, (pid_t)h->pid) && vec_push(&u->before, number)))
        u->dropped++;
}

/* Whether a program of this process connected after the first `before`. */
static bool has_come(const struct run_unseen *u, pid_t pid, size_t before)
{
    for (size_t i = before; i < u->came.len; i++) {
        if (u->came.at[i] == pid)
            return true;
    }
    return false;
}

static const char *last_program(const struct run_unseen *u, pid_t pid)
{
    for (size_t i = u->started.len; i-- > 0;) {
        const struct recording_start *s = &u->started.at[i].what;
        if (s->kind == REC_EXEC && s->pid == pid && s->path)
            return s->path;
    }
    return "";
}

const char *run_unseen_program(const struct run_unseen *u, pid_t pid)
{
    for (size_t i = u->before.len; i-- > 0;) {
        if (u->replaced.at[i] == pid)
            return has_come(u, pid, u->before.at[i]) ? NULL : last_program(u, pid);
    }
    return NULL;
}

/* Whether a program with this path cannot be recorded: then appends the reason, as a phrase. */
static bool is_barred(const char *path, struct buf *reason)
{
    struct program program = {0};
    struct err e;
    bool barred = *path && program_find(&program, path, &e) == 0 &&
                  program.obstacle != PROGRAM_FINE && program.obstacle != PROGRAM_UNKNOWN;
    if (barred)
        program_explain(&program, reason);
    program_release(&program);
    return barred;
}

void run_unseen_reason(const char *path, struct buf *out)
{
    if (!is_barred(path, out))
        buf_puts(out, "never loaded libtidemark.so");
}

/* ---- messages */

/* Names of programs, each with the number of its processes. */
struct names {
    struct {
        const char *path;
        uint64_t count;
    } at[NAMES_MOST];
    size_t len;
    uint64_t nameless, more;
};

static void add_name(struct names *n, const char *path)
{
    if (!path || !*path) {
        n->nameless++;
        return;
    }
    for (size_t i = 0; i < n->len; i++) {
        if (strcmp(n->at[i].path, path) == 0) {
            n->at[i].count++;
            return;
        }
    }
    if (n->len == NAMES_MOST) {
        n->more++;
        return;
    }
    n->at[n->len].path = path;
    n->at[n->len++].count = 1;
}

static void put_name(struct buf *out, const char *path, uint64_t count)
{
    char n[FORMAT_SIZE];
    format_terminal(out, view_of(path));
    if (count > 1)
        buf_printf(out, " (%s processes)", format_count(n, count));
}

/* Appends a line for each program that no option records, and takes it out of the names. Returns
   the number of their processes. */
static uint64_t tell_barred(struct names *names, struct buf *out)
{
    uint64_t count = 0;
    size_t left = 0;
    for (size_t i = 0; i < names->len; i++) {
        struct buf reason = {0};
        if (is_barred(names->at[i].path, &reason)) {
            buf_puts(out, "tidemark: not recorded: ");
            put_name(out, names->at[i].path, names->at[i].count);
            buf_printf(out, ", which %s\n", buf_str(&reason));
            count += names->at[i].count;
        } else {
            names->at[left++] = names->at[i];
        }
        buf_release(&reason);
    }
    names->len = left;
    return count;
}

static uint64_t tell_children(const struct run_unseen *u, const char *advice, struct buf *out)
{
    struct names names = {.len = 0};
    char n[FORMAT_SIZE];
    for (size_t i = 0; i < u->started.len; i++) {
        const struct recording_start *s = &u->started.at[i].what;
        if (s->kind != REC_EXEC && !s->followed)
            add_name(&names, s->path);
    }
    uint64_t barred = tell_barred(&names, out);
    if (u->children <= barred)
        return u->children;
    buf_printf(out, "tidemark: not recorded: %s",
               format_counted(n, u->children - barred, "child process"));
    for (size_t i = 0; i < names.len; i++) {
        buf_puts(out, i ? ", " : names.nameless || names.more ? ", among them " : ": ");
        put_name(out, names.at[i].path, names.at[i].count);
    }
    buf_printf(out, "%s\n", advice);
    return u->children;
}

static uint64_t tell_followed(const struct run_unseen *u, pid_t root, struct buf *out)
{
    struct names names = {.len = 0};
    uint64_t count = 0;
    char n[FORMAT_SIZE];
    for (size_t i = 0; i < u->started.len; i++) {
        const struct run_start *s = &u->started.at[i];
        if (s->what.kind == REC_SPAWN && s->what.followed && s->what.pid > 0 &&
            !has_come(u, s->what.pid, 0) && ++count)
            add_name(&names, s->what.path);
    }
    for (size_t i = 0; i < u->before.len; i++) {
        pid_t pid = u->replaced.at[i];
        if (pid != root && !has_come(u, pid, u->before.at[i]) && ++count)
            add_name(&names, last_program(u, pid));
    }
    for (size_t i = 0; i < names.len; i++) {
        buf_puts(out, "tidemark: not recorded: ");
        put_name(out, names.at[i].path, names.at[i].count);
        buf_puts(out, ", which ");
        run_unseen_reason(names.at[i].path, out);
        buf_puts(out, "\n");
    }
    if (names.nameless + names.more)
        buf_printf(out, "tidemark: not recorded: %s that never loaded libtidemark.so\n",
                   format_counted(n, names.nameless + names.more, "other program"));
    return count;
}

uint64_t run_unseen_tell(const struct run_unseen *u, pid_t root, const char *advice,
                         struct buf *out)
{
    char n[FORMAT_SIZE];
    uint64_t count = tell_children(u, advice, out) + tell_followed(u, root, out);
    if (u->dropped)
        buf_printf(out, "tidemark: %s not followed up: the list of started programs is full\n",
                   format_counted(n, u->dropped, "other program"));
    return count;
}

void run_unseen_release(struct run_unseen *u)
{
    for (size_t i = 0; i < u->started.len; i++)
        free(u->started.at[i].what.path);
    vec_release(&u->started);
    vec_release(&u->came);
    vec_release(&u->replaced);
    vec_release(&u->before);
}
