/*
 * A program that wants a port, as the client in it does: itself, or a library that it loads once it
 * has run for a while.
 *
 *     bind_program PORT 4|6 [LIBRARY [deep]]
 *
 * Waits for a line of standard input, binds and listens at PORT (0: any), says "bound PORT" or why
 * not, and sends "the program" to whoever connects until standard input ends. Compiled with -shared
 * it is the library.
 */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int take_port(unsigned port, int v6);

int take_port(unsigned port, int v6)
{
    int one = 1;
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 at6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int failed = v6 ? bind(fd, (struct sockaddr *)&at6, sizeof at6)
                    : bind(fd, (struct sockaddr *)&at, sizeof at);
    if (failed || listen(fd, 4) != 0)
        return -1;
    return fd;
}

int main(int argc, char **argv)
{
    char line[16];
    int (*take)(unsigned, int) = take_port;
    void *block = malloc(4321);
    if (argc < 3 || !fgets(line, sizeof line, stdin))
        return 2;
    if (argc > 3) {
        void *library = dlopen(argv[3], RTLD_NOW | (argc > 4 ? RTLD_DEEPBIND : 0));
        void *found = library ? dlsym(library, "take_port") : NULL;
        if (!found)
            return 3;
        memcpy(&take, &found, sizeof take);
    }
    int fd = take((unsigned)strtoul(argv[1], NULL, 10), argv[2][0] == '6');
    printf("%s %s\n", fd < 0 ? strerror(errno) : "bound", argv[1]);
    fflush(stdout);
    for (;;) {
        struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        if (poll(fds, 2, -1) > 0 && fds[0].revents)
            break;
        int client = accept(fd, NULL, NULL);
        if (client >= 0 && write(client, "the program", 11) == 11)
            close(client);
    }
    free(block);
    return fd < 0;
}
