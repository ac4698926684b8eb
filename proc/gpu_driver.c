#include "proc/gpu_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/monotonic.h"

#define PROCESSES_MOST 1024u
#define GPUS_APART MEMORY_GPUS
#define WAIT_MS 1000
#define LATE_NS INT64_C(10000000000) /* so that late answers take a tenth of the time at most */

enum unknown {
    KNOWN,
    NO_LIBRARY,
    NO_FUNCTION,
    NO_GPU,
    OTHER_NAMESPACE,
    NOT_BY_PROCESS,
    NOT_LISTED,
    NO_CHILD,
    LATE,
    CAUSES,
};

static const char *const causes[CAUSES] = {
    [NO_LIBRARY] = "libnvidia-ml.so.1 cannot be loaded",
    [NO_FUNCTION] = "libnvidia-ml.so.1 lacks a function",
    [NO_GPU] = "libnvidia-ml.so.1 finds no driver or no GPU",
    [OTHER_NAMESPACE] = "the driver lists processes that are not in this PID namespace",
    [NOT_BY_PROCESS] = "the driver does not report it by process",
    [NOT_LISTED] = "the driver does not list the process",
    [NO_CHILD] = "the process that asks the driver could not be started",
    [LATE] = "the driver did not answer within a second",
};

struct answer {
    enum unknown unknown;
    int64_t time;
    unsigned long long own, used, total; /* bytes; of all processes; in all */
    unsigned devices;                    /* GPUs of the driver */
    unsigned long long each[GPUS_APART]; /* bytes of the process on the first ones */
};

struct gpu_bytes { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct library {
    unsigned devices;
    int (*device)(unsigned index, void **device);
    int (*memory)(void *device, struct gpu_bytes *bytes);
    int (*processes)(void *device, unsigned *count, void *list);
    size_t stride; /* bytes of an element of this list */
    /* NULL: the driver is older than MIG */
    int (*mig_mode)(void *device, unsigned *now, unsigned *after_reset);
    int (*mig_most)(void *device, unsigned *count);
    int (*mig_device)(void *device, unsigned index, void **instance);
};

/* nvmlProcessInfo_v1_t, with which nvmlProcessInfo_v2_t begins. */
struct gpu_process {
    unsigned pid;
    unsigned long long used;
};

#define STRIDE_V2 (sizeof(struct gpu_process) + 8)

/* ---- loading */

static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool find_all(struct library *l, void *library)
{
    if (!find(library, "nvmlDeviceGetMaxMigDeviceCount", &l->mig_most) ||
        !find(library, "nvmlDeviceGetMigDeviceHandleByIndex", &l->mig_device) ||
        !find(library, "nvmlDeviceGetMigMode", &l->mig_mode))
        l->mig_mode = NULL;
    l->stride = STRIDE_V2;
    if (!find(library, "nvmlDeviceGetComputeRunningProcesses_v2", &l->processes)) {
        l->stride = sizeof(struct gpu_process);
        if (!find(library, "nvmlDeviceGetComputeRunningProcesses", &l->processes))
            return false;
    }
    return find(library, "nvmlDeviceGetHandleByIndex_v2", &l->device) &&
           find(library, "nvmlDeviceGetMemoryInfo", &l->memory);
}

static enum unknown load(struct library *l)
{
    int (*begin)(void);
    int (*count)(unsigned *);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return NO_LIBRARY;
    if (!find(library, "nvmlInit_v2", &begin) || !find(library, "nvmlDeviceGetCount_v2", &count) ||
        !find_all(l, library))
        return NO_FUNCTION;
    return begin() != 0 || count(&l->devices) != 0 || l->devices == 0 ? NO_GPU : KNOWN;
}

/* ---- reading */

static enum unknown add_process(const struct gpu_process *p, pid_t pid, const struct gpu_bytes *of,
                                struct answer *a, bool *here)
{
    if (p->pid != (unsigned)pid)
        return kill((pid_t)p->pid, 0) != 0 && errno == ESRCH ? OTHER_NAMESPACE : KNOWN;
    if (p->used > of->total) /* NVML_VALUE_NOT_AVAILABLE is the highest number */
        return NOT_BY_PROCESS;
    *here = true;
    a->own += p->used;
    return KNOWN;
}

/* `device` is a GPU or an instance of one. *here: the process is there. */
static enum unknown add_memory(const struct library *l, void *device, pid_t pid, struct answer *a,
                               bool *here)
{
    _Alignas(8) char list[PROCESSES_MOST * STRIDE_V2];
    unsigned n = PROCESSES_MOST;
    struct gpu_bytes bytes = {0};
    if (l->memory(device, &bytes) != 0 || l->processes(device, &n, list) != 0 || n > PROCESSES_MOST)
        return NOT_BY_PROCESS;
    for (unsigned i = 0; i < n; i++) {
        struct gpu_process p;
        memcpy(&p, list + i * l->stride, sizeof p);
        enum unknown unknown = add_process(&p, pid, &bytes, a, here);
        if (unknown)
            return unknown;
    }
    if (*here) {
        a->unknown = KNOWN;
        a->used += bytes.used;
        a->total += bytes.total;
    }
    return KNOWN;
}

/*
 * Of a GPU that is divided into instances (MIG), only a privileged caller gets the sums of all, and
 * an instance that this process may not use has no handle. A program of CUDA uses one instance.
 */
static enum unknown add_device(const struct library *l, unsigned index, pid_t pid, struct answer *a)
{
    unsigned now = 0, after_reset, most = 0;
    void *device = NULL, *instance;
    bool here = false;
    enum unknown unknown = KNOWN;
    if (l->device(index, &device) != 0)
        return NOT_BY_PROCESS;
    if (!l->mig_mode || l->mig_mode(device, &now, &after_reset) != 0 || !now)
        return add_memory(l, device, pid, a, &here);
    if (l->mig_most(device, &most) != 0)
        return NOT_BY_PROCESS;
    for (unsigned i = 0; i < most && !here && !unknown; i++) {
        if (l->mig_device(device, i, &instance) == 0)
            unknown = add_memory(l, instance, pid, a, &here);
    }
    return unknown;
}

static struct answer ask_library(const struct library *l, pid_t pid)
{
    struct answer a = {.unknown = NOT_LISTED, .time = monotonic_ns(), .devices = l->devices};
    for (unsigned i = 0; i < l->devices; i++) {
        unsigned long long before = a.own;
        enum unknown unknown = add_device(l, i, pid, &a);
        if (unknown)
            return (struct answer){.unknown = unknown};
        if (i < GPUS_APART)
            a.each[i] = a.own - before;
    }
    return a;
}

/* ---- the child */

/*
 * It may outlive this program, so it holds no file of it but its socket. Signals of the terminal
 * are not for it.
 */
static _Noreturn void answer_all(int socket, pid_t parent)
{
    struct library l = {0};
    pid_t pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent || dup2(socket, 3) < 0)
        _exit(1);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) {
        if (null < 0 || dup2(null, fd) < 0)
            _exit(1);
    }
    (void)file_close_range(4, ~0u);
    enum unknown unknown = KNOWN;
    for (bool loaded = false; recv(3, &pid, sizeof pid, 0) == sizeof pid; loaded = true) {
        if (!loaded)
            unknown = load(&l);
        struct answer a = unknown ? (struct answer){.unknown = unknown} : ask_library(&l, pid);
        if (send(3, &a, sizeof a, MSG_NOSIGNAL) != sizeof a)
            break;
    }
    _exit(0);
}

/* A signal may arrive before the child ignores it. */
static bool start(struct gpu_driver *d)
{
    static const int others[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    int ends[2];
    sigset_t held, before;
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    sigfillset(&held);
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    d->child = fork();
    if (d->child == 0) {
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            (void)signal(others[i], SIG_IGN);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        answer_all(ends[1], parent);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    d->socket = ends[0];
    if (d->child > 0)
        return true;
    close(ends[0]);
    d->child = 0;
    return false;
}

/* ---- the program */

/*
 * Of a child that does not answer any more. The kernel closes its socket shortly before it can be
 * waited for; a library may also have closed it alone.
 */
static void note_end(struct gpu_driver *d)
{
    int status = 0;
    pid_t ended = 0;
    d->failed = true;
    for (int ms = 0; d->child && !ended && ms < WAIT_MS; ms++) {
        ended = waitpid(d->child, &status, WNOHANG);
        if (!ended)
            (void)poll(NULL, 0, 1);
    }
    if (!d->child)
        return;
    if (ended == d->child && WIFSIGNALED(status))
        snprintf(d->end, sizeof d->end, "signal %d (%s) ended the process that asks the driver",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (ended == d->child)
        snprintf(d->end, sizeof d->end, "the process that asks the driver ended with status %d",
                 WEXITSTATUS(status));
    else
        snprintf(d->end, sizeof d->end, "the process that asks the driver no longer answers");
    if (ended) {
        close(d->socket);
        d->child = 0;
    }
}

static enum unknown receive(struct gpu_driver *d, int wait_ms, struct answer *a)
{
    struct pollfd p = {.fd = d->socket, .events = POLLIN};
    int ready;
    while ((ready = poll(&p, 1, wait_ms)) < 0 && errno == EINTR)
        continue;
    if (ready <= 0)
        return LATE;
    d->asked = false;
    if (recv(d->socket, a, sizeof *a, 0) == sizeof *a && a->unknown < CAUSES)
        return a->unknown;
    note_end(d);
    return NO_CHILD;
}

static enum unknown ask(struct gpu_driver *d, pid_t pid, struct answer *a)
{
    if (d->failed || (!d->child && !start(d))) {
        d->failed = true;
        return NO_CHILD;
    }
    /* A late answer is about an earlier time, and perhaps about another process. */
    if (d->asked && receive(d, 0, a) == LATE)
        return LATE;
    if (monotonic_ns() < d->pause)
        return LATE;
    d->asked = !d->failed && send(d->socket, &pid, sizeof pid, MSG_NOSIGNAL) == sizeof pid;
    if (!d->asked && !d->failed)
        note_end(d);
    if (d->failed)
        return NO_CHILD;
    enum unknown unknown = receive(d, WAIT_MS, a);
    if (unknown == LATE)
        d->pause = monotonic_ns() + LATE_NS;
    return unknown;
}

static void put(struct memory_reading *out, unsigned which, unsigned long long bytes)
{
    out->known |= UINT32_C(1) << which;
    out->value[which] = (double)bytes;
}

const char *gpu_driver_read(struct gpu_driver *d, pid_t pid, struct memory_reading *out)
{
    struct answer a = {0};
    enum unknown unknown = ask(d, pid, &a);
    *out = (struct memory_reading){.time = unknown ? 0 : a.time};
    if (unknown)
        return unknown == NO_CHILD && *d->end ? d->end : causes[unknown];
    put(out, MEMORY_GPU_PROCESS, a.own);
    put(out, MEMORY_GPU_USED, a.used);
    put(out, MEMORY_GPU_SIZE, a.total);
    for (unsigned i = 0; a.devices > 1 && i < a.devices && i < GPUS_APART; i++)
        put(out, MEMORY_GPU_FIRST + i, a.each[i]);
    return NULL;
}

void gpu_driver_close(struct gpu_driver *d)
{
    if (!d->child)
        return;
    close(d->socket);
    (void)kill(d->child, SIGKILL);
    (void)waitpid(d->child, NULL, WNOHANG);
    *d = (struct gpu_driver){.failed = true};
}
