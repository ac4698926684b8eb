#ifndef TIDEMARK_SERVER_NET_NOTIFY_H
#define TIDEMARK_SERVER_NET_NOTIFY_H

/*
 * Tells who started us how we are, as sd_notify(3) does it: "READY=1", "STOPPING=1". Nothing
 * happens when nobody wants to know ($NOTIFY_SOCKET is not set), or does not listen.
 */
void notify_service(const char *state);

#endif
