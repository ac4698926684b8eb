#include "client/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/clock.h"
#include "client/environment.h"
#include "client/files.h"
#include "client/state.h"

#define WORDS_MOST 64
#define ANSWER_NS UINT64_C(60000000000) /* a busy machine starts programs slowly */
#define ANSWER_MOST 1024

static char answer[ANSWER_MOST]; /* the collector's answer, a line; empty: none yet */

/* For the new process, which has a copy of everything. */
struct plan {
    char path[sizeof state.collector + 64];
    char pid[16];
    char words[sizeof state.run_words];
    char *arguments[WORDS_MOST + 12];
};

static void put_number(char *text, unsigned n)
{
    char digits[12];
    size_t count = 0;
    for (; n || !count; n /= 10)
        digits[count++] = (char)('0' + n % 10);
    while (count)
        *text++ = digits[--count];
    *text = 0;
}

static bool join(char *to, size_t room, const char *folder, size_t length, const char *name)
{
    if (length + strlen(name) >= room)
        return false;
    memcpy(to, folder, length);
    struct stat s;
    memcpy(to + length, name, strlen(name) + 1);
    return stat(to, &s) == 0 && S_ISREG(s.st_mode) && access(to, X_OK) == 0;
}

/* Finds the program that belongs to this library: in the build folder, or as installed. */
static bool find_program(char *path, size_t room)
{
    static const char *const places[] = {"tidemark", "../../bin/tidemark", "../bin/tidemark"};
    Dl_info own;
    if (state.collector[0])
        return join(path, room, "", 0, state.collector);
    if (!dladdr(&state, &own) || !own.dli_fname)
        return false;
    const char *slash = strrchr(own.dli_fname, '/');
    size_t folder = slash ? (size_t)(slash + 1 - own.dli_fname) : 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (join(path, room, own.dli_fname, folder, places[i]))
            return true;
    }
    return false;
}

bool spawn_is_collector(void)
{
    char path[sizeof state.collector + 64];
    struct stat own, other;
    return find_program(path, sizeof path) && stat("/proc/self/exe", &own) == 0 &&
           stat(path, &other) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

static void make_plan(struct plan *plan)
{
    static char *const first[] = {"tidemark", "run",  "--listen",
                                  "--report", "none", "--adopt-after"};
    size_t n = sizeof first / sizeof *first;
    memcpy(plan->arguments, first, sizeof first);
    plan->arguments[n++] = state.named ? "0" : "1";
    memcpy(plan->words, state.run_words, sizeof plan->words);
    for (char *at = plan->words; n < WORDS_MOST && *(at += strspn(at, " \t\n"));) {
        plan->arguments[n++] = at;
        at += strcspn(at, " \t\n");
        if (*at)
            *at++ = 0;
    }
    put_number(plan->pid, (unsigned)getpid());
    plan->arguments[n++] = "--adopt";
    plan->arguments[n++] = plan->pid;
    plan->arguments[n] = NULL;
}

/* The environment may not be set up yet; see environment.c. */
static char **environment_of_process(void)
{
    static char text[131072];
    static char *list[4096];
    if (environ)
        return environ;
    size_t count = 0;
    ssize_t length = files_read("/proc/self/environ", text, sizeof text);
    for (ssize_t at = 0; at < length && count + 1 < sizeof list / sizeof *list;
         at += (ssize_t)strlen(text + at) + 1)
        list[count++] = text + at;
    list[count] = NULL;
    return list;
}

/* Runs in the new process, which keeps only the program's working folder and standard error. */
static _Noreturn void become(struct plan *plan, int out)
{
    sigset_t none;
    char **environment = environment_of_process();
    environment_clean(environment);
    (void)setsid();
    int null = open("/dev/null", O_RDWR);
    if (null >= 0 && dup2(out, 1) == 1 && dup2(null, 0) == 0) {
#ifdef __NR_close_range
        (void)syscall(__NR_close_range, 3u, ~0u, 0u);
#endif
        sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)execve(plan->path, plan->arguments, environment);
    }
    _exit(127);
}

/*
 * Starts a grandchild, so that the program gets no unknown child. The child in between sends no
 * SIGCHLD, and only this library waits for it.
 */
static bool start(struct plan *plan, int out)
{
    int status;
    pid_t middle = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (middle == 0) {
        pid_t last = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (last == 0)
            become(plan, out);
        _exit(last < 0);
    }
    if (middle < 0)
        return false;
    while (waitpid(middle, &status, __WCLONE) < 0) {
        if (errno != EINTR)
            return false;
    }
    return status == 0;
}

/* Reads the answer: the path of the socket, or '!' and why there is none. */
static bool hear(int in)
{
    size_t length = 0;
    uint64_t end = clock_ns() + ANSWER_NS;
    char *line = NULL;
    while (!line && length < sizeof answer - 1) {
        struct pollfd wait = {.fd = in, .events = POLLIN};
        uint64_t now = clock_ns();
        int ready = now < end ? poll(&wait, 1, (int)((end - now) / 1000000 + 1)) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        ssize_t n = ready > 0 ? read(in, answer + length, sizeof answer - 1 - length) : 0;
        if (n <= 0)
            break;
        length += (size_t)n;
        line = memchr(answer, '\n', length);
    }
    answer[line ? (size_t)(line - answer) : length] = 0;
    size_t used = strlen(answer);
    if (answer[0] == '!' || !used || used >= sizeof state.socket_path)
        return false;
    memcpy(state.socket_path, answer, used + 1);
    return true;
}

int spawn_collector(void)
{
    static struct plan plan;
    int ends[2];
    /* In a privileged program the caller must not choose the collector. */
    if (getauxval(AT_SECURE) || !find_program(plan.path, sizeof plan.path) ||
        pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    make_plan(&plan);
    bool started = start(&plan, ends[1]);
    (void)close(ends[1]);
    started = started && hear(ends[0]);
    (void)close(ends[0]);
    return started ? 0 : -1;
}

static void say(const char *text)
{
    (void)!write(2, text, strlen(text));
}

void spawn_complain(bool recorded)
{
    char pid[16];
    const char *why = answer[0] == '!' ? answer + 1 : NULL;
    put_number(pid, (unsigned)getpid());
    say("libtidemark.so: no collector could be started for process ");
    say(pid);
    say(why ? ": " : "");
    say(why ? why : "");
    if (recorded) {
        say(state.brief ? "; if it lives for a second, `tidemark run --recover tidemark."
                        : "; `tidemark run --recover tidemark.");
        say(pid);
        say(".recording` makes a trace of it\n");
    } else {
        say("; it is not recorded\n");
    }
}
