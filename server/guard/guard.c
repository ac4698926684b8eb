#include "server/guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process_limit.h"

#define LENGTH(A) (sizeof(A) / sizeof(A)[0])

void guard_limits(unsigned files, uint64_t memory)
{
    process_limit(RLIMIT_CORE, 0);
    if (files)
        process_limit(RLIMIT_NOFILE, files);
    if (memory && !SANITIZED)
        process_limit(RLIMIT_DATA, memory);
}

/* ---- Landlock: numbers and layouts of linux/landlock.h, equal on all architectures */

#define LANDLOCK_CREATE 444
#define LANDLOCK_ADD 445
#define LANDLOCK_RESTRICT 446
#define LANDLOCK_VERSION 1u
#define LANDLOCK_PATH_BENEATH 1

#define FS_EXECUTE (1u << 0)
#define FS_READ_FILE (1u << 2)
#define FS_READ_DIR (1u << 3)
#define FS_MAKE_CHAR (1u << 6)
#define FS_MAKE_BLOCK (1u << 11)
#define FS_SPECIAL (FS_EXECUTE | FS_MAKE_CHAR | FS_MAKE_BLOCK)

struct ruleset {
    uint64_t files, ports, scopes;
};

struct path_rule {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed));

static int allow_in(int rules, int folder, uint64_t access)
{
    const struct path_rule rule = {.allowed = access, .folder = folder};
    return syscall(LANDLOCK_ADD, rules, LANDLOCK_PATH_BENEATH, &rule, 0) == 0 ? 0 : -1;
}

static int allow_below(int rules, const char *path, uint64_t access)
{
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int status = folder < 0 ? -1 : allow_in(rules, folder, access);
    if (folder >= 0)
        close(folder);
    return status;
}

/*
 * If a folder cannot be opened, the process runs without Landlock, so that its own errors about
 * that folder reach the user.
 */
static bool allow_folders(int rules, const struct guard_folders *o, uint64_t handled)
{
    for (int i = 0; i < GUARD_FOLDERS_MAX; i++) {
        if (o->writable[i] && allow_below(rules, o->writable[i], handled & ~FS_SPECIAL) != 0)
            return false;
    }
    if (o->has_root) /* without it, build ids of later mappings are unknown */
        (void)allow_in(rules, o->root, FS_READ_FILE | FS_READ_DIR);
    return !o->reads || allow_below(rules, "/", FS_READ_FILE | FS_READ_DIR) == 0;
}

bool guard_files(const struct guard_folders *o)
{
    /* The access rights that each version of the ABI knows; asking for more fails. */
    static const uint64_t known[] = {
        0, (1u << 13) - 1, (1u << 14) - 1, (1u << 15) - 1, (1u << 15) - 1, (1u << 16) - 1};
    long version = syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION);
    if (version < 1)
        return false;
    struct ruleset set = {
        .files = known[version < (long)LENGTH(known) ? version : (long)LENGTH(known) - 1],
        .ports = version >= 4 ? 1 : 0,  /* forbids bind */
        .scopes = version >= 6 ? 3 : 0, /* forbids signals, foreign abstract sockets */
    };
    size_t size = version >= 6 ? sizeof set : version >= 4 ? 16 : 8;
    int rules = (int)syscall(LANDLOCK_CREATE, &set, size, 0);
    if (rules < 0)
        return false;
    bool done = allow_folders(rules, o, set.files) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                syscall(LANDLOCK_RESTRICT, rules, 0) == 0;
    close(rules);
    return done;
}

/* ---- seccomp */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE

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

#define ARGUMENT(N) (offsetof(struct seccomp_data, args) + (N) * sizeof(uint64_t))
#define LOAD(AT) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(AT))
#define DENY(ERROR) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (ERROR))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Skips the next `n` instructions unless the call is NR. */
#define UNLESS_CALL(NR, N) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(NR), 0, (N))

#define CLONE_FOR_THREAD 0x00010000u
#define CLONE_FORK_MAY (0x00200000u | 0x01000000u) /* CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID */
#define CLONE_FORK 17u                             /* SIGCHLD, no other flags */

/*
 * Restricts mmap and mprotect to calls without PROT_EXEC, and clone to threads and plain fork,
 * since a copy of the process can do no more than the process. clone3 fails, so that libc falls
 * back to clone.
 */
static const struct sock_filter head[] = {
    LOAD(offsetof(struct seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    LOAD(offsetof(struct seccomp_data, nr)),
    /* The x32 numbers would reach all calls by another number. */
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x40000000u, 0, 1),
    DENY(ENOSYS),
    UNLESS_CALL(__NR_mmap, 4),
    LOAD(ARGUMENT(2)),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0),
    ALLOW,
    DENY(EPERM),
    UNLESS_CALL(__NR_mprotect, 4),
    LOAD(ARGUMENT(2)),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0),
    ALLOW,
    DENY(EPERM),
    UNLESS_CALL(__NR_clone, 6),
    LOAD(ARGUMENT(0)),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_FOR_THREAD, 2, 0),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~CLONE_FORK_MAY),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLONE_FORK, 0, 1),
    ALLOW,
    DENY(EPERM),
    UNLESS_CALL(435 /* clone3 */, 1),
    DENY(ENOSYS),
    /* prlimit64 only for the process itself: the C library reads its limits. */
    UNLESS_CALL(__NR_prlimit64, 4),
    LOAD(ARGUMENT(0)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
    ALLOW,
    DENY(EPERM),
};

static const struct sock_filter number[] = {LOAD(offsetof(struct seccomp_data, nr))};

static const struct sock_filter threads_only[] = {
    LOAD(offsetof(struct seccomp_data, nr)),
    UNLESS_CALL(__NR_clone, 4),
    LOAD(ARGUMENT(0)),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_FOR_THREAD, 0, 1),
    ALLOW,
    DENY(EPERM),
};

/* One comparison for each listed call, then the two return instructions. */
static bool deny(const struct sock_filter *before, size_t n_before, const uint32_t *calls, size_t n)
{
    struct sock_filter program[LENGTH(head) + LENGTH(forbidden) + LENGTH(socket_calls) + 2];
    size_t at = 0;
    for (; at < n_before; at++)
        program[at] = before[at];
    for (size_t i = 0; i < n; i++)
        program[at++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], (uint8_t)(n - i), 0);
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
