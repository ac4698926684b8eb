#ifndef TIDEMARK_CLIENT_START_H
#define TIDEMARK_CLIENT_START_H

/* When recording begins and ends in a process. All keep errno. */

/* Does once, at the first hook or when the library is loaded, all that must be done before. */
void start_process(void);

/* In a child of fork that finds its parent's state: meets the collector anew, or records nothing.
 */
void start_child(void);

/* In a process that this library was loaded into late, with the collector's socket. Returns enum
 * rec_attach. */
int start_attached(const char *socket);

/* Ends the recording of this process, which goes on. */
void start_detached(void);

#endif
