#include "symbols/helper/sandbox.h"

#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/process_limit.h"
#include "symbols/landlock.h"
#include "symbols/place/helper_wire.h"
#include "symbols/seccomp_rules.h"

#define LENGTH(A) (sizeof(A) / sizeof(A)[0])

static void set_limits(const struct sandbox_limits *l)
{
    process_limit(RLIMIT_CORE, 0);
    process_limit(RLIMIT_FSIZE, l->file);
    process_limit(RLIMIT_NOFILE, l->files);
    if (l->memory && !SANITIZED)
        process_limit(RLIMIT_AS, l->memory);
    if (l->cpu_seconds)
        process_limit(RLIMIT_CPU, l->cpu_seconds);
}

static bool guard_files(void)
{
    uint64_t handled;
    int rules = landlock_begin(false, &handled);
    bool done = rules >= 0 && landlock_enter(rules);
    if (rules >= 0)
        close(rules);
    return done;
}

/* ---- seccomp */

#ifdef RULES_ARCHITECTURE

/* The calls needed to read, compute in threads and answer. */
static const uint32_t allowed[] = {
    __NR_read,
    __NR_write,
    __NR_pread64,
    __NR_pwrite64,
    __NR_readv,
    __NR_writev,
    __NR_lseek,
    __NR_ftruncate,
    __NR_fstat,
    __NR_close,
    __NR_dup,
    __NR_fcntl,
    __NR_recvmsg,
    __NR_sendmsg,
    __NR_ppoll,
    __NR_munmap,
    __NR_mremap,
    __NR_madvise,
    __NR_brk,
    __NR_futex,
    __NR_exit,
    __NR_exit_group,
    __NR_rt_sigaction,
    __NR_rt_sigprocmask,
    __NR_rt_sigreturn,
    __NR_sigaltstack,
    __NR_set_robust_list,
    __NR_sched_yield,
    __NR_sched_getaffinity,
    __NR_getpid,
    __NR_gettid,
    __NR_tgkill,
    __NR_clock_gettime,
    __NR_clock_nanosleep,
    __NR_nanosleep,
    __NR_getrandom,
    __NR_getrusage,
    __NR_sysinfo,
    __NR_restart_syscall,
    __NR_membarrier,
#ifdef __NR_rseq
    __NR_rseq,
#endif
#ifdef __NR_poll
    __NR_poll,
#endif
#ifdef __NR_time
    __NR_time,
#endif
};

static const struct sock_filter head[] = {
    RULES_BEGIN,
    RULES_NO_EXEC(__NR_mmap),
    RULES_NO_EXEC(__NR_mprotect),
    RULES_THREADS_ONLY,
    RULES_NO_CLONE3,
#ifdef __NR_newfstatat
    /* libc's fstat. With a path it would open no file, but reveal whether one exists. */
    UNLESS_CALL(__NR_newfstatat, 4),
    LOAD(ARGUMENT(3)),
    IF_SET(0x1000 /* AT_EMPTY_PATH */, 0, 1),
    ALLOW,
    DENY(EACCES),
#endif
};

/* One comparison for each allowed call, then the two results. */
static bool guard_syscalls(void)
{
    struct sock_filter program[LENGTH(head) + LENGTH(allowed) + 2];
    size_t n = 0;
    for (; n < LENGTH(head); n++)
        program[n] = head[n];
    for (size_t i = 0; i < LENGTH(allowed); i++, n++) {
        uint8_t to_allow = (uint8_t)(LENGTH(allowed) - i);
        program[n] = (struct sock_filter)IF_EQUAL(allowed[i], to_allow, 0);
    }
    program[n++] = (struct sock_filter)DENY(EPERM);
    program[n++] = (struct sock_filter)ALLOW;
    const struct sock_fprog filter = {.len = (unsigned short)n, .filter = program};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

#else

static bool guard_syscalls(void)
{
    return false;
}

#endif

unsigned sandbox_enter(const struct sandbox_limits *limits)
{
    unsigned guards = 0;
    set_limits(limits);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 0;
    guards |= guard_files() ? GUARD_FILES : 0u;
    guards |= !SANITIZED && guard_syscalls() ? GUARD_SYSCALLS : 0u;
    return guards;
}
