#ifndef TIDEMARK_CLIENT_CONNECT_H
#define TIDEMARK_CLIENT_CONNECT_H

/* How a process gets its recording file: from the collector, or by a name in the environment. */

#include "client/state.h"

/*
 * Gets the file and the options. Returns 0, -1: this process is not to be recorded.
 * `origin` is an enum rec_origin, `fork_stamp` of REC_ORIGIN_FORK.
 */
int connect_begin(uint32_t origin, uint64_t fork_stamp, struct rec_options *options);

/* False when the program closed its descriptor, and perhaps opened something else in its place. */
bool connect_has_file(void);

/*
 * The program closed our descriptors: gets the same file once more, unless another thread just did.
 * All signals are blocked. Returns 0, -1: it is lost.
 */
int connect_again(void);

/* Closes the descriptors, if they are still ours: in a child that must not hold its parent's. */
void connect_leave(void);

/* True while the collector holds its end of the socket. All signals are blocked. */
bool connect_collector_lives(void);

/* The path of the program. */
void connect_exe(char *path, size_t room);

/* At the program's end: removes a recording that is that short, if LD_PRELOAD alone began it. */
void connect_drop_brief(void);

#endif
