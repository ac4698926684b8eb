#pragma once

/* Gets a process its recording file: from the collector, or by a path in the environment. */

#include "client/state.h"

/*
 * Gets the file and the options. Returns 0, or -1: this process is not recorded. `origin` is an
 * enum rec_origin, `fork_stamp` belongs to REC_ORIGIN_FORK.
 */
int connect_begin(uint32_t origin, uint64_t fork_stamp, struct rec_options *options);

/* False when the program closed the descriptor; it may have opened another file in its place. */
bool connect_has_file(void);

/*
 * The program closed the descriptors: reopens the same file, unless another thread just did. All
 * signals are blocked. Returns 0, or -1: the file is lost.
 */
int connect_again(void);

/*
 * Closes the descriptors if they are still the library's: for a child that must not hold its
 * parent's.
 */
void connect_leave(void);

/* True while the collector's end of the socket is open. All signals are blocked. */
bool connect_collector_lives(void);

/* With REC_OPTION_LOOK: waits until the collector has looked at the pages of this process. */
void connect_ask_look(void);

/* The path of the program. */
void connect_exe(char *path, size_t room);

/* At the program's end: removes a recording shorter than a second that LD_PRELOAD alone began. */
void connect_drop_brief(void);
