#include "cli/interrupt.h"

#include <stddef.h>

static const int endings[] = {SIGINT, SIGTERM, SIGHUP};

#define ENDINGS (sizeof endings / sizeof endings[0])

void interrupt_hold(struct interrupt *i)
{
    sigemptyset(&i->held);
    for (size_t k = 0; k < ENDINGS; k++) {
        /* under nohup and in background shells some are ignored: those stay ignored */
        struct sigaction now;
        if (sigaction(endings[k], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&i->held, endings[k]);
    }
    i->holding = sigprocmask(SIG_BLOCK, &i->held, &i->before) == 0;
}

bool interrupt_came(const struct interrupt *i)
{
    sigset_t pending;
    if (!i->holding || sigpending(&pending) != 0)
        return false;
    for (size_t k = 0; k < ENDINGS; k++) {
        if (sigismember(&i->held, endings[k]) == 1 && sigismember(&pending, endings[k]) == 1)
            return true;
    }
    return false;
}

void interrupt_release(struct interrupt *i)
{
    if (i->holding)
        sigprocmask(SIG_SETMASK, &i->before, NULL);
    i->holding = false;
}
