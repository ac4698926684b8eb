/*
 * The zone `main`: from the call of the program's main to its return, or that of exit().
 *
 * Call stacks are to be what they are without us, so nothing here stays on the stack: what is
 * called last is jumped to (the Makefile sees to that). So the return of main is not seen, but what
 * follows it: the C library calls exit(), which begins with the handlers that were registered last.
 * Ours is registered before main can do so. After pthread_exit() it is the thread's end instead,
 * and after _exit(), exec and deadly signals the end of the recording.
 */

#include <stdlib.h>
#include <string.h>

#include "client/api.h"
#include "client/events.h"
#include "client/hooks.h"
#include "client/real.h"
#include "client/threads.h"

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void),
                           void (*)(void), void *);

/* Which the C library's start files call. */
int __libc_start_main(main_function *program, int count, char **arguments, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end);

/* Nothing, when another thread called exit(): the zone is that of the main thread. */
static void main_left(void)
{
    threads_loaded();
    api_zone_close(&tls.main);
    hooks_await_client();
}

static __attribute__((noinline)) void main_begins(void)
{
    if (!event_is_on())
        return;
    tls.main = api_zone_open("main", NULL, 0);
    (void)atexit(main_left);
}

static int main_entered(int count, char **arguments, char **environment)
{
    main_begins();
    return state.main(count, arguments, environment);
}

/* The same function for programs of before glibc 2.34, which bring an `init`, and for later ones.
 */
static __attribute__((noinline)) start_function *prepare(main_function *program)
{
    hooks_prepare();
    state.main = program;
    void *found = real_next("__libc_start_main");
    start_function *start;
    memcpy(&start, &found, sizeof start);
    return start;
}

HOOK int __libc_start_main(main_function *program, int count, char **arguments, void (*init)(void),
                           void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    start_function *start = prepare(program);
    return start(main_entered, count, arguments, init, fini, loader_fini, stack_end);
}
