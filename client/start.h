#pragma once

/* Begins and ends recording in a process. All functions preserve errno. */

/* Initialises the library, once: at the first hook or when the library is loaded. */
void start_process(void);

/*
 * In a child of fork, which has its parent's state: connects to the collector anew, or records
 * nothing.
 */
void start_child(void);

/*
 * In a process into which this library was loaded late, with the collector's socket. Returns enum
 * rec_attach.
 */
int start_attached(const char *socket);

/* Ends the recording of this process, which goes on. */
void start_detached(void);
