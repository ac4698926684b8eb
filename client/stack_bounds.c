#include "client/stack_bounds.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/quiet.h"

#define LOOKUPS_MOST 64u     /* look-ups of unknown stacks, per thread */
#define SMALLEST_STACK 8192u /* below the thread pointer; PTHREAD_STACK_MIN is 16384 */
#define PAGE UINT64_C(4096)

extern void *__libc_stack_end; /* NOLINT: the dynamic loader's name */

/* Parses the two hexadecimal numbers at the beginning of a line of /proc/self/maps. */
struct range {
    uint64_t low, high;
    unsigned numbers; /* numbers completed: 2 in the rest of the line */
};

static bool feed(struct range *r, char c)
{
    uint64_t *number = r->numbers == 0 ? &r->low : &r->high;
    if (c == '\n') {
        *r = (struct range){0};
        return false;
    }
    if (r->numbers == 2)
        return false;
    if (c >= '0' && c <= '9')
        *number = *number << 4 | (uint64_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
        *number = *number << 4 | (uint64_t)(c - 'a' + 10);
    else
        r->numbers++;
    return r->numbers == 2;
}

/* Finds the mapping that contains an address. False: not found. */
static bool look_up(uint64_t address, uint64_t *low, uint64_t *high)
{
    char text[512];
    struct range r = {0};
    bool found = false;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (ssize_t n; !found && (n = read(fd, text, sizeof text)) > 0;) {
        for (ssize_t i = 0; !found && i < n; i++)
            found = feed(&r, text[i]) && address >= r.low && address < r.high;
    }
    (void)close(fd);
    *low = found ? r.low : 0;
    *high = found ? r.high : 0;
    return found;
}

/* Below the main thread's stack, the kernel keeps the range that RLIMIT_STACK allows free. */
static void bounds_of_main(struct thread *t)
{
    struct rlimit limit;
    uint64_t room = 8u << 20;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < room)
        room = limit.rlim_cur;
    t->stack_high = (uint64_t)(uintptr_t)__libc_stack_end;
    t->stack_low = t->stack_high - room;
}

/* gcc has __builtin_thread_pointer for x86-64 since version 11. */
static void *thread_pointer(void)
{
#if defined(__x86_64__)
    void *own;
    __asm__("mov %%fs:0, %0" : "=r"(own));
    return own;
#else
    return __builtin_thread_pointer();
#endif
}

/*
 * The C library puts a thread's own data at the upper end of its stack, even if the program
 * allocated the stack.
 */
static void bounds_of_other(struct thread *t)
{
    t->stack_high = (uint64_t)(uintptr_t)thread_pointer() & ~UINT64_C(15);
    t->stack_low = t->stack_high - SMALLEST_STACK;
}

/* The end of the stack of this thread's signal handlers, if it is running on it; else 0. */
static uint64_t end_of_alternate(uint64_t sp)
{
    stack_t stack;
    if (state.sandboxed || sigaltstack(NULL, &stack) != 0 || !(stack.ss_flags & SS_ONSTACK) ||
        sp - (uintptr_t)stack.ss_sp >= stack.ss_size)
        return 0;
    return ((uintptr_t)stack.ss_sp + stack.ss_size) & ~UINT64_C(7);
}

bool stack_bounds_mapping(struct thread *t, uint64_t address, uint64_t *low, uint64_t *high)
{
    return t->lookups++ < LOOKUPS_MOST && look_up(address, low, high);
}

void stack_bounds_find(struct thread *t, uint64_t sp, uint64_t *high)
{
    struct quiet q;
    quiet_begin(&q);
    if (!t->stack_high) {
        if (t->tid == state.pid)
            bounds_of_main(t);
        else
            bounds_of_other(t);
    }
    uint64_t alternate;
    if (sp >= t->stack_low && sp < t->stack_high) {
        *high = t->stack_high;
    } else if ((alternate = end_of_alternate(sp)) != 0) {
        *high = alternate;
    } else if (t->lookups < LOOKUPS_MOST) {
        uint64_t low = 0, end = 0;
        t->lookups++;
        if (look_up(sp, &low, &end) && t->stack_high > low && t->stack_high <= end) {
            t->stack_low = low;
            *high = t->stack_high;
        } else {
            /*
             * A coroutine: its bounds are valid for this walk only, since the program may unmap it
             * at any time.
             */
            *high = end > sp ? end : (sp | (PAGE - 1)) + 1;
        }
    } else {
        *high = (sp | (PAGE - 1)) + 1;
    }
    quiet_end(&q);
}
