/*
 * Hooks of exec and its relatives. A program that replaces the recorded one in its own process is
 * recorded, so that a script may start the program with exec. Children are recorded if they are
 * followed. Both need Tidemark's variables in their environment, which the process has removed.
 *
 * A child of vfork shares all memory with its waiting parent: only its pid differs.
 */

#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/chunks.h"
#include "client/environment.h"
#include "client/events.h"
#include "client/hooks/hooks.h"
#include "client/kernel_map.h"
#include "client/real.h"
#include "client/start.h"
#include "client/threads.h"

struct attempt {
    char **made; /* NULL: the environment is the caller's */
    bool own;    /* the recorded process, not a child */
};

static bool is_recorded(void)
{
    return atomic_load_explicit(&live.page.on, memory_order_relaxed) != LIVE_OFF;
}

/*
 * Builds an environment. If exec succeeds in a child of vfork it cannot be freed, so the next call
 * frees it.
 */
static char **with_memory(char *const *environment)
{
    struct thread *t = threads_own();
    char **made = environment_with(environment);
    if (t) {
        environment_drop(t->spawn_environment);
        t->spawn_environment = made;
    }
    return made;
}

static struct attempt before(const char *path, char *const *environment)
{
    struct attempt a = {NULL, false};
    hooks_prepare();
    if (!is_recorded())
        return a;
    a.own = getpid() == state.pid;
    path = path ? path : "";
    if (a.own)
        event_exec(path);
    else
        event_child(REC_SPAWN, getpid(), path);
    if (a.own ? state.follow_exec : state.follow)
        a.made = with_memory(environment);
    return a;
}

static int after(const struct attempt *a, int result)
{
    if (a->own)
        event_exec_failed();
    return result;
}

HOOK int execve(const char *path, char *const arguments[], char *const environment[])
{
    struct attempt a = before(path, environment);
    return after(&a, real.execve(path, arguments, a.made ? a.made : environment));
}

HOOK int execvpe(const char *file, char *const arguments[], char *const environment[])
{
    struct attempt a = before(file, environment);
    return after(&a, real.execvpe(file, arguments, a.made ? a.made : environment));
}

HOOK int execv(const char *path, char *const arguments[])
{
    struct attempt a = before(path, environ);
    return after(&a, real.execve(path, arguments, a.made ? a.made : environ));
}

HOOK int execvp(const char *file, char *const arguments[])
{
    struct attempt a = before(file, environ);
    return after(&a, real.execvpe(file, arguments, a.made ? a.made : environ));
}

HOOK int fexecve(int fd, char *const arguments[], char *const environment[])
{
    struct attempt a = before("", environment);
    return after(&a, real.fexecve(fd, arguments, a.made ? a.made : environment));
}

HOOK int execveat(int fd, const char *path, char *const arguments[], char *const environment[],
                  int flags)
{
    struct attempt a = before(path, environment);
    return after(
        &a, (int)syscall(SYS_execveat, fd, path, arguments, a.made ? a.made : environment, flags));
}

/* ---- variadic arguments */

struct list {
    char **arguments;
    size_t bytes;
};

/* Collects the arguments up to the null pointer, in memory of the library. */
static struct list collect(const char *first, va_list *rest)
{
    struct list list = {NULL, 0};
    va_list count;
    size_t n = 1;
    va_copy(count, *rest);
    for (const char *p = first; p; p = va_arg(count, const char *))
        n++;
    va_end(count);
    list.bytes = n * sizeof(char *);
    list.arguments = chunks_memory(list.bytes);
    if (!list.arguments)
        return list;
    size_t i = 0;
    for (const char *p = first; p; p = va_arg(*rest, const char *))
        list.arguments[i++] = (char *)(uintptr_t)p;
    return list;
}

static int drop(const struct list *list, int result)
{
    int saved = errno;
    if (list->arguments)
        system_unmap(list->arguments, list->bytes);
    else
        saved = ENOMEM;
    errno = saved;
    return result;
}

HOOK int execl(const char *path, const char *first, ...)
{
    va_list rest;
    va_start(rest, first);
    struct list list = collect(first, &rest);
    va_end(rest);
    return drop(&list, list.arguments ? execv(path, list.arguments) : -1);
}

HOOK int execlp(const char *file, const char *first, ...)
{
    va_list rest;
    va_start(rest, first);
    struct list list = collect(first, &rest);
    va_end(rest);
    return drop(&list, list.arguments ? execvp(file, list.arguments) : -1);
}

HOOK int execle(const char *path, const char *first, ...)
{
    va_list rest;
    va_start(rest, first);
    struct list list = collect(first, &rest);
    /* After an empty list there is no environment argument. */
    bool any = list.bytes > sizeof(char *);
    char *const *environment = any ? va_arg(rest, char *const *) : NULL;
    va_end(rest);
    return drop(&list, list.arguments ? execve(path, list.arguments, environment) : -1);
}

/* ---- posix_spawn, whose child also shares memory, but runs no hook */

HOOK int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                     const posix_spawnattr_t *attributes, char *const arguments[],
                     char *const environment[])
{
    pid_t child = 0;
    hooks_prepare();
    char **made = is_recorded() && state.follow ? environment_with(environment) : NULL;
    int error =
        real.posix_spawn(&child, path, actions, attributes, arguments, made ? made : environment);
    environment_drop(made);
    if (!error) {
        if (pid)
            *pid = child;
        event_child(REC_SPAWN, child, path);
    }
    return error;
}

HOOK int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                      const posix_spawnattr_t *attributes, char *const arguments[],
                      char *const environment[])
{
    pid_t child = 0;
    hooks_prepare();
    char **made = is_recorded() && state.follow ? environment_with(environment) : NULL;
    int error =
        real.posix_spawnp(&child, file, actions, attributes, arguments, made ? made : environment);
    environment_drop(made);
    if (!error) {
        if (pid)
            *pid = child;
        event_child(REC_SPAWN, child, file);
    }
    return error;
}

/* ---- shells that the C library starts */

static void shell_ran(void)
{
    int saved = errno;
    event_child(REC_SPAWN, 0, "/bin/sh");
    errno = saved;
}

HOOK int system(const char *command)
{
    hooks_prepare();
    int result = real.system(command);
    if (command && result != -1)
        shell_ran();
    return result;
}

void *popen(const char *command, const char *mode); /* from stdio.h, which is not used here */

HOOK void *popen(const char *command, const char *mode)
{
    hooks_prepare();
    void *pipe = real.popen(command, mode);
    if (pipe)
        shell_ran();
    return pipe;
}
