#include "symbols/helper/debuginfod_message.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/library.h"
#include "base/monotonic.h"

#define PROGRESS_NS 200000000LL /* between progress reports */
#define GRACE_SECONDS 5         /* for the library to notice its timeout */
#define RETRIES_DEFAULT 2       /* as the library */
#define RETRIES_MOST 100

/*
 * The library is loaded only by the process that fetches one file, because it pulls in a large part
 * of the network stack.
 */
struct library {
    debuginfod_client *(*begin)(void);
    int (*find_debuginfo)(debuginfod_client *, const unsigned char *, int, char **);
    int (*find_executable)(debuginfod_client *, const unsigned char *, int, char **);
    void (*set_progress)(debuginfod_client *, debuginfod_progressfn_t);
    void (*set_user_data)(debuginfod_client *, void *);
};

/* One download. */
struct job {
    int socket;
    const struct fetch_request *request;
    uint64_t size_limit;
    long long deadline; /* monotonic ns */
    long long next_word;
    struct library lib;
    int given_up; /* errno of the exceeded limit; 0: none */
};

static void failed(int socket, uint64_t number, const char *cause)
{
    struct fetch_answer a;
    memset(&a, 0, sizeof a);
    a.number = number;
    a.kind = FETCH_FAILED;
    snprintf(a.cause, sizeof a.cause, "%s", cause);
    (void)fetch_answer_send(socket, &a, -1, true);
}

/* ---- options of transfers that libdebuginfod does not set */

/*
 * libdebuginfod follows redirects without limit, takes the certificates from where libcurl was
 * built to look, and does not expose its transfers. The program's
 * symbols take precedence over those of libraries that it loads, so libdebuginfod's calls of this
 * function arrive here (Makefile: CURL_HOOK). The ClickHouse sink finds libcurl's function by
 * dlsym.
 */

/* From curl/curl.h. */
#define OPTION_FOLLOW 52
#define OPTION_REDIRECTS_MOST 68
#define OPTION_CA_BUNDLE 10065
#define FAILED_INIT 2

/* Options take a long, a pointer or a 64-bit offset, all passed alike. */
typedef int set_option(void *handle, int option, ...);
_Static_assert(sizeof(long) == sizeof(void *) && sizeof(long) == 8, "one register for all");

/*
 * Where libcurl is part of the program, the linker renames calls of the function, and what it is
 * itself (--wrap).
 */
#ifdef TIDEMARK_LINKED_IN
#define HOOK __wrap_curl_easy_setopt
int __real_curl_easy_setopt(void *handle, int option, ...);
#else
#define HOOK curl_easy_setopt
#endif

__attribute__((visibility("default"))) int HOOK(void *handle, int option, ...);

static set_option *next_hook(void)
{
#ifdef TIDEMARK_LINKED_IN
    return __real_curl_easy_setopt;
#else
    set_option *next;
    *(void **)&next = dlsym(RTLD_NEXT, "curl_easy_setopt");
    return next;
#endif
}

int HOOK(void *handle, int option, ...)
{
    set_option *next = next_hook();
    const char *bundle;
    va_list ap;
    va_start(ap, option);
    void *value = va_arg(ap, void *);
    va_end(ap);
    if (!next)
        return FAILED_INIT;
    if (option == OPTION_FOLLOW) {
        (void)next(handle, OPTION_REDIRECTS_MOST, (long)DEBUGINFOD_REDIRECTS_MOST);
        if (ca_bundle_find(&bundle, NULL) == 0)
            (void)next(handle, OPTION_CA_BUNDLE, bundle);
    }
    return next(handle, option, value);
}

/* ---- the process that fetches one file */

static bool load(struct library *lib)
{
    const struct library_function functions[] = {
        LIBRARY_FUNCTION(debuginfod_begin, &lib->begin),
        LIBRARY_FUNCTION(debuginfod_find_debuginfo, &lib->find_debuginfo),
        LIBRARY_FUNCTION(debuginfod_find_executable, &lib->find_executable),
        LIBRARY_FUNCTION(debuginfod_set_progressfn, &lib->set_progress),
        LIBRARY_FUNCTION(debuginfod_set_user_data, &lib->set_user_data),
    };
#ifndef TIDEMARK_LINKED_IN
    (void)dlopen(DEBUGINFOD_SONAME, RTLD_NOW | RTLD_GLOBAL); /* for RTLD_NEXT above */
#endif
    return library_load(DEBUGINFOD_SONAME, functions, sizeof functions / sizeof *functions);
}

/* The callback reaches its job only through the library. */
static struct job *job_of(debuginfod_client *client)
{
    void *(*user_data)(debuginfod_client *);
    const struct library_function f = LIBRARY_FUNCTION(debuginfod_get_user_data, &user_data);
    void *handle = library_load(DEBUGINFOD_SONAME, &f, 1);
    struct job *j = handle ? user_data(client) : NULL;
    library_unload(handle);
    return j;
}

static uint64_t not_negative(long n)
{
    return n > 0 ? (uint64_t)n : 0;
}

/* A result other than 0 ends the transfer. */
static int on_progress(debuginfod_client *client, long done, long total)
{
    struct job *j = job_of(client);
    struct fetch_answer a;
    long long now = monotonic_ns();
    if (!j)
        return 0;
    if (not_negative(done) > j->size_limit || not_negative(total) > j->size_limit)
        j->given_up = EFBIG;
    else if (now > j->deadline)
        j->given_up = ETIME;
    if (j->given_up != 0 || now < j->next_word)
        return j->given_up;
    j->next_word = now + PROGRESS_NS;
    memset(&a, 0, sizeof a);
    a.number = j->request->number;
    a.kind = FETCH_PROGRESS;
    a.done = not_negative(done);
    a.total = not_negative(total);
    return fetch_answer_send(j->socket, &a, -1, false) ? 0 : 1;
}

/* Keeps the user's limit if it is lower; 0 means no limit. */
static void lower_limit(const char *variable, uint64_t limit)
{
    char text[24];
    const char *set = getenv(variable);
    unsigned long long users = set ? strtoull(set, NULL, 10) : 0;
    if (users > 0 && users < limit)
        return;
    snprintf(text, sizeof text, "%llu", (unsigned long long)limit);
    (void)setenv(variable, text, 1);
}

static void say_cause(const struct job *j, int error)
{
    char cause[200];
    switch (error) {
    case EFBIG:
        snprintf(cause, sizeof cause, "debuginfod: the file is larger than the limit of %llu bytes",
                 (unsigned long long)j->size_limit);
        break;
    case ETIME:
    case ETIMEDOUT:
        snprintf(cause, sizeof cause, "debuginfod: the server took too long");
        break;
    case EMLINK:
        snprintf(cause, sizeof cause, "debuginfod: the server redirects more than %d times",
                 DEBUGINFOD_REDIRECTS_MOST);
        break;
    case ENOSYS:
        snprintf(cause, sizeof cause, "debuginfod: no server is named in $DEBUGINFOD_URLS");
        break;
    default:
        snprintf(cause, sizeof cause, "debuginfod: %s", strerror(error));
    }
    failed(j->socket, j->request->number, cause);
}

/* Whether a server could not be asked for want of certificates; the library says that it has no
 * file. */
static bool lacks_certificates(struct err *e)
{
    const char *urls = getenv("DEBUGINFOD_URLS"), *bundle;
    return urls && strstr(urls, "https://") && ca_bundle_find(&bundle, e) != 0 &&
           err_prefix(e, "debuginfod") != 0;
}

/*
 * Whether a write exceeded RLIMIT_FSIZE. A compressed download shows its real size only there, and
 * the library then reports the file as missing on the server.
 */
static bool was_too_large(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

/*
 * How often the file is asked for once more after a failure, as the library would: its version
 * 0.188 looks at a handle that it has freed when it asks again itself.
 */
static unsigned take_retries(void)
{
    const char *set = getenv("DEBUGINFOD_RETRY_LIMIT");
    unsigned long retries = set ? strtoul(set, NULL, 10) : RETRIES_DEFAULT;
    (void)setenv("DEBUGINFOD_RETRY_LIMIT", "0", 1);
    return retries < RETRIES_MOST ? (unsigned)retries : RETRIES_MOST;
}

static int find_file(struct job *j, debuginfod_client *client)
{
    const struct fetch_request *r = j->request;
    unsigned retries = take_retries();
    for (;;) {
        int fd = (r->kind == FETCH_EXECUTABLE ? j->lib.find_executable : j->lib.find_debuginfo)(
            client, r->id.bytes, r->id.len, NULL);
        if (fd < 0 && was_too_large())
            j->given_up = EFBIG;
        if (fd >= 0 || fd == -ENOENT || j->given_up != 0 || retries-- == 0 ||
            monotonic_ns() > j->deadline)
            return fd;
    }
}

static void fetch(struct job *j)
{
    const struct fetch_request *r = j->request;
    struct fetch_answer a;
    struct err e = {0};
    debuginfod_client *client = load(&j->lib) ? j->lib.begin() : NULL;
    if (!client) {
        failed(j->socket, r->number, "debuginfod: " DEBUGINFOD_SONAME " cannot be loaded");
        return;
    }
    j->lib.set_user_data(client, j);
    j->lib.set_progress(client, on_progress);
    int fd = find_file(j, client);
    memset(&a, 0, sizeof a);
    a.number = r->number;
    a.kind = fd >= 0 ? FETCH_FILE : FETCH_NONE;
    if (fd < 0 && j->given_up == 0 && lacks_certificates(&e))
        failed(j->socket, r->number, e.text);
    else if (fd >= 0 || (fd == -ENOENT && j->given_up == 0))
        (void)fetch_answer_send(j->socket, &a, fd, true);
    else
        say_cause(j, j->given_up != 0 ? j->given_up : -fd);
}

/* Runs in a separate process, so a crash or hang of the library costs only one file. */
static void run_job(int socket, const struct fetch_request *r, uint64_t size_limit,
                    unsigned seconds)
{
    struct job j = {.socket = socket,
                    .request = r,
                    .size_limit = size_limit,
                    .deadline = monotonic_ns() + seconds * 1000000000LL};
    struct rlimit file_size = {size_limit, size_limit};
    sigset_t too_large; /* stays pending, for was_too_large */
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    (void)sigprocmask(SIG_BLOCK, &too_large, NULL);
    (void)setrlimit(RLIMIT_FSIZE, &file_size);
    lower_limit("DEBUGINFOD_MAXSIZE", size_limit);
    lower_limit("DEBUGINFOD_MAXTIME", seconds);
    lower_limit("DEBUGINFOD_TIMEOUT", seconds);
    fetch(&j);
}

/* ---- the fetcher */

/* What the fetcher waits for while a job runs. */
struct watch {
    int socket;
    int job; /* read end of a pipe that closes when the job ends */
    pid_t pid;
    uint64_t number;
    struct fetch_request next; /* a request received after the job's answer, before its end */
    bool has_next;
};

enum job_end { JOB_ENDED, JOB_GIVEN_UP, JOB_TOO_LONG, NOBODY_ASKS };

static bool receive_request(int socket, struct fetch_request *r)
{
    ssize_t got;
    do {
        got = recv(socket, r, sizeof *r, 0);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof *r && r->id.len <= BUILD_ID_MAX;
}

static enum job_end wait_for(struct watch *w, long long deadline)
{
    struct pollfd ends[2] = {{.fd = w->job, .events = POLLIN}, {.fd = w->socket, .events = POLLIN}};
    for (;;) {
        long long left = (deadline - monotonic_ns()) / 1000000;
        if (left <= 0)
            return JOB_TOO_LONG;
        int n = poll(ends, 2, left > 60000 ? 60000 : (int)left);
        if (n < 0 && errno != EINTR)
            return JOB_TOO_LONG;
        if (n <= 0)
            continue;
        if (ends[0].revents)
            return JOB_ENDED;
        if (!receive_request(w->socket, &w->next))
            return NOBODY_ASKS;
        if (w->next.kind != FETCH_GIVE_UP) {
            w->has_next = true;
            ends[1].fd = -1;
        } else if (w->next.number == w->number) {
            return JOB_GIVEN_UP;
        }
    }
}

/* False if the client is gone. */
static bool end_job(const struct watch *w, enum job_end end)
{
    int status = 0;
    if (end != JOB_ENDED)
        kill(w->pid, SIGKILL);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (end == NOBODY_ASKS)
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true; /* it has answered */
    failed(w->socket, w->number,
           end == JOB_GIVEN_UP   ? "debuginfod: given up"
           : end == JOB_TOO_LONG ? "debuginfod: the server took too long"
                                 : "debuginfod: the process that fetched the file died");
    return true;
}

/* What is left of the time for all files, limited to the time for one. */
static long long time_for_one(const struct debuginfod_options *o, long long spent_ns)
{
    unsigned one = o->seconds ? o->seconds : DEBUGINFOD_SECONDS_DEFAULT;
    unsigned all = o->all_seconds ? o->all_seconds : DEBUGINFOD_ALL_SECONDS_DEFAULT;
    long long left = (long long)all - spent_ns / 1000000000;
    return left < one ? left : one;
}

/* Answers a request. False if the client is gone. *more is set if `r` holds the next request. */
static bool serve(int socket, struct fetch_request *r, const struct debuginfod_options *o,
                  long long seconds, bool *more)
{
    int ends[2];
    uint64_t size_limit = o->size_limit ? o->size_limit : DEBUGINFOD_SIZE_DEFAULT;
    long long deadline = monotonic_ns() + (seconds + GRACE_SECONDS) * 1000000000LL;
    *more = false;
    if (seconds <= 0) {
        failed(socket, r->number, "debuginfod: the time for all files together is over");
        return true;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        failed(socket, r->number, "debuginfod: no more files can be opened");
        return true;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        run_job(socket, r, size_limit, (unsigned)seconds);
        _exit(0);
    }
    close(ends[1]);
    struct watch w = {.socket = socket, .job = ends[0], .pid = pid, .number = r->number};
    bool asked = true;
    if (pid < 0)
        failed(socket, r->number, "debuginfod: no more processes can be started");
    else
        asked = end_job(&w, wait_for(&w, deadline));
    close(ends[0]);
    *more = w.has_next;
    if (w.has_next)
        *r = w.next;
    return asked;
}

/*
 * Drops what the parent process passed on: files and handlers. Ignores the terminal's signals: the
 * clients that still wait for an answer handle those.
 */
static int settle(int socket)
{
    sigset_t none;
    sigemptyset(&none);
    for (int s = 1; s < NSIG; s++)
        (void)signal(s, SIG_DFL);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    socket = fcntl(socket, F_DUPFD_CLOEXEC, 4);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (socket < 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(socket, 3) < 0)
        return -1;
    (void)fcntl(3, F_SETFD, FD_CLOEXEC);
    (void)file_close_range(4, ~0u);
    return 3;
}

void fetcher_run(int socket, const struct debuginfod_options *o)
{
    struct fetch_request r;
    if (o->urls)
        (void)setenv("DEBUGINFOD_URLS", o->urls, 1);
    socket = settle(socket);
    bool more = false, asked = true;
    long long spent = 0;
    while (socket >= 0 && asked && (more || receive_request(socket, &r))) {
        long long begin = monotonic_ns();
        more = false;
        if (r.kind != FETCH_GIVE_UP) /* a late cancellation is ignored */
            asked = serve(socket, &r, o, time_for_one(o, spent), &more);
        spent += monotonic_ns() - begin;
    }
}
