#include "run/run_client.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file_io.h"
#include "base/monotonic.h"
#include "client/recording_format.h"
#include "server/capture/journal_read.h"
#include "server/capture/session.h"

/* Timeout of the handshake with a busy client, in seconds. */
#define CONNECT_SECONDS 10

/*
 * After the program's end: how long the journal may take to appear; how long it may stay as it is,
 * which children that inherited the client's socket would prolong; and the time for the server to
 * stop.
 */
#define BEGIN_NS UINT64_C(200000000)
#define QUIET_NS UINT64_C(2000000000)
#define STOP_NS UINT64_C(10000000000)
#define PAUSE_NS 5000000

/* ---- the server, in a child process */

static int serve(const struct run_client *c, const char *folder, struct err *e)
{
    const struct connect_options to = {
        .address = "127.0.0.1", .port = c->port, .timeout = CONNECT_SECONDS, .quiet = true};
    const struct session_limits limits = {.seconds = -1, .drain_seconds = 2, .quiet_seconds = 3};
    const struct journal_options journaling = {0};
    const struct trace_options options = {.resident_budget = TRACE_BUDGET, .spool_dir = folder};
    struct session_options session = {0};
    struct connection connection;
    struct stop stop;
    struct trace t;
    if (stop_init(&stop, e) != 0)
        return -1;
    enum connect_failure why = connect_client(&to, &stop, &connection, e);
    if (why == CONNECT_STOPPED) /* the caller knows why */
        *e = (struct err){0};
    if (why != CONNECT_OK)
        return -1;
    session.journal = journal_create(c->journal, &journaling, e);
    if (!session.journal || trace_init(&t, &options, e) != 0)
        return -1;
    struct session *s = session_new(&connection, &t, &session, e);
    if (!s)
        return -1;
    enum session_end end = session_run(s, &limits, &stop, e);
    bool lacks = session_lacks(s) && session_undecoded(s) == 0; /* those are in the journal */
    session_free(s);
    trace_release(&t);
    journal_close(session.journal);
    return end == SESSION_NO_ROOM || lacks ? -1 : 0;
}

/*
 * Closes the collector's descriptors: the program must not depend on copies of them. Ctrl-C is for
 * the program, which may take time to end.
 */
static _Noreturn void become_server(const struct run_client *c, const char *folder, int errors)
{
    const int kept = STDERR_FILENO + 1;
    struct err e = {0};
    (void)setpgid(0, 0);
    if (dup2(errors, kept) < 0 || file_close_range((unsigned)kept + 1, ~0u) != 0)
        _exit(1);
    int status = serve(c, folder, &e);
    (void)!write(kept, &e, sizeof e);
    _exit(status != 0);
}

/* Whether the client has sent its welcome: the journal is made then. */
static bool has_begun(const struct run_client *c)
{
    return access(c->journal, F_OK) == 0;
}

static void start_server(struct run_client *c, int fd, const char *folder, size_t number)
{
    uint32_t port = 0;
    int errors[2];
    struct buf path = {0};
    if (pread(fd, &port, sizeof port, offsetof(struct rec_header, client_port)) !=
        (ssize_t)sizeof port)
        return;
    if (port == 0 || port > UINT16_MAX)
        return;
    c->port = (uint16_t)port;
    buf_printf(&path, "%s/client.%zu.journal", folder, number);
    c->journal = path.failed ? NULL : strdup(buf_str(&path));
    buf_release(&path);
    if (!c->journal || pipe2(errors, O_CLOEXEC | O_NONBLOCK) != 0)
        return;
    c->errors = errors[0];
    c->pid = fork();
    if (c->pid == 0)
        become_server(c, folder, errors[1]);
    close(errors[1]);
    if (c->pid < 0)
        c->pid = 0;
}

/* The server process ended early: there is no client, or another server has it. */
static bool has_ended(const struct run_client *c)
{
    siginfo_t info = {.si_pid = 0};
    return c->pid <= 0 || waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

void run_client_look(struct run_client *c, int fd, const char *folder, size_t number)
{
    const uint32_t yes = 1;
    if (!c->port)
        start_server(c, fd, folder, number);
    if (c->served || !c->journal || !(has_begun(c) || has_ended(c)))
        return;
    c->served = true;
    (void)!pwrite(fd, &yes, sizeof yes, offsetof(struct rec_header, client_served));
}

/* ---- the end */

static uint64_t journal_size(const struct run_client *c)
{
    uint64_t sum = 0;
    struct stat st;
    const struct dirent *entry;
    DIR *folder = opendir(c->journal);
    while (folder && (entry = readdir(folder))) {
        if (fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    }
    if (folder)
        closedir(folder);
    return sum;
}

/* Whether no more of the client's bytes will come, though its socket is open. */
static bool is_quiet(struct run_client *c, uint64_t now)
{
    uint64_t size = journal_size(c);
    if (!c->quiet || size != c->size)
        c->quiet = now;
    c->size = size;
    return now - c->quiet >= (has_begun(c) ? QUIET_NS : BEGIN_NS);
}

static void stop_server(struct run_client *c, uint64_t now)
{
    (void)kill(c->pid, SIGTERM);
    c->stopping = now;
}

bool run_client_is_over(struct run_client *c)
{
    int status = 0;
    uint64_t now = monotonic_ns();
    if (c->pid <= 0)
        return true;
    pid_t got = waitpid(c->pid, &status, WNOHANG);
    if (got == 0 && !c->stopping && is_quiet(c, now))
        stop_server(c, now);
    if (got == 0 && (!c->stopping || now - c->stopping < STOP_NS))
        return false;
    if (got == 0) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, &status, 0);
    }
    c->connected = got > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    c->pid = 0;
    if (read(c->errors, &c->failure, sizeof c->failure) != (ssize_t)sizeof c->failure)
        c->failure = (struct err){0};
    return true;
}

void run_client_wait(struct run_client *c, bool stop)
{
    if (stop && c->pid > 0)
        stop_server(c, monotonic_ns());
    while (!run_client_is_over(c))
        (void)nanosleep(&(const struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

bool run_client_has_journal(const struct run_client *c)
{
    return c->journal && has_begun(c);
}

void run_client_release(struct run_client *c)
{
    struct err e = {0};
    if (c->pid > 0) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, NULL, 0);
    }
    struct journal_reader *reader =
        run_client_has_journal(c) && !c->keep ? journal_reader_open(c->journal, &e) : NULL;
    if (reader)
        (void)journal_reader_remove(reader, &e);
    if (c->errors > 0)
        close(c->errors);
    free(c->journal);
    *c = (struct run_client){0};
}
