#include "client/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/spawn.h"

#define HIGH_DESCRIPTOR 900
#define BRIEF_NS UINT64_C(1000000000) /* as --adopt-after 1, see spawn.c */

#if defined(__x86_64__)
#define ARCH REC_ARCH_X86_64
#else
#define ARCH REC_ARCH_AARCH64
#endif

void connect_exe(char *path, size_t room)
{
    ssize_t n = readlink("/proc/self/exe", path, room - 1);
    path[n > 0 ? n : 0] = 0;
}

/* Moves a descriptor as high as the limit allows, since some programs rely on low numbers. */
static int move_up(int fd)
{
    struct rlimit limit;
    int low = HIGH_DESCRIPTOR;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= HIGH_DESCRIPTOR + 8)
        low = limit.rlim_cur > 16 ? (int)limit.rlim_cur - 8 : 3;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, low);
    if (high < 0)
        high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    (void)close(fd);
    return high;
}

static int open_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(state.socket_path);
    if (length == 0 || length >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, state.socket_path, length);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    if (address.sun_path[0] == '@') {
        address.sun_path[0] = 0;
        size--;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    fd = move_up(fd);
    if (fd < 0)
        return -1;
    int connected;
    do
        connected = connect(fd, (struct sockaddr *)&address, size);
    while (connected && errno == EINTR);
    if (connected) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int say_hello(int fd, uint32_t origin, uint64_t fork_stamp)
{
    struct rec_hello hello = {.version = REC_VERSION,
                              .arch = ARCH,
                              .pid = getpid(),
                              .ppid = getppid(),
                              .origin = origin,
                              .start_ns = clock_ns(),
                              .fork_stamp = fork_stamp};
    memcpy(hello.magic, REC_MAGIC, sizeof hello.magic);
    connect_exe(hello.exe, sizeof hello.exe);
    ssize_t n;
    do
        n = send(fd, &hello, sizeof hello, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof hello ? 0 : -1;
}

/* Receives the welcome. Returns the file's descriptor, or -1: none. */
static int hear_welcome(int fd, struct rec_welcome *welcome)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec piece = {welcome, sizeof *welcome};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    uint64_t end = clock_ns() + REC_ANSWER_MS * 1000000ull;
    for (;;) {
        uint64_t now = clock_ns();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, now < end ? (int)((end - now) / 1000000 + 1) : 0);
        if (ready > 0)
            break;
        if (ready == 0 || errno != EINTR)
            return -1;
    }
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    int file = -1;
    struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&file, CMSG_DATA(c), sizeof file);
    welcome->threads[sizeof welcome->threads - 1] = 0;
    if (n >= (ssize_t)offsetof(struct rec_welcome, threads) &&
        memcmp(welcome->magic, REC_MAGIC, 8) == 0 && welcome->version == REC_VERSION &&
        welcome->accepted == 1 && file >= 0)
        return file;
    if (file >= 0)
        (void)close(file);
    return -1;
}

static int take_file(int fd)
{
    struct stat s;
    fd = fd < 0 ? fd : move_up(fd);
    if (fd < 0 || fstat(fd, &s)) {
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    state.file = fd;
    state.file_device = s.st_dev;
    state.file_inode = s.st_ino;
    return 0;
}

static int ask_collector(uint32_t origin, uint64_t fork_stamp, struct rec_options *options)
{
    struct rec_welcome welcome = {.accepted = 0};
    int fd = open_socket();
    if (fd < 0)
        return -1;
    if (say_hello(fd, origin, fork_stamp) || take_file(hear_welcome(fd, &welcome))) {
        (void)close(fd);
        return -1;
    }
    struct stat s;
    if (fstat(fd, &s) == 0)
        state.socket_inode = s.st_ino;
    *options = welcome.options;
    memcpy(state.threads, welcome.threads, sizeof state.threads);
    state.socket = fd;
    return 0;
}

/* state.file_path with the pid in place of "%p". */
static void make_path(char path[sizeof state.file_path + 16])
{
    size_t length = 0;
    for (const char *p = state.file_path; *p && length < sizeof state.file_path + 4; p++) {
        if (p[0] != '%' || p[1] != 'p') {
            path[length++] = *p;
            continue;
        }
        char digits[12];
        size_t n = 0;
        for (unsigned pid = (unsigned)getpid(); pid || !n; pid /= 10)
            digits[n++] = (char)('0' + pid % 10);
        while (n)
            path[length++] = digits[--n];
        p++;
    }
    path[length] = 0;
}

static int open_named(int flags)
{
    char path[sizeof state.file_path + 16];
    make_path(path);
    return open(path, O_RDWR | O_CLOEXEC | flags, 0600);
}

void connect_drop_brief(void)
{
    char path[sizeof state.file_path + 16];
    if (!state.brief || clock_ns() - state.header->first.ns >= BRIEF_NS)
        return;
    make_path(path);
    (void)unlink(path);
}

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/*
 * Whether this is the program of REC_ENV_PROGRAM: by its path, its file name, or the kernel's name
 * of the process, which for a script is the script's name.
 */
static bool is_named_program(void)
{
    char exe[sizeof state.program], name[16] = "";
    struct stat its, own;
    connect_exe(exe, sizeof exe);
    if (strchr(state.program, '/'))
        return stat(state.program, &its) == 0 && stat("/proc/self/exe", &own) == 0 &&
               its.st_dev == own.st_dev && its.st_ino == own.st_ino;
    if (strcmp(name_in(exe), state.program) == 0)
        return true;
    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    return strncmp(name, state.program, sizeof name - 1) == 0;
}

static void read_option(const char *word, size_t length, struct rec_options *options)
{
    static const struct {
        const char *name;
        size_t offset;
        bool wide;
    } names[] = {
        {"depth", offsetof(struct rec_options, depth), false},
        {"flags", offsetof(struct rec_options, flags), false},
        {"pools", offsetof(struct rec_options, pools), false},
        {"full", offsetof(struct rec_options, when_full), false},
        {"min-size", offsetof(struct rec_options, min_size), true},
        {"sample", offsetof(struct rec_options, sample_bytes), true},
        {"seed", offsetof(struct rec_options, sample_seed), true},
        {"bytes", offsetof(struct rec_options, file_bytes), true},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i].name);
        if (n >= length || memcmp(word, names[i].name, n) != 0 || word[n] != '=')
            continue;
        uint64_t value = strtoull(word + n + 1, NULL, 10);
        uint32_t narrow = (uint32_t)value;
        if (names[i].wide)
            memcpy((char *)options + names[i].offset, &value, sizeof value);
        else
            memcpy((char *)options + names[i].offset, &narrow, sizeof narrow);
    }
}

static void read_options(const char *text, struct rec_options *options)
{
    while (*text) {
        size_t length = strcspn(text, ",");
        read_option(text, length, options);
        text += length + (text[length] == ',');
    }
}

/*
 * The library was loaded by LD_PRELOAD alone: starts a collector, rather than recording nothing
 * silently. Loaded in another way, it waits for a call (attach.c).
 */
static int without_place(uint32_t origin, struct rec_options *options)
{
    static const char own[] = "tidemark.%p.recording";
    if (origin != REC_ORIGIN_EXEC || !state.preload[0] || strcmp(state.run_words, "off") == 0 ||
        spawn_is_collector())
        return -1;
    state.named = state.program[0] && is_named_program();
    state.left_alone = state.program[0] && !state.named;
    if (state.left_alone)
        return -1;
    if (spawn_collector() == 0) {
        state.spawned = true;
        if (ask_collector(origin, 0, options) == 0)
            return 0;
        state.socket_path[0] = 0;
    }
    memcpy(state.file_path, own, sizeof own);
    options->flags = REC_OPTION_FOLLOW_EXEC;
    int status = take_file(open_named(O_CREAT | O_TRUNC));
    state.brief = status == 0 && !state.named;
    spawn_complain(status == 0);
    return status;
}

int connect_begin(uint32_t origin, uint64_t fork_stamp, struct rec_options *options)
{
    memset(options, 0, sizeof *options);
    if (state.socket_path[0])
        return ask_collector(origin, fork_stamp, options);
    if (!state.file_path[0])
        return without_place(origin, options);
    options->flags = REC_OPTION_FOLLOW_EXEC;
    read_options(state.words, options);
    return take_file(open_named(O_CREAT | O_TRUNC));
}

static bool is_there(int fd, ino_t inode, struct stat *s)
{
    return fd >= 0 && fstat(fd, s) == 0 && s->st_ino == inode;
}

bool connect_has_file(void)
{
    struct stat s;
    return is_there(state.file, state.file_inode, &s) && s.st_dev == state.file_device;
}

static bool has_socket(void)
{
    struct stat s;
    return is_there(state.socket, state.socket_inode, &s) && S_ISSOCK(s.st_mode);
}

/*
 * One thread at a time reopens the descriptors. Signals are blocked, so that a handler does not
 * wait for its own thread.
 */
static void lock(void)
{
    while (atomic_exchange_explicit(&state.connecting, 1, memory_order_acquire))
        (void)sched_yield();
}

static void unlock(void)
{
    atomic_store_explicit(&state.connecting, 0, memory_order_release);
}

/*
 * False: reopening failed. The program may close these descriptors, too, and open others in their
 * place.
 */
static bool get_again(void)
{
    struct rec_options options;
    dev_t device = state.file_device;
    ino_t inode = state.file_inode;
    connect_leave();
    errno = 0;
    int status = state.socket_path[0] ? ask_collector(REC_ORIGIN_AGAIN, 0, &options)
                                      : take_file(open_named(0));
    bool closed = status ? errno == EBADF || errno == ENOTSOCK : state.socket_path[0] != 0;
    /* Another file may have the name now: it must not be written. */
    bool same = status == 0 && state.file_device == device && state.file_inode == inode;
    if (!same)
        connect_leave();
    state.file_device = device;
    state.file_inode = inode;
    return same || closed;
}

int connect_again(void)
{
    uint64_t end = clock_ns() + REC_ANSWER_MS * 1000000ull;
    bool has;
    lock();
    while (!(has = connect_has_file()) && get_again() && clock_ns() < end)
        continue;
    unlock();
    return has ? 0 : -1;
}

void connect_leave(void)
{
    int saved = errno;
    if (connect_has_file())
        (void)close(state.file);
    if (has_socket())
        (void)close(state.socket);
    state.file = -1;
    state.socket = -1;
    errno = saved;
}

/* The collector sends nothing: what can be read is the end of the connection. */
void connect_ask_look(void)
{
    const uint32_t ask = REC_ASK_LOOK;
    struct rec_header *h = state.header;
    struct pollfd wait = {.fd = state.socket, .events = POLLIN};
    if (!(h->options.flags & REC_OPTION_LOOK) || state.sandboxed || !has_socket() ||
        send(state.socket, &ask, sizeof ask, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof ask)
        return;
    uint64_t end = clock_ns() + REC_ANSWER_MS * 1000000ull;
    while (!atomic_load_explicit(&h->looked, memory_order_acquire) && clock_ns() < end &&
           poll(&wait, 1, 1) <= 0)
        continue;
}

bool connect_collector_lives(void)
{
    struct pollfd wait = {.events = POLLIN};
    if (state.socket_path[0]) {
        lock();
        if (!has_socket()) /* the program closed it */
            (void)get_again();
        unlock();
    }
    wait.fd = state.socket;
    return wait.fd >= 0 && poll(&wait, 1, 0) == 0;
}
