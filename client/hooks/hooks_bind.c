/*
 * bind: if a listener of Tidemark holds the port that the program wants, it gives the port up.
 * listen: reports the port of a Tracy client in the program to the collector.
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/events.h"
#include "client/files.h"
#include "client/hooks/hooks.h"
#include "client/quiet.h"
#include "client/real.h"
#include "client/state.h"

#define CLIENT_THREAD "Tracy Profiler"

/* A collector that is saving a child's trace answers after that. */
#define ANSWER_NS UINT64_C(30000000000)

/* The TCP port that is in use; 0: bind failed for another reason. */
static uint16_t wanted_port(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    int type = 0;
    socklen_t size = sizeof type;
    if (length < sizeof in || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        type != SOCK_STREAM)
        return 0;
    memcpy(&in, address, sizeof in);
    if (in.sin_family == AF_INET)
        return ntohs(in.sin_port);
    if (in.sin_family != AF_INET6 || length < sizeof in6)
        return 0;
    memcpy(&in6, address, sizeof in6);
    return ntohs(in6.sin6_port);
}

/* Makes the abstract name of REC_PORT_NAME and the number; returns its length. */
static socklen_t name_of_port(struct sockaddr_un *at, uint16_t port)
{
    char digits[8];
    size_t count = 0, length = sizeof REC_PORT_NAME - 1;
    *at = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(at->sun_path + 1, REC_PORT_NAME, length);
    for (; port; port /= 10)
        digits[count++] = (char)('0' + port % 10);
    while (count)
        at->sun_path[1 + length++] = digits[--count];
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* Whether the peer is a collector; another program may have taken the socket's name. */
static bool is_collector(int fd)
{
    struct ucred its;
    socklen_t size = sizeof its;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &its, &size) == 0 &&
           (its.uid == 0 || its.uid == geteuid());
}

/* Waits until the peer closes the connection. */
static bool wait_for_end(int fd)
{
    uint64_t now, end = clock_ns() + ANSWER_NS;
    while ((now = clock_ns()) < end) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, (int)((end - now) / 1000000 + 1));
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
    return false;
}

static bool claim(uint16_t port)
{
    struct sockaddr_un at;
    struct quiet q;
    quiet_begin(&q);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = name_of_port(&at, port);
    bool left = fd >= 0 && connect(fd, (const struct sockaddr *)&at, length) == 0 &&
                is_collector(fd) && wait_for_end(fd);
    if (fd >= 0)
        (void)close(fd);
    quiet_end(&q);
    return left;
}

/*
 * Tracy clients give this name to the thread in which they listen
 * (public/client/TracyProfiler.cpp).
 */
static bool is_client_thread(void)
{
    char name[16] = "";
    return prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && strcmp(name, CLIENT_THREAD) == 0;
}

static void note_client(int fd)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    struct quiet q;
    uint32_t none = 0;
    if (!event_is_on() || state.sandboxed)
        return;
    quiet_begin(&q);
    if (is_client_thread() && getsockname(fd, (struct sockaddr *)&at, &size) == 0) {
        uint16_t port = wanted_port(fd, (const struct sockaddr *)&at, size);
        (void)atomic_compare_exchange_strong(&state.header->client_port, &none, port);
    }
    quiet_end(&q);
}

/* ---- exit while a client still starts */

#define SERVER_NS UINT64_C(3000000000) /* for a server */
/* For a client's thread, until it listens; in a younger process it calibrates first. */
#define LISTEN_NS UINT64_C(100000000)
#define START_NS UINT64_C(1000000000)
#define NAMING_NS UINT64_C(20000000) /* for a new thread, until it has its name, there */
#define YOUNG_NS UINT64_C(2000000000)

struct entry { /* as of getdents64(2) */
    uint64_t inode, next;
    uint16_t length;
    uint8_t type;
    char name[];
};

/* Appends text at `at`; returns its end. */
static char *append(char *at, const char *text)
{
    size_t length = strlen(text);
    memcpy(at, text, length + 1);
    return at + length;
}

static bool is_named_as_client(const char *tid)
{
    char path[64], name[32];
    if (strlen(tid) > 16)
        return false;
    append(append(append(path, "/proc/self/task/"), tid), "/comm");
    return files_read(path, name, sizeof name) > 0 && strcmp(name, CLIENT_THREAD "\n") == 0;
}

/* How long a client may still need until it listens, judged by the threads. */
static uint64_t listening_time(void)
{
    uint64_t room[512], threads = 0;
    long n;
    bool client = false;
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && !client && (n = syscall(SYS_getdents64, fd, room, sizeof room)) > 0) {
        for (long at = 0; at < n && !client;) {
            const struct entry *e = (const struct entry *)(const void *)((char *)room + at);
            at += e->length;
            threads += e->name[0] != '.';
            client = e->name[0] != '.' && is_named_as_client(e->name);
        }
    }
    if (fd >= 0)
        (void)close(fd);
    bool young = clock_ns() - state.header->first.ns < YOUNG_NS;
    uint64_t naming = threads > 1 && young ? NAMING_NS : 0;
    return client ? young ? START_NS : LISTEN_NS : naming;
}

void hooks_await_client(void)
{
    struct quiet q;
    if (!event_is_on() || !(state.header->options.flags & REC_OPTION_CLIENT) || state.sandboxed)
        return;
    int saved = errno;
    quiet_begin(&q);
    uint64_t began = clock_ns();
    while (!atomic_load_explicit(&state.header->client_served, memory_order_relaxed)) {
        bool listens = atomic_load_explicit(&state.header->client_port, memory_order_relaxed);
        if (clock_ns() - began >= (listens ? SERVER_NS : listening_time()))
            break;
        (void)poll(NULL, 0, 1);
    }
    quiet_end(&q);
    errno = saved;
}

/* ---- bind and listen */

/* bind failed because the port is in use: whether a collector has released it. */
static bool is_left(int fd, const struct sockaddr *address, socklen_t length)
{
    uint16_t port = state.sandboxed ? 0 : wanted_port(fd, address, length);
    return port && claim(port);
}

HOOK int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
    const struct sockaddr *at = address.__sockaddr__;
    hooks_prepare();
    int result = real.bind(fd, at, length);
    if (result != 0 && errno == EADDRINUSE) {
        if (is_left(fd, at, length))
            result = real.bind(fd, at, length);
        else
            errno = EADDRINUSE;
    }
    return result;
}

HOOK int listen(int fd, int backlog)
{
    hooks_prepare();
    int result = real.listen(fd, backlog);
    if (result == 0)
        note_client(fd);
    return result;
}
