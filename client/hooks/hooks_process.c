/* Hooks of functions that change the process itself: fork, and unloading of modules. */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include "client/events.h"
#include "client/hooks/hooks.h"
#include "client/real.h"
#include "client/start.h"

HOOK pid_t fork(void)
{
    hooks_prepare();
    bool outer = tls.forking;
    tls.forking = true;
    pid_t pid = real.fork();
    if (pid > 0)
        event_child(REC_FORK, pid, "");
    else if (pid == 0)
        start_child();
    tls.forking = outer;
    return pid;
}

/* The rest of daemon(3): makes /dev/null standard input, output and error. */
static int standard_null(void)
{
    struct stat s;
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || fstat(null, &s) != 0)
        return -1;
    bool right = S_ISCHR(s.st_mode) && s.st_rdev == makedev(1, 3);
    for (int fd = 0; right && fd <= 2; fd++)
        (void)dup2(null, fd);
    if (!right || null > 2)
        (void)close(null);
    if (!right)
        errno = ENODEV;
    return right ? 0 : -1;
}

/*
 * The C library's own calls a fork that no hook sees, and its parent ends at once: the collector
 * would not learn of the child before the recording ends. The steps are those of glibc's.
 */
HOOK int daemon(int nochdir, int noclose)
{
    pid_t pid = fork();
    if (pid > 0)
        _exit(0);
    if (pid < 0 || setsid() < 0)
        return -1;
    if (!nochdir)
        (void)!chdir("/");
    return noclose ? 0 : standard_null();
}

HOOK int dlclose(void *handle)
{
    hooks_prepare();
    int result = real.dlclose(handle);
    event_modules();
    return result;
}
