#include "server/guard/socket_owner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Formats an address as /proc/net/tcp{,6} does: the words of the address, then the port. */
static void proc_address(const struct sockaddr_storage *s, char out[48])
{
    if (s->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)s;
        uint32_t w[4];
        memcpy(w, &v6->sin6_addr, sizeof w);
        snprintf(out, 48, "%08X%08X%08X%08X:%04X", w[0], w[1], w[2], w[3], ntohs(v6->sin6_port));
        return;
    }
    struct sockaddr_in v4;
    memcpy(&v4, s, sizeof v4);
    snprintf(out, 48, "%08X:%04X", v4.sin_addr.s_addr, ntohs(v4.sin_port));
}

/* The IPv4 connection of a dual-stack listener is listed in the IPv6 table. */
static void proc_address_mapped(const struct sockaddr_storage *s, char out[48])
{
    struct sockaddr_in v4;
    memcpy(&v4, s, sizeof v4);
    snprintf(out, 48, "0000000000000000FFFF0000%08X:%04X", v4.sin_addr.s_addr, ntohs(v4.sin_port));
}

/* Unreadable files are skipped; only short memory is an error. */
static int unseen(struct err *e)
{
    return errno == ENOMEM ? err_no_memory(e, "the module table") : 0;
}

/*
 * Sets *found to the inode of the socket with address `local` and peer `remote`, 0 when there is
 * none.
 */
static int find_inode(const char *table, const char *local, const char *remote,
                      unsigned long *found, struct err *e)
{
    char line[512], l[64], r[64];
    unsigned long inode = 0;
    *found = 0;
    FILE *f = fopen(table, "re");
    if (!f)
        return unseen(e);
    while (!*found && fgets(line, sizeof line, f)) {
        if (sscanf(line, " %*d: %63s %63s %*s %*s %*s %*s %*s %*s %lu", l, r, &inode) == 3 &&
            strcmp(l, local) == 0 && strcmp(r, remote) == 0)
            *found = inode;
    }
    fclose(f);
    return 0;
}

static int peer_inode(int fd, unsigned long *inode, struct err *e)
{
    struct sockaddr_storage us = {0}, them = {0};
    socklen_t us_len = sizeof us, them_len = sizeof them;
    char ours[48], theirs[48];
    *inode = 0;
    if (getsockname(fd, (struct sockaddr *)&us, &us_len) != 0 ||
        getpeername(fd, (struct sockaddr *)&them, &them_len) != 0)
        return 0;
    proc_address(&us, ours);
    proc_address(&them, theirs);
    if (us.ss_family == AF_INET6)
        return find_inode("/proc/net/tcp6", theirs, ours, inode, e);
    if (find_inode("/proc/net/tcp", theirs, ours, inode, e) != 0 || *inode)
        return *inode ? 0 : -1;
    proc_address_mapped(&us, ours);
    proc_address_mapped(&them, theirs);
    return find_inode("/proc/net/tcp6", theirs, ours, inode, e);
}

static int process_has_socket(const char *pid, const char *link, bool *found, struct err *e)
{
    char path[64], target[64];
    *found = false;
    snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    DIR *d = opendir(path);
    if (!d)
        return unseen(e);
    for (struct dirent *entry; !*found && (entry = readdir(d));) {
        ssize_t n = readlinkat(dirfd(d), entry->d_name, target, sizeof target - 1);
        if (n > 0) {
            target[n] = 0;
            *found = strcmp(target, link) == 0;
        }
    }
    closedir(d);
    return 0;
}

/* Sets *owner to a process that has the socket, 0 when none is visible. */
static int inode_owner(unsigned long inode, uint64_t likely, pid_t *owner, struct err *e)
{
    char link[48], pid[16];
    bool has = false;
    *owner = 0;
    snprintf(link, sizeof link, "socket:[%lu]", inode);
    int status = 0;
    if (likely > 0 && likely <= INT32_MAX) {
        snprintf(pid, sizeof pid, "%d", (int)likely);
        status = process_has_socket(pid, link, &has, e);
    }
    if (has)
        *owner = (pid_t)likely;
    if (has || status != 0)
        return status;
    DIR *d = opendir("/proc");
    if (!d)
        return unseen(e);
    for (struct dirent *entry; !*owner && status == 0 && (entry = readdir(d));) {
        bool found;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        status = process_has_socket(entry->d_name, link, &found, e);
        if (status == 0 && found)
            *owner = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    closedir(d);
    return status;
}

int socket_owner(int fd, uint64_t likely, pid_t *owner, struct err *e)
{
    unsigned long inode;
    *owner = 0;
    if (peer_inode(fd, &inode, e) != 0)
        return -1;
    return inode ? inode_owner(inode, likely, owner, e) : 0;
}
