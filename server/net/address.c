#include "server/net/address.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int address_split(const char *text, char host[NI_MAXHOST], const char **port)
{
    const char *end = text + strlen(text);
    const char *colon = strchr(text, ':');
    *port = NULL;
    if (*text == '[') {
        end = strchr(++text, ']');
        if (!end || (end[1] != 0 && end[1] != ':'))
            return -1;
        *port = end[1] ? end + 2 : NULL;
    } else if (colon && colon == strrchr(text, ':')) {
        end = colon;
        *port = colon + 1;
    }
    size_t n = (size_t)(end - text);
    if (n >= NI_MAXHOST)
        return -1;
    memcpy(host, text, n);
    host[n] = 0;
    return 0;
}

int address_resolve(const char *text, uint16_t port, int flags, struct addrinfo **list,
                    struct err *e)
{
    char host[NI_MAXHOST], service[8];
    const char *extra;
    if (address_split(text, host, &extra) != 0 || extra)
        return err_set(e, ERR_CONNECT, "cannot resolve the address %s: it is not a host alone",
                       text);
    snprintf(service, sizeof service, "%u", port);
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    int status = getaddrinfo(host, service, &hints, list);
    if (status == 0)
        return 0;
    if (status == EAI_MEMORY)
        return err_no_memory(e, "the address");
    if (status == EAI_SYSTEM)
        return err_errno(e, ERR_CONNECT, "cannot resolve the address %s", text);
    return err_set(e, ERR_CONNECT, "cannot resolve the address %s: %s", text, gai_strerror(status));
}

const char *address_text(char out[ADDRESS_TEXT_SIZE], const char *host, uint16_t port)
{
    bool bare = host[0] != '[' && strchr(host, ':');
    snprintf(out, ADDRESS_TEXT_SIZE, "%s%.*s%s:%u", bare ? "[" : "", NI_MAXHOST, host,
             bare ? "]" : "", port);
    return out;
}
