#include "server/daemon/prober.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/monotonic.h"
#include "server/net/address.h"
#include "server/net/stop.h"

#define ROUND_MS 2000    /* interval of rounds */
#define CONNECT_MS 1500  /* for the connections of a round */
#define AT_ONCE 64u      /* simultaneous connections */
#define ADDRESSES_MAX 4u /* tried per host */

/* Answers of a target's addresses in this round. */
enum { REFUSES = 1, MAY_BE_THERE = 2 };

struct attempt {
    int fd;
    uint32_t target;
    struct sockaddr_storage at;
};

struct round {
    const struct probe_target *targets;
    const volatile uint8_t *asked;
    unsigned count;
    int out;
    struct attempt open[AT_ONCE];
    unsigned opened;
    uint8_t answers[PROBES_MAX]; /* by target */
};

/* One datagram each; if the send fails, the next round repeats it. */
static void tell(const struct round *r, const struct attempt *a)
{
    struct probe_found found = {.target = a->target};
    if (getnameinfo((const struct sockaddr *)&a->at, sizeof a->at, found.address,
                    sizeof found.address, NULL, 0, NI_NUMERICHOST) == 0)
        (void)send(r->out, &found, sizeof found, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/*
 * A host that does not answer may return at once with the same client, so its port does not count
 * as closed.
 */
static void note(struct round *r, uint32_t target, int error)
{
    r->answers[target] |= error == ECONNREFUSED ? REFUSES : MAY_BE_THERE;
}

static void tell_gone(const struct round *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const struct probe_found found = {.target = i, .gone = true};
        if (r->answers[i] == REFUSES && r->asked[i] == PROBE_WATCH)
            (void)send(r->out, &found, sizeof found, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* Reports and closes the connections that have an answer. */
static void take_answers(struct round *r, const struct pollfd *polled)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < r->opened; i++) {
        int error = 0;
        socklen_t len = sizeof error;
        if (!polled[i].revents) {
            r->open[kept++] = r->open[i];
            continue;
        }
        if (getsockopt(r->open[i].fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0)
            tell(r, &r->open[i]);
        note(r, r->open[i].target, error);
        close(r->open[i].fd);
    }
    r->opened = kept;
}

/* Waits for all open connections until the timeout. */
static void settle(struct round *r)
{
    long long end = monotonic_ns() + CONNECT_MS * 1000000LL;
    while (r->opened) {
        struct pollfd polled[AT_ONCE];
        long long left = (end - monotonic_ns()) / 1000000;
        if (left <= 0)
            break;
        for (unsigned i = 0; i < r->opened; i++)
            polled[i] = (struct pollfd){.fd = r->open[i].fd, .events = POLLOUT};
        int n = poll(polled, r->opened, (int)left);
        if (n > 0)
            take_answers(r, polled);
        else if (n == 0 || errno != EINTR)
            break;
    }
    for (unsigned i = 0; i < r->opened; i++) {
        note(r, r->open[i].target, ETIMEDOUT);
        close(r->open[i].fd);
    }
    r->opened = 0;
}

static void open_one(struct round *r, uint32_t target, const struct addrinfo *at)
{
    struct attempt a = {.target = target};
    if (at->ai_addrlen > sizeof a.at)
        return;
    a.fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a.fd < 0)
        return;
    memcpy(&a.at, at->ai_addr, at->ai_addrlen);
    if (connect(a.fd, at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) {
        note(r, target, errno);
        close(a.fd);
        return;
    }
    r->open[r->opened++] = a;
    if (r->opened == AT_ONCE)
        settle(r);
}

static void try_target(struct round *r, uint32_t target)
{
    const struct probe_target *t = &r->targets[target];
    struct addrinfo *list = NULL;
    struct err ignored;
    r->answers[target] = 0;
    if (r->asked[target] == PROBE_NOT || address_resolve(t->host, t->port, 0, &list, &ignored) != 0)
        return;
    unsigned n = 0;
    for (const struct addrinfo *i = list; i && n < ADDRESSES_MAX; i = i->ai_next, n++)
        open_one(r, target, i);
    freeaddrinfo(list);
}

static _Noreturn void probe_for_ever(struct round *r)
{
    for (;;) {
        for (uint32_t i = 0; i < r->count; i++)
            try_target(r, i);
        settle(r);
        tell_gone(r);
        /* When the daemon ends, its side of the pair closes. */
        struct pollfd polled = {.fd = r->out, .events = POLLIN};
        if (poll(&polled, 1, ROUND_MS) > 0)
            _exit(0);
    }
}

/* A restarted prober would inherit the captures' descriptors and keep their pipes open. */
static void close_others(int own)
{
    if (own > 3)
        (void)file_close_range(3, (unsigned)own - 1);
    (void)file_close_range((unsigned)own + 1, ~0u);
}

int prober_start(struct prober *p, const struct probe_target *targets, unsigned count,
                 const struct file_limit *files, struct err *e)
{
    int ends[2];
    *p = (struct prober){.fd = -1, .count = count};
    void *shared = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return err_no_memory(e, "looking for clients");
    p->asked = shared;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        err_errno(e, ERR_CONNECT, "cannot look for clients");
        prober_release(p);
        return -1;
    }
    p->fd = ends[0];
    p->pid = fork();
    if (p->pid == 0) {
        struct round r = {.targets = targets, .asked = p->asked, .count = count, .out = ends[1]};
        file_limit_restore(files);
        close_others(ends[1]);
        /*
         * A terminal's SIGINT goes to its whole process group: the prober ends only when the daemon
         * does.
         */
        (void)setpgid(0, 0);
        probe_for_ever(&r);
    }
    close(ends[1]);
    if (p->pid > 0)
        return 0;
    p->pid = 0;
    err_errno(e, ERR_CONNECT, "cannot look for clients");
    prober_release(p);
    return -1;
}

bool prober_next(struct prober *p, struct probe_found *found, bool *gone)
{
    ssize_t n;
    *gone = false;
    if (p->fd < 0)
        return false;
    while ((n = recv(p->fd, found, sizeof *found, MSG_DONTWAIT)) < 0 && errno == EINTR)
        ;
    *gone = n == 0;
    if (n != (ssize_t)sizeof *found || found->target >= p->count)
        return false;
    found->address[sizeof found->address - 1] = 0;
    return true;
}

void prober_release(struct prober *p)
{
    if (p->fd >= 0)
        close(p->fd);
    if (p->pid > 0) {
        (void)kill(p->pid, SIGKILL);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (p->asked)
        (void)munmap((void *)p->asked, p->count);
    *p = PROBER_NONE;
}
