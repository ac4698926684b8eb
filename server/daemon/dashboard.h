#ifndef TIDEMARK_SERVER_DAEMON_DASHBOARD_H
#define TIDEMARK_SERVER_DAEMON_DASHBOARD_H

/* The files of the daemon's page and the description of its interface, from web/daemon. */

#include <stddef.h>

struct daemon_page {
    const char *path; /* that it is asked for by */
    const char *type;
    const char *begin, *end;
};

/* NULL when there is no such file. */
const struct daemon_page *daemon_page_find(const char *path);

#endif
