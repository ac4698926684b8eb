#include "server/guard/session_guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/tempfile.h"
#include "server/guard/guard.h"
#include "symbols/instructions.h"

/* Descriptors: the connection, a journal, spilled columns, and those of a save. */
#define FILES_MAX 1024u

void session_guard_begin(void)
{
    instructions_load(); /* Capstone: it cannot be loaded later */
    guard_limits(FILES_MAX, 0);
    (void)guard_calls();
}

/* Equal addresses at both ends mean this host; so does all of 127/8. */
static bool is_local(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_len = sizeof here, there_len = sizeof there;
    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    if (getsockname(fd, (struct sockaddr *)&here, &here_len) != 0 ||
        getpeername(fd, (struct sockaddr *)&there, &there_len) != 0 ||
        here.ss_family != there.ss_family)
        return false;
    if (here.ss_family == AF_INET6)
        return memcmp(&((struct sockaddr_in6 *)&here)->sin6_addr,
                      &((struct sockaddr_in6 *)&there)->sin6_addr, sizeof(struct in6_addr)) == 0;
    in_addr_t from = ((struct sockaddr_in *)&here)->sin_addr.s_addr;
    in_addr_t to = ((struct sockaddr_in *)&there)->sin_addr.s_addr;
    return from == to || ntohl(to) >> 24 == 127;
}

/*
 * Temporary files may be needed later: a missing folder for them does not disable the guard, as
 * other missing folders do.
 */
static void keep_to(const char *output, const char *spool, int root)
{
    const char *temporary = tempfile_dir(NULL);
    bool lacks = access(temporary, F_OK) != 0 && errno == ENOENT;
    const struct guard_folders folders = {.writable = {output, spool, lacks ? NULL : temporary},
                                          .reads = true,
                                          .has_root = root >= 0,
                                          .root = root};
    (void)guard_files(&folders);
}

bool session_guard_connected(int fd, const char *output, const char *spool)
{
    bool local = is_local(fd);
    (void)guard_sockets();
    if (!local)
        keep_to(output, spool, -1);
    return !local;
}

void session_guard_looked(const char *output, const char *spool, int root)
{
    keep_to(output, spool, root);
}
