#include "server/capture/capture_stand_in.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The client binds the port as soon as run has left it. */
#define SECONDS 5

static bool is_stand_in(const struct connection *c)
{
    return strstr(c->welcome.host_info, WELCOME_RECORDED) != NULL;
}

bool capture_stand_in_left(struct capture *c, const struct connection *was, enum session_end end,
                           struct connection *own)
{
    struct connect_options options = c->o.connect;
    struct err e = {0};
    options.timeout = SECONDS;
    options.quiet = true;
    /* Parts that were saved stay. A daemon's session must not connect again. */
    if (end != SESSION_VANISHED || !is_stand_in(was) || c->o.name || c->watched || c->parts > 1 ||
        c->dropped || connect_client(&options, &c->stop, own, &e) != CONNECT_OK)
        return false;
    if (!is_stand_in(own) && own->welcome.pid == was->welcome.pid) {
        fprintf(stderr, "tidemark: the program's own Tracy client is at this port now: it is "
                        "captured instead of what the preload library records\n");
        return true;
    }
    close(own->fd);
    return false;
}
