/*
 * The zone `main`: from the call of the program's main to its return, or to exit().
 *
 * Call stacks must be the same as without the library, so its frames must not stay on the stack:
 * the last call is a jump (the Makefile ensures that). So main's return is not seen. After it the C
 * library calls exit(), which runs handlers in reverse order of registration: ours is registered
 * before main can register any, so it runs last. After pthread_exit() the zone ends with the
 * thread, and after _exit(), exec and fatal signals with the recording.
 */

#include <stdlib.h>
#include <string.h>

#include "client/api.h"
#include "client/events.h"
#include "client/hooks/hooks.h"
#include "client/real.h"
#include "client/threads.h"

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void),
                           void (*)(void), void *);

/* Called by the C library's start files. */
int __libc_start_main(main_function *program, int count, char **arguments, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end);

/* Does nothing if another thread called exit(): the zone belongs to the main thread. */
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

/* The same for programs from before glibc 2.34, which pass an `init`, and for later ones. */
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
