/*
 * What the tests of libtidemark.so record. Each mode does something with the heap and prints what
 * it did: "NAME NUMBER" lines on standard output, written without stdio so that nothing else
 * allocates.
 *
 *     client_program MODE [NUMBER…]
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *name, unsigned long number)
{
    char line[64], digits[24];
    size_t length = strlen(name), n = 0;
    memcpy(line, name, length);
    line[length++] = ' ';
    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n)
        line[length++] = digits[--n];
    line[length++] = '\n';
    if (write(1, line, length) < 0)
        _exit(99);
}

/* ---- threads that hand blocks to each other */

#define SLOTS 64u

static _Atomic(void *) slots[SLOTS];
static _Atomic unsigned long allocations, frees, bytes;

static void *pass_blocks(void *rounds)
{
    unsigned long n = (unsigned long)(uintptr_t)rounds, made = 0, dropped = 0, sum = 0;
    unsigned random = (unsigned)(uintptr_t)&made | 1u;
    for (unsigned long i = 0; i < n; i++) {
        random = random * 1103515245u + 12345u;
        size_t size = 1 + (random >> 8) % 400;
        void *p;
        if (random >> 28 == 0)
            p = calloc(1, size);
        else if (random >> 28 == 1)
            p = aligned_alloc(64, size = (size + 63) & ~(size_t)63);
        else
            p = malloc(size);
        made++;
        sum += size;
        if (random >> 28 == 2) {
            p = realloc(p, size * 2);
            made++;
            dropped++;
            sum += size * 2;
        }
        *(volatile char *)p = 1;
        void *old = atomic_exchange(&slots[(random >> 16) % SLOTS], p);
        if (old) {
            free(old);
            dropped++;
        }
    }
    atomic_fetch_add(&allocations, made);
    atomic_fetch_add(&frees, dropped);
    atomic_fetch_add(&bytes, sum);
    return NULL;
}

static int count(unsigned long threads, unsigned long rounds)
{
    pthread_t ids[64];
    for (unsigned long i = 1; i < threads; i++)
        if (pthread_create(&ids[i], NULL, pass_blocks, (void *)(uintptr_t)rounds))
            return 1;
    pass_blocks((void *)(uintptr_t)rounds);
    for (unsigned long i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i]) {
            free(slots[i]);
            frees++;
        }
    }
    say("allocations", allocations);
    say("frees", frees);
    say("bytes", bytes);
    return 0;
}

/* ---- more threads than anybody needs */

static pthread_barrier_t barrier;

static void *small_thread(void *wait)
{
    for (int i = 0; i < 10; i++)
        free(malloc(77));
    if (wait)
        pthread_barrier_wait(&barrier);
    void *volatile p = malloc(33);
    free(p);
    return NULL;
}

/* `at_once` threads at a time, `rounds` times. */
static int threads(unsigned long at_once, unsigned long rounds)
{
    pthread_t *ids = calloc(at_once, sizeof *ids);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (unsigned long round = 0; round < rounds; round++) {
        pthread_barrier_init(&barrier, NULL, (unsigned)at_once);
        for (unsigned long i = 0; i < at_once; i++)
            if (pthread_create(&ids[i], &small, small_thread, (void *)1))
                return 1;
        for (unsigned long i = 0; i < at_once; i++)
            pthread_join(ids[i], NULL);
    }
    free(ids);
    say("allocations", at_once * rounds * 11);
    return 0;
}

/* ---- realloc */

static int reallocs(void)
{
    char *p = malloc(100);
    for (size_t size = 200; size < 100000; size *= 2)
        p = realloc(p, size);
    void *volatile failed = realloc(p, (size_t)PTRDIFF_MAX - 4096);
    say("failed", failed == NULL && errno == ENOMEM);
    failed = reallocarray(p, SIZE_MAX / 2, 4);
    say("overflow", failed == NULL && errno == ENOMEM);
    void *volatile nothing = realloc(p, 0);
    say("nothing", nothing == NULL);
    void *q = realloc(NULL, 50);
    errno = 77;
    free(q);
    say("errno", (unsigned long)errno);
    return 0;
}

/* Fills a bounded recording; blocks from before it was full and from behind it are moved in vain.
 */
static int full_reallocs(void)
{
    enum { EACH = 500 };
    static void *blocks[2 * EACH];
    unsigned long failed = 0;
    for (int i = 0; i < EACH; i++)
        blocks[i] = malloc(24);
    for (int i = 0; i < 200000; i++) {
        void *volatile p = malloc(16);
        free(p);
    }
    for (int i = EACH; i < 2 * EACH; i++)
        blocks[i] = malloc(48);
    for (int i = 0; i < 2 * EACH; i++) {
        void *volatile p = realloc(blocks[i], (size_t)PTRDIFF_MAX - 4096);
        failed += p == NULL;
        free(blocks[i]);
    }
    say("failed", failed);
    say("known", EACH);
    return 0;
}

/* ---- stacks */

__attribute__((noinline)) static void *leaf(void)
{
    void *p = malloc(4321);
    __asm__ volatile("" : "+r"(p));
    return p;
}

__attribute__((noinline)) static void *descend(unsigned long n)
{
    void *p = n ? descend(n - 1) : leaf();
    __asm__ volatile("" : "+r"(p));
    return p;
}

/* A frame that is aligned to more than the ABI does, so its address is kept in memory. */
__attribute__((noinline)) static void *aligned_frame(void)
{
    _Alignas(128) volatile char room[256];
    room[0] = 1;
    void *p = leaf();
    room[1] = 1;
    return p;
}

__attribute__((noinline)) static int stacks(unsigned long depth, unsigned long times)
{
    for (unsigned long i = 0; i < times; i++) {
        for (unsigned long d = 0; d <= depth; d++)
            free(descend(d));
        free(aligned_frame());
    }
    return 0;
}

static void *volatile from_handler;

static void handler(int signal)
{
    (void)signal;
    from_handler = leaf();
}

__attribute__((noinline)) static void interrupted(void)
{
    raise(SIGUSR1);
    __asm__ volatile("");
}

__attribute__((noinline)) static int signal_stack(void)
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    interrupted();
    free(from_handler);
    stack_t other = {.ss_sp = malloc(65536), .ss_size = 65536};
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&other, NULL);
    sigaction(SIGUSR1, &action, NULL);
    interrupted();
    free(from_handler);
    return 0;
}

/* ---- signals in the middle of everything; needs an allocator that stands them */

static _Atomic unsigned long handled;

static void allocate_in_handler(int signal)
{
    (void)signal;
    int saved = errno;
    for (int i = 0; i < 3; i++) {
        void *volatile p = malloc(123);
        free(p);
    }
    handled++;
    errno = saved;
}

static int storm(unsigned long wanted)
{
    struct sigaction action = {.sa_handler = allocate_in_handler};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, NULL);
    unsigned long n = 0;
    while (handled < wanted) {
        void *volatile p = malloc(64);
        free(p);
        n++;
    }
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_REAL, &often, NULL);
    say("allocations", n + handled * 3);
    return 0;
}

/* ---- handlers that jump away, out of hooks as well */

static sigjmp_buf back;

static void jump(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static int jumps(unsigned long wanted)
{
    volatile unsigned long done = 0;
    struct sigaction action = {.sa_handler = jump};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}};
    while (done < wanted) {
        if (sigsetjmp(back, 1) == 0) {
            setitimer(ITIMER_REAL, &often, NULL);
            for (;;) {
                void *volatile p = malloc(64);
                free(p);
            }
        }
        done++;
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < 1000; i++) {
        void *volatile p = malloc(99);
        free(p);
    }
    say("done", 1);
    return 0;
}

/* ---- a thread that is to be cancelled, but calls nothing that obeys */

static void *deaf(void *unused)
{
    char deep[20000];
    memset(deep, 1, sizeof deep);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    for (int i = 0; i < 100000; i++) {
        void *volatile p = malloc(55 + (size_t)deep[i % 20000] * 0);
        free(p);
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return unused;
}

static int cancelled(void)
{
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, deaf, &thread) || pthread_join(thread, &result))
        return 1;
    say("finished", result == &thread);
    return 0;
}

/* ---- libraries that come and go */

static int libraries(const char *first, const char *second, unsigned long times)
{
    uintptr_t last = 0;
    unsigned long reused = 0;
    for (unsigned long i = 0; i < times * 2; i++) {
        void *handle = dlopen(i % 2 ? second : first, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            return 1;
        void *(*make)(void) = (void *(*)(void))dlsym(handle, "make");
        reused += (uintptr_t)make == last;
        last = (uintptr_t)make;
        free(make());
        dlclose(handle);
    }
    say("reused", reused);
    return 0;
}

/* ---- mappings */

static int mappings(void)
{
    size_t page = 4096;
    int any = PROT_READ | PROT_WRITE, private = MAP_PRIVATE | MAP_ANONYMOUS;
    char *p = mmap(NULL, 10 * page, any, private, -1, 0);
    say("first", (unsigned long)(uintptr_t)p);
    char *rest = p + 5 * page;
    munmap(p + 4 * page, page);
    p = mremap(p, 4 * page, 400 * page, MREMAP_MAYMOVE);
    say("moved", (unsigned long)(uintptr_t)p);
    if (mmap(p, page, any, private | MAP_FIXED, -1, 0) != p)
        return 1;
    if (munmap(p + 1, page) == 0 || mmap(NULL, 0, any, private, -1, 0) != MAP_FAILED)
        return 1;
    munmap(p, 400 * page);
    munmap(rest, 5 * page);
    return 0;
}

/* ---- children */

static int children(const char *self)
{
    int status;
    void *volatile before = malloc(1000);
    pid_t pid = fork();
    if (pid == 0) {
        void *volatile p = malloc(2000);
        free(p);
        free(before);
        _exit(write(1, "forked 1\n", 9) < 0);
    }
    waitpid(pid, &status, 0);
    say("fork", (unsigned long)WEXITSTATUS(status));
    pid = vfork();
    if (pid == 0) {
        execl(self, self, "nothing", (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    say("vfork", (unsigned long)WEXITSTATUS(status));
    say("system", (unsigned long)WEXITSTATUS(system("exit 3")));
    free(before);
    return 0;
}

/* ---- things that programs do to their surroundings */

static int daemon_like(void)
{
    void *first = malloc(5000);
    for (int fd = 0; fd < 2000; fd++)
        if (fd != 1)
            close(fd);
    /* Others now have the numbers of whatever was closed. */
    for (int i = 0; i < 3; i++)
        if (open("/dev/null", O_RDWR) < 0)
            return 1;
    for (int i = 0; i < 200000; i++) {
        void *volatile p = malloc(48);
        free(p);
    }
    free(first);
    say("done", 1);
    return 0;
}

static int forever(void)
{
    for (unsigned long i = 0;; i++) {
        void *volatile p = malloc(100);
        free(p);
        if (i == 100000)
            say("running", 1);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    unsigned long a = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long b = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    if (!strcmp(mode, "nothing"))
        return 0;
    if (!strcmp(mode, "count"))
        return count(a, b);
    if (!strcmp(mode, "threads"))
        return threads(a, b);
    if (!strcmp(mode, "reallocs"))
        return reallocs();
    if (!strcmp(mode, "full_reallocs"))
        return full_reallocs();
    if (!strcmp(mode, "stacks"))
        return stacks(a, b);
    if (!strcmp(mode, "signal_stack"))
        return signal_stack();
    if (!strcmp(mode, "storm"))
        return storm(a);
    if (!strcmp(mode, "jumps"))
        return jumps(a);
    if (!strcmp(mode, "cancelled"))
        return cancelled();
    if (!strcmp(mode, "libraries"))
        return libraries(argv[2], argv[3], 5);
    if (!strcmp(mode, "mappings"))
        return mappings();
    if (!strcmp(mode, "children"))
        return children(argv[0]);
    if (!strcmp(mode, "daemon_like"))
        return daemon_like();
    if (!strcmp(mode, "forever"))
        return forever();
    return 98;
}
