/*
 * For tests only, loaded with LD_PRELOAD: makes calls fail that write to regular files and folders,
 * as they do on a disk that is full or broken.
 *
 *     FAULT_AT=N      the N-th such call (from 1) fails, in the process or those that it forks
 *     FAULT_FROM=N    and so do all that come after it
 *     FAULT_HOW=E     the number of the error; 0: half of what should be written is, and no error
 *     FAULT_KILL=1    it does not fail, but the process is killed before it
 *     FAULT_HOLD=F    they do not fail but wait until there is a file F
 *     FAULT_ONLY=S    only calls of these names count, "write,fsync"; default all
 *     FAULT_NAMED=1   no file without a name can be made, as on some file systems
 *     FAULT_STRAY=1   processes that are forked do not end with the one that forked them
 *     FAULT_LOG=F     each call becomes a line of the file F: name, and the file's path
 *     FAULT_GOT=F     the bytes that recv gave are written to the file F at the end
 *     FAULT_LATE=M    from the call that fails on, each look at the monotonic clock is M ms later
 *     FAULT_GONE=F    while there is a file F, what is sent over TCP was not acknowledged for long
 *
 * Calls are write, pwrite, pwritev, fsync, fdatasync, ftruncate, fallocate, fsetxattr, rename,
 * link, mkdir, open (of what does not exist yet), mmap (of files); unlink and rmdir if they are
 * named. Streams of the C library write
 * through here when they come from fdopen. What the environment asks for is taken out of it, so
 * that programs started by the program run undisturbed.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define CALLS_MAX 2000000ul

static struct {
    unsigned long *calls;      /* shared with the processes that are forked */
    unsigned long got;         /* bytes from recv */
    unsigned long first, last; /* calls that fail; first == 0: none */
    unsigned long late;        /* ms for each look at the clock */
    unsigned long looks;       /* at the clock since a call failed */
    int how, stray, named, kill;
    char log[200], got_file[200], hold[200], gone[200];
    char only[200];
} state;

/* ---- who fails */

/* Opened each time: a process that is forked may close whatever it does not know. */
static void append(const char *path, const char *text, int len)
{
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)!syscall(SYS_write, fd, text, (size_t)len);
    (void)syscall(SYS_close, fd);
}

static void note(const char *name, int fd, const char *path)
{
    char self[32], text[4200], file[4096] = "";
    ssize_t n = 0;
    int before = errno;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    if (!path && (n = readlink(self, file, sizeof file - 1)) < 0)
        n = 0;
    file[n] = '\0';
    append(state.log, text, snprintf(text, sizeof text, "%s %.4000s\n", name, path ? path : file));
    errno = before;
}

static bool counts(const char *name)
{
    const char *at = state.only;
    size_t len = strlen(name);
    for (; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    }
    return state.only[0] == '\0';
}

/* Whether this call is one that fails; `path` NULL: a descriptor's file. */
static bool hit(const char *name, int fd, const char *path)
{
    if (!state.calls || !counts(name))
        return false;
    unsigned long n = __atomic_add_fetch(state.calls, 1, __ATOMIC_RELAXED);
    if (state.log[0] && n < CALLS_MAX)
        note(name, fd, path);
    if (!state.first || n < state.first || n > state.last)
        return false;
    if (state.kill)
        raise(SIGKILL);
    if (!state.hold[0])
        return true;
    while (access(state.hold, F_OK) != 0)
        usleep(5000);
    return false;
}

static bool hit_file(const char *name, int fd)
{
    struct stat st;
    int before = errno;
    bool file = fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
    errno = before;
    return file && hit(name, fd, NULL);
}

/* What a call that fails gives. */
static int refuse(void)
{
    errno = state.how;
    return -1;
}

/* Of `n` bytes that a call is to write; 0: it fails with errno. */
static size_t share(const char *name, int fd, size_t n)
{
    if (!hit_file(name, fd))
        return n;
    if (state.how == 0)
        return (n + 1) / 2;
    errno = state.how;
    return 0;
}

#define NEXT(NAME)                                                                                 \
    static __typeof__(NAME) *next;                                                                 \
    if (!next)                                                                                     \
    *(void **)&next = dlsym(RTLD_NEXT, #NAME)

/* ---- bytes */

ssize_t write(int fd, const void *p, size_t n)
{
    NEXT(write);
    size_t most = n ? share("write", fd, n) : 0;
    return n && !most ? -1 : next(fd, p, most);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    NEXT(pwrite);
    size_t most = n ? share("pwrite", fd, n) : 0;
    return n && !most ? -1 : next(fd, p, most, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    NEXT(pwritev);
    size_t n = 0;
    for (int i = 0; i < count; i++)
        n += parts[i].iov_len;
    size_t most = n ? share("pwritev", fd, n) : 0;
    if (most == n)
        return next(fd, parts, count, at);
    if (!most)
        return -1;
    size_t head = parts[0].iov_len < most ? parts[0].iov_len : most;
    const struct iovec some[2] = {{parts[0].iov_base, head},
                                  {parts[1].iov_base, count > 1 ? most - head : 0}};
    return next(fd, some, count > 1 ? 2 : 1, at);
}

ssize_t recv(int fd, void *p, size_t n, int flags)
{
    NEXT(recv);
    ssize_t got = next(fd, p, n, flags);
    if (got > 0 && !(flags & MSG_PEEK))
        state.got += (unsigned long)got;
    return got;
}

int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
    NEXT(getsockopt);
    int status = next(fd, level, option, value, len);
    struct tcp_info *info = value;
    if (status == 0 && level == IPPROTO_TCP && option == TCP_INFO && *len >= sizeof *info &&
        state.gone[0] && access(state.gone, F_OK) == 0) {
        info->tcpi_unacked = 1;
        info->tcpi_last_ack_recv = 1000000;
    }
    return status;
}

static ssize_t stream_write(void *cookie, const char *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t some = write((int)(intptr_t)cookie, p + done, n - done);
        if (some < 0 && errno == EINTR)
            continue; /* of programs that handle no signals */
        if (some <= 0)
            return 0; /* what fopencookie(3) wants of a failure; errno goes on */
        done += (size_t)some;
    }
    return (ssize_t)n;
}

static int stream_seek(void *cookie, off_t *at, int whence)
{
    off_t to = lseek((int)(intptr_t)cookie, *at, whence);
    *at = to;
    return to < 0 ? -1 : 0;
}

static int stream_close(void *cookie)
{
    return close((int)(intptr_t)cookie);
}

FILE *fdopen(int fd, const char *mode)
{
    NEXT(fdopen);
    const cookie_io_functions_t functions = {
        .write = stream_write, .seek = stream_seek, .close = stream_close};
    return mode[0] == 'w' ? fopencookie((void *)(intptr_t)fd, mode, functions) : next(fd, mode);
}

/* ---- files */

#define OF_FILE(NAME, PARAMETERS, ...)                                                             \
    int NAME PARAMETERS                                                                            \
    {                                                                                              \
        NEXT(NAME);                                                                                \
        return hit_file(#NAME, fd) ? refuse() : next(__VA_ARGS__);                                 \
    }

OF_FILE(fsync, (int fd), fd)
OF_FILE(fdatasync, (int fd), fd)
OF_FILE(ftruncate, (int fd, off_t size), fd, size)
OF_FILE(fsetxattr, (int fd, const char *name, const void *value, size_t n, int flags), fd, name,
        value, n, flags)
OF_FILE(fallocate, (int fd, int mode, off_t at, off_t size), fd, mode, at, size)

void *mmap(void *where, size_t n, int access, int flags, int fd, off_t at)
{
    NEXT(mmap);
    if (fd >= 0 && !(flags & MAP_ANONYMOUS) && hit_file("mmap", fd)) {
        errno = state.how;
        return MAP_FAILED;
    }
    return next(where, n, access, flags, fd, at);
}

/* ---- names */

int rename(const char *from, const char *to)
{
    NEXT(rename);
    return hit("rename", -1, to) ? refuse() : next(from, to);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    NEXT(renameat);
    return hit("rename", to_fd, to) ? refuse() : next(from_fd, from, to_fd, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    NEXT(renameat2);
    return hit("rename", to_fd, to) ? refuse() : next(from_fd, from, to_fd, to, flags);
}

int unlink(const char *path)
{
    NEXT(unlink);
    return state.only[0] && hit("unlink", -1, path) ? refuse() : next(path);
}

int rmdir(const char *path)
{
    NEXT(rmdir);
    return state.only[0] && hit("rmdir", -1, path) ? refuse() : next(path);
}

int link(const char *from, const char *to)
{
    NEXT(link);
    return hit("link", -1, to) ? refuse() : next(from, to);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    NEXT(linkat);
    return hit("link", to_fd, to) ? refuse() : next(from_fd, from, to_fd, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir);
    return hit("mkdir", -1, path) ? refuse() : next(path, mode);
}

static bool is_unknown(int flags)
{
    bool unknown = state.named && (flags & O_TMPFILE) == O_TMPFILE;
    if (unknown)
        errno = EOPNOTSUPP;
    return unknown;
}

static bool makes(int folder, const char *path, int flags)
{
    struct stat st;
    int before = errno;
    bool new = (flags & O_TMPFILE) == O_TMPFILE ||
               ((flags & O_CREAT) && fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) != 0);
    errno = before;
    return new;
}

static mode_t mode_of(int flags, va_list ap)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    NEXT(open);
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    if (is_unknown(flags))
        return -1;
    return makes(AT_FDCWD, path, flags) && hit("open", -1, path) ? refuse()
                                                                 : next(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    NEXT(openat);
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    if (is_unknown(flags))
        return -1;
    return makes(folder, path, flags) && hit("open", -1, path) ? refuse()
                                                               : next(folder, path, flags, mode);
}

/* ---- processes */

int prctl(int option, ...)
{
    static int (*next)(int, unsigned long, unsigned long, unsigned long, unsigned long);
    unsigned long a[4];
    va_list ap;
    va_start(ap, option);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(ap, unsigned long);
    va_end(ap);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "prctl");
    return state.stray && option == PR_SET_PDEATHSIG ? 0 : next(option, a[0], a[1], a[2], a[3]);
}

/* ---- time */

int clock_gettime(clockid_t clock, struct timespec *out)
{
    static int (*next)(clockid_t, struct timespec *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    int status = next(clock, out);
    if (state.late && clock == CLOCK_MONOTONIC && state.first && *state.calls >= state.first) {
        unsigned long ms = state.late * __atomic_add_fetch(&state.looks, 1, __ATOMIC_RELAXED);
        out->tv_sec += (time_t)(ms / 1000);
        out->tv_nsec += (long)(ms % 1000) * 1000000L;
        out->tv_sec += out->tv_nsec / 1000000000L;
        out->tv_nsec %= 1000000000L;
    }
    return status;
}

/* ---- what is wished */

static unsigned long take_number(const char *name)
{
    const char *text = getenv(name);
    unsigned long n = text ? strtoul(text, NULL, 10) : 0;
    unsetenv(name);
    return n;
}

static void take_text(const char *name, char out[200])
{
    const char *text = getenv(name);
    snprintf(out, 200, "%s", text ? text : "");
    unsetenv(name);
}

__attribute__((constructor)) static void begin(void)
{
    unsigned long at = take_number("FAULT_AT"), from = take_number("FAULT_FROM");
    state.first = at ? at : from;
    state.last = at ? at : (unsigned long)-1;
    state.how = (int)take_number("FAULT_HOW");
    state.stray = take_number("FAULT_STRAY") != 0;
    state.named = take_number("FAULT_NAMED") != 0;
    state.kill = take_number("FAULT_KILL") != 0;
    unsigned long late = take_number("FAULT_LATE");
    take_text("FAULT_ONLY", state.only);
    take_text("FAULT_HOLD", state.hold);
    take_text("FAULT_LOG", state.log);
    take_text("FAULT_GOT", state.got_file);
    take_text("FAULT_GONE", state.gone);
    unsetenv("LD_PRELOAD");
    void *shared =
        mmap(NULL, sizeof *state.calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    state.calls = shared == MAP_FAILED ? NULL : shared;
    state.late = state.calls ? late : 0;
}

__attribute__((destructor)) static void end(void)
{
    char text[24];
    if (state.got_file[0])
        append(state.got_file, text, snprintf(text, sizeof text, "%lu\n", state.got));
}
