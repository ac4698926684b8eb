#include "cli/view/browser_start.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long a failing xdg-open gets to say so; some browsers keep it running. */
#define WAIT_STEPS 30
#define WAIT_STEP_NS 100000000L

static bool has_desktop(void)
{
    const char *x = getenv("DISPLAY");
    const char *wayland = getenv("WAYLAND_DISPLAY");
    return (x && *x) || (wayland && *wayland);
}

static bool spawn_opener(char *path, pid_t *pid)
{
    char program[] = "xdg-open";
    char *arguments[] = {program, path, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    extern char **environ;
    if (posix_spawn_file_actions_init(&files) != 0)
        return false;
    bool started = false;
    if (posix_spawnattr_init(&attributes) == 0) {
        started = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) == 0 &&
                  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0) == 0 &&
                  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0) == 0 &&
                  /* A signal of this terminal is none for the browser. */
                  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID) == 0 &&
                  posix_spawnp(pid, program, &files, &attributes, arguments, environ) == 0;
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return started;
}

bool browser_start(char *path)
{
    pid_t pid;
    if (!has_desktop() || !spawn_opener(path, &pid))
        return false;
    for (int i = 0; i < WAIT_STEPS; i++) {
        int status;
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended != 0)
            return ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_STEP_NS}, NULL);
    }
    return true;
}
