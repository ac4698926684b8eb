#ifndef TIDEMARK_SERVER_NET_SOCKET_FOLDER_H
#define TIDEMARK_SERVER_NET_SOCKET_FOLDER_H

/*
 * A folder of our own, in /tmp where that can be, for one socket, whose path must be short. Who has
 * it holds a lock on it; what somebody left who was killed has none, and goes when the next folder
 * is made. It is nobody else's to enter; who has it may change that, but not let others write.
 */

#include "base/err.h"

struct socket_folder {
    char *path, *socket; /* of the folder, and in it */
    int lock;            /* -1: none */
};

#define SOCKET_FOLDER_NONE ((struct socket_folder){.lock = -1})

/* Makes one below `parent` ("/tmp"). To be released also after an error. */
int socket_folder_make(struct socket_folder *f, const char *parent, struct err *e);

/* Removes it, with the socket. */
void socket_folder_release(struct socket_folder *f);

#endif
