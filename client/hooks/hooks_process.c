/* Hooks of functions that change the process itself: fork, and unloading of modules. */

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include "client/events.h"
#include "client/hooks/hooks.h"
#include "client/real.h"
#include "client/start.h"

HOOK pid_t fork(void)
{
    hooks_prepare();
    pid_t pid = real.fork();
    if (pid > 0)
        event_child(REC_FORK, pid, "");
    else if (pid == 0)
        start_child();
    return pid;
}

HOOK int dlclose(void *handle)
{
    hooks_prepare();
    int result = real.dlclose(handle);
    event_modules();
    return result;
}
