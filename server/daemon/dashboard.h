#pragma once

/* The dashboard's files and the description of the HTTP interface, from web/daemon. */

#include <stddef.h>

struct daemon_page {
    const char *path; /* path in the URL */
    const char *type;
    const char *begin, *end;
};

/* NULL when there is no such file. */
const struct daemon_page *daemon_page_find(const char *path);
