#ifndef TIDEMARK_RUN_COLLECTOR_H
#define TIDEMARK_RUN_COLLECTOR_H

/*
 * Where processes with the preload library meet us (client/recording_format.h): a socket in a
 * folder of ours, and a thread that gives each process that connects its options and a file to
 * record into. A process waits for that answer before its own work begins, so nothing else is done
 * there. Whoever reads the recordings does so elsewhere.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "client/recording_format.h"

struct collector_options {
    const char *spool; /* folder in which the folder of the recordings is made */
    bool children;     /* take others than the root, too */
    struct rec_options record;
    const char *threads; /* for rec_welcome; NULL: all */
};

/* A process, or one program that a process executed. */
struct collected {
    struct rec_hello hello; /* what it said: exe ends with a zero, no other field is sure */
    pid_t pid;              /* what the kernel said */
    bool is_root;
    char *path;           /* of the recording */
    int fd;               /* of the recording */
    uint64_t began;       /* CLOCK_MONOTONIC, ns */
    _Atomic bool ended;   /* the process, or the program in it, is no more */
    _Atomic uint64_t end; /* then: when */
};

struct collector;

/* Makes the folders and the socket, and starts the thread. */
int collector_start(struct collector **out, const struct collector_options *o, struct err *e);

/* Ends the thread and removes the socket. Recordings that were not removed stay, in their folder.
 */
void collector_stop(struct collector *c);

/* For TIDEMARK_SOCKET; and the folder with the recordings. */
const char *collector_socket(const struct collector *c);
const char *collector_folder(const struct collector *c);

/* Who is the root. To be called before it executes anything. */
void collector_set_root(struct collector *c, pid_t pid);

/* Whether those that come from now on begin with REC_CONTROL_PAUSE. */
void collector_set_paused(struct collector *c, bool paused);

/* Readable when a process came or ended; collector_take makes it quiet again. */
int collector_fd(const struct collector *c);

/* The next process that came, the caller's to free; NULL when there is none. */
struct collected *collector_take(struct collector *c);

/* Closes the recording and, unless it is to be kept, removes it. */
void collected_free(struct collected *p, bool keep);

/*
 * The same for who ends now: a child gives the space of a large recording back, which may take
 * longer than all else where the file system discards blocks. The name is gone at once.
 */
void collected_leave(struct collected *p, bool keep);

/* How often a process got no file for its recording, and why, as errno, the last time. */
uint64_t collector_missed(const struct collector *c);
int collector_failure(const struct collector *c);

#endif
