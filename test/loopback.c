/*
 * Loaded into a server that a test starts (LD_PRELOAD): whatever address it binds, it gets that of
 * the loopback interface, 127.0.0.1 also for sockets of both kinds. Debian 12's debuginfod has no
 * option for it.
 */

#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

int bind(int fd, const struct sockaddr *address, socklen_t len)
{
    int (*real)(int, const struct sockaddr *, socklen_t);
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    *(void **)&real = dlsym(RTLD_NEXT, "bind");
    if (address->sa_family == AF_INET && len >= sizeof v4) {
        memcpy(&v4, address, sizeof v4);
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return real(fd, (const struct sockaddr *)&v4, sizeof v4);
    }
    if (address->sa_family == AF_INET6 && len >= sizeof v6) {
        memcpy(&v6, address, sizeof v6);
        static const struct in6_addr mapped = {
            {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}}};
        v6.sin6_addr = mapped;
        return real(fd, (const struct sockaddr *)&v6, sizeof v6);
    }
    return real(fd, address, len);
}
