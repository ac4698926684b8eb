#pragma once

/*
 * Accepts processes with the preload library (client/recording_format.h): a socket in a private
 * folder, and a thread that gives each connecting process its options and a file to record into. A
 * process waits for that answer at its start, so the thread does nothing else; another thread reads
 * the recordings.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "client/recording_format.h"

struct collector_options {
    const char *spool; /* the folder of the recordings is made in this folder */
    bool children;     /* also record processes other than the root */
    struct rec_options record;
    const char *threads; /* for rec_welcome; NULL: all threads */
};

/* A program in a process: each exec makes another one. */
struct collected {
    struct rec_hello hello; /* as received: exe is NUL-terminated, no other field is checked */
    pid_t pid;              /* from the kernel, and … */
    uid_t uid;              /* … the user it runs as */
    bool is_root;
    char *path;           /* of the recording */
    int fd;               /* of the recording */
    uint64_t began;       /* CLOCK_MONOTONIC, ns */
    _Atomic bool ended;   /* the process has ended or executed another program */
    _Atomic uint64_t end; /* time of that */
    _Atomic bool asks;    /* it exits and waits for a look at its pages (REC_ASK_LOOK) */
};

struct collector;

/* Makes the folders and the socket, and starts the thread. */
int collector_start(struct collector **out, const struct collector_options *o, struct err *e);

/* Ends the thread and removes the socket. Recordings that were not removed stay in their folder. */
void collector_stop(struct collector *c);

/* Path of the socket, for TIDEMARK_SOCKET; and of the folder with the recordings. */
const char *collector_socket(const struct collector *c);
const char *collector_folder(const struct collector *c);

/* Sets the root process. Call it before the root executes a program. */
void collector_set_root(struct collector *c, pid_t pid);

/* Whether processes that connect from now on begin with REC_CONTROL_PAUSE. */
void collector_set_paused(struct collector *c, bool paused);

/* Readable when a process has connected or ended; collector_take clears it. */
int collector_fd(const struct collector *c);

/* The next process that connected, which the caller frees; NULL when there is none. */
struct collected *collector_take(struct collector *c);

/* Removes a recording and what lies beside it (kernel_notes.h). Returns whether it was there. */
bool collected_unlink(const char *path);

/* Closes the recording and removes it unless `keep`. */
void collected_free(struct collected *p, bool keep);

/*
 * The same when the caller is about to exit: a child process frees the space of a large recording,
 * which can take long on file systems that discard blocks. The name is removed at once.
 */
void collected_leave(struct collected *p, bool keep);

/* How many processes got no file for their recording, and the errno of the last one. */
uint64_t collector_missed(const struct collector *c);
int collector_failure(const struct collector *c);
