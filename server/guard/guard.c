#include "server/guard/guard.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/process_limit.h"
#include "symbols/landlock.h"
#include "symbols/seccomp_rules.h"

#define LENGTH(A) (sizeof(A) / sizeof(A)[0])

void guard_limits(unsigned files, uint64_t memory)
{
    process_limit(RLIMIT_CORE, 0);
    if (files)
        process_limit(RLIMIT_NOFILE, files);
    if (memory && !SANITIZED)
        process_limit(RLIMIT_DATA, memory);
}

/* ---- files */

#define SPECIAL (LANDLOCK_EXECUTE | LANDLOCK_MAKE_CHAR | LANDLOCK_MAKE_BLOCK)
#define READ (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)

static bool allow_below(int rules, const char *path, uint64_t access)
{
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool done = folder >= 0 && landlock_allow(rules, folder, access);
    if (folder >= 0)
        close(folder);
    return done;
}

/*
 * If a folder cannot be opened, the process runs without Landlock, so that its own errors about
 * that folder reach the user.
 */
static bool allow_folders(int rules, const struct guard_folders *o, uint64_t handled)
{
    for (int i = 0; i < GUARD_FOLDERS_MAX; i++) {
        if (o->writable[i] && !allow_below(rules, o->writable[i], handled & ~SPECIAL))
            return false;
    }
    if (o->has_root) /* without it, build ids of later mappings are unknown */
        (void)landlock_allow(rules, o->root, READ);
    return !o->reads || allow_below(rules, "/", READ);
}

bool guard_files(const struct guard_folders *o)
{
    uint64_t handled;
    int rules = landlock_begin(true, &handled);
    if (rules < 0)
        return false;
    bool done = allow_folders(rules, o, handled) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                landlock_enter(rules);
    close(rules);
    return done;
}

/* ---- seccomp */

#ifdef RULES_ARCHITECTURE

/* Numbers above 423 are the same on all architectures. */
static const uint32_t forbidden[] = {
    __NR_execve,
    __NR_execveat,
    __NR_ptrace,
    __NR_process_vm_readv,
    __NR_process_vm_writev,
    __NR_kcmp,
    __NR_kill,
    __NR_tkill,
    __NR_rt_sigqueueinfo,
    __NR_rt_tgsigqueueinfo,
    __NR_setpgid,
    __NR_setsid,
    __NR_setuid,
    __NR_setgid,
    __NR_setgroups,
    __NR_setreuid,
    __NR_setregid,
    __NR_setresuid,
    __NR_setresgid,
    __NR_setfsuid,
    __NR_setfsgid,
    __NR_capset,
    __NR_personality,
    __NR_unshare,
    __NR_setns,
    __NR_chroot,
    __NR_pivot_root,
    __NR_mount,
    __NR_umount2,
    __NR_swapon,
    __NR_swapoff,
    __NR_reboot,
    __NR_sethostname,
    __NR_setdomainname,
    __NR_settimeofday,
    __NR_clock_settime,
    __NR_adjtimex,
    __NR_clock_adjtime,
    __NR_init_module,
    __NR_finit_module,
    __NR_delete_module,
    __NR_kexec_load,
    __NR_syslog,
    __NR_acct,
    __NR_quotactl,
    __NR_bpf,
    __NR_perf_event_open,
    __NR_userfaultfd,
    __NR_add_key,
    __NR_request_key,
    __NR_keyctl,
    __NR_open_by_handle_at,
    __NR_name_to_handle_at,
    __NR_fanotify_init,
    __NR_lookup_dcookie,
    __NR_vhangup,
    __NR_mq_open,
    __NR_shmget,
    __NR_semget,
    __NR_msgget,
    __NR_listen,
    __NR_accept,
    __NR_accept4,
    424 /* pidfd_send_signal */,
    425 /* io_uring_setup */,
    426 /* io_uring_enter */,
    427 /* io_uring_register */,
    428 /* open_tree */,
    429 /* move_mount */,
    430 /* fsopen */,
    434 /* pidfd_open */,
    438 /* pidfd_getfd */,
    440 /* process_madvise */,
    442 /* mount_setattr */,
    447 /* memfd_secret */,
    __NR_pkey_mprotect,
#ifdef __NR_fork
    __NR_fork,
    __NR_vfork,
    __NR_modify_ldt,
    __NR_ioperm,
    __NR_iopl,
#endif
#ifdef __NR_kexec_file_load
    __NR_kexec_file_load,
#endif
};

static const uint32_t socket_calls[] = {__NR_socket, __NR_connect, __NR_bind};

#define CLONE_FORK_MAY (0x00200000u | 0x01000000u) /* CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID */
#define CLONE_FORK 17u                             /* SIGCHLD, no other flags */

/*
 * Allows clone for threads and plain fork: a copy of the process can do no more than the process.
 */
static const struct sock_filter head[] = {
    RULES_BEGIN,
    /* The x32 numbers would reach all calls by another number. */
    IF_SET(0x40000000u, 0, 1),
    DENY(ENOSYS),
    RULES_NO_EXEC(__NR_mmap),
    RULES_NO_EXEC(__NR_mprotect),
    UNLESS_CALL(__NR_clone, 6),
    LOAD(ARGUMENT(0)),
    IF_SET(CLONE_FOR_THREAD, 2, 0),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~CLONE_FORK_MAY),
    IF_EQUAL(CLONE_FORK, 0, 1),
    ALLOW,
    DENY(EPERM),
    RULES_NO_CLONE3,
    /* prlimit64 only for the process itself: the C library reads its limits. */
    UNLESS_CALL(__NR_prlimit64, 4),
    LOAD(ARGUMENT(0)),
    IF_EQUAL(0, 0, 1),
    ALLOW,
    DENY(EPERM),
};

static const struct sock_filter number[] = {LOAD(offsetof(struct seccomp_data, nr))};

static const struct sock_filter threads_only[] = {
    LOAD(offsetof(struct seccomp_data, nr)),
    RULES_THREADS_ONLY,
};

/* One comparison for each listed call, then the two return instructions. */
static bool deny(const struct sock_filter *before, size_t n_before, const uint32_t *calls, size_t n)
{
    struct sock_filter program[LENGTH(head) + LENGTH(forbidden) + LENGTH(socket_calls) + 2];
    size_t at = 0;
    for (; at < n_before; at++)
        program[at] = before[at];
    for (size_t i = 0; i < n; i++)
        program[at++] = (struct sock_filter)IF_EQUAL(calls[i], (uint8_t)(n - i), 0);
    program[at++] = (struct sock_filter)ALLOW;
    program[at++] = (struct sock_filter)DENY(EPERM);
    const struct sock_fprog filter = {.len = (unsigned short)at, .filter = program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

bool guard_calls(void)
{
    return !SANITIZED && deny(head, LENGTH(head), forbidden, LENGTH(forbidden));
}

bool guard_sockets(void)
{
    return !SANITIZED && deny(number, LENGTH(number), socket_calls, LENGTH(socket_calls));
}

bool guard_forks(void)
{
    return !SANITIZED && deny(threads_only, LENGTH(threads_only), NULL, 0);
}

#else

bool guard_calls(void)
{
    return false;
}

bool guard_sockets(void)
{
    return false;
}

bool guard_forks(void)
{
    return false;
}

#endif
