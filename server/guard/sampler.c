#include "server/guard/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/vec.h"
#include "proc/process_memory.h"
#include "server/guard/privileges.h"
#include "server/guard/socket_owner.h"
#include "symbols/place/process_modules.h"

#define WAIT_MS 10000
#define FDS_MAX 5 /* per message */

/*
 * Needed to find a socket's owner and its mappings, to open a mapped file by its mapping, and to
 * read files of other users.
 */
#define KEPT                                                                                       \
    (PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_CHECKPOINT_RESTORE) | PRIVILEGE(CAP_DAC_READ_SEARCH))

/* `start` is 0: find the owner of the attached socket, which is probably the process `end`. */
struct request {
    uint64_t start, end;
};

struct answer {
    int32_t pid;          /* 0: not found */
    uint8_t has[FDS_MAX]; /* which descriptors are attached, in this order */
};

/* ---- messages */

union room {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
};

static int send_with(int to, const void *bytes, size_t len, const int *fds, size_t n)
{
    union room room;
    struct iovec io = {.iov_base = (void *)bytes, .iov_len = len};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    memset(&room, 0, sizeof room);
    if (n > 0) {
        room.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(n * sizeof(int)),
                                     .cmsg_level = SOL_SOCKET,
                                     .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&room.head), fds, n * sizeof(int));
        m.msg_control = &room;
        m.msg_controllen = CMSG_SPACE(n * sizeof(int));
    }
    ssize_t sent;
    while ((sent = sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR)
        ;
    return sent == (ssize_t)len ? 0 : -1;
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

/*
 * Receives a message of exactly this length, with *n descriptors, which the caller owns. -1: none.
 */
static int receive_with(int from, void *bytes, size_t len, int fds[FDS_MAX], size_t *n)
{
    union room room;
    struct iovec io = {.iov_base = bytes, .iov_len = len};
    struct msghdr m = {
        .msg_iov = &io, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    ssize_t got;
    *n = 0;
    while ((got = recvmsg(from, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    const struct cmsghdr *c = got >= 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        *n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), *n * sizeof(int));
    }
    if (got == (ssize_t)len && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return 0;
    close_all(fds, *n);
    *n = 0;
    return -1;
}

/* ---- the sampler */

struct served {
    int fd;
    pid_t pid; /* found last; 0: none */
    int maps;
};

struct sampling {
    int control; /* the daemon sends new sessions' sockets here; -1: closed */
    VEC(struct served) sessions;
    VEC(struct pollfd) polled;
};

static void forget(struct served *s)
{
    if (s->maps >= 0)
        close(s->maps);
    *s = (struct served){.fd = s->fd, .maps = -1};
}

static int answer_found(struct served *s, int socket, uint64_t likely)
{
    struct err e = {0};
    forget(s);
    if (socket_owner(socket, likely, &s->pid, &e) != 0)
        s->pid = 0;
    struct process_root root = s->pid ? process_root_open(s->pid) : PROCESS_ROOT_NONE;
    struct process_early early = s->pid ? process_early_open(s->pid) : PROCESS_EARLY_NONE;
    const int all[FDS_MAX] = {early.maps, early.rollup, early.pagemap, root.folder, root.mounts};
    struct answer a = {.pid = s->pid};
    int fds[FDS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < FDS_MAX; i++) {
        a.has[i] = all[i] >= 0;
        if (a.has[i])
            fds[n++] = all[i];
    }
    int status = send_with(s->fd, &a, sizeof a, fds, n);
    process_root_close(&root);
    s->maps = early.maps;
    early.maps = -1;
    process_early_close(&early);
    return status;
}

/* Checks only the part of a line that the kernel formats, "START-END r-xp ", not the path. */
static bool is_executable(int maps, const struct request *r)
{
    char line[512], mode[5];
    uint64_t start, end;
    bool found = false, whole = true;
    int copy = lseek(maps, 0, SEEK_SET) == 0 ? fcntl(maps, F_DUPFD_CLOEXEC, 0) : -1;
    FILE *f = copy >= 0 ? fdopen(copy, "r") : NULL;
    if (!f && copy >= 0)
        close(copy);
    while (f && !found && fgets(line, sizeof line, f)) {
        bool begins = whole;
        whole = strchr(line, '\n') != NULL;
        found = begins && sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end, mode) == 3 &&
                start == r->start && end == r->end && mode[2] == 'x';
    }
    if (f)
        fclose(f);
    return found;
}

/* The maps file is that of the process found; it is empty once the process has ended. */
static int answer_file(const struct served *s, const struct request *r)
{
    char place[80];
    struct answer a = {0};
    int fd = -1;
    if (s->maps >= 0 && is_executable(s->maps, r)) {
        snprintf(place, sizeof place, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)s->pid,
                 r->start, r->end);
        fd = open(place, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    a.has[0] = fd >= 0;
    int status = send_with(s->fd, &a, sizeof a, &fd, fd >= 0);
    if (fd >= 0)
        close(fd);
    return status;
}

/* False: the session has closed its socket or sent an invalid request. */
static bool serve(struct served *s)
{
    struct request r;
    int fds[FDS_MAX];
    size_t n;
    if (receive_with(s->fd, &r, sizeof r, fds, &n) != 0)
        return false;
    bool finds = r.start == 0;
    bool done =
        n == (size_t)finds && (finds ? answer_found(s, fds[0], r.end) : answer_file(s, &r)) == 0;
    close_all(fds, n);
    return done;
}

static void take_session(struct sampling *s)
{
    char byte;
    int fds[FDS_MAX];
    size_t n;
    if (receive_with(s->control, &byte, 1, fds, &n) != 0) {
        close(s->control);
        s->control = -1;
    } else if (n != 1 || !vec_push(&s->sessions, (struct served){.fd = fds[0], .maps = -1})) {
        close_all(fds, n);
    }
}

static bool wait_for_some(struct sampling *s)
{
    s->polled.len = 0;
    if (!vec_push(&s->polled, (struct pollfd){.fd = s->control, .events = POLLIN}))
        return false;
    for (size_t i = 0; i < s->sessions.len; i++) {
        if (!vec_push(&s->polled, (struct pollfd){.fd = s->sessions.at[i].fd, .events = POLLIN}))
            return false;
    }
    return poll(s->polled.at, s->polled.len, -1) >= 0 || errno == EINTR;
}

static void sample(struct sampling *s)
{
    while ((s->control >= 0 || s->sessions.len > 0) && wait_for_some(s)) {
        for (size_t i = s->sessions.len; i-- > 0;) {
            struct served *one = &s->sessions.at[i];
            if (!s->polled.at[i + 1].revents || serve(one))
                continue;
            forget(one);
            close(one->fd);
            *one = s->sessions.at[--s->sessions.len];
        }
        if (s->control >= 0 && s->polled.at[0].revents)
            take_session(s);
    }
}

/* Ends with status 0 once no one can ask any more. */
static _Noreturn void be_sampler(int control, pid_t parent, void (*guard)(void))
{
    struct sampling s = {.control = control};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    (void)prctl(PR_SET_NAME, "tidemark-look");
    guard();
    sample(&s);
    _exit(s.control >= 0 || s.sessions.len > 0);
}

/* ---- its parent */

static _Noreturn void keep_sampler(int control, void (*guard)(void))
{
    struct err e = {0};
    int status = 0;
    pid_t parent;
    (void)file_close_range(0, (unsigned)control - 1);
    (void)file_close_range((unsigned)control + 1, ~0u);
    /*
     * A terminal's SIGINT goes to its whole process group: the sampler ends only after the
     * sessions.
     */
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "tidemark-keep");
    if (privileges_keep(KEPT, &e) != 0)
        _exit(1);
    for (parent = getpid();; sleep(SAMPLER_PAUSE_S)) {
        pid_t pid = fork();
        if (pid == 0)
            be_sampler(control, parent, guard);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
            _exit(0);
        (void)send_with(control, &status, sizeof status, NULL, 0);
    }
}

/* ---- the daemon */

int sampler_start(struct sampler *s, void (*guard)(void), struct err *e)
{
    int ends[2];
    *s = SAMPLER_NONE;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return err_errno(e, ERR_CONNECT, "cannot begin the process that looks into clients");
    s->pid = fork();
    if (s->pid == 0)
        keep_sampler(ends[1], guard);
    close(ends[1]);
    s->fd = ends[0];
    if (s->pid > 0)
        return 0;
    err_errno(e, ERR_CONNECT, "cannot begin the process that looks into clients");
    close(s->fd);
    *s = SAMPLER_NONE;
    return -1;
}

void sampler_stop(struct sampler *s)
{
    if (s->fd < 0)
        return;
    close(s->fd);
    (void)kill(s->pid, SIGKILL);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *s = SAMPLER_NONE;
}

enum sampler_state sampler_look(struct sampler *s, int *status)
{
    ssize_t n = s->fd < 0 ? -1 : recv(s->fd, status, sizeof *status, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof *status)
        return SAMPLER_AGAIN;
    if (n != 0)
        return SAMPLER_RUNS;
    sampler_stop(s);
    *status = 0;
    return SAMPLER_GONE;
}

int sampler_connect(const struct sampler *s)
{
    int ends[2];
    if (s->fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    if (send_with(s->fd, "", 1, &ends[1], 1) != 0) {
        close(ends[0]);
        ends[0] = -1;
    }
    close(ends[1]);
    return ends[0];
}

/* ---- a session */

static int ask(int fd, const struct request *r, int socket, struct answer *a, int fds[FDS_MAX])
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    size_t n, wanted = 0;
    if (send_with(fd, r, sizeof *r, &socket, socket >= 0) != 0 || poll(&polled, 1, WAIT_MS) != 1 ||
        receive_with(fd, a, sizeof *a, fds, &n) != 0)
        return -1;
    for (size_t i = 0; i < FDS_MAX; i++)
        wanted += a->has[i] != 0;
    if (n == wanted)
        return 0;
    close_all(fds, n);
    return -1;
}

int sampler_find(int fd, int socket, uint64_t likely, struct sampled *found)
{
    const struct request r = {.end = likely};
    struct answer a;
    int fds[FDS_MAX], all[FDS_MAX];
    *found = (struct sampled){.early = PROCESS_EARLY_NONE, .root = PROCESS_ROOT_NONE};
    if (ask(fd, &r, socket, &a, fds) != 0)
        return -1;
    for (size_t i = 0, n = 0; i < FDS_MAX; i++)
        all[i] = a.has[i] ? fds[n++] : -1;
    *found =
        (struct sampled){.pid = a.pid, .early = {all[0], all[1], all[2]}, .root = {all[3], all[4]}};
    return a.pid > 0 ? 0 : -1;
}

int sampler_open(int fd, uint64_t start, uint64_t end)
{
    const struct request r = {.start = start, .end = end};
    struct answer a;
    int fds[FDS_MAX];
    if (ask(fd, &r, -1, &a, fds) != 0 || !a.has[0])
        return -1;
    return fds[0];
}
