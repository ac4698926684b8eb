#pragma once

/* Shared by all hooks. */

#define HOOK __attribute__((visibility("default"), noinline))

/* Finds the real functions, at the first call of any hook. */
void hooks_prepare(void);

/* At the program's exit: waits briefly until its Tracy client, if it has one, has a server. */
void hooks_await_client(void);

/* The C library does not declare cfree any more. */
void cfree(void *address);

/* The C library declares it since version 2.34. */
int execveat(int fd, const char *path, char *const arguments[], char *const environment[],
             int flags);
