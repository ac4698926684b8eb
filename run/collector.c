#include "run/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file_io.h"
#include "base/monotonic.h"
#include "base/vec.h"
#include "run/descent.h"
#include "run/kernel_notes.h"
#include "server/net/socket_folder.h"

/* 16 MiB in units of 512 bytes: freeing less is not worth a child process. */
#define LARGE_BLOCKS 32768

/* Length of the accept queue: a build may start many processes at once. */
#define BACKLOG 512

/* Interval of retries to get a descriptor. */
#define RETRY_MS 10

enum watched { WATCHED_LISTENER, WATCHED_STOP, WATCHED_SOCKET, WATCHED_PROCESS };

struct peer;

/* The kind of a ready descriptor. */
struct watch {
    enum watched what;
    struct peer *peer;
};

/* A recorded process. Its end is noticed by its socket and by its pidfd. */
struct peer {
    int socket, process; /* socket: -1 once the process has closed it; process: a pidfd, or -1 */
    struct watch of_socket, of_process;
    struct collected *collected;
};

struct collector {
    struct collector_options options;
    char *folder;
    struct socket_folder place; /* of the socket */
    int listener, epoll, stop, news;
    int spare; /* a descriptor reserved for when none is free */
    struct watch of_listener, of_stop;
    pthread_t thread;
    bool runs;
    _Atomic pid_t root;
    _Atomic bool paused;
    _Atomic uint64_t missed; /* processes without a file to record into */
    _Atomic int failure;     /* errno of the last one; 0: none */
    unsigned count;
    pthread_mutex_t lock; /* guards `queue` */
    VEC(struct collected *) queue;
    size_t taken;
    VEC(struct peer *) peers; /* used by the thread only */
};

static void tell(const struct collector *c)
{
    uint64_t one = 1;
    (void)!write(c->news, &one, sizeof one);
}

/* ---- a process connects */

static void miss(struct collector *c, int cause)
{
    c->missed++;
    c->failure = cause;
}

static struct collected *make_collected(struct collector *c, const struct rec_hello *hello,
                                        const struct ucred *who)
{
    const pid_t pid = who->pid;
    struct collected *p = calloc(1, sizeof *p);
    struct buf path = {0};
    if (!p) {
        miss(c, ENOMEM);
        return NULL;
    }
    buf_printf(&path, "%s/%d.%u.recording", c->folder, (int)pid, c->count++);
    p->hello = *hello;
    p->hello.exe[sizeof p->hello.exe - 1] = 0;
    p->pid = pid;
    p->uid = who->uid;
    p->is_root = pid == c->root;
    p->began = monotonic_ns();
    p->path = strdup(buf_str(&path));
    p->fd =
        p->path && !path.failed ? open(p->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (p->fd < 0)
        miss(c, p->path && !path.failed ? errno : ENOMEM);
    buf_release(&path);
    if (p->fd >= 0)
        return p;
    free(p->path);
    free(p);
    return NULL;
}

static bool answer(int socket, const struct collector *c, int fd)
{
    struct rec_welcome w = {
        .version = REC_VERSION, .accepted = fd >= 0, .options = c->options.record};
    struct iovec part = {&w, sizeof w};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    memcpy(w.magic, REC_MAGIC, sizeof w.magic);
    w.options.size = sizeof w.options;
    if (c->options.threads)
        snprintf(w.threads, sizeof w.threads, "%s", c->options.threads);
    w.options.flags |= c->paused ? (uint32_t)REC_OPTION_PAUSED : 0;
    if (fd >= 0) {
        m.msg_control = control.room;
        m.msg_controllen = sizeof control.room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&m);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    return sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof w;
}

static bool watch(const struct collector *c, int fd, struct watch *w)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = w};
    return epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/*
 * Closes what is watched. epoll forgets a descriptor by itself only when its last copy is closed: a
 * process that was just forked may have one, and a peer would be reported that is gone.
 */
static void unwatch(const struct collector *c, int fd)
{
    (void)epoll_ctl(c->epoll, EPOLL_CTL_DEL, fd, NULL);
    close(fd);
}

static void drop(struct collector *c, struct peer *p)
{
    for (size_t i = 0; i < c->peers.len; i++) {
        if (c->peers.at[i] == p) {
            c->peers.at[i] = c->peers.at[--c->peers.len];
            break;
        }
    }
    if (p->socket >= 0)
        unwatch(c, p->socket);
    if (p->process >= 0)
        unwatch(c, p->process);
    free(p);
}

/*
 * No descriptor is free for a waiting connection. Its program would be blocked and epoll would
 * report it again and again. It is accepted with the spare descriptor and closed at once, so its
 * process is not recorded.
 */
static void turn_away(struct collector *c, int cause)
{
    if (c->spare >= 0)
        close(c->spare);
    int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        miss(c, cause);
        close(fd);
    } else {
        (void)poll(NULL, 0, RETRY_MS);
    }
    c->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void come_in(struct collector *c)
{
    int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        turn_away(c, errno);
    if (fd < 0)
        return;
    struct peer *p = calloc(1, sizeof *p);
    if (p)
        *p = (struct peer){.socket = fd,
                           .process = -1,
                           .of_socket = {WATCHED_SOCKET, p},
                           .of_process = {WATCHED_PROCESS, p}};
    if (p && vec_push(&c->peers, p)) {
        if (!watch(c, fd, &p->of_socket))
            drop(c, p);
        return;
    }
    free(p);
    close(fd);
}

/* Queues the process for the thread that reads recordings. */
static bool hand_over(struct collector *c, struct collected *p)
{
    pthread_mutex_lock(&c->lock);
    bool done = vec_push(&c->queue, p);
    pthread_mutex_unlock(&c->lock);
    return done;
}

/*
 * When root runs this, any user may connect, since programs may change their user. A process of
 * another user must be the recorded program or its descendant.
 */
static bool is_trusted(const struct collector *c, const struct ucred *who)
{
    return who->uid == geteuid() || who->uid == 0 ||
           (geteuid() == 0 && descends_from(who->pid, c->root));
}

static bool is_wanted(const struct collector *c, const struct rec_hello *hello, ssize_t size,
                      const struct ucred *who)
{
    return size == (ssize_t)sizeof *hello && memcmp(hello->magic, REC_MAGIC, 8) == 0 &&
           hello->version == REC_VERSION && (c->options.children || who->pid == c->root) &&
           is_trusted(c, who);
}

static void goes(struct collector *c, struct peer *p)
{
    if (p->collected) {
        p->collected->end = monotonic_ns();
        p->collected->ended = true;
        tell(c);
    }
    drop(c, p);
}

/* The peer if the process already has a recording; else NULL. */
static struct peer *find_peer(const struct collector *c, pid_t pid)
{
    for (size_t i = 0; i < c->peers.len; i++) {
        struct peer *p = c->peers.at[i];
        if (p->collected && p->collected->pid == pid)
            return p;
    }
    return NULL;
}

/* A program that closed the library's descriptors continues in its old file. */
static bool go_on(struct collector *c, struct peer *p, struct peer *before)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = &p->of_process};
    if (before->process >= 0 && epoll_ctl(c->epoll, EPOLL_CTL_MOD, before->process, &ev) != 0)
        return false;
    p->collected = before->collected;
    p->process = before->process;
    before->process = -1;
    drop(c, before);
    return answer(p->socket, c, p->collected->fd);
}

static void greet(struct collector *c, struct peer *p, const struct rec_hello *hello, ssize_t size)
{
    struct ucred who = {0};
    socklen_t len = sizeof who;
    struct collected *new = NULL;
    bool wanted = getsockopt(p->socket, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
                  is_wanted(c, hello, size, &who);
    struct peer *before = wanted ? find_peer(c, who.pid) : NULL;
    if (wanted && hello->origin == REC_ORIGIN_AGAIN) {
        if (before && go_on(c, p, before))
            return;
        if (p->collected)
            return; /* it did not receive the answer: its pidfd will report its end */
        wanted = false;
    } else if (before && before->socket < 0) {
        goes(c, before); /* another program replaced it without notice */
    }
    if (wanted)
        new = make_collected(c, hello, &who);
    if (new && !hand_over(c, new)) {
        miss(c, ENOMEM);
        collected_free(new, false);
        new = NULL;
    }
    if (!new) {
        (void)answer(p->socket, c, -1);
        drop(c, p);
        return;
    }
    p->collected = new;
#ifdef SYS_pidfd_open
    p->process = (int)syscall(SYS_pidfd_open, who.pid, 0);
#endif
    if (p->process >= 0 && !watch(c, p->process, &p->of_process)) {
        close(p->process);
        p->process = -1;
    }
    (void)answer(p->socket, c, new->fd);
    tell(c);
}

/*
 * Whether the process behind a closed connection still records: programs close unknown descriptors,
 * daemons all of them. A process that executed another program or was detached does not record.
 */
static bool records_on(const struct peer *p)
{
    struct pollfd wait = {.fd = p->process, .events = POLLIN};
    uint32_t state = REC_STATE_NEW;
    if (!p->collected || p->process < 0 || poll(&wait, 1, 0) != 0)
        return false;
    (void)!pread(p->collected->fd, &state, sizeof state, offsetof(struct rec_header, state));
    return state != REC_STATE_EXEC &&
           !(state == REC_STATE_EXITING && p->collected->hello.origin == REC_ORIGIN_ATTACH);
}

static void socket_ended(struct collector *c, struct peer *p)
{
    if (!records_on(p)) {
        goes(c, p);
        return;
    }
    unwatch(c, p->socket);
    p->socket = -1;
}

/* The first message is the hello; after it REC_ASK_LOOK and end of file are expected. */
static void socket_ready(struct collector *c, struct peer *p)
{
    const uint32_t ask = REC_ASK_LOOK;
    struct rec_hello hello;
    ssize_t n = recv(p->socket, &hello, sizeof hello, 0);
    if (n > 0 && !p->collected) {
        greet(c, p, &hello, n);
    } else if (n == sizeof ask && memcmp(&hello, &ask, sizeof ask) == 0) {
        p->collected->asks = true;
        tell(c);
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        socket_ended(c, p);
}

static void *serve(void *ctx)
{
    struct collector *c = ctx;
    for (;;) {
        /* One event at a time: handling one may free the peer of another. */
        struct epoll_event ev;
        int n = epoll_wait(c->epoll, &ev, 1, -1);
        if (n < 0 && errno != EINTR)
            return NULL;
        if (n <= 0)
            continue;
        const struct watch *w = ev.data.ptr;
        struct peer *p = w->peer;
        switch (w->what) {
        case WATCHED_LISTENER:
            come_in(c);
            break;
        case WATCHED_STOP:
            return NULL;
        case WATCHED_SOCKET:
            socket_ready(c, p);
            break;
        case WATCHED_PROCESS:
            goes(c, p);
            break;
        }
    }
}

/* ---- start and stop */

/*
 * Socket paths are limited in length, so the socket is not in the folder of the recordings unless
 * no other folder is writable.
 */
static int make_place(struct collector *c, struct err *e)
{
    char *spool = realpath(c->options.spool, NULL); /* absolute: programs may change folder */
    const char *const parents[] = {"/dev/shm", spool ? spool : c->options.spool};
    struct err other;
    int status = socket_folder_make(&c->place, "/tmp", e);
    for (size_t i = 0; i < sizeof parents / sizeof *parents && status != 0; i++) {
        socket_folder_release(&c->place);
        status = socket_folder_make(&c->place, parents[i], &other);
    }
    free(spool);
    if (status == 0)
        *e = (struct err){0};
    return status;
}

static int make_folders(struct collector *c, struct err *e)
{
    struct buf b = {0};
    int status = -1;
    for (unsigned i = 0; i < 1000 && status != 0; i++) {
        buf_clear(&b);
        buf_printf(&b, "%s/tidemark-run.%d", c->options.spool, (int)getpid());
        if (i)
            buf_printf(&b, ".%u", i);
        status = mkdir(buf_str(&b), 0700);
        if (status != 0 && errno != EEXIST)
            break;
    }
    if (status != 0)
        err_errno(e, ERR_OUTPUT, "cannot make a folder in %s", c->options.spool);
    else
        c->folder = strdup(buf_str(&b));
    bool failed = b.failed || (status == 0 && !c->folder);
    buf_release(&b);
    if (status != 0)
        return -1;
    if (failed)
        return err_no_memory(e, "the collector");
    return make_place(c, e);
}

/* A program of root may change its user. The user is checked when it connects. */
static bool let_others_in(const struct collector *c)
{
    return chmod(c->place.path, 0711) == 0 && chmod(c->place.socket, 0666) == 0;
}

static int listen_on(struct collector *c, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(c->place.socket);
    if (length >= sizeof address.sun_path)
        return err_set(e, ERR_OUTPUT, "cannot listen on %s: the name is too long", c->place.socket);
    memcpy(address.sun_path, c->place.socket, length + 1);
    c->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->listener < 0 || c->epoll < 0 || c->stop < 0 || c->news < 0 ||
        bind(c->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(c->listener, BACKLOG) != 0 || !watch(c, c->listener, &c->of_listener) ||
        !watch(c, c->stop, &c->of_stop) || (geteuid() == 0 && !let_others_in(c)))
        return err_errno(e, ERR_OUTPUT, "cannot listen on %s", c->place.socket);
    return 0;
}

/* Signals are handled by the main thread, so the new thread blocks them. */
static int start_thread(struct collector *c, struct err *e)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&c->thread, NULL, serve, c);
    c->runs = errno == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return c->runs ? 0 : err_errno(e, ERR_MEMORY, "cannot start a thread");
}

int collector_start(struct collector **out, const struct collector_options *o, struct err *e)
{
    struct collector *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return err_no_memory(e, "the collector");
    c->options = *o;
    c->of_listener.what = WATCHED_LISTENER;
    c->of_stop.what = WATCHED_STOP;
    c->place = SOCKET_FOLDER_NONE;
    c->listener = c->epoll = c->stop = c->news = -1;
    c->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_init(&c->lock, NULL);
    if (make_folders(c, e) == 0 && listen_on(c, e) == 0 && start_thread(c, e) == 0) {
        *out = c;
        return 0;
    }
    collector_stop(c);
    return -1;
}

static void remove_folders(struct collector *c)
{
    socket_folder_release(&c->place);
    if (c->folder)
        rmdir(c->folder); /* fails if the folder is not empty */
    free(c->folder);
}

void collector_stop(struct collector *c)
{
    uint64_t one = 1;
    struct collected *p;
    if (!c)
        return;
    if (c->runs && write(c->stop, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(c->thread, NULL);
    /* Their processes go on and notice the closed socket. */
    while (c->peers.len)
        drop(c, c->peers.at[c->peers.len - 1]);
    while ((p = collector_take(c)))
        collected_free(p, true);
    const int fds[] = {c->listener, c->epoll, c->stop, c->news, c->spare};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    remove_folders(c);
    vec_release(&c->peers);
    vec_release(&c->queue);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

const char *collector_socket(const struct collector *c)
{
    return c->place.socket;
}

const char *collector_folder(const struct collector *c)
{
    return c->folder;
}

void collector_set_root(struct collector *c, pid_t pid)
{
    c->root = pid;
}

void collector_set_paused(struct collector *c, bool paused)
{
    c->paused = paused;
}

int collector_fd(const struct collector *c)
{
    return c->news;
}

struct collected *collector_take(struct collector *c)
{
    uint64_t count;
    struct collected *p = NULL;
    if (c->news >= 0)
        (void)!read(c->news, &count, sizeof count);
    pthread_mutex_lock(&c->lock);
    if (c->taken < c->queue.len)
        p = c->queue.at[c->taken++];
    if (c->taken == c->queue.len)
        c->taken = c->queue.len = 0;
    pthread_mutex_unlock(&c->lock);
    return p;
}

bool collected_unlink(const char *path)
{
    struct buf notes = {0};
    buf_printf(&notes, "%s" KERNEL_NOTES_ENDING, path);
    if (!notes.failed)
        unlink(buf_str(&notes));
    buf_release(&notes);
    return unlink(path) == 0;
}

void collected_free(struct collected *p, bool keep)
{
    if (!p)
        return;
    close(p->fd);
    if (!keep)
        (void)collected_unlink(p->path);
    free(p->path);
    free(p);
}

/* Closing an unnamed file frees its space: a child process does it, which has nothing else open. */
static void hold_in_child(int fd)
{
    pid_t pid = fork();
    if (pid != 0)
        return; /* without a child this process frees it */
    if (fd > 0)
        (void)file_close_range(0, (unsigned)fd - 1);
    (void)file_close_range((unsigned)fd + 1, ~0u);
    _exit(0);
}

void collected_leave(struct collected *p, bool keep)
{
    struct stat st;
    bool large = p && fstat(p->fd, &st) == 0 && st.st_blocks >= LARGE_BLOCKS;
    if (!keep && large && collected_unlink(p->path))
        hold_in_child(p->fd);
    collected_free(p, keep);
}

int collector_failure(const struct collector *c)
{
    return c->failure;
}

uint64_t collector_missed(const struct collector *c)
{
    return c->missed;
}
