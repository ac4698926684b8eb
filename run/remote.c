#include "run/remote.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/monotonic.h"

#define PATIENCE_STOP 10.0 /* seconds, to find a thread at a safe point */
#define PATIENCE_CALL 30.0 /* for a call */
#define PATIENCE_WAIT 5.0  /* for a thread to stop */

#define STACK ((uint64_t)256 << 10)
#define PAGE UINT64_C(4096)
#define STATE_MOST 16384u /* bytes of the registers for vectors */
#define SCAN_MOST ((uint64_t)1 << 20)

#define SYSCALL_STOP (SIGTRAP | 0x80)

/* futex(2): waiters for a lock of malloc or of the dynamic linker wait without a bit set. */
#define FUTEX_OPERATION 0x7f
#define FUTEX_BITSET 9

/* Registers of NT_PRSTATUS. */
struct registers {
    uint64_t at[REMOTE_WORDS_MOST];
};

static const struct remote_machine *const machine = &remote_machine;

struct remote {
    struct remote_plan plan;
    pid_t tid;
    int memory; /* /proc/PID/mem */
    bool stopped;
    struct registers saved;
    uint8_t state[STATE_MOST];
    size_t state_size;
    int state_set;
    uint64_t mask;
    uint64_t room; /* a stack in the process, followed by a page with the landing; 0: none yet */
};

/* ptrace(2) with integer arguments. */
static bool trace(long request, pid_t tid, uint64_t address, uint64_t data)
{
    return syscall(SYS_ptrace, request, tid, address, data) == 0;
}

static bool trace_registers(long request, pid_t tid, uint64_t set, struct iovec *io)
{
    return trace(request, tid, set, (uintptr_t)io);
}

static bool get_registers(const struct remote *r, struct registers *regs)
{
    size_t size = machine->words * sizeof *regs->at;
    struct iovec io = {regs->at, size};
    return trace_registers(PTRACE_GETREGSET, r->tid, NT_PRSTATUS, &io) && io.iov_len == size;
}

/* With a register set for it, the thread makes only the system calls that these lead to. */
static bool set_registers(const struct remote *r, const struct registers *regs)
{
    int none = -1;
    struct iovec io = {(void *)regs->at, machine->words * sizeof *regs->at};
    struct iovec number = {&none, sizeof none};
    return trace_registers(PTRACE_SETREGSET, r->tid, NT_PRSTATUS, &io) &&
           (!machine->number_set ||
            trace_registers(PTRACE_SETREGSET, r->tid, (uint64_t)machine->number_set, &number));
}

static double now(void)
{
    return (double)monotonic_ns() / 1e9;
}

static void a_moment(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

/* ---- stops */

/*
 * Waits for the thread's next stop. 1: *status is from waitpid, 0: it did not stop, -1: it is gone
 */
static int wait_for_stop(pid_t tid, double patience, int *status)
{
    double end = now() + patience;
    for (;;) {
        pid_t got = waitpid(tid, status, __WALL | WNOHANG);
        if (got == tid)
            return WIFSTOPPED(*status) ? 1 : -1;
        if (got < 0 && errno != EINTR)
            return -1;
        if (now() > end)
            return 0;
        a_moment();
    }
}

static bool is_event_stop(int status)
{
    return status >> 16 == PTRACE_EVENT_STOP;
}

/* Waits for its stop by PTRACE_INTERRUPT; passes on signals that come first. */
static bool interrupt(pid_t tid)
{
    int status;
    if (!trace(PTRACE_INTERRUPT, tid, 0, 0))
        return false;
    while (wait_for_stop(tid, PATIENCE_WAIT, &status) > 0) {
        if (is_event_stop(status))
            return WSTOPSIG(status) == SIGTRAP;
        int signal = WSTOPSIG(status);
        bool ours = signal == SYSCALL_STOP || status >> 16 != 0;
        if (!trace(PTRACE_CONT, tid, 0, ours ? 0 : (uint64_t)signal))
            return false;
    }
    return false;
}

bool remote_thread_stop(pid_t tid)
{
    return trace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) && interrupt(tid);
}

void remote_thread_leave(pid_t tid)
{
    (void)trace(PTRACE_DETACH, tid, 0, 0);
}

/* Continues to the next stop before or after a system call. 0: timed out. */
static int next_syscall(const struct remote *r, double patience, struct registers *regs)
{
    int status;
    if (!trace(PTRACE_SYSCALL, r->tid, 0, 0))
        return -1;
    double end = now() + patience;
    for (;;) {
        int there = wait_for_stop(r->tid, end - now(), &status);
        if (there <= 0)
            return there;
        if (WSTOPSIG(status) == SYSCALL_STOP)
            return get_registers(r, regs) ? 1 : -1;
        if (!trace(PTRACE_SYSCALL, r->tid, 0, 0))
            return -1;
    }
}

/* ---- safe points */

/*
 * An interrupted thread, by this process too, waits in restart_syscall: for files, a timer, or a
 * futex with a timeout. No lock of the C library has a timeout.
 */
static bool waits_well(const struct registers *regs, long number)
{
    static const short good[] = {
        SYS_read,       SYS_write,           SYS_readv,       SYS_writev,
        SYS_ppoll,      SYS_pselect6,        SYS_epoll_pwait, SYS_nanosleep,
        SYS_accept,     SYS_clock_nanosleep, SYS_accept4,     SYS_recvfrom,
        SYS_recvmsg,    SYS_recvmmsg,        SYS_sendto,      SYS_sendmsg,
        SYS_connect,    SYS_wait4,           SYS_waitid,      SYS_rt_sigsuspend,
        SYS_flock,      SYS_rt_sigtimedwait, SYS_semop,       SYS_io_getevents,
        SYS_semtimedop, SYS_restart_syscall, SYS_msgrcv,      SYS_mq_timedreceive,
#ifdef SYS_poll /* newer machines have only the calls above */
        SYS_poll,       SYS_select,          SYS_epoll_wait,  SYS_pause,
#endif
    };
    if (number == SYS_futex)
        return (regs->at[machine->arguments[1]] & FUTEX_OPERATION) == FUTEX_BITSET;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (number == good[i])
            return true;
    }
    return false;
}

/* Whether a word of the stack is the return address of a signal handler. */
static bool is_in_handler(const struct remote *r)
{
    uint64_t words[512], sp = r->saved.at[machine->sp];
    if (machine->link && (r->saved.at[machine->link] & machine->address_bits) == r->plan.restorer)
        return true;
    for (uint64_t at = sp & ~UINT64_C(7); at < sp + SCAN_MOST; at += sizeof words) {
        ssize_t n = pread(r->memory, words, sizeof words, (off_t)at);
        for (ssize_t i = 0; i < n / 8; i++) {
            if ((words[i] & machine->address_bits) == r->plan.restorer)
                return true;
        }
        if (n < (ssize_t)sizeof words)
            return false; /* the end of the stack */
    }
    return false;
}

static bool is_system_call(const struct remote *r, uint64_t address)
{
    const struct remote_code *known = &machine->landing;
    uint8_t code[sizeof known->code];
    size_t size = machine->instruction_size;
    return pread(r->memory, code, size, (off_t)address) == (ssize_t)size &&
           memcmp(code, known->code + known->instruction, size) == 0;
}

/* The system call that the thread waits in, is about to make, or returns from; negative: none. */
static long system_call_at(const struct remote *r)
{
    uint64_t pc = r->saved.at[machine->pc];
    if (machine->waiting)
        return (long)r->saved.at[machine->waiting];
    bool makes = is_system_call(r, pc) || is_system_call(r, pc - machine->instruction_size);
    return makes ? (long)r->saved.at[machine->number] : -1;
}

static bool is_well_placed(struct remote *r)
{
    if (!get_registers(r, &r->saved) ||
        (machine->mode_known && r->saved.at[machine->mode] != machine->mode_known))
        return false;
    long number = system_call_at(r);
    if (number >= 0 && !waits_well(&r->saved, number))
        return false;
    /* System call wrappers are the C library's and safe. */
    if (number < 0 && r->plan.is_unsafe(r->plan.ctx, r->saved.at[machine->pc]))
        return false;
    return !is_in_handler(r);
}

/*
 * The number with which the thread will repeat its system call is known when it begins to: another
 * one for a sleep, which is to last no longer. The thread is left after that call, which is
 * skipped.
 */
static bool learn_repeated(struct remote *r)
{
    struct registers regs;
    if (!machine->number_set || !is_system_call(r, r->saved.at[machine->pc]))
        return true;
    if (next_syscall(r, PATIENCE_WAIT, &regs) <= 0)
        return false;
    r->saved.at[machine->number] = regs.at[machine->number];
    return set_registers(r, &regs) && next_syscall(r, PATIENCE_WAIT, &regs) > 0;
}

/* Saves what the call will change besides `saved`. */
static bool keep_state(struct remote *r)
{
    uint64_t all = UINT64_MAX;
    r->state_size = 0;
    for (size_t i = 0; i < 2 && !r->state_size; i++) {
        struct iovec io = {r->state, sizeof r->state};
        r->state_set = machine->state_sets[i];
        if (r->state_set && trace_registers(PTRACE_GETREGSET, r->tid, (uint64_t)r->state_set, &io))
            r->state_size = io.iov_len;
    }
    return r->state_size && r->state_size < sizeof r->state &&
           trace(PTRACE_GETSIGMASK, r->tid, sizeof r->mask, (uintptr_t)&r->mask) &&
           trace(PTRACE_SETSIGMASK, r->tid, sizeof all, (uintptr_t)&all);
}

static int lost(struct err *e)
{
    return err_set(e, ERR_OUTPUT, "the process ended, or its thread did");
}

/* The registers from which a call begins. */
static struct registers begin_at(const struct remote *r, uint64_t address)
{
    struct registers regs = r->saved;
    if (machine->waiting)
        regs.at[machine->waiting] = UINT64_MAX;
    regs.at[machine->pc] = address;
    regs.at[machine->flags] &= ~machine->flags_off;
    return regs;
}

static int system_call(const struct remote *r, long number, const uint64_t arguments[6],
                       uint64_t *result, struct err *e)
{
    struct registers regs = begin_at(r, r->plan.restorer + machine->restorer.instruction);
    regs.at[machine->number] = (uint64_t)number;
    for (size_t i = 0; i < 6; i++)
        regs.at[machine->arguments[i]] = arguments[i];
    if (!set_registers(r, &regs) || next_syscall(r, PATIENCE_WAIT, &regs) <= 0 ||
        next_syscall(r, PATIENCE_WAIT, &regs) <= 0)
        return lost(e);
    *result = regs.at[machine->result];
    return 0;
}

/* The kernel restarts the thread's system call only from a stop by PTRACE_INTERRUPT. */
static void put_back(struct remote *r)
{
    int status;
    uint64_t result;
    struct err unread;
    if (r->room) {
        const uint64_t unmap[6] = {r->room, STACK + PAGE};
        (void)system_call(r, SYS_munmap, unmap, &result, &unread);
        if (!trace(PTRACE_INTERRUPT, r->tid, 0, 0) || !trace(PTRACE_CONT, r->tid, 0, 0))
            return;
        do {
            if (wait_for_stop(r->tid, PATIENCE_WAIT, &status) <= 0)
                return;
        } while (!is_event_stop(status) && trace(PTRACE_CONT, r->tid, 0, 0));
    }
    struct iovec io = {r->state, r->state_size};
    (void)set_registers(r, &r->saved);
    (void)trace_registers(PTRACE_SETREGSET, r->tid, (uint64_t)r->state_set, &io);
    (void)trace(PTRACE_SETSIGMASK, r->tid, sizeof r->mask, (uintptr_t)&r->mask);
}

/* True when the thread was stopped at a safe point; it then stays stopped. */
static bool try_thread(struct remote *r, pid_t tid, bool *forbidden)
{
    r->tid = tid;
    if (!trace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD)) {
        *forbidden |= errno == EPERM;
        return false;
    }
    if (!interrupt(tid))
        return false;
    if (is_well_placed(r) && keep_state(r)) {
        if (learn_repeated(r))
            return r->stopped = true;
        put_back(r);
    }
    (void)trace(PTRACE_DETACH, tid, 0, 0);
    return false;
}

static bool try_threads(struct remote *r, bool *forbidden)
{
    char path[64];
    struct dirent *entry;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)r->plan.pid);
    DIR *tasks = opendir(path);
    while (tasks && !found && !*forbidden && (entry = readdir(tasks))) {
        long tid = strtol(entry->d_name, NULL, 10);
        found = tid > 0 && try_thread(r, (pid_t)tid, forbidden);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static int say_forbidden(pid_t pid, struct err *e)
{
    char scope = '0';
    int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, &scope, 1);
        close(fd);
    }
    if (scope != '0' && geteuid() != 0)
        return err_set(e, ERR_OUTPUT,
                       "the kernel lets only root attach to process %d "
                       "(kernel.yama.ptrace_scope is %c)",
                       (int)pid, scope);
    return err_set(e, ERR_OUTPUT,
                   "process %d may not be attached to: it is another user's, or privileged, or a "
                   "debugger has it",
                   (int)pid);
}

int remote_stop(struct remote **out, const struct remote_plan *plan, struct err *e)
{
    char path[64];
    bool forbidden = false;
    struct remote *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return err_no_memory(e, "attaching");
    r->plan = *plan;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)plan->pid);
    r->memory = open(path, O_RDWR | O_CLOEXEC);
    if (r->memory < 0) {
        free(r);
        return errno == EACCES || errno == EPERM
                   ? say_forbidden(plan->pid, e)
                   : err_errno(e, ERR_OUTPUT, "cannot attach to process %d", (int)plan->pid);
    }
    for (double end = now() + PATIENCE_STOP; !forbidden && now() < end; a_moment()) {
        if (try_threads(r, &forbidden)) {
            *out = r;
            return 0;
        }
        if (kill(plan->pid, 0) != 0)
            break;
    }
    remote_let_go(r);
    return forbidden ? say_forbidden(plan->pid, e)
                     : err_set(e, ERR_OUTPUT,
                               "no thread of process %d came to a place where it can be "
                               "interrupted safely",
                               (int)plan->pid);
}

/* ---- calls */

static int make_room(struct remote *r, struct err *e)
{
    uint64_t result;
    const uint64_t map[6] = {0, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                             UINT64_MAX};
    if (r->room)
        return 0;
    if (system_call(r, SYS_mmap, map, &result, e) != 0)
        return -1;
    if (result > UINT64_MAX - PAGE)
        return err_set(e, ERR_OUTPUT, "the process has no room for a stack");
    r->room = result;
    const uint64_t protect[6] = {r->room + STACK, PAGE, PROT_READ | PROT_EXEC};
    if (pwrite(r->memory, machine->landing.code, machine->landing.size, (off_t)(r->room + STACK)) !=
        machine->landing.size)
        return err_errno(e, ERR_OUTPUT, "cannot write into the process");
    if (system_call(r, SYS_mprotect, protect, &result, e) != 0)
        return -1;
    return result == 0 ? 0
                       : err_set(e, ERR_OUTPUT,
                                 "the process may have no memory with code that is "
                                 "not a file's");
}

int remote_call(struct remote *r, uint64_t function, const char *text, uint64_t number,
                uint64_t *result, struct err *e)
{
    size_t length = text ? strlen(text) + 1 : 0;
    if (make_room(r, e) != 0)
        return -1;
    uint64_t top = r->room + STACK - PAGE, back = r->room + STACK;
    uint64_t words = top - (machine->link ? 0 : sizeof back);
    if (length > PAGE || pwrite(r->memory, &back, sizeof back, (off_t)words) != sizeof back ||
        (text && pwrite(r->memory, text, length, (off_t)top) != (ssize_t)length))
        return err_errno(e, ERR_OUTPUT, "cannot write into the process");
    struct registers regs = begin_at(r, function);
    regs.at[machine->sp] = words;
    regs.at[machine->frame] = 0;
    if (machine->link)
        regs.at[machine->link] = back;
    regs.at[machine->result] = 0;
    regs.at[machine->arguments[0]] = text ? top : 0;
    regs.at[machine->arguments[1]] = number;
    if (!set_registers(r, &regs))
        return lost(e);
    double end = now() + PATIENCE_CALL;
    for (;;) {
        int there = next_syscall(r, end - now(), &regs);
        if (there < 0)
            return lost(e);
        /*
         * It waits for a lock, most likely the dynamic linker's, and holds none itself: the call
         * may be abandoned.
         */
        if (there == 0 && !interrupt(r->tid))
            return lost(e);
        if (there == 0)
            return err_set(e, ERR_OUTPUT,
                           "another thread of the process keeps the dynamic linker "
                           "or the allocator to itself");
        if (regs.at[machine->pc] != back + machine->landing.instruction + machine->instruction_size)
            continue;
        *result = regs.at[machine->arguments[0]];
        return next_syscall(r, PATIENCE_WAIT, &regs) > 0 ? 0 : lost(e);
    }
}

void remote_let_go(struct remote *r)
{
    if (!r)
        return;
    if (r->stopped) {
        put_back(r);
        (void)trace(PTRACE_DETACH, r->tid, 0, 0);
    }
    close(r->memory);
    free(r);
}
