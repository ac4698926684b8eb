#include "symbols/helper/debuginfod.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/monotonic.h"
#include "symbols/helper/debuginfod_message.h"

bool debuginfod_is_wanted(const struct debuginfod_options *o)
{
    const char *urls = o->urls ? o->urls : getenv("DEBUGINFOD_URLS");
    return urls && urls[strspn(urls, " ")] != 0;
}

/* ---- starting and stopping the fetcher */

int debuginfod_start(struct debuginfod *d, const struct debuginfod_options *o, struct err *e)
{
    int ends[2];
    *d = (struct debuginfod){.socket = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return err_errno(e, ERR_CONNECT, "a socket for the fetcher of debug files");
    pid_t pid = fork();
    if (pid < 0) {
        (void)err_errno(e, ERR_CONNECT, "the fetcher of debug files");
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    if (pid == 0) {
        close(ends[0]);
        fetcher_run(ends[1], o);
        _exit(0);
    }
    close(ends[1]);
    d->socket = ends[0];
    d->pid = pid;
    return 0;
}

void debuginfod_stop(struct debuginfod *d)
{
    if (d->socket >= 0)
        close(d->socket);
    if (d->pid > 0) {
        /* The client may still hold the socket open, so the fetcher would wait for it. */
        kill(d->pid, SIGTERM);
        while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    *d = (struct debuginfod){.socket = -1};
}

/* ---- requests */

static bool send_request(int socket, const struct fetch_request *r)
{
    ssize_t sent;
    do {
        sent = send(socket, r, sizeof *r, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *r;
}

static int is_gone(struct err *e)
{
    return err_set(e, ERR_CONNECT, "the process that fetches debug files is gone");
}

/* Request numbers are unique, also between processes that use one socket in turn. */
static uint64_t request_number(void)
{
    return (uint64_t)monotonic_ns();
}

int debuginfod_ask(int socket, const struct build_id *id, bool executable,
                   debuginfod_progress *progress, void *ctx, int *fd, struct err *e)
{
    struct fetch_request r;
    struct fetch_answer a;
    int given, got;
    bool given_up = false;
    memset(&r, 0, sizeof r); /* the padding, too, since it is sent */
    r.number = request_number();
    r.kind = executable ? FETCH_EXECUTABLE : FETCH_DEBUGINFO;
    r.id = *id;
    *fd = -1;
    if (!send_request(socket, &r))
        return is_gone(e);
    while ((got = fetch_answer_receive(socket, &a, &given)) > 0) {
        if (a.number == r.number && a.kind == FETCH_FILE && given >= 0) {
            *fd = given;
            return 0;
        }
        if (given >= 0)
            close(given); /* of a cancelled request */
        if (a.number != r.number)
            continue;
        if (a.kind == FETCH_NONE)
            return 0;
        if (a.kind != FETCH_PROGRESS)
            return err_set(e, ERR_CONNECT, "%s", a.cause);
        if (!given_up && progress && progress(ctx, a.done, a.total) != 0) {
            r.kind = FETCH_GIVE_UP;
            given_up = true;
            if (!send_request(socket, &r))
                return is_gone(e);
        }
    }
    return got == 0 ? is_gone(e) : err_errno(e, ERR_CONNECT, "the fetcher of debug files");
}
