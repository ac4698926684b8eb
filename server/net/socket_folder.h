#pragma once

/*
 * A private folder for one socket, in /tmp if possible, since the socket's path must be short. Its
 * owner holds a lock on it. An unlocked one is a leftover of a killed process and is removed when
 * the next folder is made. Other users cannot enter it; the caller may allow that, but must not let
 * others write.
 */

#include "base/err.h"

struct socket_folder {
    char *path, *socket; /* path of the folder, and of the socket in it */
    int lock;            /* -1: none */
};

#define SOCKET_FOLDER_NONE ((struct socket_folder){.lock = -1})

/* Makes one below `parent` ("/tmp"). Release it also after an error. */
int socket_folder_make(struct socket_folder *f, const char *parent, struct err *e);

/* Removes the folder and the socket. */
void socket_folder_release(struct socket_folder *f);
