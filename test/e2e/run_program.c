/*
 * The program that the tests of `tidemark run` record. It counts what it allocates itself, in
 * functions that bear no inlining, and tells the counts on standard output.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pty.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tidemark.h"

#define SLOTS 64

static _Atomic long made, freed;
static _Atomic(void *) slots[SLOTS];
static long rounds;

void *make_block(size_t size);
void free_block(void *p);

__attribute__((noinline)) void *make_block(size_t size)
{
    void *p = malloc(size);
    made++;
    return p;
}

__attribute__((noinline)) void free_block(void *p)
{
    if (p)
        freed++;
    free(p);
}

/* Threads pass blocks to each other: what one puts there another one frees. */
static void *pass_blocks(void *seed)
{
    unsigned long n = (unsigned long)seed * 2654435761u + 1;
    for (long i = 0; i < rounds; i++) {
        n = n * 6364136223846793005u + 1442695040888963407u;
        void *p = make_block(n >> 40 & 0xfff);
        free_block(atomic_exchange(&slots[(n >> 33) % SLOTS], p));
    }
    return NULL;
}

static void threads(long count)
{
    pthread_t list[64];
    for (long i = 0; i < count; i++)
        pthread_create(&list[i], NULL, pass_blocks, (void *)i);
    for (long i = 0; i < count; i++)
        pthread_join(list[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        free_block(atomic_exchange(&slots[i], NULL));
}

static void children(long count)
{
    for (long i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            free_block(make_block(100));
            (void)make_block(50);
            _exit(0);
        }
        int status = 1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            exit(9);
    }
}

/* Calls of the kernel by number do what they do without us; 0 if so. */
static int by_number(void)
{
    char text[8] = "";
    int ends[2], status = 1;
    struct timespec no_time = {0, 1};
    _Atomic int word = 1;
    errno = 77;
    if (syscall(SYS_getpid) != getpid() || errno != 77)
        return 1;
    if (syscall(SYS_close, -1) != -1 || errno != EBADF)
        return 2;
    if (syscall(SYS_futex, &word, 0, 2, &no_time, NULL, 0) != -1 || errno != EAGAIN)
        return 3;
    /* All six arguments arrive. */
    void *p = (void *)syscall(SYS_mmap, NULL, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || pipe(ends) != 0 || write(ends[1], "sixth", 5) != 5)
        return 4;
    if (syscall(SYS_pread64, ends[0], text, 5, 0, 0, 0) != -1 || errno != ESPIPE)
        return 5;
    struct iovec from = {"other", 5}, to = {text, 5};
    if (syscall(SYS_process_vm_readv, getpid(), &to, 1UL, &from, 1UL, 0UL) != 5 ||
        syscall(SYS_process_vm_readv, getpid(), &to, 1UL, &from, 1UL, 1UL) != -1 ||
        errno != EINVAL || strcmp(text, "other") != 0)
        return 6;
    /* One that returns twice. */
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(5);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 5)
        return 7;
    errno = 0;
    return syscall(SYS_seccomp, 999, 0, NULL) == -1 && errno == EINVAL ? 0 : 8;
}

/* Each executes that program at once, or ends. */
static void idle_children(long count, char **program)
{
    for (long i = 0; i < count; i++) {
        pid_t pid = fork();
        int status = 1;
        if (pid == 0) {
            if (*program)
                (void)execv(*program, program);
            _exit(*program ? 9 : 0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            exit(9);
    }
}

/* Waits until a file is there. */
static void wait_for(const char *path)
{
    while (access(path, F_OK) != 0)
        usleep(2000);
}

/* As daemons do, whatever descriptors these are. Others get their numbers then. */
static void close_descriptors(int first)
{
    for (int fd = first; fd < 2000; fd++)
        close(fd);
    for (int i = 0; i < 5; i++) {
        if (open("/dev/null", O_RDWR) < 0)
            exit(7);
    }
}

/* Threads pass blocks while descriptors are closed again and again. */
static void close_beside_threads(long count)
{
    pthread_t list[64];
    for (long i = 0; i < count; i++)
        pthread_create(&list[i], NULL, pass_blocks, (void *)i);
    for (int i = 0; i < 100; i++) {
        close_descriptors(3);
        usleep(500);
    }
    for (long i = 0; i < count; i++)
        pthread_join(list[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        free_block(atomic_exchange(&slots[i], NULL));
}

/* Leaves its parents, and all that it has from them, before it begins. */
static void leave_all(long count)
{
    if (fork() != 0)
        _exit(0);
    setsid();
    if (fork() != 0)
        _exit(0);
    close_descriptors(0);
    for (long i = 0; i < count; i++)
        free_block(make_block(20));
    _exit(0);
}

/* Children that no hook of fork sees. The last one outlives its parent. */
static void other_children(const char *how)
{
    bool is_daemon = strcmp(how, "daemon") == 0;
    int status = 0;
    free_block(make_block(100));
    pid_t pid = is_daemon                     ? daemon(1, 1)
                : strcmp(how, "forkpty") == 0 ? forkpty(&status, NULL, NULL, NULL)
                                              : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid > 0)
        _exit(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 9);
    for (int i = 0; pid == 0 && i < 300; i++)
        (void)make_block(50);
    _exit(pid == 0 ? 0 : 9);
}

/* A number on the command line; 0 for other text, as the path that a script's interpreter gets. */
static long number(const char *text)
{
    return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((noinline)) static void *late_block(size_t size)
{
    void *p = malloc(size);
    __asm__ volatile("" : "+r"(p));
    return p;
}

static void *pass_under_a_name(void *number)
{
    char name[64];
    long n = (long)number;
    snprintf(name, sizeof name, "%s-%ld", n % 2 ? "worker" : "other", n / 2);
    (void)prctl(PR_SET_NAME, name);
    return pass_blocks(number);
}

/* Twice `count` threads pass blocks, half of them are called worker-N. */
static void named(long count)
{
    pthread_t list[64];
    for (long i = 0; i < 2 * count; i++)
        pthread_create(&list[i], NULL, pass_under_a_name, (void *)i);
    for (long i = 0; i < 2 * count; i++)
        pthread_join(list[i], NULL);
    free_block(make_block(5));
    for (int i = 0; i < SLOTS; i++)
        free_block(atomic_exchange(&slots[i], NULL));
}

static pthread_barrier_t worked;

static void *work_and_idle(void *unused)
{
    (void)pass_blocks(unused);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&worked);
    return NULL;
}

/* Threads that have written much, and do nothing while another one goes on. */
static void idle(long count, long more)
{
    pthread_t list[128];
    pthread_barrier_init(&worked, NULL, (unsigned)count + 1);
    for (long i = 0; i < count; i++)
        pthread_create(&list[i], NULL, work_and_idle, (void *)i);
    pthread_barrier_wait(&worked);
    for (long i = 0; i < more; i++)
        free_block(make_block(10));
    pthread_barrier_wait(&worked);
    for (long i = 0; i < count; i++)
        pthread_join(list[i], NULL);
}

/* Threads pass blocks until a file is there; one of them never enters the kernel. */
static const char *stop_at;
static atomic_bool stopped;

static void *pass_on(void *seed)
{
    while (!stopped)
        pass_blocks(seed);
    return NULL;
}

static void churn(const char *until)
{
    pthread_t list[8];
    rounds = 1000;
    stop_at = until;
    for (long i = 0; i < 8; i++)
        pthread_create(&list[i], NULL, pass_on, (void *)i);
    puts("ready");
    fflush(stdout);
    wait_for(stop_at);
    stopped = true;
    for (long i = 0; i < 8; i++)
        pthread_join(list[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        free_block(atomic_exchange(&slots[i], NULL));
}

/* Computes, without a system call, until somebody writes into its memory from a handler. */
static void on_signal(int signal)
{
    (void)signal;
    stopped = true;
}

static void spin(void)
{
    signal(SIGTERM, on_signal);
    puts("ready");
    fflush(stdout);
    double sum = 0;
    for (long i = 1; !stopped; i++) {
        sum += 1.0 / (double)i;
        if (i % 100000 == 0)
            free_block(make_block(64));
    }
    if (sum < 1)
        exit(8);
}

/* From now on this system call ends the process. */
/* With seccomp(2) itself instead of prctl, as libseccomp and Firefox do, where `direct`. */
static void forbid(int number, bool direct)
{
    if (number < 0) {
        if (direct ? syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL)
                   : prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
            exit(6);
        free_block(make_block(20));
        syscall(SYS_exit, 7);
    }
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        (direct ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter)
                : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)))
        exit(6);
}

/* Waits in a handler, which may have interrupted anything. */
static void wait_in_handler(int signal)
{
    (void)signal;
    puts("ready");
    fflush(stdout);
    char byte;
    if (read(0, &byte, 1) != 1)
        _exit(7);
}

/* Waits for a byte; the wait is never to fail because somebody looks at the process. */
static void wait_for_byte(void)
{
    char byte;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    puts("ready");
    fflush(stdout);
    if (poll(&input, 1, -1) != 1 || read(0, &byte, 1) != 1 || byte != 'a')
        exit(7);
    puts("again");
    fflush(stdout);
    if (read(0, &byte, 1) != 1 || byte != 'b')
        exit(7);
    free_block(make_block(40));
}

/* Three bouts of work, each when a file is there; says when one is done. */
static void bouts(const char *first, const char *second, long count)
{
    void *kept[1000] = {NULL};
    for (int i = 0; i < 500; i++)
        kept[i] = make_block(100);
    puts("ready");
    fflush(stdout);
    wait_for(first);
    for (long i = 0; i < count; i++) {
        free_block(kept[i % 1000]);
        kept[i % 1000] = make_block(20 + (size_t)i % 100);
    }
    puts("worked");
    fflush(stdout);
    wait_for(second);
    for (int i = 0; i < 300; i++)
        free(late_block(30));
    for (int i = 0; i < 1000; i += 2)
        free_block(kept[i]);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    rounds = argc > 3 ? number(argv[3]) : 0;
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* for `tidemark run --pid` */
    if (strcmp(what, "threads") == 0) {
        threads(number(argv[2]));
    } else if (strcmp(what, "exit") == 0) {
        (void)make_block(1000);
        return (int)number(argv[2]);
    } else if (strcmp(what, "signal") == 0) {
        for (int i = 0; i < 1000; i++)
            (void)make_block(10);
        raise((int)number(argv[2]));
    } else if (strcmp(what, "children") == 0) {
        children(number(argv[2]));
    } else if (strcmp(what, "idle-children") == 0) {
        free_block(make_block(100));
        idle_children(number(argv[2]), argv + 3);
    } else if (strcmp(what, "limit") == 0) {
        const struct rlimit none = {0, 0};
        void *volatile p = setrlimit(RLIMIT_DATA, &none) == 0 ? malloc(100) : "";
        _exit(p ? 9 : 0);
    } else if (strcmp(what, "by-number") == 0) {
        free_block(make_block(100));
        return by_number();
    } else if (strcmp(what, "note") == 0) {
        tidemark_message("noted", 0);
        _exit(0);
    } else if (strcmp(what, "leave") == 0) {
        /* A child that outlives its parent, until a file is there. */
        fflush(stdout);
        if (fork() == 0) {
            for (int i = 0; i < 200; i++)
                (void)make_block(10);
            puts("left");
            fflush(stdout);
            wait_for(argv[2]);
            _exit(0);
        }
        return 0;
    } else if (strcmp(what, "close") == 0) {
        free_block(make_block(10));
        close_descriptors(3);
        for (long i = 0; i < number(argv[2]); i++)
            free_block(make_block(20));
    } else if (strcmp(what, "close-beside") == 0) {
        close_beside_threads(number(argv[2]));
    } else if (strcmp(what, "daemon") == 0) {
        leave_all(number(argv[2]));
    } else if (strcmp(what, "other-children") == 0) {
        other_children(argv[2]);
    } else if (strcmp(what, "copy") == 0) {
        char line[256];
        while (fgets(line, sizeof line, stdin)) {
            size_t size = strlen(line) + 1;
            char *copy = memcpy(make_block(size), line, size);
            fputs(copy, stdout);
            fputs("said\n", stderr);
            free_block(copy);
        }
        return 0;
    } else if (strcmp(what, "idle") == 0) {
        idle(number(argv[2]), number(argv[4]));
    } else if (strcmp(what, "named") == 0) {
        named(number(argv[2]));
    } else if (strcmp(what, "shell") == 0) {
        free_block(make_block(10));
        char line[16] = "";
        FILE *pipe = popen("echo said", "r");
        if (system("exit 3") != 3 << 8 || !pipe || !fgets(line, sizeof line, pipe) ||
            pclose(pipe) != 0 || strcmp(line, "said\n") != 0)
            return 9;
    } else if (strcmp(what, "churn") == 0) {
        churn(argv[2]);
    } else if (strcmp(what, "spin") == 0) {
        spin();
    } else if (strcmp(what, "handler") == 0) {
        signal(SIGUSR1, wait_in_handler);
        raise(SIGUSR1);
    } else if (strcmp(what, "forbid") == 0) {
        free_block(make_block(10));
        forbid((int)number(argv[2]), argc > 5);
        for (long i = 0; i < number(argv[4]); i++)
            free_block(make_block(20));
    } else if (strcmp(what, "byte") == 0) {
        wait_for_byte();
    } else if (strcmp(what, "bouts") == 0) {
        bouts(argv[2], argv[3], number(argv[4]));
    } else if (strcmp(what, "wait") == 0) {
        /* Says that it is there, waits for a file, goes on. */
        for (int i = 0; i < 500; i++)
            (void)make_block(10);
        puts("ready");
        fflush(stdout);
        wait_for(argv[2]);
        for (long i = 0; i < rounds; i++)
            free_block(make_block(20));
    }
    printf("%ld %ld\n", made, freed);
    return 0;
}
